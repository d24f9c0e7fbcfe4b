package terminal

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// maxLine bounds one line of a pipe.
const maxLine = 4 << 20

// newLines picks the way lines are read: an editor with history and completion at a terminal, a plain reader on a pipe. The
// writer it returns keeps the edited line intact when something else is printed.
func newLines(done <-chan struct{}, opt Options, complete func(string) []string) (lines, io.Writer) {
	in := stoppable{opt.In, done}
	if f, ok := opt.In.(*os.File); ok && !opt.Echo && term.IsTerminal(int(f.Fd())) {
		e := &editor{in: f, complete: complete}
		e.term = term.NewTerminal(struct {
			io.Reader
			io.Writer
		}{interrupts{in, &e.interrupted}, opt.Out}, "> ")
		e.term.AutoCompleteCallback = e.key
		e.term.SetBracketedPasteMode(true)
		if w, h, err := term.GetSize(int(f.Fd())); err == nil {
			_ = e.term.SetSize(w, h)
		}
		return e, crlf{e}
	}
	s := bufio.NewScanner(in)
	s.Buffer(make([]byte, 0, 64<<10), maxLine)
	return &pipe{scan: s, out: opt.Out, echo: opt.Echo}, opt.Out
}

// stoppable is an input that ends when done is closed. A read of a terminal or a pipe cannot be interrupted, so each runs on
// a goroutine of its own, and at most one is left behind at the end.
type stoppable struct {
	in   io.Reader
	done <-chan struct{}
}

func (s stoppable) Read(p []byte) (int, error) {
	type read struct {
		n   int
		err error
	}
	select {
	case <-s.done:
		return 0, io.EOF
	default:
	}
	buf, got := make([]byte, len(p)), make(chan read, 1)
	go func() {
		n, err := s.in.Read(buf)
		got <- read{n, err}
	}()
	select {
	case r := <-got:
		return copy(p, buf[:r.n]), r.err
	case <-s.done:
		return 0, io.EOF
	}
}

var (
	errInterrupt = errors.New("interrupted")                       // Ctrl-C ended a line
	errLeft      = fmt.Errorf("%w: a line was left", errInterrupt) // one in which something stood
)

// interrupts has the editor end its line at Ctrl-C, and notes it: the editor itself would see that key again with the next line.
type interrupts struct {
	in   io.Reader
	seen *bool
}

func (i interrupts) Read(p []byte) (int, error) {
	n, err := i.in.Read(p)
	if at := bytes.IndexByte(p[:n], 3); at >= 0 {
		*i.seen = true
		p[at] = '\r'
	}
	return n, err
}

// pipe reads lines of a script.
type pipe struct {
	scan *bufio.Scanner
	out  io.Writer
	echo bool
}

func (p *pipe) ReadLine(prompt string, secret bool) (string, bool, error) {
	if prompt != "> " && prompt != "" {
		_, _ = io.WriteString(p.out, prompt)
	}
	if !p.scan.Scan() {
		if err := p.scan.Err(); err != nil {
			return "", false, err
		}
		return "", false, io.EOF
	}
	line := strings.TrimSuffix(p.scan.Text(), "\r")
	if prompt != "> " && p.echo {
		if secret {
			_, _ = io.WriteString(p.out, "***")
		} else {
			_, _ = io.WriteString(p.out, clean(line))
		}
		_, _ = io.WriteString(p.out, "\n")
	}
	return line, false, nil
}

// editor edits lines at a terminal. The terminal is in raw mode only while a line is read, so that Ctrl-C reaches the
// program while a command runs.
type editor struct {
	in       *os.File
	term     *term.Terminal
	complete func(string) []string
	reading  bool

	interrupted bool // by Ctrl-C; one goroutine reads and looks at it
}

func (e *editor) ReadLine(prompt string, secret bool) (string, bool, error) {
	state, err := term.MakeRaw(int(e.in.Fd()))
	if err != nil {
		return "", false, err
	}
	e.reading = true
	defer func() { e.reading = false; _ = term.Restore(int(e.in.Fd()), state) }()
	e.term.SetPrompt(prompt)
	var line string
	if secret {
		line, err = e.term.ReadPassword(prompt)
	} else {
		line, err = e.term.ReadLine()
	}
	if e.interrupted {
		if e.interrupted = false; line != "" {
			return "", false, errLeft
		}
		return "", false, errInterrupt
	}
	if errors.Is(err, term.ErrPasteIndicator) {
		return line, true, nil
	}
	return line, false, err
}

// key completes at Tab: the longest common start, and the list when there are several.
func (e *editor) key(line string, pos int, key rune) (string, int, bool) {
	if key != '\t' || pos != len(line) {
		return line, pos, false
	}
	found := e.complete(line)
	if len(found) == 0 {
		return line, pos, true
	}
	common := found[0]
	for _, f := range found[1:] {
		for !strings.HasPrefix(f, common) {
			common = common[:len(common)-1]
		}
	}
	if len(common) <= len(line) {
		return line, pos, true
	}
	return common, len(common), true
}

// crlf writes through the editor, so that a line being edited is redrawn below what was printed.
type crlf struct{ e *editor }

func (c crlf) Write(b []byte) (int, error) { return c.e.term.Write(b) }
