package bot

import (
	"context"
	"strings"
	"time"

	"bobbin/bot/internal/desk"
	"bobbin/bot/internal/own"
	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// maxOutput is how much of each output of a command a model gets, in characters.
const maxOutput = 16 << 10

// ownShell is sandbox_shell_exec. The permission is looked at before the card and again before it runs.
func (b *Bot) ownShell(ctx context.Context, call schemas.Call, tool schemas.Tool, wary string) (schemas.Result, error) {
	c := call.Caller
	in, err := own.Read[struct{ Command, Cwd string }](call.Args)
	if err != nil {
		return schemas.Result{}, err
	}
	t := desk.Turn{Caller: c, Tell: func(string) {}}
	dir, err := b.mayExec(ctx, t, in.Command, in.Cwd)
	if err != nil {
		return schemas.Result{}, err
	}
	if dir == "" {
		dir = "/workspace"
	}
	if err := b.mayShell(ctx, call, tool, in.Command, dir, wary); err != nil {
		return schemas.Result{}, err
	}
	res, d, err := b.exec(ctx, t, in.Command, in.Cwd)
	if err != nil {
		return schemas.Result{}, err
	}
	stdout, cutOut := middle(words.Lines(res.Stdout), maxOutput)
	stderr, cutErr := middle(words.Lines(res.Stderr), maxOutput)
	return own.Result(struct {
		ExitCode  int    `json:"exitCode"`
		Stdout    string `json:"stdout"`
		Stderr    string `json:"stderr"`
		TimedOut  bool   `json:"timedOut"`
		Truncated bool   `json:"truncated"`
		Took      string `json:"took"`
		Cwd       string `json:"cwd"`
	}{res.Code, stdout, stderr, res.TimedOut, res.Cut || cutOut || cutErr, words.Took(d), dir}, res.Code != 0)
}

// mayShell shows the command itself to the member, unless a rule of the thread or theirs says what holds. After words of others no
// rule lets it run.
func (b *Bot) mayShell(ctx context.Context, call schemas.Call, tool schemas.Tool, command, dir, wary string) error {
	c := call.Caller
	cfg, err := b.opt.Config.Load(ctx, c.Thread)
	if err != nil {
		return err
	}
	d := cfg.Policy.Decide(tool, c.Member, b.opt.Now())
	switch {
	case d.Verb == schemas.Allow && wary == "":
		return nil
	case d.Verb == schemas.Deny:
		return &schemas.Error{Code: schemas.CodeDenied, Text: tool.Full() + " is denied: " + d.Why, Hint: "`/mcp policy show` lists the rules"}
	}
	warning := "`1 hour` and `Always here` let it run any command, not only this one, for as long as commands are open to you."
	if wary != "" {
		d.Why, warning = wary, wary+", and may have told it to."
	}
	if call.Waiting != nil {
		call.Waiting("waits for " + words.At(c.Member, c.Name) + " to allow the command")
		defer call.Waiting("")
	}
	answer, err := b.rules.AskShown(ctx, schemas.Ask{Caller: c, Tool: tool, Args: call.Args, Why: d.Why, Each: wary != "", Shown: call.Waiting != nil}, []Block{
		{Text: "the assistant wants to run a command in your sandbox"},
		{Code: words.Lines(command)},
		{Facts: []Fact{{Label: "folder", Value: words.Arg(dir)}, {Label: "as", Value: "you, in your own sandbox"}}},
		{Warning: warning},
	})
	switch {
	case err != nil:
		return err
	case answer == schemas.AnswerDeny:
		return &schemas.Error{Code: schemas.CodeDenied, Text: "the member refused the command; it did not run", Hint: "ask them what they want instead"}
	}
	return nil
}

// middle cuts a text in its middle, where it tells least.
func middle(s string, n int) (string, bool) {
	r := []rune(s)
	if len(r) <= n {
		return s, false
	}
	return string(r[:n/2]) + "\n… (" + words.Thousands(len(r)-n) + " characters left out) …\n" + string(r[len(r)-n/2:]), true
}

// mayExec checks a command, its folder and that commands are open to the caller.
func (b *Bot) mayExec(ctx context.Context, t desk.Turn, command, cwd string) (dir string, err error) {
	if b.opt.Sandboxes == nil {
		return "", b.noSandbox(t)
	}
	if command = strings.TrimSpace(command); command == "" || len(command) > maxCommand || strings.ContainsRune(command, 0) {
		return "", words.Invalid("that is no command", "`/mcp sandbox exec ls -la`")
	}
	if dir, err = workspace(cwd); err != nil {
		return "", err
	}
	cfg, err := b.opt.Config.Load(ctx, t.Caller.Thread)
	if err != nil {
		return "", err
	}
	if len(cfg.Problems) > 0 || !cfg.Policy.Permits(t.Caller.Member, schemas.Shell, schemas.Execute, b.opt.Now()) {
		return "", &schemas.Error{Code: schemas.CodeDenied, Text: "SHELL_PERMISSION_DENIED: commands in your sandbox are closed to you here", Hint: "a manager can `/mcp sandbox grant " + words.Clean(string(t.Caller.Member)) + " 1h`"}
	}
	return dir, nil
}

// exec runs a command in the caller's own sandbox. Nobody may, until a manager opened it for a time.
func (b *Bot) exec(ctx context.Context, t desk.Turn, command, cwd string) (schemas.Executed, time.Duration, error) {
	dir, err := b.mayExec(ctx, t, command, cwd)
	if err != nil {
		return schemas.Executed{}, 0, err
	}
	command = strings.TrimSpace(command)
	if err := b.desk.Record(ctx, t.Caller, schemas.Record{Event: schemas.EventAsked, Detail: "sandbox exec: " + words.Short(words.Clean(command), 200)}); err != nil {
		return schemas.Executed{}, 0, err
	}
	began := b.opt.Now()
	res, err := b.opt.Sandboxes.Exec(ctx, schemas.Exec{Thread: t.Caller.Thread, Member: t.Caller.Member, Args: []string{"/bin/sh", "-c", command}, Dir: dir, Timeout: shellTime})
	return res, b.opt.Now().Sub(began), err
}
