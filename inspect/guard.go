package inspect

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"bobbin/internal/look"
	"bobbin/schemas"
)

// policy lets the page load nothing but its own files, run no inline script, and turn no text into markup (Trusted Types,
// W3C CSP Level 3). data: is for an image or a sound that a tool returned.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; media-src data:; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// Guard keeps strangers from a [Page] that stands alone: names that are not this machine's (DNS rebinding), other pages' requests,
// and everybody without the token. A browser brings the token in the link, once, and gets a cookie; a program sends it as a bearer
// token (RFC 6750). Without it only the front page answers, and says that it is locked.
type Guard struct {
	token  [sha256.Size]byte
	lock   *look.Locked
	cookie string // derived from the token, so that a cookie does not give the link away
}

// NewGuard refuses a token of less than 16 characters.
func NewGuard(token string) (*Guard, error) {
	if len(token) < 16 {
		return nil, errors.New("inspect: the token needs at least 16 characters")
	}
	m := hmac.New(sha256.New, []byte(token))
	m.Write([]byte("bobbin inspector session"))
	lock, err := look.NewLocked("bobbin mcp inspector", "http://127.0.0.1:5173/?token=…")
	return &Guard{sha256.Sum256([]byte(token)), lock, base64.RawURLEncoding.EncodeToString(m.Sum(nil))}, err
}

// Wrap guards a handler of pages.
func (g *Guard) Wrap(next http.Handler) http.Handler {
	return g.wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		switch {
		case g.bears(r) || g.remembers(r):
			next.ServeHTTP(w, r)
		case r.Method == http.MethodGet && r.URL.Path == "/" && g.is(q.Get("token")):
			http.SetCookie(w, &http.Cookie{Name: cookieName(r), Value: g.cookie, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
			// A link from another site is a cross-site navigation, and a redirect stays one: the strict cookie would be held back.
			w.Header().Set("Refresh", "0; url=/")
		case r.Method == http.MethodGet && r.URL.Path == "/":
			status := http.StatusOK // nothing was asked for and nothing is refused
			if q.Has("token") {
				status = http.StatusUnauthorized
			}
			g.lock.Serve(w, status)
		default:
			locked(w)
		}
	}))
}

// WrapAPI guards a handler that only programs ask: nothing of it answers without the bearer token.
func (g *Guard) WrapAPI(next http.Handler) http.Handler {
	return g.wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.bears(r) {
			locked(w)
			return
		}
		next.ServeHTTP(w, r)
	}))
}

func locked(w http.ResponseWriter) {
	w.Header().Set("WWW-Authenticate", "Bearer")
	answer(w, http.StatusUnauthorized, refusal(&schemas.Error{Code: schemas.CodeDenied, Text: "this needs the token", Hint: "the link that bobbin mcp inspector printed has it"}))
}

func (g *Guard) wrap(next http.Handler) http.Handler {
	next = http.NewCrossOriginProtection().Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(listTime + writeTime))
		site := r.Header.Get("Sec-Fetch-Site")
		foreign := site != "" && site != "same-origin" && site != "none" && r.URL.Path != "/"
		origins := r.Header.Values("Origin")
		if !here(r) || foreign || len(origins) > 1 || len(origins) == 1 && origins[0] != "http://"+r.Host {
			http.Error(w, "this address is not served to you here", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// here reports whether the request names this machine, and the port it came to.
func here(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	_, port, err := net.SplitHostPort(local.String())
	return err == nil && (r.Host == "127.0.0.1:"+port || r.Host == "localhost:"+port || r.Host == "[::1]:"+port)
}

func (g *Guard) is(token string) bool {
	sum := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(sum[:], g.token[:]) == 1
}

func (g *Guard) bears(r *http.Request) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.EqualFold(scheme, "Bearer") && g.is(strings.TrimSpace(token))
}

func (g *Guard) remembers(r *http.Request) bool {
	c, err := r.Cookie(cookieName(r))
	return err == nil && subtle.ConstantTimeCompare([]byte(c.Value), []byte(g.cookie)) == 1
}

// cookieName has the port in it: cookies know no ports, and two inspectors on one machine must not log each other out.
func cookieName(r *http.Request) string {
	u, err := url.Parse("http://" + r.Host)
	if err != nil {
		return "bobbin-inspector"
	}
	return "bobbin-inspector-" + u.Port()
}
