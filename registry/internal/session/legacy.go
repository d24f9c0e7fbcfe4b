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
	"net/url"

	"github.com/mark3labs/mcp-go/mcp"
)

// legacyLink speaks the HTTP+SSE transport of 2024-11-05: one stream brings
// everything from the server, requests are posted to the endpoint it names.
// When the stream breaks the session is lost, since the server forgets it too.
type legacyLink struct {
	mux
	s        *Session
	client   *http.Client
	stream   *http.Response
	endpoint string
}

func newEvents(ctx context.Context, s *Session) (*legacyLink, error) {
	client, err := guard(s.opts.Client, s.opts.URL)
	if err != nil {
		return nil, err
	}
	l := &legacyLink{mux: mux{waiting: map[int64]*waiter{}}, s: s, client: client}
	req, err := l.request(s.life, http.MethodGet, s.opts.URL, nil)
	if err != nil {
		return nil, notSent(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	life, cancel := context.WithCancel(s.life)
	stop := context.AfterFunc(ctx, cancel) // ctx bounds the connect only
	resp, err := send(client, req.WithContext(life))
	if err != nil {
		cancel()
		return nil, err
	}
	l.stream = resp
	events := newEventReader(resp.Body, s.opts.MaxEvent)
	if err = l.open(events); err == nil && !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		cancel()
		resp.Body.Close()
		return nil, fmt.Errorf("opening the event stream: %w", err)
	}
	s.run(func() { defer cancel(); l.read(events) })
	return l, nil
}

// open reads the endpoint event, which must stay on the server's own origin.
func (l *legacyLink) open(events *eventReader) error {
	if kind, _, _ := mime.ParseMediaType(l.stream.Header.Get("Content-Type")); l.stream.StatusCode != http.StatusOK || kind != "text/event-stream" {
		body, _ := io.ReadAll(io.LimitReader(l.stream.Body, sampleBytes))
		return &StatusError{Status: l.stream.StatusCode, Excerpt: excerpt(body)}
	}
	ev, err := events.next()
	if err != nil {
		return err
	}
	base, err := url.Parse(l.s.opts.URL)
	if err != nil {
		return err
	}
	endpoint, err := base.Parse(string(ev.data))
	if ev.name != "endpoint" || err != nil {
		return fmt.Errorf("%w: the stream does not start with an endpoint", ErrGarbage)
	}
	if !sameOrigin(base, endpoint) {
		return ErrRedirect
	}
	l.endpoint = endpoint.String()
	return nil
}

func (l *legacyLink) request(ctx context.Context, method, address string, body []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, value := range l.s.opts.Headers {
		req.Header.Set(name, value)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, nil
}

func (l *legacyLink) read(events *eventReader) {
	defer l.stream.Body.Close()
	for {
		ev, err := events.next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = fmt.Errorf("server closed its event stream: %w", err)
			}
			if l.fail(err) {
				l.s.lost(err)
			}
			return
		}
		l.s.see(false, ev.data)
		e, err := scanEnvelope(ev.data)
		switch {
		case err != nil:
		case e.method == nil:
			l.deliver(e)
		case e.id == nil && string(e.method) == `"notifications/progress"` && l.progressed(e.params):
		case e.id == nil && string(e.method) == logMethod && l.logged(e.params):
		default:
			l.s.incoming(e, func(reply []byte) {
				l.s.errand(func() {
					ctx, cancel := context.WithTimeout(l.s.life, farewell)
					defer cancel()
					_ = l.post(ctx, reply)
				})
			})
		}
	}
}

func (l *legacyLink) roundTrip(ctx context.Context, r *request) (json.RawMessage, error) {
	ctx, _, cancel := l.s.within(ctx)
	defer cancel()
	id := l.s.ids.Add(1)
	w, err := l.add(id, r)
	if err != nil {
		return nil, err
	}
	if err := l.post(ctx, r.encode(id, l.s.meta)); err != nil {
		l.drop(id)
		return nil, err
	}
	if a, answered := l.wait(ctx, w, r); answered {
		return a.result, a.err
	}
	if l.drop(id) && r.hand == nil {
		l.s.errand(func() {
			ctx, cancel := context.WithTimeout(l.s.life, farewell)
			defer cancel()
			_ = l.post(ctx, cancelMessage(id))
		})
	}
	return nil, lost(context.Cause(ctx))
}

func (l *legacyLink) notify(ctx context.Context, message []byte, _ *handshake) error {
	return l.post(ctx, message)
}

// post hands one message to the server; its answer comes on the stream.
func (l *legacyLink) post(ctx context.Context, message []byte) error {
	req, err := l.request(ctx, http.MethodPost, l.endpoint, message)
	if err != nil {
		return notSent(err)
	}
	l.s.see(true, message)
	if v := l.s.info.Protocol; v != "" && v != mcp.ProtocolVersion20241105 {
		req.Header.Set("Mcp-Protocol-Version", v)
	}
	resp, err := send(l.client, req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, sampleBytes))
		return &StatusError{Status: resp.StatusCode, Excerpt: excerpt(body)}
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, lastBytes)) // "Accepted", so that the connection is kept
	return nil
}

func (l *legacyLink) close(context.Context) error {
	l.fail(ErrClosed)
	return l.stream.Body.Close()
}
