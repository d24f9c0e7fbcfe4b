package inspect_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"bobbin/schemas"
)

// visit goes the way of somebody who looks for a mistake: sees the servers, calls a tool by form, reads the messages.
func visit(t *testing.T, b *tab, s *site, name string) {
	t.Helper()
	if got := b.text(`document.querySelector("#servers").innerText`); !strings.Contains(got, "notes") || !strings.Contains(got, "weather") || !strings.Contains(got, "failed") {
		t.Errorf("servers: %s", got)
	}
	if got := b.text(`document.querySelector("#server-facts").innerText`); !strings.Contains(got, "MCP 2025-11-25") || !strings.Contains(got, "process 4711") {
		t.Error(got)
	}
	b.click(`.things > li:nth-child(1) .thing`)
	b.until(`document.querySelector(".more label").innerText.startsWith("query")`)
	b.fill(`.more .field:nth-child(1) textarea`, "milk \"and\" bread")
	b.click(`.more button.primary`)
	b.until(`document.querySelector(".result pre")`)
	if got := b.text(`document.querySelector(".result").innerText`); !strings.Contains(got, "<b>milk</b>") || !strings.Contains(got, "receipt 7f3a0001") {
		t.Error(got)
	}
	s.mu.Lock()
	args := string(s.calls[len(s.calls)-1].Args)
	s.mu.Unlock()
	if args != `{"query": "milk \"and\" bread", "limit": 10}` {
		t.Errorf("called with %s", args)
	}
	b.until(`document.querySelectorAll("#wire li[data-kind]").length === 3`)
	if got := b.text(`document.querySelector("#wire").innerText`); !strings.Contains(got, "tools/call") || !strings.Contains(got, "12 ms") || !strings.Contains(got, "notifications/progress") {
		t.Error(got)
	}
	b.click(`#wire li:nth-child(3) summary`)
	b.until(`document.querySelector("#wire li:nth-child(3) pre").innerText.includes('"count": 3')`)
	b.shot(name)
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
			if over := b.text(`document.documentElement.scrollWidth - innerWidth`); over != "0" {
				t.Errorf("the page is %s px too wide", over)
			}
			if c.width == 360 {
				b.text(`document.querySelector(".wire").scrollIntoView()`)
				b.shot(name + "-wire")
			}
		})
	}
}

func TestPage_Everything(t *testing.T) {
	s := newSite(t)
	b := open(t, s, 900, 900, false)

	// A wrong form is told at its fields; what the server's schema refuses, too.
	b.click(`.things > li:nth-child(1) .thing`)
	b.until(`document.querySelector(".more")`)
	b.text(`(document.querySelectorAll(".more textarea")[1].value = "[1,", 0)`)
	b.click(`.more button.primary`)
	b.until(`document.querySelector(".wrong").parentElement.parentElement.innerText.includes("not valid JSON")`)
	b.text(`(document.querySelectorAll(".more textarea")[1].value = "", document.querySelector(".more input").value = "50", 0)`)
	b.click(`.more button.primary`)
	b.until(`document.querySelector(".more").innerText.includes("must be at most 20")`)
	b.shot("inspect-mistake")

	// The whole as JSON, with a number that JavaScript cannot hold.
	b.click(`.actions .small`)
	b.until(`document.querySelector(".more textarea.mono").value.includes('"limit": 50')`)
	b.text(`(document.querySelector(".more textarea.mono").value = '{"query":"x","id":12345678901234567890}', 0)`)
	b.click(`.more button.primary`)
	b.until(`document.querySelector(".result")`)
	s.mu.Lock()
	if args := string(s.calls[len(s.calls)-1].Args); args != `{"query":"x","id":12345678901234567890}` {
		t.Error(args)
	}
	s.mu.Unlock()

	// What policy denies is said in words; a call that takes long can be cancelled.
	b.click(`.things > li:nth-child(2) .thing`)
	b.fill(`.things > li:nth-child(2) textarea`, "n1")
	b.click(`.things > li:nth-child(2) button.primary`)
	b.until(`document.querySelector(".things > li:nth-child(2)").innerText.includes("destructive tools are denied")`)
	b.click(`.things > li:nth-child(3) .thing`)
	b.click(`.things > li:nth-child(3) button.primary`)
	b.until(`document.querySelector(".things > li:nth-child(3)").innerText.includes("waiting for the answer")`)
	b.click(`.things > li:nth-child(3) .actions button:not(.primary)`)
	b.until(`document.querySelector(".things > li:nth-child(3)").innerText.includes("cancelled")`)

	// Tabs by keyboard; resources, prompts, standard error with what cannot be seen made visible.
	b.text(`document.querySelector("#tab-tools").focus()`)
	b.key(kb.ArrowRight)
	b.until(`document.querySelector(".things").innerText.includes("Shopping")`)
	b.click(`.things > li:nth-child(1) .thing`)
	b.click(`.things > li:nth-child(1) button.primary`)
	b.until(`document.querySelector(".result pre").innerText === "milk"`)
	b.key(kb.Escape)
	b.click(`#tab-prompts`)
	b.until(`document.querySelector(".things").innerText.includes("summary")`)
	b.click(`.things .thing`)
	b.fill(`.things textarea`, "home")
	b.click(`.things button.primary`)
	b.until(`document.querySelector(".result pre").innerText === "Sum up home"`)
	b.shot("inspect-prompt")
	b.click(`#tab-stderr`)
	b.until(`document.querySelector(".stderr").innerText.includes("\\u202eevil")`)

	// Filters, and a state that changes by itself.
	b.until(`document.querySelectorAll("#wire li[data-kind]").length === 3`)
	b.text(`(document.querySelector("#wire-kind").value = "notification", document.querySelector("#wire-kind").dispatchEvent(new Event("change")), 0)`)
	b.until(`[...document.querySelectorAll("#wire li[data-kind]")].filter((li) => !li.hidden).length === 1`)
	b.click(`#wire-clear`)
	b.until(`document.querySelector("#wire .none")`)
	s.mu.Lock()
	s.state = schemas.Idle
	tick(s.ticks)
	s.mu.Unlock()
	b.until(`document.querySelector("#server-facts").innerText.startsWith("idle")`)
	b.click(`[data-name=weather]`)
	b.until(`document.querySelector("#server-why").innerText === "cannot be reached"`)
	b.shot("inspect-failed")
}

// A form that somebody fills in stays when a list comes anew.
func TestPage_FormStays(t *testing.T) {
	s := newSite(t)
	b := open(t, s, 900, 760, false)
	b.click(`.things > li:nth-child(1) .thing`)
	b.fill(`.more textarea`, "half a")
	b.click(`#tab-resources`)
	b.until(`document.querySelector(".things").innerText.includes("Shopping")`)
	b.click(`#tab-tools`)
	if got := b.text(`document.querySelector(".more textarea").value`); got != "half a" {
		t.Errorf("left: %q", got)
	}
}

// At the first look, before anything is pressed.
func TestPage_First(t *testing.T) {
	for _, width := range []int64{360, 900} {
		b := open(t, newSite(t), width, 740, false)
		if got := b.text(`document.querySelector("#wire").innerText`); !strings.Contains(got, "Nothing has passed") {
			t.Error(got)
		}
		b.shot(fmt.Sprintf("inspect-first-%d", width))
	}
}
