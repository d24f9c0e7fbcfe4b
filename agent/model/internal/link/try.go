package link

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Limits of one answer on the wire.
const (
	headerTimeout = 2 * time.Minute // until the answer begins
	chunkTimeout  = 5 * time.Minute // between two pieces of it: a model may think for long
	maxRefusal    = 64 << 10        // bytes of an error that are read
	maxBody       = 64 << 20        // bytes: a token of text comes in a few hundred bytes of JSON
	maxLine       = 4 << 20         // bytes of one event
)

var (
	errSlowHeader = errors.New("no answer within 2 minutes")
	errSlowChunk  = errors.New("nothing came for 5 minutes")
	errRefused    = errors.New("refused")
	errFlood      = errors.New("the answer is too large")
)

// Refusal is an answer that is no stream of events: a status of 300 and more, a page, or an error inside a stream.
type Refusal struct {
	Status int // 0 = it came inside a stream
	Header http.Header
	Body   []byte
}

func (r *Refusal) Error() string { return "refused" }

// Try is one request and its answer. It stands between an SDK and the connection: an SDK never sees an error of the connection
// nor a refusal, because it would log it, dress it up or ask again.
type Try struct {
	// Line, if set before the request, is shown every line of the answer.
	Line func([]byte)

	client *http.Client
	base   http.RoundTripper

	mu     sync.Mutex
	err    error
	cancel context.CancelCauseFunc
	body   io.Closer
}

func newTry(c *http.Client) *Try {
	t := &Try{base: c.Transport}
	own := *c
	own.Transport, own.Timeout = t, 0
	t.client = &own
	return t
}

// Client sends the one request of a try.
func (t *Try) Client() *http.Client { return t.client }

// RoundTrip implements http.RoundTripper. A redirect is a refusal, too: the key, in a header of the provider's own, would follow
// it to any host.
func (t *Try) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	t.mu.Lock()
	t.cancel = cancel
	t.mu.Unlock()
	slow := time.AfterFunc(headerTimeout, func() { cancel(errSlowHeader) })
	res, err := t.base.RoundTrip(req.WithContext(ctx))
	if !slow.Stop() && err == nil {
		res.Body.Close()
		err = errSlowHeader
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, t.keep(err)
	}
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if res.StatusCode >= 200 && res.StatusCode < 300 && kind != "text/html" && kind != "application/json" {
		b := &body{t: t, from: res.Body, ctx: ctx, idle: time.AfterFunc(chunkTimeout, func() { cancel(errSlowChunk) })}
		t.mu.Lock()
		t.body = b
		t.mu.Unlock()
		res.Body = b
		return res, nil
	}
	defer res.Body.Close()
	late := time.AfterFunc(10*time.Second, func() { cancel(errSlowHeader) })
	defer late.Stop()
	text, _ := io.ReadAll(io.LimitReader(res.Body, maxRefusal))
	t.keep(&Refusal{res.StatusCode, res.Header, text})
	return nil, errRefused
}

func (t *Try) keep(err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.err = err
	}
	return err
}

func (t *Try) cause() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// Broken reports whether the connection failed or a limit was passed.
func (t *Try) Broken() bool { return t.cause() != nil }

func (t *Try) close() {
	t.mu.Lock()
	b, cancel := t.body, t.cancel
	t.mu.Unlock()
	if cancel != nil {
		cancel(errStop)
	}
	if b != nil {
		b.Close()
	}
}

// body ends in io.EOF whatever happens; the true reason is kept in the try.
type body struct {
	t    *Try
	from io.ReadCloser
	ctx  context.Context
	idle *time.Timer

	total, line int
	held        []byte // of a line, for Line
	once        sync.Once
}

func (b *body) Read(p []byte) (int, error) {
	b.idle.Reset(chunkTimeout)
	n, err := b.from.Read(p)
	b.idle.Stop()
	b.total += n
	for rest := p[:n]; len(rest) > 0; {
		end := bytes.IndexByte(rest, '\n')
		piece := rest
		if end >= 0 {
			piece = rest[:end+1]
		}
		rest = rest[len(piece):]
		b.line += len(piece)
		b.show(piece, end >= 0)
		if end >= 0 {
			b.line = 0
		}
	}
	switch {
	case b.total > maxBody || b.line > maxLine:
		b.t.keep(errFlood)
		return 0, io.EOF
	case err == io.EOF:
		b.show(nil, true)
	case err != nil:
		if cause := context.Cause(b.ctx); cause != nil {
			err = cause
		}
		b.t.keep(err)
		return n, io.EOF
	}
	return n, err
}

func (b *body) show(piece []byte, whole bool) {
	if b.t.Line == nil || b.line > maxLine {
		return
	}
	b.held = append(b.held, piece...)
	if whole && len(b.held) > 0 {
		b.t.Line(bytes.TrimRight(b.held, "\r\n"))
		b.held = b.held[:0]
	}
}

func (b *body) Close() error {
	b.once.Do(func() {
		b.idle.Stop()
		b.from.Close()
	})
	return nil
}

// Data is what a line of a stream of events carries: of "data: {…}" the {…}; "" for other lines.
func Data(line []byte) string {
	data, ok := strings.CutPrefix(string(line), "data:")
	if !ok {
		return ""
	}
	return strings.TrimSpace(data)
}
