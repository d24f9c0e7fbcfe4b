package model_test

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"bobbin/agent"
	"bobbin/agent/model"
)

// TestReal has the real providers use a tool, each for which there is a key. It costs a few cents, and so has to be asked for:
// BOBBIN_TEST_MODELS=1, or a list such as "openai/gpt-6.1-terra,ollama/qwen3".
func TestReal(t *testing.T) {
	list := os.Getenv("BOBBIN_TEST_MODELS")
	if list == "" {
		t.Skip("set BOBBIN_TEST_MODELS=1 and the providers' keys to ask real models")
	}
	s := model.FromEnv(os.Getenv)
	if list != "1" {
		s.Models = strings.Split(list, ",")
	}
	choices, err := model.Open(s)
	if err != nil {
		t.Fatal(err)
	}
	if len(choices) == 0 {
		t.Skip("there is no key, such as ANTHROPIC_API_KEY")
	}
	for _, c := range choices {
		t.Run(c.Name, func(t *testing.T) {
			r := agent.Request{Model: c.Model, System: "Use tools where they help. Be brief.", MaxTokens: 4000, Tools: tools(),
				Messages: []agent.Message{said("What is the weather in Kyoto and in Oslo? Ask for both at once, with mcp_weather_now.")}}
			for range 5 {
				h := hear(t, c.Provider, r)
				var f *agent.Failure
				if errors.As(h.err, &f) {
					t.Fatalf("%s; %s; %v", f.Text, f.Hint, f.Err)
				}
				t.Logf("%q, thought %q, %s, %+v", h.text, h.reasoning, h.stop, h.tokens)
				if h.stop != agent.StopCalls {
					if h.text == "" || h.tokens.In == 0 || h.tokens.Out == 0 {
						t.Errorf("%+v", h)
					}
					return
				}
				results := agent.Message{Role: agent.User}
				for _, p := range h.parts {
					if p.Call != nil {
						args, _ := json.Marshal(p.Call)
						t.Logf("call %s", args)
						results.Parts = append(results.Parts, agent.Part{Result: &agent.Result{ID: p.Call.ID, Name: p.Call.Name, Text: "sunny, 12 °C"}})
					}
				}
				r.Messages = append(r.Messages, roundTrip(t, agent.Message{Role: agent.Assistant, Parts: h.parts}), results)
			}
			t.Error("it never came to an end")
		})
	}
}
