package web

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// policy lets the page load nothing but its own files, run no inline script, and turn no text into markup (Trusted Types,
// W3C CSP Level 3). blob: and data: are for an image or a sound that a tool returned.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; media-src data:; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// guard keeps strangers out: other origins, rebound names, and whoever did not open the link.
type guard struct {
	token [sha256.Size]byte
	pass  string // the cookie's value: derived from the token, so that a cookie does not give the link away
	hosts []string
}

func newGuard(token string, hosts []string) guard {
	m := hmac.New(sha256.New, []byte(token))
	m.Write([]byte("bobbin web session"))
	return guard{
		token: sha256.Sum256([]byte(token)),
		pass:  base64.RawURLEncoding.EncodeToString(m.Sum(nil)),
		hosts: hosts,
	}
}

func (g guard) headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		// Nobody reads an answer forever; a stream moves this on with each write.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(longest + time.Minute))
		next.ServeHTTP(w, r)
	})
}

// host refuses names that are not this machine's (DNS rebinding) and requests that another origin made.
func (g guard) host(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.allowed(r) {
			http.Error(w, "this address is not served here", http.StatusForbidden)
			return
		}
		site := r.Header.Get("Sec-Fetch-Site")
		foreign := site != "" && site != "same-origin" && site != "none" && (strings.HasPrefix(r.URL.Path, "/api/") || strings.HasPrefix(r.URL.Path, "/inspect/api/"))
		origins := r.Header.Values("Origin")
		if foreign || len(origins) > 1 || len(origins) == 1 && origins[0] != "http://"+r.Host {
			http.Error(w, "requests from other pages are refused", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (g guard) allowed(r *http.Request) bool {
	if slices.Contains(g.hosts, r.Host) {
		return true
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	_, port, err := net.SplitHostPort(local.String())
	if err != nil {
		return false
	}
	bare := port == "80" && (r.Host == "127.0.0.1" || r.Host == "localhost" || r.Host == "[::1]")
	return bare || r.Host == "127.0.0.1:"+port || r.Host == "localhost:"+port || r.Host == "[::1]:"+port
}

// cookieName has the port in it: cookies know no ports, and two bobbins on one machine must not log each other out.
func cookieName(r *http.Request) string {
	if u, err := url.Parse("http://" + r.Host); err == nil && u.Port() != "" {
		return "bobbin-" + u.Port()
	}
	return "bobbin"
}

// cookie lets in who has the cookie, and gives it to who brings the token; everybody else sees the locked page.
func (g guard) cookie(locked func(http.ResponseWriter, *http.Request), next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q, err := url.ParseQuery(r.URL.RawQuery)
		tokens, given := q["token"]
		switch {
		case err != nil:
			locked(w, r)
		case given && g.opens(r, tokens):
			g.admit(w, r, q)
		case given || !g.passes(r):
			locked(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func (g guard) opens(r *http.Request, tokens []string) bool {
	if r.Method != http.MethodGet || len(tokens) != 1 || strings.HasPrefix(r.URL.Path, "/api/") {
		return false
	}
	sum := sha256.Sum256([]byte(tokens[0]))
	return subtle.ConstantTimeCompare(sum[:], g.token[:]) == 1
}

func (g guard) passes(r *http.Request) bool {
	want := sha256.Sum256([]byte(g.pass))
	ok := 0
	for i, c := range r.CookiesNamed(cookieName(r)) {
		if i == 4 {
			break
		}
		got := sha256.Sum256([]byte(c.Value))
		ok |= subtle.ConstantTimeCompare(got[:], want[:])
	}
	return ok == 1
}

// admit sets the cookie and moves on to the address without the token, so that it stays in no history or bookmark.
func (g guard) admit(w http.ResponseWriter, r *http.Request, q url.Values) {
	http.SetCookie(w, &http.Cookie{
		Name: cookieName(r), Value: g.pass, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
	q.Del("token")
	clean := (&url.URL{Path: "/" + strings.TrimLeft(r.URL.Path, "/"), RawQuery: q.Encode()}).String()
	// A link clicked on another site is a cross-site navigation, and a redirect stays one: the browser would hold the
	// strict cookie back. A refresh is a navigation of our own.
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "none" && site != "same-origin" {
		w.Header().Set("Refresh", "0; url="+clean)
		return
	}
	http.Redirect(w, r, clean, http.StatusSeeOther)
}
