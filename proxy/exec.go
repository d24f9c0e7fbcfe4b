package proxy

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"time"
	"unicode/utf8"

	"bobbin/internal/leash"
)

const (
	maxExecs    = 16 // commands at once
	maxOutput   = 8 << 20
	execTimeout = time.Minute
	maxTimeout  = time.Hour
)

// order is the body of POST /exec.
type order struct {
	Args    []string          `json:"args"`
	Dir     string            `json:"dir"`
	Env     map[string]string `json:"env"`
	Timeout int64             `json:"timeoutMs"`
}

// piece is one line of its answer; the last one has the code.
type piece struct {
	Out string `json:"out,omitempty"`
	Err string `json:"err,omitempty"`
}

type verdict struct {
	Code     int  `json:"code"` // -1 when a signal or the time-out ended it
	TimedOut bool `json:"timedOut"`
	Cut      bool `json:"cut"`
}

// exec runs one command and streams what it writes. It ends with the request.
func (p *Proxy) exec(w http.ResponseWriter, r *http.Request) {
	var o order
	if !decode(w, r, &o) {
		return
	}
	limit := min(time.Duration(o.Timeout)*time.Millisecond, maxTimeout)
	if o.Timeout <= 0 {
		limit = execTimeout
	}
	if len(o.Args) == 0 || checkWords(o.Args, o.Env) != nil {
		explain(w, http.StatusBadRequest, `"args" is missing, or a word is not one`, "args holds the program and its arguments")
		return
	}
	select {
	case p.execs <- struct{}{}:
		defer func() { <-p.execs }()
	default:
		explain(w, http.StatusTooManyRequests, "16 commands run already", "wait until one has ended")
		return
	}
	cmd, err := p.opts.program(o.Args[0], o.Args[1:], o.Env, o.Dir)
	var run *running
	if err == nil {
		run, err = start(p.family, cmd)
	}
	if err != nil {
		explain(w, http.StatusUnprocessableEntity, startFailure(err), "")
		return
	}
	out := &output{stream: events{w: w, begun: true}}
	w.Header().Set("Content-Type", "application/x-ndjson")
	var readers sync.WaitGroup
	readers.Go(func() { out.copy(run.stdout, func(s string) piece { return piece{Out: s} }) })
	readers.Go(func() { out.copy(run.stderr, func(s string) piece { return piece{Err: s} }) })
	timer := time.NewTimer(limit)
	defer timer.Stop()
	timedOut := false
	select {
	case <-run.done:
	case <-timer.C:
		timedOut = true
	case <-r.Context().Done():
	case <-p.over.Done():
	}
	run.end()
	readers.Wait()
	run.group.Release()
	code := cmd.ProcessState.ExitCode()
	if timedOut {
		code = -1
	}
	out.last(verdict{Code: code, TimedOut: timedOut, Cut: out.cut})
}

// running is a command with its outputs.
type running struct {
	group          leash.Leash
	stdout, stderr *os.File
	done           chan struct{}
}

func start(f *family, cmd *exec.Cmd) (*running, error) {
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		closeFiles([]*os.File{outR, outW})
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = outW, errW
	g, err := f.start(cmd)
	closeFiles([]*os.File{outW, errW})
	if err != nil {
		closeFiles([]*os.File{outR, errR})
		return nil, err
	}
	run := &running{group: g, stdout: outR, stderr: errR, done: make(chan struct{})}
	go func() { // ended by end, which every path takes
		_ = f.wait(cmd, g)
		close(run.done)
	}()
	return run, nil
}

// end stops the command and its group, if it has not ended, and lets the readers end.
func (r *running) end() {
	select {
	case <-r.done:
	default:
		r.group.Term()
		timer := time.NewTimer(graceTerm)
		defer timer.Stop()
		select {
		case <-r.done:
		case <-timer.C:
			r.group.Kill()
			<-r.done
		}
	}
	_ = r.stdout.SetReadDeadline(time.Now().Add(graceWords))
	_ = r.stderr.SetReadDeadline(time.Now().Add(graceWords))
}

// output writes pieces of both streams to one response.
type output struct {
	mu     sync.Mutex
	stream events
	size   int
	cut    bool
}

// copy passes a stream on, never with a character split, and reads on when the limit is reached.
func (o *output) copy(f *os.File, wrap func(string) piece) {
	defer f.Close()
	buf := make([]byte, 32<<10)
	held := 0
	for {
		n, err := f.Read(buf[held:])
		whole := held + n
		if err == nil {
			whole = characters(buf[:whole])
		}
		if whole > 0 {
			o.add(wrap(string(buf[:whole])), whole)
		}
		held = copy(buf, buf[whole:held+n])
		if err != nil {
			return
		}
	}
}

// characters gives how much of b does not end in the middle of a character.
func characters(b []byte) int {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if c := b[len(b)-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-i:]) {
				return len(b) - i
			}
			break
		}
	}
	return len(b)
}

func (o *output) add(p piece, size int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.size += size; o.size > maxOutput {
		o.cut = true
		return
	}
	o.line(p)
}

func (o *output) last(v verdict) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.line(v)
}

func (o *output) line(v any) {
	if b, err := json.Marshal(v); err == nil {
		o.stream.write(append(b, '\n'))
	}
}
