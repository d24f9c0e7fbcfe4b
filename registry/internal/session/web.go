package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"bobbin/internal/jsonscan"
	"bobbin/schemas"
)

const (
	maxStream   = 64 << 20        // bytes of one answer's event stream
	farewell    = 5 * time.Second // for messages that nobody waits for
	maxRedirect = 3
	openTime    = time.Second
	lastWords   = 100 * time.Millisecond // for the end of a stream after its answer
	lastBytes   = 4 << 10                // of a body that are read for nothing but to keep its connection
)

// web speaks streamable HTTP (2025-03-26 and later), one POST per message.
type web struct {
	s        *Session
	url      string
	client   *http.Client
	header   http.Header               // of every request
	idle     sync.Pool                 // of *lineReader, between answers
	agreed   atomic.Pointer[handshake] // version and session id in use
	renewing chan struct{}             // a lock that a context can end the wait for

	listening atomic.Pointer[context.CancelFunc] // ends the GET stream's connection
	open      chan struct{}                      // closed once the GET stream is open, or refused
	opened    sync.Once
}

func newWeb(s *Session) (*web, error) {
	client, err := guard(s.opts.Client, s.opts.URL)
	if err != nil {
		return nil, err
	}
	w := &web{s: s, url: s.opts.URL, client: client, header: http.Header{}, renewing: make(chan struct{}, 1), open: make(chan struct{})}
	for name, value := range s.opts.Headers {
		w.header.Set(name, value)
	}
	for _, ours := range []string{mcp.HeaderMethod, mcp.HeaderName, "Mcp-Protocol-Version", "Mcp-Session-Id", "Last-Event-Id"} {
		w.header.Del(ours) // a file must not speak for the protocol
	}
	w.header.Set("Accept", "application/json, text/event-stream")
	w.agreed.Store(&handshake{})
	return w, nil
}

// guard returns a copy of the client that keeps no cookies, cuts no stream by
// a total time-out and follows a redirect only to the same origin and with the
// same method, so that no header leaves the server it is meant for.
func guard(c *http.Client, address string) (*http.Client, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, notSent(errors.New("the address is not an http or https URL"))
	}
	own := *c
	own.Jar, own.Timeout = nil, 0
	own.CheckRedirect = func(next *http.Request, via []*http.Request) error {
		if !sameOrigin(next.URL, u) || next.Method != via[0].Method || len(via) > maxRedirect {
			return ErrRedirect
		}
		return nil
	}
	return &own, nil
}

func sameOrigin(a, b *url.URL) bool { return a.Scheme == b.Scheme && a.Host == b.Host }

func (w *web) roundTrip(ctx context.Context, r *request) (json.RawMessage, error) {
	hand := r.hand
	if hand == nil {
		hand = w.agreed.Load()
	}
	if r.method == string(mcp.MethodToolsCall) && !mcp.IsModernProtocol(hand.version) {
		w.awaitOpen(ctx)
	}
	id := w.s.ids.Add(1)
	result, err := w.exchange(ctx, r, id, hand)
	if r.hand == nil && gone(err, hand) {
		// The server forgot the session before it looked at the request.
		if hand, err = w.renew(ctx, hand); err != nil {
			return nil, notSent(err)
		}
		id = w.s.ids.Add(1)
		result, err = w.exchange(ctx, r, id, hand)
	}
	if errors.Is(err, ErrLost) && ctx.Err() != nil && r.hand == nil && !mcp.IsModernProtocol(hand.version) {
		w.s.errand(func() { w.post(cancelMessage(id), hand) })
	}
	return result, err
}

// awaitOpen gives the GET stream a moment to open: some servers ask their questions about a call there, and those that come before
// it is open are lost.
func (w *web) awaitOpen(ctx context.Context) {
	select {
	case <-w.open:
		return
	default:
	}
	late := time.NewTimer(openTime)
	defer late.Stop()
	select {
	case <-w.open:
	case <-late.C:
		w.opened.Do(func() { close(w.open) }) // a server that keeps silent until it has something to say
	case <-ctx.Done():
	}
}

// gone reports that the server no longer knows the session (2025-11-25,
// basic/transports, session management).
func gone(err error, hand *handshake) bool {
	if err == nil || hand.session == "" {
		return false
	}
	status, ok := errors.AsType[*StatusError](err)
	return ok && status.Status == http.StatusNotFound
}

// renew starts a new session in place of old, once for all who ask.
func (w *web) renew(ctx context.Context, old *handshake) (*handshake, error) {
	select {
	case w.renewing <- struct{}{}:
		defer func() { <-w.renewing }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if now := w.agreed.Load(); now != old {
		return now, nil
	}
	ctx, cancel := context.WithTimeout(ctx, w.s.opts.ConnectTimeout)
	defer cancel()
	hand, err := w.s.reshake(ctx)
	if err != nil {
		return nil, err
	}
	w.agreed.Store(hand)
	if stop := w.listening.Load(); stop != nil {
		(*stop)()
	}
	w.s.changed()
	return hand, nil
}

// exchange posts the request once and reads its answer.
func (w *web) exchange(ctx context.Context, r *request, id int64, hand *handshake) (json.RawMessage, error) {
	ctx, letGo, cancel := w.s.within(ctx)
	done := cancel
	defer func() { done() }()
	message := r.encode(id, w.s.meta)
	req, err := w.request(ctx, http.MethodPost, message, hand)
	if err != nil {
		return nil, notSent(err)
	}
	w.describe(req.Header, r, hand)
	w.s.see(true, message)
	resp, err := w.do(req)
	if err != nil {
		return nil, err
	}
	done = func() { cancel(); resp.Body.Close() }
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return nil, w.refusal(resp, hand)
	}
	if r.method == string(mcp.MethodInitialize) && r.hand != nil {
		r.hand.session = resp.Header.Get("Mcp-Session-Id")
	}
	switch kind := mediaType(resp); kind {
	case "application/json":
		lines := w.borrow(resp.Body, w.s.opts.MaxBody)
		defer w.giveBack(lines)
		body, err := lines.all()
		if err != nil {
			return nil, lost(err)
		}
		w.s.see(false, body)
		e, err := scanEnvelope(body)
		if got, ok := jsonscan.Int(e.id); err != nil || ok && got != id || !ok && e.err == nil {
			return nil, lost(ErrGarbage)
		}
		return answerOf(e)
	case "text/event-stream":
		last, result, err := w.follow(ctx, resp, r, id, hand)
		if done = cancel; last != nil {
			done = func() { letGo(); w.s.finish(last, cancel) }
		}
		return result, err
	default:
		return nil, lost(fmt.Errorf("%w: status %d with content type %q", ErrGarbage, resp.StatusCode, kind))
	}
}

func mediaType(resp *http.Response) string {
	kind := resp.Header.Get("Content-Type")
	if kind != "application/json" && kind != "text/event-stream" {
		kind, _, _ = mime.ParseMediaType(kind)
	}
	return kind
}

// borrow gives a reader of a body, whose buffer served other answers before.
func (w *web) borrow(body io.Reader, limit int64) *lineReader {
	l, ok := w.idle.Get().(*lineReader)
	if !ok {
		l = newLineReader(nil, 0)
	}
	*l = lineReader{r: body, max: int(limit), buf: l.buf}
	return l
}

// giveBack ends the use of everything that was read with l.
func (w *web) giveBack(l *lineReader) {
	if len(l.buf) <= keepBuffer {
		l.r = nil
		w.idle.Put(l)
	}
}

// describe adds the headers that mirror the body (2026-07-28, SEP-2243).
func (w *web) describe(h http.Header, r *request, hand *handshake) {
	if !mcp.IsModernProtocol(hand.version) {
		return
	}
	h.Set(mcp.HeaderMethod, r.method)
	if name, ok := mcp.EncodeHeaderValue(r.name); ok && r.name != "" {
		h.Set(mcp.HeaderName, name)
	}
	for name, value := range r.headers {
		h.Set(name, value)
	}
}

// request builds an HTTP request to the server with the headers of its protocol version.
func (w *web) request(ctx context.Context, method string, body []byte, hand *handshake) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, w.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	h := w.header.Clone()
	req.Header = h
	if body != nil {
		h.Set("Content-Type", "application/json")
	}
	if hand.version != "" {
		h.Set("Mcp-Protocol-Version", hand.version)
	}
	if hand.session != "" && !mcp.IsModernProtocol(hand.version) {
		h.Set("Mcp-Session-Id", hand.session)
	}
	return req, nil
}

// do sends req and tells an error before the request went out from one after it.
func (w *web) do(req *http.Request) (*http.Response, error) { return send(w.client, req) }

func send(c *http.Client, req *http.Request) (*http.Response, error) {
	var sent atomic.Bool
	trace := &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }}
	resp, err := c.Do(req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
	if err == nil {
		return resp, nil
	}
	if cause := context.Cause(req.Context()); cause != nil {
		err = cause
	} else if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // without the address, which may hold a secret
	}
	// A transport that refuses in words says what became of it by the code: only "unknown" may have taken effect.
	said, refused := errors.AsType[*schemas.Error](err)
	if errors.Is(err, ErrRedirect) || !sent.Load() || refused && said.Code != schemas.CodeUnknown {
		return nil, notSent(err)
	}
	return nil, lost(err)
}

// refusal reads an answer outside 2xx: the JSON-RPC error in it, or its
// status. A 404 to a session always means that the session is gone.
func (w *web) refusal(resp *http.Response, hand *handshake) error {
	lines := w.borrow(resp.Body, w.s.opts.MaxBody)
	defer w.giveBack(lines)
	body, err := lines.all()
	forgotten := resp.StatusCode == http.StatusNotFound && hand.session != ""
	if err == nil && resp.StatusCode < 500 && !forgotten {
		if e, err := scanEnvelope(body); err == nil && len(e.err) > 0 && e.err[0] == '{' {
			w.s.see(false, body)
			return rpcError(e.err)
		}
	}
	return &StatusError{Status: resp.StatusCode, Excerpt: excerpt(body)}
}

// finish reads the end of a stream whose answer is there already, so that the
// connection can be used again, and ends it if the end does not come.
func (s *Session) finish(resp *http.Response, cancel context.CancelFunc) {
	end := func() { cancel(); resp.Body.Close() }
	if !s.run(func() {
		defer end()
		defer time.AfterFunc(lastWords, cancel).Stop()
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, lastBytes))
	}) {
		end()
	}
}

func (w *web) notify(ctx context.Context, message []byte, hand *handshake) error {
	ctx, _, cancel := w.s.within(ctx)
	defer cancel()
	return w.deliver(ctx, message, hand)
}

func (w *web) deliver(ctx context.Context, message []byte, hand *handshake) error {
	if hand == nil {
		hand = w.agreed.Load()
	}
	req, err := w.request(ctx, http.MethodPost, message, hand)
	if err != nil {
		return notSent(err)
	}
	w.s.see(true, message)
	resp, err := w.do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return w.refusal(resp, hand)
	}
	return nil
}

// post sends a message that nobody waits for.
func (w *web) post(message []byte, hand *handshake) {
	ctx, cancel := context.WithTimeout(w.s.life, farewell)
	defer cancel()
	_ = w.deliver(ctx, message, hand)
}

// close ends the server's session (2025-11-25, basic/transports: DELETE). The
// session's own context is over by now.
func (w *web) close(ctx context.Context) error {
	hand := w.agreed.Load()
	if hand.session == "" || mcp.IsModernProtocol(hand.version) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, farewell)
	defer cancel()
	req, err := w.request(ctx, http.MethodDelete, nil, hand)
	if err != nil {
		return err
	}
	resp, err := w.do(req)
	if err == nil {
		resp.Body.Close()
	}
	return nil // a server may refuse to delete, or be gone
}
