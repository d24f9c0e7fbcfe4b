package session

import (
	"bytes"
	"fmt"
	"io"
)

const (
	idleBuffer = 1 << 10  // of each server that runs and says nothing
	keepBuffer = 64 << 10 // a larger buffer is given back once it is empty
)

// lineReader splits a stream into lines and never holds more than max bytes
// plus one read.
type lineReader struct {
	r          io.Reader
	max        int
	buf        []byte
	start, end int
	over       bool // the stream's end came with what is in buf
}

func newLineReader(r io.Reader, limit int) *lineReader {
	return &lineReader{r: r, max: limit, buf: make([]byte, idleBuffer)}
}

// next returns the next line without its end. The line is valid until the
// following call. A last line without an end comes before io.EOF.
func (l *lineReader) next() ([]byte, error) {
	seen := 0
	for {
		if i := bytes.IndexByte(l.buf[l.start+seen:l.end], '\n'); i >= 0 {
			line := l.buf[l.start : l.start+seen+i]
			l.start += seen + i + 1
			return bytes.TrimSuffix(line, []byte("\r")), nil
		}
		seen = l.end - l.start
		if seen > l.max {
			return nil, fmt.Errorf("%w: a line above %d bytes", ErrTooLarge, l.max)
		}
		l.room(seen)
		n, err := l.r.Read(l.buf[l.end:])
		l.end += n
		l.over = err == io.EOF
		if err != nil && n == 0 {
			if err == io.EOF && seen > 0 {
				line := l.buf[l.start:l.end]
				l.start = l.end
				return line, nil
			}
			return nil, err
		}
	}
}

// blank reports whether an empty line comes next and is here already.
func (l *lineReader) blank() bool {
	rest := l.buf[l.start:l.end]
	return bytes.HasPrefix(rest, []byte("\n")) || bytes.HasPrefix(rest, []byte("\r\n"))
}

// all returns the whole stream, at most max bytes of it. It is valid until the
// reader is used again. With an error comes what was read before.
func (l *lineReader) all() ([]byte, error) {
	for {
		if l.end == len(l.buf) {
			l.room(l.end - l.start)
		}
		n, err := l.r.Read(l.buf[l.end:])
		l.end += n
		switch text := l.buf[l.start:l.end]; {
		case len(text) > l.max:
			return nil, fmt.Errorf("%w: a body above %d bytes", ErrTooLarge, l.max)
		case err == io.EOF:
			return text, nil
		case err != nil:
			return text, err
		}
	}
}

// room makes place for one more read behind the seen bytes of an open line.
func (l *lineReader) room(seen int) {
	switch {
	case seen == 0 && len(l.buf) > keepBuffer:
		l.buf = make([]byte, idleBuffer)
	case seen == len(l.buf):
		grown := make([]byte, min(2*len(l.buf), l.max+idleBuffer))
		copy(grown, l.buf[l.start:l.end])
		l.buf = grown
	default:
		copy(l.buf, l.buf[l.start:l.end])
	}
	l.start, l.end = 0, seen
}
