package registry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bobbin/registry"
	"bobbin/schemas"
)

// TestCall_OwnSecretsAreConcealed: many servers have a tool that lists their environment.
func TestCall_OwnSecretsAreConcealed(t *testing.T) {
	for _, token := range []string{"ghp_canary0123456789", `back\slash "quotes"`, "line one\nline <two>&", "größe-日本-canary", "12345678"} {
		var log bytes.Buffer
		var mu sync.Mutex
		h := newHouse(t, map[string]script{"a": plainScript("env", "number", "repeat")}, func(o *registry.Options) {
			o.Log = slog.New(slog.NewTextHandler(&locked{w: &log, mu: &mu}, nil))
		})
		h.vault.put(one, "s", "TOKEN", token)
		h.vault.put(one, "s", "DIR", "/home/ann/projects")
		h.set(one, entry("s", "a", func(e *schemas.Entry) {
			e.Env = map[string]string{"TOKEN": "${input:TOKEN}", "DIR": "${input:DIR}"}
		}))
		h.wishes.edit(one, func(c *schemas.Config) {
			c.Inputs = []schemas.Input{{ID: "TOKEN", Type: "promptString", Password: true}, {ID: "DIR", Type: "promptString"}}
		})
		h.apply(one)
		c := by(one, "s.env", "")
		var progress []byte
		c.Progress = func(p json.RawMessage) { progress = p }
		res, err := h.call(c)
		if err != nil {
			t.Fatal(err)
		}
		if !json.Valid(res.Raw) || !strings.Contains(text(t, res), `"TOKEN":"***"`) || !strings.Contains(string(res.Raw), "/home/ann/projects") {
			t.Errorf("%s", res.Raw)
		}
		_, err = h.call(by(one, "s.repeat", ""))
		wantCode(t, err, schemas.CodeFailed, "bad token ***")
		refusal := describe(err)
		if token == "12345678" {
			if res, err = h.call(by(one, "s.number", "")); err != nil || !res.IsError || strings.Contains(string(res.Raw), token) {
				t.Errorf("%s %v", res.Raw, err)
			}
		}
		mu.Lock()
		said := string(res.Raw) + string(progress) + refusal + log.String()
		mu.Unlock()
		first, _, _ := strings.Cut(token, "\n")
		if strings.Contains(said, first) {
			t.Errorf("%q stands in %s", first, said)
		}
	}
}

type locked struct {
	w  *bytes.Buffer
	mu *sync.Mutex
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// TestOpen_DeclaresNoSamplingRootsElicitation: what nobody here can answer is not offered, and a server that asks all the same
// is refused.
func TestOpen_DeclaresNoSamplingRootsElicitation(t *testing.T) {
	h := newHouse(t, map[string]script{"a": plainScript("echo")})
	h.set(one, entry("s", "a"))
	h.apply(one)
	h.servers.mu.Lock()
	defer h.servers.mu.Unlock()
	s := h.servers.speakers[0]
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.seen, func(m string) bool { return strings.HasPrefix(m, "initialize ") })
	if i < 0 || !strings.Contains(s.seen[i], `"capabilities":{}`) {
		t.Errorf("declared %v", s.seen)
	}
}

// TestTools_KilledBeforePinsAreKept: pins reach the disk a moment after the first list. A bobbin that is killed in between
// knows nothing of that list, so the next one is the first; but whatever was kept once holds.
func TestTools_KilledBeforePinsAreKept(t *testing.T) {
	h := newHouse(t, map[string]script{"a": {Tools: tools(echoTool())}})
	var dead atomic.Bool
	h.stop()
	h.opt.Wishes = &killed{wishes: h.wishes, dead: &dead}
	h.boot()
	h.set(one, entry("s", "a"))
	dead.Store(true) // what is written from now on is lost
	h.apply(one)
	h.stop()
	if cfg, _ := h.wishes.Load(background(), one); cfg.Entries[0].Pins != nil {
		t.Fatalf("pins were kept: %v", cfg.Entries[0].Pins)
	}
	h.servers.mu.Lock()
	h.servers.scripts["a"] = script{Tools: tools(toolJSON("echo", readOnly, `"description":"second"`))}
	h.servers.mu.Unlock()
	dead.Store(false)
	h.boot()
	h.apply(one)
	if _, err := h.call(by(one, "s.echo", `{}`)); err != nil {
		t.Errorf("the first list that anybody knows of: %v", err)
	}
	h.stop() // keeps the pins
	h.servers.mu.Lock()
	h.servers.scripts["a"] = script{Tools: tools(toolJSON("echo", readOnly, `"description":"third"`))}
	h.servers.mu.Unlock()
	dead.Store(true) // and no later kill widens them
	for range 2 {
		h.boot()
		h.apply(one)
		_, err := h.call(by(one, "s.echo", `{}`))
		wantCode(t, err, schemas.CodeHeld, "changed after it was approved")
		h.stop()
	}
}

// killed loses pins, as a kill between the list and the write does.
type killed struct {
	*wishes
	dead *atomic.Bool
}

func (k *killed) Pin(ctx context.Context, id schemas.ThreadID, server string, pins map[string]string) error {
	if k.dead.Load() {
		return errors.New("killed")
	}
	return k.wishes.Pin(ctx, id, server, pins)
}

// TestResources_DeniedServerIsNotAsked: a denial holds for what is not a tool as well.
func TestResources_DeniedServerIsNotAsked(t *testing.T) {
	h := newHouse(t, map[string]script{"a": {Tools: tools(echoTool()), Abilities: `,"resources":{},"prompts":{}`}})
	h.set(one, entry("s", "a"))
	h.apply(one)
	for _, rule := range []string{"s", "s.*", "S.resources/*", "*"} {
		h.policy(one, schemas.Policy{Members: map[schemas.MemberID]schemas.Rules{"ann": {Deny: []string{rule, "s.prompts/*"}}}})
		h.apply(one)
		rs, err := h.Resources(background(), ann(one))
		ps, err2 := h.Prompts(background(), ann(one))
		if err != nil || err2 != nil || len(rs)+len(ps) != 0 {
			t.Errorf("%s: %v %v %v %v", rule, rs, ps, err, err2)
		}
		_, err = h.ReadResource(background(), ann(one), "s", "file:///a")
		wantCode(t, err, schemas.CodeDenied)
		_, err = h.Prompt(background(), ann(one), "s", "hi", nil)
		wantCode(t, err, schemas.CodeDenied)
	}
	if n := h.servers.saw("resources/") + h.servers.saw("prompts/"); n != 0 {
		t.Errorf("%d requests reached the server", n)
	}
	bob := ann(one)
	bob.Member = "bob"
	ctx, cancel := context.WithTimeout(background(), 10*time.Second)
	defer cancel()
	if rs, err := h.Resources(ctx, bob); err != nil || len(rs) == 0 {
		t.Errorf("somebody else's rule: %v %v", rs, err)
	}
}

// TestServer_StartsAndEndsAreRecorded: nothing is started that the audit log does not know of.
func TestServer_StartsAndEndsAreRecorded(t *testing.T) {
	h := newHouse(t, map[string]script{"a": plainScript("echo"), "b": {Crash: "oops with a secret"}})
	h.journal.mu.Lock()
	h.journal.broken = true
	h.journal.mu.Unlock()
	h.set(one, entry("s", "a"))
	h.apply(one)
	if st := h.status(one, "s"); st.State != schemas.Failed || !strings.Contains(st.Why, "audit log cannot be written") || h.servers.count() != 0 {
		t.Errorf("%+v, %d started", st, h.servers.count())
	}
	h.journal.mu.Lock()
	h.journal.broken = false
	h.journal.mu.Unlock()
	h.set(one, entry("s", "a"), entry("c", "b"))
	h.apply(one)
	if err := h.Restart(background(), one, "s"); err != nil {
		t.Fatal(err)
	}
	h.stop()
	var said []string
	h.journal.mu.Lock()
	defer h.journal.mu.Unlock()
	for _, r := range h.journal.records {
		if r.Event != schemas.EventServer || r.RunsAs != "ann" || r.Thread != one {
			t.Errorf("%+v", r)
		}
		said = append(said, r.Server+" "+r.Detail)
	}
	for _, want := range []string{"s start", "s stopped", "c start", "c failed"} {
		if !slices.Contains(said, want) {
			t.Errorf("%v lacks %q", said, want)
		}
	}
	if n := len(said); n > 8 {
		t.Errorf("%d records", n)
	}
}
