package terminal_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bobbin/bot"
	"bobbin/bot/terminal"
	"bobbin/schemas"
)

func answer(a schemas.Answering) bot.Reply { return bot.Reply{Blocks: []bot.Block{{Answer: &a}}} }

// speaks is a bot that shows these states, and answers with the last one.
func speaks(states ...schemas.Answering) *script {
	return &script{answer: func(r bot.Request) bot.Reply {
		for _, a := range states {
			if r.Stream != nil {
				reply := answer(a)
				reply.ID, reply.Choices = "stop", []bot.Choice{{Key: "stop", Label: "Stop"}}
				r.Stream(reply)
			}
		}
		r2 := answer(states[len(states)-1])
		r2.Replace = "stop"
		return r2
	}}
}

func step(state schemas.StepState) schemas.Step {
	return schemas.Step{Tool: "github.create_issue", State: state, RunsAs: "alice", Took: 310 * time.Millisecond, Receipt: "7f3a", Args: []byte(`{"a":1}`), Result: "kept back"}
}

const whole = "I look into it.\n\n# Found\n- the [issue](https://x.example/42) is **open**\n```go\nx := *p * *q\n```\nDone \x1b]0;evil\x07\u202enow."

func TestAnswer_OnAPipe(t *testing.T) {
	steps := []schemas.Step{step(schemas.StepDone), {Tool: "github.close", State: schemas.StepDenied, Why: "by @alice"}}
	s := speaks(schemas.Answering{Text: "I look"}, schemas.Answering{Text: whole, Steps: steps, Why: "stopped by @alice"})
	out := talk(t, s, terminal.Options{}, "fix it")
	const want = "welcome\n  github.create_issue · 310 ms · as you · receipt 7f3a\n  github.close · denied: by @alice\nI look into it.\n\n# Found\n" +
		"- the issue (https://x.example/42) is **open**\n```go\nx := *p * *q\n```\nDone now.\n  stopped by @alice\n"
	if out != want {
		t.Errorf("%s\nwant\n%s", out, want)
	}
}

func watch(t *testing.T, s *script, opt terminal.Options, lines ...string) string {
	t.Helper()
	var out bytes.Buffer
	return run(t, s, opt, &out, lines)
}

// However the answer is cut, what stands on the screen is the same, and nothing stands there twice.
func TestAnswer_Streams(t *testing.T) {
	for _, color := range []bool{false, true} {
		opt := terminal.Options{Width: 30, Color: color}
		want := watch(t, speaks(schemas.Answering{Text: whole}), opt, "fix it")
		for _, n := range []int{1, 2, 3, 7, 50} {
			var states []schemas.Answering
			for i := 0; i <= len(whole); i += n {
				states = append(states, schemas.Answering{Text: whole[:i]})
			}
			if got := watch(t, speaks(append(states, schemas.Answering{Text: whole})...), opt, "fix it"); got != want {
				t.Errorf("in pieces of %d:\n%q\nwant\n%q", n, got, want)
			}
		}
	}
}

func TestAnswer_Colors(t *testing.T) {
	out := watch(t, speaks(schemas.Answering{Text: whole}), terminal.Options{Color: true}, "fix it")
	for _, want := range []string{"\x1b[1mFound\x1b[0m\n", "• the issue (https://x.example/42) is \x1b[1mopen\x1b[0m\n", "    \x1b[36mx := *p * *q\x1b[0m\n", "Done now.\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %q:\n%q", want, out)
		}
	}
}

func TestAnswer_StepsBetweenWords(t *testing.T) {
	running, done := step(schemas.StepRunning), step(schemas.StepDone)
	running.Took, running.Receipt = 0, ""
	other := schemas.Step{Tool: "web.get", State: schemas.StepRunning}
	failed := schemas.Step{Tool: "web.get", State: schemas.StepFailed, Why: "no such host"}
	out := watch(t, speaks(
		schemas.Answering{Status: "the model is busy, again in 5 s"}, schemas.Answering{Status: "the model is busy, again in 4 s"},
		schemas.Answering{Text: "I look now"}, schemas.Answering{Text: "I look now", Steps: []schemas.Step{running}},
		schemas.Answering{Text: "I look now", Steps: []schemas.Step{done}},
		schemas.Answering{Text: "I look now at it.", Steps: []schemas.Step{done, running, other}},
		schemas.Answering{Text: "I look now at it.\nDone.", Steps: []schemas.Step{done, done, failed}},
	), terminal.Options{}, "fix it")
	const want = "welcome\n  the model is busy, again in 5 s\nI look now\n  github.create_issue · 310 ms · as you · receipt 7f3a\nat it.\n" +
		"  github.create_issue · 310 ms · as you · receipt 7f3a\n  web.get · failed: no such host\nDone.\n"
	if out != want {
		t.Errorf("%s\nwant\n%s", out, want)
	}
}

// Ctrl-C ends the turn, and the conversation goes on.
func TestAnswer_CtrlC(t *testing.T) {
	stop := make(chan os.Signal, 1)
	first := true
	s := &script{answer: func(r bot.Request) bot.Reply {
		return answer(schemas.Answering{Text: "I was at it", Why: "stopped by @alice"})
	}, wait: func(ctx context.Context) {
		if first {
			first = false
			stop <- os.Interrupt
			<-ctx.Done()
		}
	}}
	out := watch(t, s, terminal.Options{Stop: stop}, "one", "two")
	if strings.Count(out, "stopped by @alice") != 2 || len(s.asked) != 2 {
		t.Error(out)
	}
}

// A question in the middle of an answer is answered by number, and nothing is written below it meanwhile.
func TestAnswer_AsksMeanwhile(t *testing.T) {
	for _, echo := range []bool{true, false} {
		s := &script{}
		allowed := make(chan string, 1)
		s.answer = func(r bot.Request) bot.Reply {
			if r.Action != nil {
				allowed <- r.Action.Choice
				return say("github.close allowed once")
			}
			if r.Stream != nil {
				r.Stream(answer(schemas.Answering{Text: "I close it", Status: "waits for @alice to allow github.close"}))
			}
			q := say("asks to use github.close")
			q.ID, q.Choices = "ask", []bot.Choice{{Key: "once", Label: "Once"}, {Key: "deny", Label: "Deny"}}
			s.notices <- bot.Notice{Thread: "t1", To: "alice", Reply: q}
			if <-allowed != "once" {
				t.Error("not allowed")
			}
			if r.Stream != nil {
				r.Stream(answer(schemas.Answering{Text: "I close it."}))
			}
			return answer(schemas.Answering{Text: "I close it. Closed."})
		}
		in, keys := io.Pipe()
		out := &screen{}
		done := make(chan error, 1)
		go func() {
			done <- terminal.New(terminal.Options{Bot: s, Notices: s, In: in, Out: out, Echo: echo, Caller: schemas.Caller{Thread: "t1", Member: "alice"}}).Run(t.Context())
		}()
		_, _ = io.WriteString(keys, "close it\n")
		out.until(t, "2) Deny")
		_, _ = io.WriteString(keys, "1\n")
		out.until(t, "Closed.")
		_ = keys.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if text := out.buf.String(); strings.Count(text, "Closed.") != 1 || strings.Index(text, "allowed once") > strings.Index(text, "Closed.") {
			t.Errorf("echo %v:\n%s", echo, text)
		}
	}
}

func TestAnswer_Files(t *testing.T) {
	dir := t.TempDir()
	for name, data := range map[string]string{"a.png": "\x89PNG\r\n\x1a\n", "my plan.txt": "do it"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := &script{answer: func(bot.Request) bot.Reply { return say("ok") }}
	out := talk(t, s, terminal.Options{}, "compare @"+filepath.Join(dir, "a.png")+", with @\""+filepath.Join(dir, "my plan.txt")+"\" and ask @bob or a@b.c", "read @./nothing.txt", "@server:/uri is a resource")
	if !strings.Contains(out, "attached a.png · 8 bytes") || !strings.Contains(out, "nothing.txt: there is no such file; your message was not sent") {
		t.Error(out)
	}
	if len(s.asked) != 2 || len(s.asked[1].Files) != 0 {
		t.Fatalf("%d requests", len(s.asked))
	}
	if got := s.asked[0].Files; len(got) != 2 || got[0].MIME != "image/png" || got[1].Name != "my plan.txt" || string(got[1].Data) != "do it" {
		t.Errorf("%+v", got)
	}
}

func TestAnswer_OfSomebodyElse(t *testing.T) {
	s := &script{answer: func(bot.Request) bot.Reply { return say("hello") }}
	in, keys := io.Pipe()
	out := &screen{}
	done := make(chan error, 1)
	go func() {
		done <- terminal.New(terminal.Options{Bot: s, Notices: s, In: in, Out: out, Echo: true, Caller: schemas.Caller{Thread: "t1", Member: "alice", Door: schemas.DoorTerminal}}).Run(t.Context())
	}()
	out.until(t, "welcome")
	_, _ = io.WriteString(keys, "hello\n")
	out.until(t, "hello")
	tell := func(door schemas.Door, text, over string) {
		r := say("@bob on the page: fix it")
		r.Blocks = append(r.Blocks, answer(schemas.Answering{Text: text}).Blocks...)
		r.Replace = over
		s.notices <- bot.Notice{Thread: "t1", Door: door, Reply: r}
	}
	tell(schemas.DoorTerminal, "own", "x")
	tell(schemas.DoorWeb, "in the middle", "")
	tell(schemas.DoorWeb, "all of it", "x")
	out.until(t, "all of it")
	_ = keys.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if text := out.buf.String(); strings.Contains(text, "own") || strings.Contains(text, "middle") || !strings.Contains(text, "@bob on the page: fix it\nall of it") {
		t.Error(text)
	}
}
