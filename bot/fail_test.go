package bot_test

import (
	"errors"
	"strings"
	"testing"

	"bobbin/bot"
	"bobbin/schemas"
)

// Whatever fails below, a person sees words or a reference, never the error itself; and it is logged.
func TestFailures_NeverRaw(t *testing.T) {
	const raw = "open /srv/secret-path: permission denied"
	lines := []string{"list", "show github", "tools", "tools github", "call github.whoami", "call github.create_issue {}", "call @github:x://a", "prompt", "prompt github.triage",
		"edit github", "remove github", "enable github", "enable github.whoami", "disable github", "reload", "reload github", "doctor", "doctor github", "policy show",
		"policy allow github.*", "policy deny x me", "policy forget x", "audit", "history", "undo", "secrets list", "secrets set NOTES_KEY", "secrets delete NOTES_KEY",
		"download", "connect https://example.com", "add x npx y", "add-json " + github()}
	for _, what := range []string{"Load", "Propose", "Commit", "History", "Export", "Rule", "Tools", "Call", "Status", "Apply", "Restart", "Held", "Accept",
		"Resources", "ReadResource", "Result", "Prompts", "Prompt", "Put", "Delete", "Names", "Forget", "Append", "Tail"} {
		t.Run(what, func(t *testing.T) {
			w := issues(t)
			w.have("alice", schemas.Server{Name: "notes", Command: "x", Env: map[string]string{"K": "${input:NOTES_KEY}"}})
			w.prompts = []schemas.Prompt{{Server: "github", Name: "triage"}}
			w.heldOf["github"] = []schemas.HeldTool{{Tool: schemas.Tool{Server: "github", Name: "whoami", Pin: "p"}, Why: "changed"}}
			cards := []bot.Reply{w.say(alice(), "/mcp add-json "+github()), w.say(alice(), "/mcp enable github.whoami")}
			form := w.say(alice(), "/mcp secrets set NOTES_KEY")
			w.result.Spilled = "id"
			spilled := w.say(alice(), "/mcp call github.whoami")
			w.failWith[what] = errors.New(raw)
			for i, label := range []string{"Confirm", "Approve"} {
				w.press(alice(), cards[i], label)
			}
			for _, line := range lines {
				w.say(alice(), "/mcp "+line)
			}
			w.replies = append(w.replies, w.bot.Welcome(t.Context(), alice()))
			w.fill(alice(), form, map[string]string{"NOTES_KEY": canary})
			w.say(alice(), "/mcp secrets delete NOTES_KEY")
			w.press(alice(), spilled, "Download")
			if r := w.say(alice(), "/mcp remove github"); len(r.Choices) > 0 {
				w.press(alice(), r, "Confirm")
			}
			internal := false
			for _, r := range w.replies {
				if strings.Contains(flat(r), "permission denied") || strings.Contains(flat(r), "/srv") {
					t.Errorf("raw error in:\n%s", flat(r))
				}
				internal = internal || r.Code == schemas.CodeInternal
			}
			if !strings.Contains(w.log.String(), raw) {
				t.Error("nothing in the operator's log")
			}
			if !internal && what != "Resources" && what != "Forget" { // those two only lose a part of the answer
				t.Error("no reply says that something went wrong")
			}
		})
	}
}
