package proxy

import (
	"bytes"
	"errors"
	"io"
)

const (
	idleBuffer = 8 << 10
	keepBuffer = 128 << 10 // a larger buffer is given back once it is empty
)

var errLongLine = errors.New("it wrote a line above the limit")

// lineReader splits a stream into lines and never holds more than max bytes plus one read.
type lineReader struct {
	r          io.Reader
	max        int
	buf        []byte
	start, end int
}

// next returns the next line without its end; it is valid until the following call.
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
			return nil, errLongLine
		}
		l.room(seen)
		n, err := l.r.Read(l.buf[l.end:])
		l.end += n
		if err != nil && n == 0 {
			return nil, err
		}
	}
}

// room makes place for one more read behind the seen bytes of an open line.
func (l *lineReader) room(seen int) {
	switch {
	case len(l.buf) == 0, seen == 0 && len(l.buf) > keepBuffer:
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
