package oauth

import (
	"net/http"
	"slices"
	"strings"
)

// challenge is what a server said when it refused a request (RFC 6750, section 3; RFC 9728, section 5.1).
type challenge struct {
	metadata string   // URL of the protected resource metadata
	scopes   []string // that the request needs
	code     string   // "invalid_token", "insufficient_scope"
}

// readChallenge reads the Bearer challenge among all WWW-Authenticate headers; ok is false when there is none.
func readChallenge(h http.Header) (c challenge, ok bool) {
	for _, line := range h.Values("WWW-Authenticate") {
		for scheme, params := range schemes(line) {
			if !strings.EqualFold(scheme, "Bearer") {
				continue
			}
			return challenge{metadata: params["resource_metadata"], scopes: scopeList(params["scope"]), code: params["error"]}, true
		}
	}
	return challenge{}, false
}

// schemes splits a WWW-Authenticate value into its challenges (RFC 9110, section 11.6.1). What it cannot read it skips.
func schemes(line string) func(func(string, map[string]string) bool) {
	return func(yield func(string, map[string]string) bool) {
		scheme, params := "", map[string]string(nil)
		for line = strings.TrimLeft(line, " \t,"); line != ""; line = strings.TrimLeft(line, " \t,") {
			word := line[:tokenLength(line)]
			if word == "" {
				return
			}
			rest := strings.TrimLeft(line[len(word):], " \t")
			if !strings.HasPrefix(rest, "=") || scheme == "" {
				if scheme != "" && !yield(scheme, params) {
					return
				}
				scheme, params, line = word, map[string]string{}, line[len(word):]
				continue
			}
			var value string
			value, line = paramValue(strings.TrimLeft(rest[1:], " \t"))
			if name := strings.ToLower(word); len(params) < 16 {
				if _, twice := params[name]; !twice {
					params[name] = value
				}
			}
		}
		if scheme != "" {
			yield(scheme, params)
		}
	}
}

// paramValue reads a token or a quoted string and gives what follows it.
func paramValue(s string) (value, rest string) {
	if !strings.HasPrefix(s, `"`) {
		n := strings.IndexAny(s, " \t,")
		if n < 0 {
			n = len(s)
		}
		return s[:n], s[n:]
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return b.String(), s[i+1:]
		case s[i] == '\\' && i+1 < len(s):
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String(), ""
}

func tokenLength(s string) int {
	n := strings.IndexFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
	if n < 0 {
		return len(s)
	}
	return n
}

// Bounds of a list of scopes.
const (
	maxScopes = 100
	maxScope  = 256 // bytes
)

// scopeList reads a list of scopes as RFC 6749, section 3.3, writes it; each once, in order. What cannot be a scope is left out.
func scopeList(s string) []string { return scopes(strings.Split(s, " ")) }

func scopes(list ...[]string) []string {
	var all []string
	for _, s := range slices.Concat(list...) {
		bad := strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '"' || r == '\\' })
		if s != "" && len(s) <= maxScope && !bad && !slices.Contains(all, s) && len(all) < maxScopes {
			all = append(all, s)
		}
	}
	return all
}

// beyond reports whether wanted holds a scope that is not among granted.
func beyond(wanted, granted []string) bool {
	return slices.ContainsFunc(wanted, func(s string) bool { return !slices.Contains(granted, s) })
}
