package inspect_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"bobbin/internal/browsertest"
	"bobbin/schemas"
)

// visit goes the way of somebody who looks for a mistake: sees the servers, calls a tool by form, reads the messages.
func visit(t *testing.T, b *browsertest.Tab, s *site, name string) {
	t.Helper()
	if got := b.Text(`document.querySelector("#servers").innerText`); !strings.Contains(got, "notes") || !strings.Contains(got, "weather") || !strings.Contains(got, "failed") {
		t.Errorf("servers: %s", got)
	}
	if got := b.Text(`document.querySelector("#server-facts").innerText`); !strings.Contains(got, "MCP 2025-11-25") || !strings.Contains(got, "process 4711") {
		t.Error(got)
	}
	b.Click(`.things > li:nth-child(1) .thing`)
	b.Until(`document.querySelector(".more label").innerText.startsWith("query")`)
	b.Fill(`.more .field:nth-child(1) textarea`, "milk \"and\" bread")
	b.Click(`.more button.primary`)
	b.Until(`document.querySelector(".result pre")`)
	if got := b.Text(`document.querySelector(".result").innerText`); !strings.Contains(got, "<b>milk</b>") || !strings.Contains(got, "receipt 7f3a0001") {
		t.Error(got)
	}
	s.mu.Lock()
	args := string(s.calls[len(s.calls)-1].Args)
	s.mu.Unlock()
	if args != `{"query": "milk \"and\" bread", "limit": 10}` {
		t.Errorf("called with %s", args)
	}
	b.Until(`document.querySelectorAll("#wire li[data-kind]").length === 3`)
	if got := b.Text(`document.querySelector("#wire").innerText`); !strings.Contains(got, "tools/call") || !strings.Contains(got, "12 ms") || !strings.Contains(got, "notifications/progress") {
		t.Error(got)
	}
	b.Click(`#wire li:nth-child(3) summary`)
	b.Until(`document.querySelector("#wire li:nth-child(3) pre").innerText.includes('"count": 3')`)
	b.Shot(name)
}

func TestPage(t *testing.T) {
	for _, c := range []struct {
		width, height int64
		dark          bool
	}{{900, 760, false}, {900, 760, true}, {360, 740, false}, {1440, 900, false}} {
		name := fmt.Sprintf("inspect-%d-%t", c.width, c.dark)
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			b := open(t, s, c.width, c.height, c.dark)
			visit(t, b, s, name)
			if over := b.Text(`document.documentElement.scrollWidth - innerWidth`); over != "0" {
				t.Errorf("the page is %s px too wide", over)
			}
			if c.width == 360 {
				b.Text(`document.querySelector(".wire").scrollIntoView()`)
				b.Shot(name + "-wire")
			}
		})
	}
}

func TestPage_Everything(t *testing.T) {
	s := newSite(t)
	b := open(t, s, 900, 900, false)

	// A wrong form is told at its fields; what the server's schema refuses, too.
	b.Click(`.things > li:nth-child(1) .thing`)
	b.Until(`document.querySelector(".more")`)
	b.Click(`.more button.primary`)
	b.Until(`document.querySelector(".more").innerText.includes("a value is needed") && document.activeElement === document.querySelector(".more textarea")`)
	b.Fill(`.more textarea`, "x")
	b.Text(`(document.querySelector(".more input").value = "50", 0)`)
	b.Click(`.more button.primary`)
	b.Until(`document.querySelector(".more").innerText.includes("must be at most 20")`)
	b.Shot("inspect-mistake")

	// The whole as JSON, with a number that JavaScript cannot hold.
	b.Click(`form > .actions .small`)
	b.Until(`document.querySelector(".more textarea.mono").value.includes('"limit": 50')`)
	b.Text(`(document.querySelector(".more textarea.mono").value = '{"query":"x","id":12345678901234567890}', 0)`)
	b.Click(`.more button.primary`)
	b.Until(`document.querySelector(".result")`)
	s.mu.Lock()
	if args := string(s.calls[len(s.calls)-1].Args); args != `{"query":"x","id":12345678901234567890}` {
		t.Error(args)
	}
	s.mu.Unlock()

	// What policy denies is said in words; a call that takes long can be cancelled.
	b.Click(`.things > li:nth-child(2) .thing`)
	b.Fill(`.things > li:nth-child(2) textarea`, "n1")
	b.Click(`.things > li:nth-child(2) button.primary`)
	b.Until(`document.querySelector(".things > li:nth-child(2)").innerText.includes("destructive tools are denied")`)
	b.Click(`.things > li:nth-child(3) .thing`)
	b.Click(`.things > li:nth-child(3) button.primary`)
	b.Until(`document.querySelector(".things > li:nth-child(3)").innerText.includes("waiting for the answer")`)
	b.Click(`.things > li:nth-child(3) .actions button:not(.primary)`)
	b.Until(`document.querySelector(".things > li:nth-child(3)").innerText.includes("cancelled")`)

	// Tabs by keyboard; resources, prompts, standard error with what cannot be seen made visible.
	b.Text(`document.querySelector("#tab-tools").focus()`)
	b.Key(kb.ArrowRight)
	b.Until(`document.querySelector(".things").innerText.includes("Shopping")`)
	b.Click(`.things > li:nth-child(1) .thing`)
	b.Click(`.things > li:nth-child(1) button.primary`)
	b.Until(`document.querySelector(".result pre").innerText === "milk"`)
	b.Key(kb.Escape)
	b.Click(`#tab-prompts`)
	b.Until(`document.querySelector(".things").innerText.includes("summary")`)
	b.Click(`.things .thing`)
	b.Fill(`.things textarea`, "home")
	b.Click(`.things button.primary`)
	b.Until(`document.querySelector(".result pre").innerText === "Sum up home"`)
	b.Shot("inspect-prompt")
	b.Click(`#tab-stderr`)
	b.Until(`document.querySelector(".stderr").innerText.includes("\\u202eevil")`)

	// Filters, and a state that changes by itself.
	b.Until(`document.querySelectorAll("#wire li[data-kind]").length === 3`)
	b.Text(`(document.querySelector("#wire-kind").value = "notification", document.querySelector("#wire-kind").dispatchEvent(new Event("change")), 0)`)
	b.Until(`[...document.querySelectorAll("#wire li[data-kind]")].filter((li) => !li.hidden).length === 1`)
	b.Click(`#wire-clear`)
	b.Until(`document.querySelector("#wire .none")`)
	s.mu.Lock()
	s.state = schemas.Idle
	tick(s.ticks)
	s.mu.Unlock()
	b.Until(`document.querySelector("#server-facts").innerText.startsWith("idle")`)
	b.Click(`[data-name=weather]`)
	b.Until(`document.querySelector("#server-why").innerText === "cannot be reached"`)
	b.Shot("inspect-failed")
}

// Objects, lists, choices and shapes have fields of their own; what is left out is not sent, and a problem stands where it belongs.
func TestPage_Form(t *testing.T) {
	s := newSite(t)
	b := open(t, s, 360, 740, false)
	form := `.things > li:nth-child(4) form`
	b.Click(`.things > li:nth-child(4) .thing`)
	b.Until(`document.querySelector("` + form + ` fieldset")`)
	labels := `[...document.querySelectorAll("` + form + ` :is(.field > label, legend)")].map((e) => e.innerText.trim()).join("|")`
	if got, want := b.Text(labels), "address|street|tags|tags, item|picks optional|area optional|again optional|ratio optional"; got != want {
		t.Errorf("fields: %s\nwant:   %s", got, want)
	}
	if over := b.Text(`document.documentElement.scrollWidth - innerWidth`); over != "0" {
		t.Errorf("the page is %s px too wide", over)
	}
	b.Text(`(document.querySelectorAll("` + form + ` textarea").forEach((e, i) => { e.value = ["Main \"1\"", "red"][i]; }),
		document.querySelectorAll("` + form + ` [type=checkbox]")[1].click(), document.querySelector("` + form + ` [aria-label='shape of area']").focus(), 0)`)
	b.Key(kb.ArrowDown)
	b.Until(`document.querySelector("` + form + `").innerText.includes("radius")`)
	b.Text(`(document.querySelector("` + form + ` [aria-label='Add to tags']").click(), document.activeElement.value = "blue",
		[...document.querySelectorAll("` + form + ` label")].find((l) => l.innerText === "radius").control.value = "12345678901234567890", 0)`)
	b.Click(form + ` button.primary`)
	b.Until(`document.querySelector(".things > li:nth-child(4) .result")`)
	s.mu.Lock()
	args := string(s.calls[len(s.calls)-1].Args)
	s.mu.Unlock()
	if want := `{"address": {"street": "Main \"1\""}, "tags": ["red", "blue"], "picks": ["b"], "area": {"radius": 12345678901234567890}}`; args != want {
		t.Errorf("called with %s\nwant        %s", args, want)
	}

	// The whole as JSON and back; a problem of the second tag stands at the second tag.
	b.Click(`.things > li:nth-child(4) form > .actions .small`)
	b.Text(`(document.querySelector("` + form + ` textarea.mono").value = '{"address":{"street":"wrong"},"tags":["x","y"],"again":{"again":{}}}', 0)`)
	b.Click(`.things > li:nth-child(4) form > .actions .small`)
	b.Until(`document.querySelectorAll("` + form + ` .row").length === 2 && document.querySelectorAll("` + form + ` [type=checkbox]:checked").length === 0`)
	b.Click(form + ` button.primary`)
	b.Until(`document.querySelectorAll("` + form + ` .row")[1].innerText.includes("is not a colour")`)
	if got := b.Text(`document.activeElement.closest("form") !== null || document.querySelectorAll("` + form + ` [aria-invalid]").length`); got == "0" {
		t.Error("no field is marked")
	}
}

// Pictures, sounds, files and links of a result; a list that is long can be searched.
func TestPage_Results(t *testing.T) {
	s := newSite(t)
	b := open(t, s, 900, 900, false)
	b.Click(`.things > li:nth-child(5) .thing`)
	b.Click(`.things > li:nth-child(5) button.primary`)
	b.Until(`document.querySelector(".result img").naturalWidth === 10 && document.querySelector(".result audio").duration > 0`)
	b.Until(`document.querySelector(".result").innerText.includes("application/octet-stream · 12 bytes")`)
	b.Click(`.result .thing`)
	b.Click(`.result button.primary`)
	b.Until(`document.querySelector(".result .result pre").innerText === "milk"`)
	b.Shot("inspect-results")
	b.Fill(`#find-text`, "one many 17")
	b.Until(`[...document.querySelectorAll("#panel > .things > li")].filter((li) => !li.hidden).length === 1 && document.querySelector("#find-count").innerText === "1 of 25"`)
}

// What a server offered, and what came of the call that ended it, stays in sight while it is down.
func TestPage_Dies(t *testing.T) {
	s := newSite(t)
	b := open(t, s, 900, 760, false)
	b.Click(`.things > li:nth-child(1) .thing`)
	b.Fill(`.more textarea`, "x")
	b.Click(`.more button.primary`)
	b.Until(`document.querySelector(".result pre")`)
	s.mu.Lock()
	s.state = schemas.Failed
	tick(s.ticks)
	s.mu.Unlock()
	b.Until(`document.querySelector("#server-facts").innerText.startsWith("failed") && document.querySelector("#restart").innerText === "Start"`)
	if got := b.Text(`document.querySelector(".result").innerText`); !strings.Contains(got, "3 notes") {
		t.Error(got)
	}
}

// A form that somebody fills in stays when a list comes anew.
func TestPage_FormStays(t *testing.T) {
	s := newSite(t)
	b := open(t, s, 900, 760, false)
	b.Click(`.things > li:nth-child(1) .thing`)
	b.Fill(`.more textarea`, "half a")
	b.Click(`#tab-resources`)
	b.Until(`document.querySelector(".things").innerText.includes("Shopping")`)
	b.Click(`#tab-tools`)
	if got := b.Text(`document.querySelector(".more textarea").value`); got != "half a" {
		t.Errorf("left: %q", got)
	}
}

// At the first look, before anything is pressed.
func TestPage_First(t *testing.T) {
	for _, width := range []int64{360, 900} {
		b := open(t, newSite(t), width, 740, false)
		if got := b.Text(`document.querySelector("#wire").innerText`); !strings.Contains(got, "Nothing has passed") {
			t.Error(got)
		}
		b.Shot(fmt.Sprintf("inspect-first-%d", width))
	}
}
