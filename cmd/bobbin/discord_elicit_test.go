package main

import (
	"strings"
	"testing"
	"time"

	"bobbin/bot/discord/discordtest"
)

// TestDiscord_Elicit answers a server that asks in the middle of a call. Only the one who called sees the question.
func TestDiscord_Elicit(t *testing.T) {
	long(t)
	linuxOnly(t)
	w := newTown(t, discordtest.Options{})
	serveDiscord(t, w.f, t.TempDir())
	for _, name := range []string{"asker", "late"} {
		ms := map[string]string{"asker": "0", "late": "1500"}[name]
		w.ann.say(`/mcp add-json ` + name + ` {"command":"fakemcp","args":["asks","` + ms + `"]}`)
		shows(t, "confirm", w.ann.choose("Confirm"), name+" is ready")
	}
	alone := func() {
		t.Helper()
		if q := w.ann.Wait("asks you, in the middle of your call", 10*time.Second); !q.Ephemeral {
			t.Errorf("everybody sees the question:\n%s", q.Text)
		}
		for _, m := range w.bob.Messages() {
			if strings.Contains(m.Text, "Who shall sign") {
				t.Errorf("bob sees it:\n%s", m.Text)
			}
		}
	}

	call := w.ann.run("/mcp call late.ask_name") // its answer is put off by then, and the next message would become it
	alone()
	shows(t, "the answer", w.ann.Submit(w.ann.Press("Answer").Wait().Modal, "Ann", "small").Done(), "answered")
	shows(t, "the result", call.Done(), `heard.*"action":"accept"`)
	if !strings.Contains(w.bob.Transcript(), `"action":"accept"`) {
		t.Errorf("bob does not see the result:\n%s", w.bob.Transcript())
	}

	call = w.ann.run("/mcp call asker.ask_name")
	alone()
	form := w.ann.Press("Answer").Wait()
	again := w.ann.Submit(form.Modal, "A", "small").Done()
	shows(t, "a name that is too short", again, "mistake", "nothing was sent")
	form = w.ann.Press("Answer").Wait()
	if form.Modal == nil || form.Modal.Fields[0].Value != "A" {
		t.Fatalf("what was typed is gone: %+v", form.Modal)
	}
	shows(t, "the answer", w.ann.Submit(form.Modal, "Ann", "large").Done(), "answered")
	shows(t, "the result", call.Done(), `heard.*"action":"accept".*"name":"Ann"`)

	call = w.ann.run("/mcp call asker.ask_name")
	w.ann.Wait("asks you, in the middle of your call", 10*time.Second)
	shows(t, "declining", w.ann.Press("Decline").Done(), "declined")
	shows(t, "the result", call.Done(), `heard.*"action":"decline"`)
}
