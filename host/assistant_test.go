package host_test

import (
	"context"
	"encoding/json"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"bobbin/agent"
	"bobbin/bot"
	"bobbin/host"
	"bobbin/schemas"
)

// script is a model that answers from a list.
type script struct {
	mu      sync.Mutex
	answers [][]agent.Part
	asked   []agent.Request
}

func (s *script) Stream(_ context.Context, r agent.Request) iter.Seq2[agent.Event, error] {
	return func(yield func(agent.Event, error) bool) {
		s.mu.Lock()
		s.asked = append(s.asked, r)
		parts := []agent.Part{{Text: "the script is over"}}
		if len(s.answers) > 0 {
			parts, s.answers = s.answers[0], s.answers[1:]
		}
		s.mu.Unlock()
		for _, p := range parts {
			if !yield(agent.Event{Kind: agent.EventPart, Part: &p}, nil) {
				return
			}
		}
		yield(agent.Event{Kind: agent.EventEnd, Stop: agent.StopDone, Tokens: schemas.Tokens{In: 10, Out: 1}}, nil)
	}
}

func model(s *script) host.Assistant {
	return host.Assistant{Models: []agent.Choice{{Name: "fake/one", Provider: s, Model: "one"}}}
}

func calls(name, args string) []agent.Part {
	return []agent.Part{{Call: &agent.Call{ID: "c1", Name: name, Args: json.RawMessage(args)}}}
}

// nowhere looks for a value in all files of a folder.
func nowhere(t *testing.T, folder, value string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		files++
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), value) {
			t.Errorf("%s holds the value", path)
		}
		return err
	})
	if err != nil || files < 3 {
		t.Errorf("%d files, %v", files, err)
	}
}

// What a model gives as env reaches the program, and neither a file, nor what is shown, nor the next request.
func TestAssistant_ValuesAreNotKept(t *testing.T) {
	data := t.TempDir()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args, err := json.Marshal(map[string]any{"name": "demo", "command": exe, "env": map[string]string{"API_BASE_URL": canary, "HOST_TEST_SERVER": "1"}})
	if err != nil {
		t.Fatal(err)
	}
	s := &script{answers: [][]agent.Part{calls("connect_external_mcp", string(args)), calls("ext_demo_size", "{}"), {{Text: "done"}}, {{Text: "again"}}}}
	h, err := host.Open(t.Context(), host.Options{Data: data, Sandbox: "process", Assistant: model(s)})
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	err = h.Run(t.Context(), func(ctx context.Context) error {
		confirmed(ctx, t, h, func() string {
			h.Bot.Handle(ctx, bot.Request{Caller: alice, Text: "connect demo", Stream: func(r bot.Reply) {
				raw, err := json.Marshal(r)
				if err != nil {
					t.Error(err)
				}
				shown = append(shown, string(raw))
			}})
			return ""
		})
		h.Bot.Handle(ctx, bot.Request{Caller: alice, Text: "and now?"})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	sent, err := json.Marshal(s.asked)
	if err != nil || len(s.asked) != 4 {
		t.Fatalf("%d requests, %v\n%s", len(s.asked), err, sent)
	}
	for what, text := range map[string]string{"the requests": string(sent), "what was shown": strings.Join(shown, "\n")} {
		if strings.Contains(text, canary) || !strings.Contains(text, "API_BASE_URL") {
			t.Errorf("%s: %s", what, text)
		}
	}
	if !strings.Contains(string(sent), "24 characters") {
		t.Errorf("the program did not get the value: %s", sent)
	}
	nowhere(t, data, canary)
	if _, err := os.Stat(filepath.Join(data, "chat", "t1", "transcript.jsonl")); err != nil {
		t.Error(err)
	}
}

// A server that a rule allows gets words of the thread's model, after a yes.
func TestAssistant_Sampling(t *testing.T) {
	data := t.TempDir()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args, err := json.Marshal(map[string]any{"command": exe, "env": map[string]string{"HOST_TEST_SERVER": "1"}})
	if err != nil {
		t.Fatal(err)
	}
	s := &script{answers: [][]agent.Part{{{Text: "in short: nothing"}}}}
	h, err := host.Open(t.Context(), host.Options{Data: data, Sandbox: "process", Assistant: model(s)})
	if err != nil {
		t.Fatal(err)
	}
	err = h.Run(t.Context(), func(ctx context.Context) error {
		press := func(line, choice string) {
			card := h.Bot.Handle(ctx, bot.Request{Caller: alice, Text: line})
			if r := h.Bot.Handle(ctx, bot.Request{Caller: alice, Action: &bot.Action{ID: card.ID, Choice: choice}}); r.Bad {
				t.Fatalf("%+v\n%+v", card, r)
			}
		}
		press("/mcp policy sampling demo", "confirm")
		press("/mcp add-json demo "+string(args), "confirm")
		notices, stop := h.Bot.Subscribe(alice.Thread, alice.Member)
		defer stop()
		var all sync.WaitGroup
		defer all.Wait()
		all.Go(func() {
			for n := range notices {
				if len(n.Reply.Choices) == 2 && n.Reply.Choices[0].Key == "once" && n.Reply.Choices[1].Key == "deny" {
					h.Bot.Handle(ctx, bot.Request{Caller: alice, Action: &bot.Action{ID: n.Reply.ID, Choice: "once"}})
					return
				}
			}
		})
		res, err := h.Registry.Call(ctx, schemas.Call{Caller: alice, Origin: schemas.ByPerson, Tool: "demo.words"})
		if err != nil || !strings.Contains(string(res.Raw), "in short: nothing") {
			t.Errorf("%v %s", err, res.Raw)
		}
		stop()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.asked) != 1 || len(s.asked[0].Tools) > 0 || s.asked[0].Messages[0].Parts[0].Text != "sum this up" {
		t.Errorf("%+v", s.asked)
	}
}
