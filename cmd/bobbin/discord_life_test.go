package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bobbin/bot/discord/discordtest"
)

// TestDiscord_AutoSandbox: nothing of a member's runs on the operator's machine unless the operator said so.
func TestDiscord_AutoSandbox(t *testing.T) {
	t.Parallel()
	w := newTown(t, discordtest.Options{})
	data, pids := t.TempDir(), filepath.Join(t.TempDir(), "pids")
	serveDiscord(t, w.f, data, "--sandbox", "auto")
	shows(t, "a local server", w.ann.say("/mcp add-json "+config(t, map[string]any{"demo": fake(pids)})), "local servers need a sandbox here, and no container engine answers", "/mcp connect", "the operator can start Docker")
	shows(t, "the sandbox", w.ann.say("/mcp sandbox status"), "no container engine answers", "the operator can start Docker")
	if _, open := card(w.ann); open {
		w.ann.choose("Confirm")
	}
	if exists(pids) {
		t.Error("a program was started")
	}
	shows(t, "this machine's loopback", plain(w.ann.Slash("mcp connect", map[string]any{"url": "http://127.0.0.1:" + freePort(t) + "/mcp", "name": "near"}).Done()), "private and local networks are closed")
}

// TestDiscord_Places: threads, posts, channels and direct messages keep to themselves.
func TestDiscord_Places(t *testing.T) {
	long(t)
	t.Parallel()
	w := newTown(t, discordtest.Options{AllowContent: true})
	serveDiscord(t, w.f, t.TempDir(), "--discord-message-content")
	places := map[string]*discordtest.Channel{
		"thread": w.thread, "post": w.guild.Forum("help").Post(w.ann.user, "a post", "first"), "channel": w.guild.Channel("tools"), "direct": w.f.DM(w.ann.user),
	}
	for name, place := range places {
		s := newSeat(t, w.f, w.ann.user, place)
		shows(t, name, s.say(`/mcp add-json `+name+` {"command":"fakemcp","disabled":true}`), "1 added: "+name)
		shows(t, name, s.choose("Confirm"), name+" is saved")
	}
	for name, place := range places {
		s := newSeat(t, w.f, w.ann.user, place)
		s.Say("/mcp list") // without a mention
		got := plain(s.Wait(`local`, patience).Text)
		for other := range places {
			if strings.Contains(got, other) != (other == name) {
				t.Errorf("%s in %s: %s", other, name, got)
			}
		}
	}
}

// TestDiscord_Deleted: a deleted thread's configuration and secrets go after the grace, its audit log stays.
func TestDiscord_Deleted(t *testing.T) {
	long(t)
	linuxOnly(t)
	t.Parallel()
	w := newTown(t, discordtest.Options{})
	data, pids := t.TempDir(), filepath.Join(t.TempDir(), "pids")
	serveDiscord(t, w.f, data, "--discord-grace", "3s")
	w.ann.ready(pids)
	folder := filepath.Join(data, "users", w.thread.ID)
	w.thread.Archive(false)
	w.thread.Delete()
	if !exists(filepath.Join(folder, "mcp.json")) {
		t.Error("gone before the grace was over")
	}
	if !eventually(patience, func() bool { return !exists(filepath.Join(folder, "mcp.json")) }) {
		t.Error("the configuration stays")
	}
	gone(t, "after the grace", 5*time.Second, started(t, pids)...)
	if !exists(filepath.Join(folder, "audit.jsonl")) {
		t.Error("the audit log is gone")
	}
}

// TestDiscord_Restart: a card from before a restart says so, and its change is not made.
func TestDiscord_Restart(t *testing.T) {
	long(t)
	t.Parallel()
	w := newTown(t, discordtest.Options{})
	data := t.TempDir()
	p := serveDiscord(t, w.f, data)
	w.ann.say(`/mcp add-json demo {"command":"fakemcp","disabled":true}`)
	p.signal(os.Interrupt)
	p.wait()
	serveDiscord(t, w.f, data)
	w.f.Connected(patience)
	shows(t, "an old card", w.ann.choose("Confirm"), "no longer open", "run the command again")
	shows(t, "list", w.ann.say("/mcp list"), "No MCP servers configured")
}
