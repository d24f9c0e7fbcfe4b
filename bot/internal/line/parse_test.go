package line_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"bobbin/bot/internal/line"
	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

func FuzzParse(f *testing.F) {
	for _, s := range []string{"add-json x {}", "policy allow a.* me", "upload 'a b'", "```json\n{}\n```", "call a.b {\"x\":1}", "show \"", "\\", "add-json", "chat", "chat mode x", "policy shwo"} {
		f.Add(s)
	}
	all := line.New()
	f.Fuzz(func(t *testing.T, typed string) {
		v, args, err := all.Parse(strings.TrimSpace(typed))
		if (v == nil) != (err != nil && args == nil) && err == nil {
			t.Fatalf("%q: %v %v %v", typed, v, args, err)
		}
		for name := range args {
			if !slices.ContainsFunc(v.Args, func(a line.Arg) bool { return a.Name == name }) {
				t.Fatalf("%q: argument %q is not in the table", typed, name)
			}
		}
		_, _ = words.Split(typed)
		_ = all.NoCommand(typed)
	})
}

// whole is what a person reads of a refusal.
func whole(err error) string {
	e, ok := errors.AsType[*schemas.Error](err)
	if !ok {
		return ""
	}
	return words.WithHint(e.Text, e.Hint)
}

// What was nearly right gets the right words back, and what is known to nobody is never repeated.
func TestNearMisses(t *testing.T) {
	all := line.New()
	for typed, meant := range map[string]string{
		"hepl": "/mcp help", "hlep": "/mcp help", "lsit": "/mcp list", "tols": "/mcp tools", "dcotor github": "/mcp doctor", "udno": "/mcp undo",
		"polcy show": "/mcp policy", "policy shwo": "/mcp policy show", "policy alow x.*": "/mcp policy allow", "history shwo": "/mcp history show",
		"install nmp x": "/mcp install npm", "gateway tokn": "/mcp gateway token", "delete x": "/mcp remove", "status": "/mcp list",
		"chat hepl": "/chat help", "chat mdoel x": "/chat model", "hunter2hunter2": "", "zzz": "",
	} {
		_, _, err := all.Parse(typed)
		said := "`" + meant + "`"
		if err == nil || strings.Contains(whole(err), "did you mean") != (meant != "") || meant != "" && !strings.Contains(whole(err), "did you mean "+said) {
			t.Errorf("/mcp %s: %v, want %s", typed, err, said)
		}
		if err != nil && strings.Contains(whole(err), "hunter2") {
			t.Errorf("the word is repeated: %v", err)
		}
	}
	for typed, meant := range map[string]string{"/hepl": "/mcp help", "/mpc list": "/mcp list", "/mpc": "/mcp help", "/mcplist": "/mcp list", "/mcp-list": "/mcp list", "/mcp/list": "/mcp list",
		"/list": "/mcp list", "/connect https://x": "/mcp connect", "/policy": "/mcp policy", "/chta mode": "/chat", "/mpc hunter2": "/mcp", "/zzzzzzz": ""} {
		err := all.NoCommand(typed)
		if strings.Contains(whole(err), "did you mean `"+meant+"`?") != (meant != "") || strings.Contains(whole(err), "hunter2") {
			t.Errorf("%s: %v, want %q", typed, err, meant)
		}
	}
	for _, typed := range []string{"policy", "policy show", "history 3f2a9c01", "undo", "chat help", "ls"} {
		if _, _, err := all.Parse(typed); err != nil {
			t.Errorf("%s: %v", typed, err)
		}
	}
}
