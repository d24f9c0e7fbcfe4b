package install_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"bobbin/install"
	"bobbin/schemas"
)

const (
	thread = schemas.ThreadID("T1")
	member = schemas.MemberID("U1")
)

// said is one command that a replay expects, and its answer. An args entry of "*" fits any word.
type said struct {
	args string // joined by spaces
	out  string
	err  string
	code int
}

// replay is a sandbox that answers from a script: an unexpected command, one out of order, or one left over fails the test.
type replay struct {
	t     *testing.T
	mu    sync.Mutex
	steps []said
	put   map[string]string
	seen  []schemas.Exec
}

func (r *replay) Exec(_ context.Context, e schemas.Exec) (schemas.Executed, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, e)
	if e.Thread != thread || e.Member != member || !e.Install || e.Timeout == 0 {
		r.t.Errorf("%q: wrong member, thread, time or not marked as an installation: %+v", e.Args, e)
	}
	got := strings.Join(e.Args, " ")
	if len(r.steps) == 0 {
		r.t.Errorf("unexpected command %q", got)
		return schemas.Executed{Code: 1}, nil
	}
	s := r.steps[0]
	r.steps = r.steps[1:]
	if !fits(s.args, e.Args) {
		r.t.Errorf("command\n got %q\nwant %q", got, s.args)
	}
	if e.Output != nil {
		for l := range strings.Lines(s.out + s.err) {
			e.Output(strings.TrimSuffix(l, "\n"))
		}
	}
	return schemas.Executed{Code: s.code, Stdout: s.out, Stderr: s.err}, nil
}

func fits(want string, got []string) bool {
	words := strings.Fields(want)
	if len(words) != len(got) {
		return false
	}
	for i, w := range words {
		if w != "*" && w != got[i] {
			return false
		}
	}
	return true
}

func (r *replay) Put(_ context.Context, m schemas.MemberID, dir, name string, data []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m != member {
		r.t.Errorf("put for %q", m)
	}
	if r.put == nil {
		r.put = map[string]string{}
	}
	r.put[dir+"/"+name] = string(data)
	return nil
}

func (r *replay) done() {
	r.t.Helper()
	if len(r.steps) > 0 {
		r.t.Errorf("not run: %q", r.steps[0].args)
	}
}

// local runs commands on this machine below a temporary folder; for tests alone.
type local struct {
	t    *testing.T
	root string
	env  []string // goes over what the room sets
}

func (l local) Exec(ctx context.Context, e schemas.Exec) (schemas.Executed, error) {
	ctx, cancel := context.WithTimeout(ctx, e.Timeout)
	defer cancel()
	c := exec.CommandContext(ctx, e.Args[0], e.Args[1:]...)
	c.Dir = e.Dir
	if c.Dir == "" {
		c.Dir = l.root
	}
	c.Env = os.Environ()
	for k, v := range e.Env {
		c.Env = append(c.Env, k+"="+v.Reveal())
	}
	c.Env = append(c.Env, l.env...)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	err := c.Run()
	done := schemas.Executed{Stdout: out.String(), Stderr: errs.String(), Code: c.ProcessState.ExitCode(), TimedOut: ctx.Err() != nil}
	if c.ProcessState == nil {
		return schemas.Executed{Code: 127}, nil
	}
	if e.Output != nil {
		for line := range strings.Lines(done.Stdout + done.Stderr) {
			e.Output(strings.TrimRight(line, "\n"))
		}
	}
	if _, ended := err.(*exec.ExitError); err != nil && !ended {
		return done, err
	}
	return done, nil
}

func (l local) Put(_ context.Context, _ schemas.MemberID, dir, name string, data []byte) error {
	full := filepath.Join(dir, filepath.FromSlash(name))
	if !strings.HasPrefix(full, l.root+"/") {
		l.t.Errorf("put outside: %s", full)
	}
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		return err
	}
	return os.WriteFile(full, data, 0o644)
}

func here(t *testing.T, programs ...string) (*install.Installer, local) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("%s is not on this machine", p)
		}
	}
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	l := local{t: t, root: root}
	return install.New(l, l, install.Options{Workspace: root}), l
}

func text(notes []schemas.Note) string {
	lines := make([]string, len(notes))
	for i, n := range notes {
		lines[i] = string(n.Kind) + ": " + n.Text
	}
	return strings.Join(lines, "\n")
}

func hasArg(args []string, want string) bool { return slices.Contains(args, want) }

// stop lets the folder be found and fails every command after it, which it keeps.
type stop struct {
	*replay
	later *[]schemas.Exec
}

func (s stop) Exec(_ context.Context, e schemas.Exec) (schemas.Executed, error) {
	if e.Args[0] == "mkdir" || e.Args[0] == "ls" {
		return schemas.Executed{}, nil
	}
	*s.later = append(*s.later, e)
	return schemas.Executed{Code: 1}, nil
}
