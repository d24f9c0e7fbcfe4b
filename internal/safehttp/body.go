package safehttp

import (
	"bytes"
	"io"
	"net/http"
)

func (t *transport) limited(resp *http.Response) io.ReadCloser {
	if isEventStream(resp) {
		body := &limitedBody{body: resp.Body, limit: t.options.MaxStream, left: t.options.MaxStream}
		return &eventBody{ReadCloser: body, limit: t.options.MaxEvent}
	}
	return &limitedBody{body: resp.Body, limit: t.options.MaxBody, left: t.options.MaxBody}
}

// limitedBody differs from http.MaxBytesReader only in its error.
type limitedBody struct {
	body  io.ReadCloser
	limit int64
	left  int64
	err   error
}

func (b *limitedBody) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1] // one byte more tells a full body from a longer one
	}
	n, err := b.body.Read(p)
	if int64(n) > b.left {
		n, err = int(b.left), &TooLargeError{Limit: b.limit}
	}
	b.left -= int64(n)
	b.err = err
	return n, err
}

func (b *limitedBody) Close() error { return b.body.Close() }

// eventBody limits each event of an event stream. An event ends at an empty
// line; lines end with LF, CRLF or CR (WHATWG HTML, section 9.2.5).
type eventBody struct {
	io.ReadCloser
	limit     int64
	size      int64 // bytes since the last empty line
	lineEmpty bool  // nothing since the last line end
	sawCR     bool
	err       error
}

func (b *eventBody) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.ReadCloser.Read(p)
	if whole := b.lines(p[:n]); whole < n {
		n, err = whole, &TooLargeError{Limit: b.limit}
	}
	b.err = err
	return n, err
}

// lines counts p and returns how much of it is within the limit. Most of it is
// the insides of long lines, which need no look at each byte.
func (b *eventBody) lines(p []byte) int {
	plain := !b.sawCR && bytes.IndexByte(p, '\r') < 0
	for i := 0; i < len(p); i++ {
		if plain && p[i] != '\n' {
			n := bytes.IndexByte(p[i:], '\n')
			if n < 0 {
				n = len(p) - i
			}
			if room := b.limit - b.size; int64(n) > room {
				return i + int(room)
			}
			b.size += int64(n)
			b.lineEmpty = false
			if i += n; i == len(p) {
				break
			}
		}
		if b.count(p[i]); b.size > b.limit {
			return i
		}
	}
	return len(p)
}

func (b *eventBody) count(c byte) {
	b.size++
	afterCR := b.sawCR
	b.sawCR = c == '\r'
	switch {
	case c == '\n' && afterCR: // the second half of one line end
	case c == '\n' || c == '\r':
		if b.lineEmpty {
			b.size = 0
		}
		b.lineEmpty = true
	default:
		b.lineEmpty = false
	}
}
