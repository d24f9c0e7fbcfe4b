package operator

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"bobbin/internal/safehttp"
	"bobbin/schemas"
)

// Client gives a client for one server: of a proxied one over its own socket, whatever the URL's host is, with the proxy's token; of a
// remote one with the operator's headers, for its own origin alone. It is for one connection, since all its requests go to the same one
// of several replicas. A server that does not run is started by the first request.
func (o *Operator) Client(name string) *http.Client {
	return &http.Client{
		Transport:     &carrier{o: o, name: name},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// carrier sends the requests of one server.
type carrier struct {
	o    *Operator
	name string
	seat seat
}

func (c *carrier) RoundTrip(r *http.Request) (*http.Response, error) {
	s, _, err := c.o.usable(r.Context(), c.name)
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	if s.Type == Remote {
		return c.remote(s, r)
	}
	unit := c.seat.of(r.Context(), c.o, s)
	w, err := c.o.way(unit)
	if err == nil {
		resp, err := c.over(w, r)
		if again := r.GetBody != nil || r.Body == nil; !errors.Is(err, errAway) || !again || r.Context().Err() != nil {
			return resp, err
		}
	}
	// It was never started, or its container is gone.
	if _, err := c.o.Start(r.Context(), c.name, nil); err != nil {
		return nil, err
	}
	if w, err = c.o.way(unit); err != nil {
		return nil, err
	}
	if r.GetBody != nil {
		if r.Body, err = r.GetBody(); err != nil {
			return nil, err
		}
	}
	return c.over(w, r)
}

// over sends a request to a proxied server.
func (c *carrier) over(w *way, r *http.Request) (*http.Response, error) {
	r.Header.Set("Authorization", "Bearer "+w.token)
	if w.token == "" {
		r.Header.Del("Authorization") // another proxy than bobbin's asks for none
	}
	return w.http.Transport.RoundTrip(r)
}

func (c *carrier) remote(s Server, r *http.Request) (*http.Response, error) {
	own := schemas.Server{Type: schemas.HTTP, URL: s.URL}.Origin()
	if (schemas.Server{Type: schemas.HTTP, URL: r.URL.String()}).Origin() != own {
		return nil, &schemas.Error{Code: schemas.CodeDenied, Text: s.Name + " leads to another host than " + own, Hint: "the operator changes its url in " + FileName}
	}
	values, err := c.o.resolve(r.Context(), s, s.Headers)
	if err != nil {
		return nil, err
	}
	for k, v := range values {
		if strings.ContainsAny(v.Reveal(), "\r\n\x00") {
			return nil, errors.New("operator: a header's value cannot be sent")
		}
		r.Header.Set(k, v.Reveal())
	}
	out, err := c.o.outside(own)
	if err != nil {
		return nil, err
	}
	return out.Transport.RoundTrip(r)
}

// outside gives the client for an origin that the operator wrote, which may be on a private network or this machine.
func (o *Operator) outside(origin string) (*http.Client, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if c := o.far[origin]; c != nil {
		return c, nil
	}
	opt := safehttp.Options{AllowLoopback: true, HeaderTimeout: 10 * time.Minute}
	if allow, err := safehttp.ParseAllow([]string{origin}); err == nil { // else it is loopback or public, or stays closed
		opt.Allow = allow
	}
	if len(o.far) >= maxServers {
		return nil, errors.New("operator: too many origins")
	}
	c := safehttp.New(opt)
	o.far[origin] = c
	return c, nil
}

const (
	probeTime = 10 * time.Second
	hello     = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bobbin","version":"1"}}}`
)

// Probe finds out whether a remote server whose URL does not say so speaks streamable HTTP, or only HTTP+SSE, and keeps that for
// [Operator.Endpoint] (2025-11-25, basic/transports, backwards compatibility). Of one that does not answer nothing is kept.
func (o *Operator) Probe(ctx context.Context, name string) error {
	s, _, err := o.usable(ctx, name)
	if err != nil || s.Type != Remote || s.sse() {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	status, _, err := o.knock(ctx, name, http.MethodPost, s.URL)
	if err != nil {
		return err
	}
	found := schemas.HTTP
	if status >= 400 && status < 500 && status != http.StatusUnauthorized && status != http.StatusForbidden {
		if status, kind, err := o.knock(ctx, name, http.MethodGet, s.URL); err == nil && status == http.StatusOK && strings.HasPrefix(kind, "text/event-stream") {
			found = schemas.SSE
		}
	}
	return o.remember(name, memory{State: stateRemote, Print: s.URL, Transport: found})
}

func (o *Operator) knock(ctx context.Context, name, method, url string) (status int, kind string, err error) {
	body := ""
	if method == http.MethodPost {
		body = hello
	}
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Accept", "text/event-stream")
	if method == http.MethodPost {
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := o.Client(name).Do(r)
	if err != nil {
		return 0, "", err
	}
	_ = resp.Body.Close()
	return resp.StatusCode, resp.Header.Get("Content-Type"), nil
}

// sse reports whether the URL itself says that it is for HTTP+SSE.
func (s Server) sse() bool {
	path, _, _ := strings.Cut(s.URL, "?")
	return strings.HasSuffix(strings.TrimSuffix(path, "/"), "/sse")
}

// Endpoint is the server as threads see it: a connector that only [Operator.Client] can reach.
func (o *Operator) Endpoint(s Server) schemas.Server {
	e := schemas.Server{Name: s.Name, Type: schemas.HTTP, URL: s.URL, Auth: &schemas.Auth{Type: schemas.Operated}}
	switch {
	case s.Type == Remote && s.sse():
		e.Type = schemas.SSE
	case s.Type == Remote:
		if m, err := o.recall(s.Name); err == nil && m.Print == s.URL && m.Transport != "" {
			e.Type = m.Transport
		}
	case s.ProxyImage != "":
		e.URL, e.Type = insideURL(s, "/sse"), schemas.SSE // what a proxy of others certainly speaks
	default:
		e.URL = insideURL(s, "/mcp")
	}
	return e
}
