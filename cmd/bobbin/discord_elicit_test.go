package main

import (
	"regexp"
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

// TestDiscord_Page opens a page that a server asks for. Only the one who called sees where it is, and nothing but a press leads there.
func TestDiscord_Page(t *testing.T) {
	long(t)
	linuxOnly(t)
	w := newTown(t, discordtest.Options{})
	serveDiscord(t, w.f, t.TempDir())
	w.ann.say(`/mcp add-json demo {"command":"fakemcp","args":["pages"]}`)
	shows(t, "confirm", w.ann.choose("Confirm"), "demo is ready")
	for _, c := range []struct{ tool, url, press, said, result string }{
		{"sign_in", "https://auth.example.com/sign-in?state=abc", "Continue", "answered", `heard.*"action":"accept"`},
		{"sign_in", "https://auth.example.com/" + strings.Repeat("x", 600), "Decline", "declined", `heard.*"action":"decline"`},
		{"sign_in_first", "https://auth.example.com/first", "Continue", "answered", `ran`},
	} {
		call := w.ann.run(`/mcp call demo.` + c.tool + ` {"url":"` + c.url + `"}`)
		q := w.ann.Wait(regexp.QuoteMeta("`"+c.url+"`"), 10*time.Second)
		links := 0
		for _, b := range q.Buttons {
			if b.URL != "" {
				links++
				if b.URL != c.url || b.Label != "Open auth.example.com" || b.Style != 5 {
					t.Errorf("%+v", b)
				}
			}
		}
		if !q.Ephemeral || len(c.url) <= 512 && links != 1 || len(c.url) > 512 && links != 0 {
			t.Errorf("ephemeral %v, %d links:\n%s", q.Ephemeral, links, q.Text)
		}
		if seen := w.bob.Transcript(); strings.Contains(seen, "Sign in to go on") || strings.Contains(seen, c.url+"`") {
			t.Errorf("bob sees it:\n%s", seen)
		}
		shows(t, c.press, w.ann.Press(c.press).Done(), c.said)
		shows(t, "the result", call.Done(), c.result)
	}
	if bad := w.f.Inert(); len(bad) > 0 {
		t.Errorf("%q", bad)
	}
}

// TestPageDone lets the server say that the member is done with its page, which ends the question by itself.
func TestPageDone(t *testing.T) {
	long(t)
	linuxOnly(t)
	c := chat(t, t.TempDir())
	c.say("/mcp add demo fakemcp pages", "Confirm")
	c.hear(`demo is ready`)
	c.say(`/mcp call demo.sign_in_done {"url":"https://auth.example.com/done"}`)
	c.hear(`https://auth\.example\.com/done.*done · the call goes on.*press Enter`)
	c.say("")
	c.hear(`heard .*"action":"accept"`)
	c.say("/mcp audit")
	c.hear(`done, says the server`)
	c.end()
}
