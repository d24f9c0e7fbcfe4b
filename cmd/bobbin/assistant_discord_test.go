package main

import (
	"path/filepath"
	"strings"
	"testing"

	"bobbin/bot/discord/discordtest"
)

// TestAssistant_Discord: calls run for who asked, and only they say yes to them.
func TestAssistant_Discord(t *testing.T) {
	long(t)
	w := newTown(t, discordtest.Options{})
	env := append(models(t, adder)["anthropic"], "DISCORD_TOKEN= Bot "+w.f.Token+"\n", "BOBBIN_LISTEN=127.0.0.1:0")
	p := bobbinWith(t, env, t.TempDir(), "serve", "--discord-api-base", w.f.URL)
	p.hear("bobbin is ready")
	if !eventually(patience, func() bool { return registered(w.f) }) {
		t.Fatal("no commands were registered")
	}
	w.ann.Say("@bot what is 2 and 3?")
	w.ann.Wait("There is no tool here that adds", patience)
	w.ann.say("/mcp add-json " + config(t, map[string]any{"demo": fake(filepath.Join(t.TempDir(), "pids"))}))
	w.ann.Press("Confirm")
	w.ann.Wait("demo is ready", patience)
	w.bob.Say("@bot and now?")
	w.bob.Wait("this is for you alone", patience)
	shows(t, "the question", w.bob.choose("Show it to me"), "asks to use demo.add", "a 2", "b 3")
	if strings.Contains(w.ann.Transcript(), "asks to use") {
		t.Errorf("another member sees the question:\n%s", w.ann.Transcript())
	}
	w.ann.Wait("waits for @bob to allow demo.add", patience)
	w.bob.Press("Deny")
	w.bob.Wait("The tool did not run", patience)
	w.bob.Say("@bot please do")
	w.bob.Wait("asks to use demo.add", patience) // by the button that was pressed before
	w.bob.Press("Once")
	w.ann.Wait(`It is \*\*5\*\*, says the tool`, patience)
	shows(t, "the log", w.ann.say("/mcp audit"), "demo.add", "bob")
}
