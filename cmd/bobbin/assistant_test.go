package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bobbin/agent/model/modeltest"
)

// models plays each provider, and gives what bobbin needs in its environment to use it.
func models(t testing.TB, think func(modeltest.Asked) modeltest.Answer) map[string][]string {
	t.Helper()
	a, o, g := modeltest.Anthropic(t), modeltest.OpenAI(t), modeltest.Gemini(t)
	for _, s := range []*modeltest.Server{a, o, g} {
		s.By(think)
	}
	return map[string][]string{
		"anthropic": {"ANTHROPIC_API_KEY=" + modeltest.Key, "ANTHROPIC_BASE_URL=" + a.URL},
		"openai":    {"OPENAI_API_KEY=" + modeltest.Key, "OPENAI_BASE_URL=" + o.URL},
		"gemini":    {"GEMINI_API_KEY=" + modeltest.Key, "GOOGLE_GEMINI_BASE_URL=" + g.URL},
	}
}

// adder is a model that adds by a tool, when there is one.
func adder(a modeltest.Asked) modeltest.Answer {
	switch {
	case len(a.Results) > 0 && strings.Contains(a.Results[0], "did not run"):
		return modeltest.Answer{Text: "The tool did not run."}
	case len(a.Results) > 0:
		return modeltest.Answer{Text: "It is **5**, says the tool."}
	case slices.Contains(a.Tools, "ext_demo_add"):
		return modeltest.Answer{Text: "I ask the tool.", Calls: []modeltest.Call{{Name: "ext_demo_add", Args: `{"a":2,"b":3}`}}}
	}
	return modeltest.Answer{Text: "There is no tool here that adds."}
}

// TestAssistant_Terminal: the model finds no tool, somebody adds one, and the same conversation uses it.
func TestAssistant_Terminal(t *testing.T) {
	long(t)
	for name, env := range models(t, adder) {
		t.Run(name, func(t *testing.T) {
			p := bobbinWith(t, env, t.TempDir(), "chat", "--thread", "t1")
			p.hear("Say what you want done: .?" + name + "/")
			shows(t, "without a tool", p.do("what is 2 and 3?"), "There is no tool here that adds")
			p.say("/mcp add-json " + config(t, map[string]any{"demo": fake(filepath.Join(t.TempDir(), "pids"))}))
			p.hear(`1\) Confirm`)
			p.say("1")
			p.hear(`demo is ready`)
			p.say("and now?")
			shows(t, "the question", p.hear(`(.*?4\) Deny)`)[1], "asks to use demo.add", "a 2", "b 3", "1\\) Once")
			p.say("1")
			shows(t, "the answer", p.hear(`It is.*?says the tool[^\n]*`)[0], "5")
			p.say("once more")
			p.hear(`4\) Deny`)
			p.say("4")
			p.hear(`The tool did not run`)
			shows(t, "the log", p.do("/mcp audit"), "demo.add", "denied|refused")
			shows(t, "what it cost", p.do("/chat usage"), "tokens")
			p.end()
		})
	}
}
