package safehttp_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"bobbin/internal/safehttp"
)

func squeezed(t *testing.T, size int, by func(io.Writer) io.WriteCloser) []byte {
	t.Helper()
	var b bytes.Buffer
	z := by(&b)
	endless(z, size)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func gzipped(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }

func deflated(w io.Writer) io.WriteCloser {
	z, _ := flate.NewWriter(w, flate.BestSpeed)
	return z
}

// TestLimits_HugeBodies: what a server sends and what it costs here are two things. Whoever reads stops at the limit, in little memory.
func TestLimits_HugeBodies(t *testing.T) {
	const huge, limit = 256 << 20, 8 << 20
	bomb, raw := squeezed(t, huge, gzipped), squeezed(t, huge, deflated)
	twice := squeezed(t, 0, func(w io.Writer) io.WriteCloser {
		z := gzip.NewWriter(w)
		_, _ = z.Write(bomb)
		return z
	})
	for _, w := range wires() {
		var sent atomic.Int64
		o := w.origin(t, func(rw http.ResponseWriter, r *http.Request) {
			if got := r.Header.Get("Accept-Encoding"); got != "gzip" {
				t.Errorf("%s asks for %q", w.name, got)
			}
			kind, encoding, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
			switch kind {
			case "events":
				rw.Header().Set("Content-Type", "text/event-stream")
			case "length":
				rw.Header().Set("Content-Length", "268435456")
			}
			if encoding != "" {
				rw.Header().Set("Content-Encoding", encoding)
			}
			if kind == "error" {
				rw.WriteHeader(http.StatusBadGateway)
			}
			out := counter{rw, &sent}
			switch encoding {
			case "gzip":
				_, _ = out.Write(bomb)
			case "deflate":
				_, _ = out.Write(raw)
			case "gzip, gzip":
				_, _ = out.Write(twice)
			default:
				endless(out, huge)
			}
		})
		c := o.client(t, safehttp.Options{})
		for path, want := range map[string]int64{
			"/json": limit, "/length": limit, "/error": limit, "/json/br": limit, "/json/gzip": limit, "/error/gzip": limit, "/json/zstd": limit,
			"/events": 1 << 20, "/events/gzip": 1 << 20, "/events/br": 1 << 20,
			"/json/deflate": int64(len(raw)), "/json/gzip, gzip": int64(len(twice)), // handed out as they came
		} {
			sent.Store(0)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, o.URL+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Accept-Encoding", "br, deflate, zstd")
			resp, err := c.Do(req)
			if err != nil {
				t.Fatal(w.name, path, err)
			}
			n, err := io.Copy(io.Discard, resp.Body)
			again, stays := resp.Body.Read(make([]byte, 1))
			_ = resp.Body.Close()
			runtime.ReadMemStats(&after)
			var large *safehttp.TooLargeError
			if whole := want > limit || strings.Contains(path, "deflate") || strings.Contains(path, ","); n != want || errors.As(err, &large) == whole {
				t.Errorf("%s %s: %d bytes of %d, %v", w.name, path, n, want, err)
			} else if !whole && (again != 0 || !errors.As(stays, &large)) {
				t.Errorf("%s %s: a later read gives %d bytes, %v", w.name, path, again, stays)
			}
			if cost := after.TotalAlloc - before.TotalAlloc; cost > 16<<20 {
				t.Errorf("%s %s: %d bytes of memory", w.name, path, cost)
			}
			if n := sent.Load(); n > 64<<20 {
				t.Errorf("%s %s: the server could send %d bytes", w.name, path, n)
			}
		}
	}
}

type counter struct {
	io.Writer
	n *atomic.Int64
}

func (c counter) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.n.Add(int64(n))
	return n, err
}

// TestLimits_EndlessEvents: one event, all events together, and whatever looks like events has an end.
func TestLimits_EndlessEvents(t *testing.T) {
	parts := map[string]struct {
		text  string
		limit int64
	}{
		"one line": {"a", 1 << 16}, "one event": {"data: a\n", 1 << 16}, "comments": {": ping\n", 1 << 16}, "carriage returns": {"a\r", 1 << 16},
		"tiny events": {"data: a\n\n", 1 << 18}, "pings": {": ping\r\n\r\n", 1 << 18}, "empty lines": {"\n", 1 << 18}, "empty returns": {"\r\r", 1 << 18}, "mixed": {"id\r\n\ndata:b\r\r", 1 << 18},
	}
	for _, w := range wires() {
		for _, kind := range []string{"text/event-stream", "TEXT/Event-Stream ;charset=utf-8", "text/event-stream;"} {
			o := w.origin(t, func(rw http.ResponseWriter, r *http.Request) {
				rw.Header().Set("Content-Type", kind)
				chunk := strings.Repeat(parts[r.URL.Query().Get("of")].text, 1000)
				for range 1 << 20 {
					if _, err := io.WriteString(rw, chunk); err != nil {
						return
					}
				}
			})
			c := o.client(t, safehttp.Options{MaxEvent: 1 << 16, MaxStream: 1 << 18, MaxBody: 100})
			for name, p := range parts {
				got, err := send(t, c, http.MethodGet, o.URL+"/?of="+strings.ReplaceAll(name, " ", "+"))
				var large *safehttp.TooLargeError
				if !errors.As(err, &large) || large.Limit != p.limit || int64(len(got)) != p.limit {
					t.Errorf("%s %s %s: %d bytes, %v", w.name, kind, name, len(got), err)
				}
			}
		}
	}
}
