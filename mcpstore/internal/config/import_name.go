package config

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"bobbin/internal/lazy"
	"bobbin/schemas"
)

// badName says why a name is refused outright, "" when it may be used or changed into one.
func badName(raw string) string {
	switch {
	case strings.TrimSpace(raw) == "":
		return "a server needs a name"
	case raw == "." || raw == "..":
		return fmt.Sprintf("%q is no name", raw)
	case strings.HasPrefix(raw, "__proto__"), slices.Contains([]string{"constructor", "prototype"}, strings.ToLower(raw)):
		return fmt.Sprintf("the name %q is reserved", raw)
	}
	if schemas.ValidName(raw) {
		return ""
	}
	scripts := map[string]bool{}
	for _, c := range raw {
		if c == utf8.RuneError || unicode.IsControl(c) || unicode.Is(unicode.Cf, c) || unicode.Is(unicode.Co, c) || unicode.Is(unicode.Zl, c) || unicode.Is(unicode.Zp, c) {
			return fmt.Sprintf("the name %s holds an invisible or forbidden character", asciiQuote(raw))
		}
		for name, table := range map[string]*unicode.RangeTable{"Latin": unicode.Latin, "Cyrillic": unicode.Cyrillic, "Greek": unicode.Greek, "Armenian": unicode.Armenian, "Cherokee": unicode.Cherokee} {
			if unicode.Is(table, c) && unicode.IsLetter(c) {
				scripts[name] = true
			}
		}
	}
	if len(scripts) > 1 {
		return fmt.Sprintf("the name %s mixes scripts that look alike", asciiQuote(raw))
	}
	return ""
}

// asciiQuote shows a suspicious name so that nothing in it can deceive.
func asciiQuote(s string) string {
	q := fmt.Sprintf("%+q", s)
	return q[:min(len(q), 120)]
}

// slug changes a name into a valid one, "" if nothing readable is left.
func slug(raw string) string {
	raw = strings.TrimRight(raw, "/ ")
	if i := strings.LastIndexAny(raw, `/\`); i >= 0 {
		owner := raw[:i]
		if raw = raw[i+1:]; slices.Contains([]string{"mcp", "server", "mcp-server", "mcp_server"}, strings.ToLower(raw)) {
			raw = ownerName(owner) + "-" + raw
		}
	}
	var b strings.Builder
	for _, c := range norm.NFKD.String(raw) {
		switch {
		case c < 128 && (unicode.IsLetter(c) || unicode.IsDigit(c)), c == '_', c == '.':
			b.WriteRune(c)
		case unicode.Is(unicode.Mn, c):
		case !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	s := strings.Trim(b.String(), "-._")
	return strings.TrimRight(s[:min(len(s), 48)], "-._")
}

// ownerName gives the telling part of what stands before a name that says nothing: acme of com.acme.shop/mcp and of
// github.com/acme/mcp.
func ownerName(owner string) string {
	owner = owner[strings.LastIndexAny(owner, `/\`)+1:]
	parts := strings.Split(owner, ".")
	if n := len(parts); n > 2 && (parts[1] == "github" || parts[1] == "gitlab") {
		return parts[2]
	} else if n > 1 && len(parts[0]) <= 4 {
		return parts[1]
	}
	return owner
}

// claim gives a server its name in this import. ok is false when the name is refused or when the entry is a copy.
func (r *reader) claim(raw string, at int, ptr string) (name, title string, ok bool) {
	if bad := badName(raw); bad != "" {
		r.wrong(at, ptr, "", "use letters, digits, . _ and -, at most 48", "%s", bad)
		return "", "", false
	}
	name = raw
	if !schemas.ValidName(raw) {
		title = shown(strings.TrimSpace(raw))
		if name = slug(raw); !schemas.ValidName(name) {
			name = fmt.Sprintf("server-%d", len(r.names)+1)
		}
	}
	first, taken := r.names[strings.ToLower(name)]
	switch {
	case taken && first.raw == raw && first.group != r.group:
		title = raw // the same name in another part of the file
	case taken && title == "" && !first.changed && first.group == r.group:
		line, _ := r.src.place(first.at)
		r.wrong(at, ptr, raw, "rename one of them", "%q and %q of line %d differ only in case", raw, first.raw, line)
		return "", "", false
	}
	base := name
	for n := 2; taken; n++ {
		end := fmt.Sprintf("-%d", n)
		name = base[:min(len(base), 48-len(end))] + end
		title = raw
		_, taken = r.names[strings.ToLower(name)]
	}
	r.names[strings.ToLower(name)] = claimed{raw: raw, at: at, changed: title != "", group: r.group}
	if title != "" {
		r.note(schemas.NoteRenamed, name, at, "%s is called %s here", shownKey(title), name)
	}
	return name, title, true
}

// claimed is a name in use.
type claimed struct {
	raw     string
	at      int
	changed bool
	group   int
}

// hostName gives the telling part of an address' host, "" if there is none.
func hostName(u string) string {
	_, rest, ok := strings.Cut(u, "://")
	if !ok {
		return ""
	}
	host, _, _ := strings.Cut(rest, "/")
	host = host[strings.LastIndex(host, "@")+1:]
	parts := strings.Split(strings.Split(host, ":")[0], ".")
	parts = slices.DeleteFunc(parts, func(s string) bool {
		return slices.Contains([]string{"mcp", "www", "api", "com", "io", "dev", "app", "ai", "net", "org"}, s)
	})
	if len(parts) > 0 && schemas.ValidName(parts[0]) && !hasSecret(parts[0]) {
		return parts[0]
	}
	return ""
}

var (
	packageName = lazy.Regexp(`^(?:[\w+]+:)?(?:@?[\w.-]+/)*[\w.-]+(?:\[[\w,-]+\])?(?:@[\w.^~*-]+|==[\w.]+|#[\w./-]+)?$`)
	imageName   = lazy.Regexp(`^(?:[\w.-]+(?::\d+)?/)*[\w.-]+(?::[\w.-]+)?(?:@sha256:[0-9a-f]+)?$`)
)

// guessName names a server by the package, script or host that it comes from. It never looks at what could be the value of
// a flag: that may be a secret.
func guessName(n *node) string {
	if n == nil {
		return ""
	}
	if u := firstText(n, "url", "serverUrl", "httpUrl", "server_url", "serverURL", "http_url", "endpoint", "uri"); strings.Contains(u, "://") {
		return hostName(u)
	}
	prog := program(n.get("command").str())
	inside := slices.Contains([]string{"docker", "podman", "nerdctl"}, prog)
	flag := ""
	for i, a := range n.get("args").itemsOf() {
		s, before := a.str(), flag
		flag = ""
		switch {
		case strings.HasPrefix(s, "-"):
			if flag = s; inside && !dockerValued(s) && s != "-v" && s != "--volume" && s != "--mount" || s == "-y" || s == "--yes" || s == "-m" || s == "-q" || s == "--quiet" || s == "--from" ||
				s == "--package" || s == "-p" && prog == "npx" || s == "-jar" {
				flag = ""
			}
		case before != "", hasSecret(s), !packageRunner(prog) && subcommand(s):
		case mcpRemote().MatchString(s):
			for _, u := range n.get("args").itemsOf()[i+1:] {
				if name := hostName(u.str()); name != "" {
					return name
				}
			}
		default:
			return argName(s, inside)
		}
	}
	if p := slug(prog); !launcher(prog) && schemas.ValidName(p) {
		return p
	}
	return ""
}

func subcommand(s string) bool {
	return slices.Contains([]string{"run", "dlx", "tool", "exec", "x", "mcp", "serve", "start", "server", "stdio"}, s)
}

// argName makes a name of a package, image or path.
func argName(s string, image bool) string {
	switch {
	case image && imageName().MatchString(s):
		s, _, _ = strings.Cut(s, "@sha256:")
		if i := strings.LastIndex(s, ":"); i > strings.LastIndex(s, "/") {
			s = s[:i]
		}
	case image, !packageName().MatchString(s) && foreignPath(s) == "":
		return ""
	}
	s = slug(stripVersion(s))
	s = strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(s, "mcp-server-"), "server-"), "-mcp")
	if !schemas.ValidName(s) {
		return ""
	}
	return s
}
