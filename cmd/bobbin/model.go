package main

import (
	"os"

	"github.com/spf13/pflag"

	"bobbin/agent/model"
	"bobbin/host"
)

// modelFlags say who answers messages; keys come from the environment alone.
type modelFlags struct {
	names          []string
	url, prompt    string
	member, thread int
}

func (f *modelFlags) add(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.names, "model", nil, "model that answers, such as anthropic/claude-sonnet-5 or ollama/qwen3; may be repeated, threads then choose (BOBBIN_MODEL)")
	flags.StringVar(&f.url, "model-url", "", "server that speaks OpenAI's Chat Completions, such as http://127.0.0.1:8000/v1; --model is its own name there (BOBBIN_MODEL_URL, key: BOBBIN_MODEL_KEY)")
	flags.StringVar(&f.prompt, "model-prompt", "", "your own words to the model (BOBBIN_MODEL_PROMPT)")
	flags.IntVar(&f.member, "member-tokens", 0, "tokens that a member may spend in a day, in all threads together; 0: no bound (BOBBIN_MEMBER_TOKENS)")
	flags.IntVar(&f.thread, "thread-tokens", 0, "tokens that a thread may spend in a day; 0: no bound (BOBBIN_THREAD_TOKENS)")
}

// assistant opens the models; none when nothing is set up.
func (f *modelFlags) assistant() (host.Assistant, error) {
	a := host.Assistant{Prompt: f.prompt, MemberTokens: f.member, ThreadTokens: f.thread}
	s := model.FromEnv(os.Getenv)
	for _, name := range f.names {
		if f.url != "" {
			name = f.url + "|" + name
		}
		s.Models = append(s.Models, name)
	}
	switch {
	case f.url != "" && len(f.names) == 0:
		return a, usagef("--model-url needs --model, the model's name there")
	case f.member < 0 || f.thread < 0:
		return a, usagef("a bound of tokens is not below 0")
	}
	var err error
	a.Models, err = model.Open(s)
	return a, err
}
