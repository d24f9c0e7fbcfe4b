package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"
)

const lastWords = 5 * time.Second // for a user to read what a program said before its end

// stdio hands the program's own stdin and stdout to one user, as bytes (HTTP Upgrade, RFC 9110 section 7.8).
func (s *server) stdio(w http.ResponseWriter, r *http.Request) {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "mcp-stdio") || !strings.Contains(strings.ToLower(r.Header.Get("Connection")), "upgrade") {
		w.Header().Set("Upgrade", "mcp-stdio")
		explain(w, http.StatusUpgradeRequired, "this needs an upgrade", "send Connection: Upgrade and Upgrade: mcp-stdio")
		return
	}
	p, err := s.take(r.Context())
	switch {
	case errors.Is(err, errUnborn):
		explain(w, http.StatusUnprocessableEntity, s.status(0).Exit, "")
		return
	case errors.Is(err, errTaken):
		explain(w, http.StatusConflict, "the server's stdio is in use", "it has one user at a time")
		return
	case err != nil:
		explain(w, http.StatusServiceUnavailable, "the server does not run", s.status(0).Exit)
		return
	}
	defer p.goroutines.Done()
	defer s.leave(p)
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		explain(w, http.StatusHTTPVersionNotSupported, "this connection cannot be upgraded", "use HTTP/1.1")
		return
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Time{})
	stop := context.AfterFunc(s.over, func() { _ = conn.Close() })
	defer stop()
	ended := context.AfterFunc(r.Context(), func() { _ = conn.Close() })
	defer ended()
	if _, err := io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: mcp-stdio\r\n\r\n"); err != nil {
		return
	}
	p.goroutines.Go(func() {
		<-p.done
		_ = conn.SetWriteDeadline(time.Now().Add(lastWords))
	})
	in := make(chan struct{})
	go func() {
		defer close(in)
		// Not by the server's reader: to that the end of input is the end of the request.
		head, _ := buffered.Reader.Peek(buffered.Reader.Buffered())
		if _, err := p.stdin.Write(head); err == nil {
			_, _ = io.Copy(p.stdin, conn)
		}
		_ = p.stdin.Close()
		s.leave(p) // the user is gone, or has nothing more to say
	}()
	_, _ = io.Copy(conn, p.stdout)
	_ = conn.Close()
	<-in
}
