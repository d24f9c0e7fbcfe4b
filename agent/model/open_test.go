package model_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"bobbin/agent"
	"bobbin/agent/model"
	"bobbin/agent/model/modeltest"
	"bobbin/schemas"
)

func TestOpen(t *testing.T) {
	env := func(vars ...string) model.Settings {
		return model.FromEnv(func(name string) string {
			for _, v := range vars {
				if value, ok := strings.CutPrefix(v, name+"="); ok {
					return value
				}
			}
			return ""
		})
	}
	with := func(s model.Settings, models ...string) model.Settings { s.Models = models; return s }
	for name, c := range map[string]struct {
		settings model.Settings
		names    []string
		windows  []int
		wrong    string
	}{
		"nothing":       {env(), nil, nil, ""},
		"one key":       {env("ANTHROPIC_API_KEY=k"), []string{"anthropic/claude-sonnet-5-5"}, []int{1_000_000}, ""},
		"another's key": {env("GOOGLE_API_KEY=k", "OPENAI_API_KEY= k\n"), []string{"openai/gpt-6.1-terra", "gemini/gemini-3.8-flash"}, []int{922_000, 1_048_576}, ""},
		"ollama":        {env("OLLAMA_HOST=0.0.0.0"), []string{"ollama/qwen3"}, []int{0}, ""},
		"named": {with(env("ANTHROPIC_API_KEY=k", "OPENROUTER_API_KEY=k"), "openrouter/anthropic/claude-opus-5.5", "anthropic/claude-haiku-4-5", "ollama/qwen3:8b", "http://127.0.0.1:8000/v1|Qwen/Qwen3-8B"),
			[]string{"openrouter/anthropic/claude-opus-5.5", "anthropic/claude-haiku-4-5", "ollama/qwen3:8b", "127.0.0.1:8000/Qwen/Qwen3-8B"}, []int{1_000_000, 200_000, 0, 0}, ""},
		"twice":         {with(env("ANTHROPIC_API_KEY=k"), "anthropic/claude-a", " anthropic/claude-a "), []string{"anthropic/claude-a"}, []int{200_000}, ""},
		"no key":        {with(env(), "anthropic/claude-sonnet-5"), nil, nil, "anthropic needs a key · set ANTHROPIC_API_KEY"},
		"no openrouter": {with(env(), "openrouter/x/y"), nil, nil, "openrouter needs a key · set OPENROUTER_API_KEY"},
		"no provider":   {with(env(), "claude-sonnet-5"), nil, nil, "a model needs its provider · write anthropic/claude-sonnet-5"},
		"a typo":        {with(env(), "antropic/claude-sonnet-5"), nil, nil, `there is no provider "antropic" · did you mean "anthropic"?`},
		"no model":      {with(env("OPENAI_API_KEY=k"), "openai/"), nil, nil, "openai needs a model's name, too · write openai/gpt-6.1-terra"},
		"no name":       {with(env(), "http://127.0.0.1:1/v1"), nil, nil, `a model given by its URL is written "http://host:port/v1|name" · `},
		"a bad URL":     {env("OPENAI_API_KEY=k", "OPENAI_BASE_URL=api.example"), nil, nil, "openai: the base URL must be http://… or https://…, without user, query and fragment · "},
		"a broken key":  {env("OPENAI_API_KEY=k\nk"), nil, nil, "openai: the key has spaces, line breaks or other characters that no key has · set it again as OPENAI_API_KEY"},
	} {
		t.Run(name, func(t *testing.T) {
			choices, err := model.Open(c.settings)
			var names []string
			var windows []int
			for _, c := range choices {
				names, windows = append(names, c.Name), append(windows, c.Window)
				if c.Provider == nil || !strings.HasSuffix(c.Name, "/"+c.Model) {
					t.Errorf("%+v", c)
				}
			}
			if diff := cmp.Diff(c.names, names) + cmp.Diff(c.windows, windows); diff != "" {
				t.Error(diff)
			}
			wrong := ""
			var e *schemas.Error
			if errors.As(err, &e) {
				wrong = e.Text + " · " + e.Hint
			}
			if wrong != c.wrong || (err != nil) != (wrong != "") {
				t.Errorf("wrong: %q, want %q (%v)", wrong, c.wrong, err)
			}
		})
	}
}

func TestOpenTalks(t *testing.T) {
	s := modeltest.Anthropic(t, modeltest.Answer{Text: "hello"})
	choices, err := model.Open(model.FromEnv(func(name string) string {
		return map[string]string{"ANTHROPIC_API_KEY": modeltest.Key, "ANTHROPIC_BASE_URL": s.URL + "/"}[name]
	}))
	if err != nil {
		t.Fatal(err)
	}
	if h := hear(t, choices[0].Provider, agent.Request{Model: choices[0].Model, Messages: []agent.Message{said("hi")}}); h.text != "hello" {
		t.Errorf("%+v", h)
	}
}
