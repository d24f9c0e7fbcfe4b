package proxy

import (
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

const maxDefinition = 1 << 20

// Main is the server that a standalone proxy serves at /mcp and /sse, too.
const Main = "main"

// routes of a listener. With all of them, who has the token starts programs.
func (p *Proxy) routes(all bool) http.Handler {
	mux := http.NewServeMux()
	health := func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, []byte(`{"ok":true}`)) }
	mux.HandleFunc("GET /health", health)
	mux.HandleFunc("GET /healthz", health)
	mux.HandleFunc("/mcp", p.named((*server).mcp))
	mux.HandleFunc("/sse", p.named((*server).sse))
	mux.HandleFunc("POST /message", p.named((*server).message))
	if !all {
		// Whoever reaches the port may use the server that its owner chose, and start nothing.
		hint := "with --token-file there is more"
		if p.opts.Token != "" {
			hint = "at the unix socket there is more"
		}
		mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
			explain(w, http.StatusNotFound, "only /mcp, /sse and /health are served here", hint)
		})
		return mux
	}
	mux.HandleFunc("POST /exec", p.exec)
	mux.HandleFunc("GET /loose", func(w http.ResponseWriter, _ *http.Request) { tell(w, http.StatusOK, p.loose()) })
	mux.HandleFunc("GET /servers", func(w http.ResponseWriter, _ *http.Request) { tell(w, http.StatusOK, p.List()) })
	mux.HandleFunc("POST /servers/register", p.register)
	mux.HandleFunc("PUT /servers/{name}", p.put)
	mux.HandleFunc("DELETE /servers/{name}", func(w http.ResponseWriter, r *http.Request) {
		if !p.remove(r.PathValue("name")) {
			explain(w, http.StatusNotFound, "no such server", "")
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /servers/{name}", p.named(func(s *server, w http.ResponseWriter, _ *http.Request) { tell(w, http.StatusOK, s.status(maxTail)) }))
	mux.HandleFunc("GET /servers/{name}/stdio", p.named((*server).stdio))
	mux.HandleFunc("/servers/{name}/mcp", p.named((*server).mcp))
	mux.HandleFunc("/servers/{name}/sse", p.named((*server).sse))
	mux.HandleFunc("POST /servers/{name}/message", p.named((*server).message))
	return mux
}

// named finds the server of a path; without a name in it that is [Main].
func (p *Proxy) named(fn func(*server, http.ResponseWriter, *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s := p.server(cmp.Or(r.PathValue("name"), Main))
		if s == nil {
			explain(w, http.StatusNotFound, "no such server", "put it to /servers/{name} first")
			return
		}
		fn(s, w, r)
	}
}

// put answers when the program runs, or is known not to.
func (p *Proxy) put(w http.ResponseWriter, r *http.Request) {
	var d Definition
	if !decode(w, r, &d) {
		return
	}
	if s, status := p.settled(w, r, r.PathValue("name"), d); s != nil {
		tell(w, status, s.status(tailShown))
	}
}

// settled registers a server and waits until it runs, or is known not to. It answers, and returns nil, when it was not taken.
func (p *Proxy) settled(w http.ResponseWriter, r *http.Request, name string, d Definition) (s *server, status int) {
	created, err := p.Put(name, d)
	if s = p.server(name); err == nil && s == nil {
		err = errors.New("it was deleted meanwhile")
	}
	switch {
	case errors.Is(err, errInvalid):
		explain(w, http.StatusBadRequest, err.Error(), "")
		return nil, 0
	case err != nil:
		explain(w, http.StatusConflict, err.Error(), "")
		return nil, 0
	}
	s.settle(r.Context())
	if exit, unborn := s.stillborn(); unborn {
		explain(w, http.StatusUnprocessableEntity, exit, "it is kept, and tried again in a minute or when it is put again")
		return nil, 0
	}
	if created {
		return s, http.StatusCreated
	}
	return s, http.StatusOK
}

// settle waits until a start has come out, one way or the other.
func (s *server) settle(ctx context.Context) {
	timer := time.NewTimer(startWait)
	defer timer.Stop()
	for {
		s.mu.Lock()
		state, changed := s.state, s.changed
		s.mu.Unlock()
		if state != Starting {
			return
		}
		select {
		case <-changed:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

func decode(w http.ResponseWriter, r *http.Request, into any) bool {
	body, err := readBody(w, r, maxDefinition)
	if err != nil {
		explain(w, http.StatusBadRequest, "the body cannot be read, or is above 1 MiB", "")
		return false
	}
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.DisallowUnknownFields()
	err = d.Decode(into)
	if _, end := d.Token(); err == nil && end == io.EOF {
		return true
	}
	// The decoder's own words may hold a value, and values are secret.
	text := "the body is not the JSON that is expected here"
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		field, _, _ := strings.Cut(strings.TrimPrefix(wrong.Field, "Definition."), ".")
		text = fmt.Sprintf("%q is of another type than expected", field)
	}
	explain(w, http.StatusBadRequest, text, `"args" is a list of texts, "env" an object of texts; other fields than the documented ones are refused`)
	return false
}

func tell(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		explain(w, http.StatusInternalServerError, "the answer cannot be written", "")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	writeJSON(w, b)
}

// explain refuses a request in words, and for programs by the name of the status: UNAUTHORIZED, NOT_FOUND.
func explain(w http.ResponseWriter, status int, text, hint string) {
	tell(w, status, struct {
		Error string `json:"error"`
		Code  string `json:"code"`
		Hint  string `json:"hint,omitempty"`
	}{text, strings.ReplaceAll(strings.ToUpper(http.StatusText(status)), " ", "_"), hint})
}

var errOpen = errors.New("an address that others reach needs a token (--token-file)")

func (p *Proxy) checkListener(l net.Listener) error {
	if p.opts.Token != "" {
		return nil
	}
	if l.Addr().Network() != "tcp" || !loopback(l.Addr().String()) {
		return errOpen
	}
	return nil
}

// guard lets in who has the token. On TCP it also keeps web pages out: by Host against DNS rebinding, by Origin against
// requests across sites (2025-11-25, basic/transports).
func (p *Proxy) guard(next http.Handler, addr net.Addr) http.Handler {
	local := addr.Network() == "tcp" && loopback(addr.String())
	want := []byte(p.opts.Token)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case local && !loopback(r.Host), !goodOrigin(r.Header["Origin"]):
			explain(w, http.StatusForbidden, "this host or origin is not served", "use http://127.0.0.1 and no web page of another site")
		case len(want) > 0 && !bears(r.Header.Get("Authorization"), want):
			w.Header().Set("Www-Authenticate", "Bearer")
			w.Header().Set("Connection", "close")
			explain(w, http.StatusUnauthorized, "the token is missing or wrong", "send Authorization: Bearer TOKEN")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func bears(header string, want []byte) bool {
	scheme, got, _ := strings.Cut(header, " ")
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare([]byte(got), want) == 1
}

// goodOrigin holds for programs, which send none, and for pages of this machine.
func goodOrigin(origins []string) bool {
	for _, o := range origins {
		u, err := url.Parse(o)
		if err != nil || u.Host == "" || !loopback(u.Host) {
			return false
		}
	}
	return true
}

// loopback judges host or host:port, without asking DNS.
func loopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}
