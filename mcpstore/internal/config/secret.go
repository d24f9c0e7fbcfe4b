package config

import (
	"slices"
	"strings"
	"unicode"

	"bobbin/internal/lazy"
)

// words splits a name such as "X-API-Key", "githubToken" or "--db_password" into lower-case words.
func words(name string) []string {
	var out []string
	var b strings.Builder
	flush := func() {
		if b.Len() > 0 {
			out = append(out, strings.ToLower(b.String()))
			b.Reset()
		}
	}
	var last rune
	for _, c := range name {
		switch {
		case !unicode.IsLetter(c) && !unicode.IsDigit(c):
			flush()
		case unicode.IsUpper(c) && unicode.IsLower(last):
			flush()
			b.WriteRune(c)
		default:
			b.WriteRune(c)
		}
		last = c
	}
	flush()
	return out
}

// secretName reports whether a key, flag, header or query parameter of this name usually holds a secret.
func secretName(name string) bool {
	w := words(name)
	if len(w) == 0 {
		return false
	}
	if n := len(w); n > 1 && (w[n-2] == "webhook" || w[n-2] == "hook") && (w[n-1] == "url" || w[n-1] == "uri") {
		return true
	}
	if n := len(w); n > 1 && w[n-1] == "json" {
		w = w[:n-1]
	}
	switch last := w[len(w)-1]; last {
	case "path", "file", "dir", "folder", "location", "count", "max", "limit", "min", "user", "username", "url", "uri", "endpoint", "host", "port", "type",
		"enabled", "disabled", "ttl", "expiry", "expires", "timeout", "budget", "size", "length", "tokens", "keys", "public", "name", "header", "prefix", "mode",
		"method", "provider", "region", "env", "var", "field", "column", "version", "store", "manager", "backend", "scope", "scopes", "json", "address":
		return false
	case "id":
		return len(w) > 2 && w[len(w)-2] == "key" && w[len(w)-3] == "access"
	case "key":
		return len(w) == 1 || !slices.Contains([]string{"public", "primary", "foreign", "sort", "partition", "project", "issue", "cache", "map", "row", "file", "doc", "document", "page", "board", "space", "sheet", "team", "column", "object", "registry", "host"}, w[len(w)-2])
	case "pat", "pw", "pin", "auth", "authorization", "bearer", "cookie", "jwt", "dsn", "otp", "sid", "sig", "signature", "webhook", "session", "mnemonic":
		return true
	case "phrase":
		return len(w) > 1 && (w[len(w)-2] == "seed" || w[len(w)-2] == "recovery" || w[len(w)-2] == "pass" || w[len(w)-2] == "secret")
	}
	for _, s := range w {
		switch s {
		case "token", "secret", "secrets", "password", "passwd", "pwd", "pass", "passphrase", "apikey", "credential", "credentials", "privatekey", "accesskey",
			"secretkey", "authtoken", "accesstoken", "apitoken", "bearertoken", "clientsecret":
			return true
		}
	}
	joined := strings.Join(w, "")
	return strings.HasSuffix(joined, "apikey") || strings.HasSuffix(joined, "token") || strings.HasSuffix(joined, "password") || strings.HasSuffix(joined, "secret")
}

// connectionName reports whether a value of this name often holds a password among other things.
func connectionName(name string) bool {
	p := plain(name)
	for _, end := range []string{"databaseurl", "dburl", "dburi", "databaseuri", "connectionstring", "mongodburi", "mongouri", "mongodburl", "postgresurl", "postgresqlurl", "redisurl", "mysqlurl", "webhookurl", "headers"} {
		if strings.HasSuffix(p, end) {
			return true
		}
	}
	return false
}

// knownSecret matches values that start like the credentials of a known service. Sources: the services' own documentation
// and the rules of public secret scanners.
var knownSecret = lazy.Regexp(`(?:\b|_)(?:` +
	`gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|glpat-[\w-]{12,}|` +
	`sk-[A-Za-z0-9][\w-]{14,}|[sr]k_(?:live|test)_\w{10,}|sk_[A-Za-z0-9_-]{16,}|pk_live_\w{10,}|xox[abeoprs]-[\w-]{10,}|xapp-[\w-]{10,}|` +
	`(?:AKIA|ASIA)[A-Z0-9]{12,}|AIza[\w-]{20,}|AQ\.[\w-]{16,}|ya29\.[\w-]{16,}|sb[ps]_[\w-]{12,}|sb_(?:secret|publishable)_[\w-]{10,}|figd_[\w-]{12,}|` +
	`BSA[\w-]{16,}|ntn_\w{16,}|secret_\w{20,}|npm_\w{20,}|pypi-[\w-]{20,}|hf_\w{16,}|r8_\w{16,}|lin_api_\w{12,}|pat[a-zA-Z0-9]{12,}\.\w{20,}|` +
	`SG\.[\w-]{16,}|dop_v1_\w{20,}|shp(?:at|ss)_\w{16,}|tvly-[\w-]{10,}|fc-[a-f0-9]{16,}|pplx-\w{16,}|gsk_\w{16,}|xai-\w{16,}|ctx7sk-[\w-]{12,}|` +
	`ATATT[\w=-]{16,}|ATCTT[\w=-]{16,}|apify_api_\w{16,}|phx_\w{16,}|sntry[su]_[\w=-]{16,}|dapi[a-f0-9]{20,}|glsa_\w{20,}|rnd_\w{16,}|vcp_\w{16,}|` +
	`hooks\.slack\.com/(?:services|workflows|triggers)/[\w/-]{20,}|discord(?:app)?\.com/api/webhooks/\d+/[\w-]{20,}|api\.telegram\.org/bot\d+:[\w-]{20,}|` +
	`eyJ[\w-]{10,}\.eyJ[\w-]{8,}[\w.-]*|AGE-SECRET-KEY-\w+|jina_\w{16,}|exa_\w{16,}|nvapi-[\w-]{16,}|sm_[A-Za-z0-9_]{20,}` +
	`)|\$(?:2[aby]|argon2i?d?|6|5)\$[\w./$,=+-]{20,}|-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?-----END [A-Z ]*PRIVATE KEY-----)?`)

var (
	hexKey  = lazy.Regexp(`^(?i:[0-9a-f]{32,})$`)
	uuidKey = lazy.Regexp(`^(?i:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})$`)
	// publicPrefix begins ids that services hand out and that open nothing.
	publicPrefix = lazy.Regexp(`^(?:price|prod|cus|acct|asst|proj|org|team|vs|user|usr|prj|plan)[_-]`)
	plainFile    = lazy.Regexp(`^[\w.-]+\.(?:json|ya?ml|pem|key|crt|cer|p12|pfx|txt|env|toml|ini|cfg|conf)$`)
	keyRun       = lazy.Regexp(`^[A-Za-z0-9_+/=~-]{24,}$`)
)

// wholeSecret reports whether all of a text is one credential of a known service.
func wholeSecret(s string) bool { return mayHoldSecret(s) && knownSecret().FindString(s) == s }

// mayHoldSecret is a quick look that spares most texts the slower ones.
func mayHoldSecret(s string) bool {
	run, mixed := 0, false
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z':
			run++
		case c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '$':
			run, mixed = run+1, true
		case c >= 0x80:
			return true
		default:
			run, mixed = 0, false
		}
		if run >= 12 && mixed {
			return true
		}
	}
	return false
}

// randomLooking reports whether a text has the shape of a generated key: long, one run, of mixed characters, no path and no
// words.
func randomLooking(s string) bool {
	if hexKey().MatchString(s) {
		return true
	}
	if publicPrefix().MatchString(s) || !keyRun().MatchString(s) || uuidKey().MatchString(s) || strings.Count(s, "/") > 1 || strings.HasPrefix(s, "/") || strings.HasPrefix(s, "-") {
		return false
	}
	var upper, lower, digit, turns, run, longest int
	var last int
	for _, c := range s {
		class := 0
		switch {
		case unicode.IsUpper(c):
			upper++
			class = 1
		case unicode.IsLower(c):
			lower++
			class = 2
		case unicode.IsDigit(c):
			digit++
			class = 3
		}
		if class != last {
			turns++
			run = 0
		}
		run++
		longest = max(longest, run)
		last = class
	}
	return upper > 2 && lower > 2 && digit > 1 && turns*3 >= len(s) && longest < 10
}

// noSecret reports whether a value under a secret-looking name is plainly none: a switch, a small number, a path, a mode.
func noSecret(v string) bool {
	switch strings.ToLower(v) {
	case "true", "false", "yes", "no", "on", "off", "none", "null", "nil", "default", "auto", "anonymous", "disabled", "enabled", "oauth", "oauth2", "basic",
		"bearer", "token", "env", "keychain", "keyring", "file", "required", "optional", "undefined", "password", "apikey", "api_key", "local", "stdio":
		return true
	}
	if len(v) < 4 && strings.Trim(v, "0123456789") == "" {
		return true
	}
	return pathLike(v) || uriWithoutSecret(v) || plainFile().MatchString(v) && !knownSecret().MatchString(v)
}

// uriWithoutSecret reports whether v is a plain URL: no user info, no query, no key in its path.
func uriWithoutSecret(v string) bool {
	_, rest, ok := strings.Cut(v, "://")
	if !ok || strings.ContainsAny(rest, "@? ") {
		return false
	}
	if strings.Contains(rest, "hooks.") || strings.Contains(rest, "webhook") {
		return false
	}
	return !slices.ContainsFunc(strings.Split(rest, "/"), func(s string) bool { return randomLooking(s) || knownSecret().MatchString(s) })
}

var pathForm = lazy.Regexp(`^(?:/[\w.@~ -]+(?:/|$|[\w./ @~-]*\.\w+$)|~[/\\]|~$|\.{1,2}[/\\]|[A-Za-z]:[\\/]|\\\\[\w.$-]+\\|//[\w.-]+/)`)

// pathLike reports whether a text is a file path: absolute, of a home folder, relative with a dot, or of Windows.
func pathLike(v string) bool {
	if strings.HasPrefix(v, "file://") {
		return true
	}
	if strings.HasPrefix(v, "/") && hexKey().MatchString(strings.Trim(v, "/=")) {
		return false
	}
	return pathForm().MatchString(v) && !knownSecret().MatchString(v)
}

// hasSecret reports whether a text holds what looks like a secret by its shape alone.
func hasSecret(s string) bool {
	return knownSecret().MatchString(s) || slices.ContainsFunc(strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(" \t:;,='\"@?&", r) }), randomLooking)
}
