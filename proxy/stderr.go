package proxy

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"sync"

	"bobbin/schemas"
)

const (
	maxTail   = 64 << 10 // bytes kept of what a program wrote to its standard error
	maxEcho   = 16 << 10 // bytes of a line that are passed on at once
	minHidden = 8        // shorter values are words, not secrets
)

// tail keeps the end of what a program writes.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

// drain reads until the end, at whatever rate.
func (t *tail) drain(r io.Reader, heard func([]byte)) {
	block := make([]byte, 1<<10)
	for {
		n, err := r.Read(block)
		t.add(block[:n])
		if heard != nil {
			heard(block[:n])
		}
		if err != nil {
			return
		}
		if n == len(block) && n < maxTail/2 {
			block = make([]byte, 4*n)
		}
	}
}

func (t *tail) add(b []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.buf)+len(b) > maxTail {
		// The older half goes, so that a flood costs one copy for each byte.
		kept := min(len(t.buf), maxTail/2)
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-kept:]...)
	}
	t.buf = append(t.buf, b...)
}

// text gives the last most bytes, without terminal sequences and without the values of env.
func (t *tail) text(env map[string]string, most int) string {
	t.mu.Lock()
	s := string(t.buf)
	t.mu.Unlock()
	s = schemas.Clean(hideValues(s, env), false)
	return s[max(0, len(s)-most):]
}

// hideValues masks the values of an environment.
func hideValues(s string, env map[string]string) string {
	var hide []string
	for _, v := range env {
		if len(v) >= minHidden {
			hide = append(hide, v)
		}
	}
	slices.SortFunc(hide, func(a, b string) int { return len(b) - len(a) })
	for _, v := range hide {
		s = strings.ReplaceAll(s, v, "***")
	}
	return s
}

// echo passes what a program writes on to w, in whole lines without the values of env. A line that never ends is passed on in
// pieces. w may be slow: the program then waits, as it would for a terminal.
func echo(w io.Writer, env map[string]string) func([]byte) {
	if w == nil {
		return nil
	}
	var rest []byte
	return func(b []byte) {
		rest = append(rest, b...)
		end := bytes.LastIndexByte(rest, '\n') + 1
		if end == 0 && (len(rest) > maxEcho || len(b) == 0) {
			end = len(rest)
		}
		if end > 0 {
			_, _ = io.WriteString(w, hideValues(string(rest[:end]), env))
			rest = append(rest[:0], rest[end:]...)
		}
	}
}
