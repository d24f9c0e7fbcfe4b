package session_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"bobbin/registry/internal/session"
)

// memory serves h without a network, so that time may be made up. A request whose context ends is given up as a network gives it up.
func memory(h http.Handler) session.Options {
	return session.Options{URL: "http://memory/mcp", Headers: map[string]string{"X-Api-Key": "k"}, Client: &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if err := r.Context().Err(); err != nil {
			return nil, err
		}
		return w.Result(), nil
	})}}
}

// A server that wakes up slowly is not an old one: one that speaks only 2026-07-28 refuses initialize.
func TestDiscover_SlowServerIsNotLegacy(t *testing.T) {
	for _, transport := range []string{"http", "stdio"} {
		t.Run(transport, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{t: t, modern: true}
				f.on = map[string]func(message, func(string)) string{"server/discover": func(m message, _ func(string)) string {
					time.Sleep(8 * time.Second)
					return f.preset(m)
				}}
				o := memory(&site{fake: f})
				if transport == "stdio" {
					child, _ := f.stdio()
					o = session.Options{Stdio: child, Era: modernEra}
				}
				o.ConnectTimeout = 20 * time.Second
				s, err := tryOpen(t, o)
				if err != nil {
					t.Fatal(err)
				}
				if got := s.Info().Protocol; got != modernEra || f.count("initialize") != 0 {
					t.Errorf("protocol %q after %d initialize", got, f.count("initialize"))
				}
			})
		})
	}
}

// An old server that leaves an unknown request unanswered still gets its initialize in time.
func TestDiscover_SilentServerIsLegacy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{t: t}
		f.on = map[string]func(message, func(string)) string{"server/discover": func(message, func(string)) string { return "" }}
		o := memory(&site{fake: f})
		o.ConnectTimeout = 20 * time.Second
		began := time.Now()
		s := open(t, o)
		if got := s.Info().Protocol; got != legacyEra {
			t.Errorf("protocol %q", got)
		}
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("took %s", took)
		}
	})
}
