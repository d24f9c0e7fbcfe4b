package registry_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"bobbin/registry"
	"bobbin/schemas"
)

func tools(raw ...json.RawMessage) []json.RawMessage { return raw }

const childVar = "BOBBIN_REGISTRY_FAKE"

// runChild makes the test binary the fake server that the environment describes.
func runChild() bool {
	raw, ok := os.LookupEnv(childVar)
	if !ok {
		return false
	}
	var sc script
	if err := json.Unmarshal([]byte(raw), &sc); err != nil {
		panic(err)
	}
	if sc.Grandson {
		cmd := exec.Command("sleep", "600")
		if err := cmd.Start(); err != nil {
			panic(err)
		}
	}
	if sc.Stubborn {
		signal.Ignore(syscall.SIGTERM)
	}
	if sc.Crash != "" {
		fmt.Fprintln(os.Stderr, sc.Crash)
		os.Exit(1)
	}
	for range sc.Garbage {
		fmt.Println("npm WARN <html> \x00\x01 not JSON")
	}
	line := strings.Repeat("e", 1<<16)
	for n := 0; n < sc.Flood; n += len(line) {
		os.Stderr.WriteString(line)
	}
	if sc.Gigabyte {
		for range 1 << 14 {
			if _, err := os.Stdout.WriteString(line); err != nil {
				os.Exit(2)
			}
		}
	}
	s := &speaker{script: sc, w: os.Stdout, tag: os.Getenv("TOKEN"), exit: func() { os.Exit(3) }}
	s.serve(os.Stdin)
	if sc.Stubborn {
		time.Sleep(time.Hour)
	}
	return true
}

// processes starts the scripts as real children, each the leader of a process group.
type processes struct {
	scripts map[string]script
	mu      sync.Mutex
	started []*process
}

type process struct {
	io.Reader
	io.WriteCloser
	cmd    *exec.Cmd
	errs   *tail
	once   sync.Once
	exited chan struct{}
	err    error
}

// tail keeps the last bytes of stderr.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

func (b *tail) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buf = append(b.buf, p...)
	b.buf = b.buf[max(0, len(b.buf)-4096):]
	return len(p), nil
}

func (p *processes) Launch(_ context.Context, l schemas.Launch) (io.ReadWriteCloser, error) {
	raw, _ := json.Marshal(p.scripts[l.Command])
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{childVar + "=" + string(raw), "TOKEN=" + l.Env["TOKEN"].Reveal(), "PATH=" + os.Getenv("PATH")}
	group(cmd)
	c := &process{cmd: cmd, errs: &tail{}, exited: make(chan struct{})}
	cmd.Stderr = c.errs
	cmd.WaitDelay = time.Second
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout = w
	if c.WriteCloser, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	w.Close()
	c.Reader = r
	go func() {
		c.err = cmd.Wait()
		close(c.exited)
	}()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.started = append(p.started, c)
	return c, nil
}

func (c *process) SetWriteDeadline(t time.Time) error {
	return c.WriteCloser.(*os.File).SetWriteDeadline(t)
}

func (c *process) PID() int { return c.cmd.Process.Pid }

func (c *process) Stderr() string {
	c.errs.mu.Lock()
	defer c.errs.mu.Unlock()
	return string(c.errs.buf)
}

func (c *process) Diagnose() string {
	<-c.exited
	last := strings.TrimSpace(c.Stderr())
	return strings.TrimSuffix("exited with "+strconv.Itoa(c.cmd.ProcessState.ExitCode())+": "+last[strings.LastIndexByte(last, '\n')+1:], ": ")
}

func (c *process) Close() error {
	c.once.Do(func() {
		c.WriteCloser.Close()
		select {
		case <-c.exited:
		case <-time.After(200 * time.Millisecond):
		}
		killGroup(c.cmd)
		<-c.exited
		c.Reader.(io.Closer).Close()
	})
	return nil
}

// left counts children that are still there.
func (p *processes) left() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.started {
		if alive(c.cmd) {
			n++
		}
	}
	return n
}

func newProcesses(t testing.TB, scripts map[string]script, change ...func(*registry.Options)) (*house, *processes) {
	p := &processes{scripts: scripts}
	h := newHouse(t, nil, append(change, func(o *registry.Options) { o.Launcher = p })...)
	return h, p
}

func TestChild_Vices(t *testing.T) {
	good := plainScript("whoami")
	with := func(f func(*script)) script { s := good; f(&s); return s }
	h, p := newProcesses(t, map[string]script{
		"good":     good,
		"crash":    {Crash: "Error: Cannot find module 'undici'"},
		"mute":     {Mute: true},
		"logs":     with(func(s *script) { s.Mute, s.Garbage = true, 3 }),
		"some":     with(func(s *script) { s.Garbage = 50 }),
		"garbage":  with(func(s *script) { s.Garbage = 200 }),
		"gigabyte": with(func(s *script) { s.Gigabyte = true }),
		"flood":    with(func(s *script) { s.Flood = 64 << 20 }),
		"grandson": with(func(s *script) { s.Grandson = true }),
		"stubborn": with(func(s *script) { s.Stubborn = true }),
	}, func(o *registry.Options) { o.ConnectTimeout = 5 * time.Second; o.Patience = 10 * time.Second })
	var entries []schemas.Entry
	for name := range p.scripts {
		entries = append(entries, entry(name, name))
	}
	h.set(one, entries...)
	began := time.Now()
	done := make(chan error, 1)
	go func() { done <- h.Apply(background(), one) }()
	eventually(t, "the good one is ready while others fail", func() bool { return h.status(one, "good").State == schemas.Ready })
	if res, err := h.call(by(one, "good.whoami", "")); err != nil || text(t, res) != "" {
		t.Errorf("good: %v", err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	t.Logf("all decided after %v", time.Since(began))
	for name, want := range map[string]string{
		"good": "", "some": "", "flood": "", "grandson": "", "stubborn": "",
		"crash": "Cannot find module 'undici'", "mute": "did not answer initialize within 5 s", "logs": "what it printed is not MCP: npm WARN", "garbage": "answered nothing that is MCP, only: npm WARN", "gigabyte": "message above 4 MiB",
	} {
		st := h.status(one, name)
		if want == "" && st.State != schemas.Ready || want != "" && (st.State == schemas.Ready || !strings.Contains(st.Why, want)) {
			t.Errorf("%s: %s %q, want %q", name, st.State, st.Why, want)
		}
	}
	h.stop()
	if n := p.left(); n != 0 {
		t.Errorf("%d children are left", n)
	}
}

func TestChild_DiesInTheMiddleOfACall(t *testing.T) {
	h, p := newProcesses(t, map[string]script{"a": plainScript("die", "whoami")})
	h.set(one, entry("s", "a"))
	h.apply(one)
	began := time.Now()
	_, err := h.call(by(one, "s.die", ""))
	wantCode(t, err, schemas.CodeUnknown, "so I did not try again")
	if took := time.Since(began); took > time.Second {
		t.Errorf("took %v", took)
	}
	eventually(t, "it is back", func() bool {
		res, err := h.call(by(one, "s.whoami", ""))
		return err == nil && res.Server == "s"
	})
	h.stop()
	if n := p.left(); n != 0 {
		t.Errorf("%d left", n)
	}
}
