package install

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"bobbin/schemas"
)

const (
	maxLog  = 64 << 10
	maxTail = 600
)

// job is a row of commands for one member.
type job struct {
	in       *Installer
	who      who
	limit    time.Duration // of one command
	dir      string        // "" = the workspace
	progress func(string)
	keep     bool // what the commands say is kept
	claimed  bool // the folder is ours
	ended    int  // exit code of the last command

	mu  sync.Mutex
	log strings.Builder
}

// quietly is the environment of every command: none may ask anybody, and git speaks HTTPS alone. What servers of the same member
// left in the workspace must not change what a card says, so nothing there that would put code into these tools, or lead an address
// elsewhere, is read. Settings of npm and pip are: people name their own registries there, and the card says where a package is from.
func quietly() map[string]schemas.Secret {
	return map[string]schemas.Secret{
		"GIT_TERMINAL_PROMPT": schemas.NewSecret("0"),
		"GIT_ALLOW_PROTOCOL":  schemas.NewSecret("https"),
		"GIT_LFS_SKIP_SMUDGE": schemas.NewSecret("1"),
		"NO_COLOR":            schemas.NewSecret("1"),
		"GIT_CONFIG_GLOBAL":   schemas.NewSecret("/dev/null"), // url.….insteadOf, core.hooksPath, filters
		"PYTHONNOUSERSITE":    schemas.NewSecret("1"),         // usercustomize.py, .pth files
		"NPM_CONFIG_GIT":      schemas.NewSecret("git"),
	}
}

// do runs one command and gives its output; any other end than code 0 is an error.
func (j *job) do(ctx context.Context, args ...string) (string, error) {
	done, err := j.end(ctx, args...)
	if err != nil {
		return "", err
	}
	if done.Code != 0 {
		return "", failure(args, done)
	}
	if done.Cut && !j.keep {
		return "", &schemas.Error{Code: schemas.CodeTooLarge, Text: args[0] + " answered more than can be read"}
	}
	return done.Stdout, nil
}

// end runs one command and gives how it ended; errors are those of the runner, a time-out, and a program that is missing.
func (j *job) end(ctx context.Context, args ...string) (schemas.Executed, error) {
	e := schemas.Exec{Thread: j.who.thread, Member: j.who.member, Args: args, Dir: j.dir, Env: quietly(), Timeout: j.limit, Install: true}
	if j.keep {
		e.Output = j.say
	}
	done, err := j.in.run.Exec(ctx, e)
	if err != nil {
		if known, ok := errors.AsType[*schemas.Error](err); ok {
			return done, known
		}
		return done, &schemas.Error{Code: schemas.CodeFailed, Text: args[0] + " could not be run in the sandbox", Err: err}
	}
	j.ended = done.Code
	switch {
	case done.TimedOut:
		return done, &schemas.Error{Code: schemas.CodeFailed, Text: fmt.Sprintf("%s took longer than %s and was ended", Shown(args), j.limit), Hint: "try again later"}
	case done.Code == 126 || done.Code == 127:
		return done, &schemas.Error{Code: schemas.CodeMissing, Text: args[0] + " is not in this sandbox", Hint: "the operator can choose an image that has it"}
	}
	return done, nil
}

func failure(args []string, done schemas.Executed) error {
	text := fmt.Sprintf("%s ended with exit code %d", args[0], done.Code)
	if t := tail(done); t != "" {
		text += ": " + t
	}
	return &schemas.Error{Code: schemas.CodeFailed, Text: text, Hint: "the log has the rest"}
}

// tail is the end of what a command said, for people.
func tail(done schemas.Executed) string {
	t := strings.TrimSpace(schemas.Clean(done.Stderr, false))
	if t == "" {
		t = strings.TrimSpace(schemas.Clean(done.Stdout, false))
	}
	if len(t) > maxTail {
		t = "…" + strings.ToValidUTF8(t[len(t)-maxTail:], "")
	}
	return t
}

// say keeps a line and passes it on. It may be called from several goroutines.
func (j *job) say(line string) {
	line = schemas.Clean(line, true)
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.log.Len() > 2*maxLog {
		last := j.log.String()[j.log.Len()-maxLog:]
		j.log.Reset()
		j.log.WriteString(last)
	}
	j.log.WriteString(line[:min(len(line), maxLog)] + "\n")
	if j.progress != nil {
		j.progress(line)
	}
}

func (j *job) text() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	t := j.log.String()
	if len(t) > maxLog {
		t = t[len(t)-maxLog:]
		t = "…\n" + t[strings.IndexByte(t, '\n')+1:]
	}
	return strings.ToValidUTF8(t, "")
}

// Shown writes a command as a person would type it: words that hold anything but plain characters stand in quotes. It is
// for reading; nothing is ever run from it.
func Shown(args []string) string {
	words := make([]string, len(args))
	for i, a := range args {
		if a == "" || strings.ContainsFunc(a, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=@+,%~", r))
		}) {
			a = "'" + strings.ReplaceAll(schemas.Clean(a, true), "'", `'\''`) + "'"
		}
		words[i] = a
	}
	return strings.Join(words, " ")
}
