package sandbox

import (
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"bobbin/schemas"
)

const (
	maxTail   = 64 << 10 // bytes kept
	firstRead = 256
	maxRead   = maxTail / 2
	maxLines  = 40
	maxLine   = 400 // characters shown of one line
	maxWords  = 200 // characters of the line in a diagnosis
	minHidden = 8   // shorter values are words, not secrets
)

// tail keeps the end of what a program writes to its standard error.
type tail struct {
	mu    sync.Mutex
	buf   []byte
	ended chan struct{}
}

// drain reads until the end, at whatever rate. It starts small: most servers write a line or two.
func (t *tail) drain(r io.Reader) {
	defer close(t.ended)
	block := make([]byte, firstRead)
	for {
		n, err := r.Read(block)
		t.add(block[:n])
		if err != nil {
			return
		}
		if n == len(block) && n < maxRead {
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
		copy(t.buf, t.buf[len(t.buf)-kept:])
		t.buf = t.buf[:kept]
	}
	t.buf = append(t.buf, b...)
}

func (t *tail) wait(limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-t.ended:
	case <-timer.C:
	}
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}

func (c *child) Stderr() string { return strings.Join(c.lines(), "\n") }

func (c *child) lines() []string { return clean(c.words.text(), c.hide) }

// maskable lists the values of a program's environment that must not be shown when it prints them, longest first. A path
// that exists here is no secret, and a stack trace is useless without it.
func maskable(env map[string]schemas.Secret) []string {
	var hide []string
	for _, value := range env {
		v := value.Reveal()
		if len(v) < minHidden {
			continue
		}
		if _, err := os.Stat(v); err != nil {
			hide = append(hide, v)
		}
	}
	slices.SortFunc(hide, func(a, b string) int { return len(b) - len(a) })
	return hide
}

// clean gives the last lines of a text as they may be shown.
func clean(text string, hide []string) []string {
	for _, value := range hide {
		text = strings.ReplaceAll(text, value, "***")
	}
	text = strings.ReplaceAll(text, "\r\n", "\n")
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimRight(line, "\r")
		line = line[strings.LastIndexByte(line, '\r')+1:] // what a progress bar shows last
		line = strings.TrimRightFunc(schemas.Clean(line, true), unicode.IsSpace)
		if line != "" {
			lines = append(lines, shorten(line, maxLine))
		}
	}
	return lines[max(0, len(lines)-maxLines):]
}

func shorten(line string, limit int) string {
	if utf8.RuneCountInString(line) <= limit {
		return line
	}
	return string([]rune(line)[:limit]) + "…"
}

// telling picks the line that says most about a failure: the last that names an error, else the last that speaks at all.
func telling(lines []string) string {
	var (
		named  = regexp.MustCompile(`^(?:\S+[: ] ?)?(?:\w+\.)*\w*(?:Error|Exception|panic|fatal|FATAL|ERROR)\b(?: \[\w+\])?:? \S`)
		spoken = regexp.MustCompile(`(?i)\b(?:error|fatal|panic|cannot|can't|could not|failed|not found|no such|denied|refused|missing|required|invalid|unknown)\b`)
		noise  = regexp.MustCompile(`^\s*(?:at |\^|~|\}|\{|Node\.js v|Traceback|File "|goroutine |exit status)|complete log of this run|^$`)
		npm    = regexp.MustCompile(`^npm (?:error|ERR!)(?: \d+)?\s*`)
	)
	best, score := "", 0
	for _, line := range lines {
		said := npm.ReplaceAllString(line, "") // what else stands in each of its lines names an error
		s := 1
		switch {
		case noise.MatchString(said):
			s = 0
		case named.MatchString(said):
			s = 4
		case spoken.MatchString(said):
			s = 3
		case said != strings.TrimLeft(said, " "):
			s = 1
		default:
			s = 2
		}
		if s > 0 && s >= score {
			best, score = line, s
		}
	}
	return shorten(strings.TrimSpace(best), maxWords)
}
