package config

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"bobbin/internal/lazy"
	"bobbin/schemas"
)

// values collects what a text leaves open or gives away: inputs to ask for and literal secrets.
type values struct {
	inputs []schemas.Input
	found  []schemas.Found
	byText map[string]string // literal secret → input
	byID   map[string]string // input → literal secret
}

func newValues() *values {
	return &values{byText: map[string]string{}, byID: map[string]string{}}
}

// input gives the declared input of an id, nil when there is none.
func (v *values) input(id string) *schemas.Input {
	for i := range v.inputs {
		if v.inputs[i].ID == id {
			return &v.inputs[i]
		}
	}
	return nil
}

// declare adds an input unless it is there already, and gives its reference.
func (v *values) declare(id string, password bool) string {
	if v.input(id) == nil {
		v.inputs = append(v.inputs, schemas.Input{Type: "promptString", ID: id, Password: password || connectionName(id)})
	}
	return "${input:" + id + "}"
}

// take moves a literal secret out: equal values share one input, different ones never do.
func (v *values) take(server, id, where, text string) string {
	if known, ok := v.byText[text]; ok {
		id = known
	} else {
		for try, n := id, 1; ; n++ {
			if _, used := v.byID[try]; !used {
				id = try
				break
			}
			if try = inputID(fmt.Sprintf("%s_%s", upperSnake(server), id)); n > 1 {
				try = inputID(fmt.Sprintf("%s_%d", try[:min(len(try), 60)], n))
			}
		}
		v.byText[text], v.byID[id] = id, text
	}
	if !slices.ContainsFunc(v.found, func(f schemas.Found) bool { return f.Server == server && f.Input == id }) {
		v.found = append(v.found, schemas.Found{Server: server, Input: id, Value: schemas.NewSecret(text), Where: where})
	}
	ref := v.declare(id, true)
	v.input(id).Password = true
	return ref
}

// gap is the place of one text: what it is called, and what the client or a shell would do with it.
type gap struct {
	server, where string // "env GITHUB_TOKEN"
	id            string // the input's id if the whole text is to be asked for
	secret        bool   // the name of the place looks secret
	shell         bool   // a shell expands $X and %X%, the client does not
	arg           bool
	login         bool   // a user is named beside it, so that -p is a password
	program       string // what the argument is for
	url           bool
	at            int
	ptr           string
}

var scheme = lazy.Regexp(`^(?i:(?:Bearer|Basic|Token|ApiKey|Api-Key|Key|Digest|Negotiate)\s+)`)

// fill gives a text with every placeholder and literal secret replaced by ${input:ID}.
func (r *reader) fill(s gap, text string) string {
	if strings.TrimSpace(text) == "" {
		if s.arg || s.url || r.stored {
			return text
		}
		return r.vals.declare(r.ownID(s), s.secret)
	}
	if m := envReference().FindStringSubmatch(text); m != nil && s.secret && !r.stored {
		return r.named(s, m[1], text)
	}
	if r.stored && ownReference(text) {
		return r.reference(s, text[len("${input:"):len(text)-1])
	}
	if m := scheme().FindString(text); m != "" && (s.secret || strings.Contains(strings.ToLower(s.where), "auth")) {
		s.secret = true
		return m + r.fill(s, text[len(m):])
	}
	if r.stored && !s.secret && !strings.ContainsAny(text, "$%{@?") && !mayHoldSecret(text) {
		return text
	}
	if s.arg && !s.shell && upperMarker().MatchString(text) {
		return r.named(s, strings.Trim(text, "{}"), text)
	}
	partly := s.arg && pathHole().MatchString(text) && !markerForm().MatchString(text) // only the <…> in it are asked for
	named := isSamplePath(text) || s.where == "cwd" && !markerForm().MatchString(text) // a folder may have any name
	if !r.stored && !partly && !named && (!s.arg && !s.url || !strings.Contains(text, "://")) && sample(text, s.secret) && !references().MatchString(strings.ReplaceAll(text, "{{", "")) {
		return r.vals.declare(r.sampleID(s, text), s.secret)
	}
	if !r.stored && !s.url && !s.shell && !strings.Contains(text, "://") {
		if out, ok := r.samplePaths(s, text); ok {
			return out
		}
	}
	if !s.shell && wholeName().MatchString(text) {
		return r.named(s, strings.Trim(text, "${}% "), text)
	}
	out := text
	if strings.ContainsAny(text, "$%{") {
		out = r.expand(s, text)
	}
	if strings.Contains(out, "${input:") && out[0] == '$' && strings.HasSuffix(out, "}") && strings.Count(out, "$") == 1 {
		return out
	}
	out = r.parts(s, out)
	if strings.Contains(out, "${input:") {
		return out
	}
	switch {
	case s.secret && !noSecret(out), wholeSecret(out), !s.arg && !s.url && !publicName(s.id) && randomLooking(out):
		return r.vals.take(s.server, s.id, s.where, out)
	case s.arg && !s.url && !publicName(s.id) && randomLooking(out) && !strings.ContainsAny(out, "/=") && len(out) >= 32:
		return r.vals.take(s.server, s.id, s.where, out)
	}
	return r.known(s, out)
}

// known takes out what begins like a credential of a known service.
func (r *reader) known(s gap, text string) string {
	if !mayHoldSecret(text) {
		return text
	}
	return knownSecret().ReplaceAllStringFunc(text, func(m string) string {
		lead := ""
		if m[0] == '_' {
			lead, m = "_", m[1:]
		}
		return lead + r.vals.take(s.server, s.id, s.where, m)
	})
}

// ownReference reports whether a text is nothing but one ${input:ID}.
func ownReference(text string) bool {
	return strings.HasPrefix(text, "${input:") && strings.IndexByte(text, '}') == len(text)-1
}

var variableForm = lazy.Regexp(`^[A-Za-z_][\w.-]*$`)

// envReference is how some servers name a variable that they read themselves.
var envReference = lazy.Regexp(`^env:([A-Za-z_]\w*)$`)

var upperMarker = lazy.Regexp(`^\{[A-Z][A-Z0-9_]{2,}\}$`)

var wholeName = lazy.Regexp(`^(?:\$[A-Za-z_]\w*|\{[A-Za-z_][\w-]*\}|%[A-Za-z_]\w*%)$`)

// publicName reports whether a name says that its long random value identifies something and opens nothing.
func publicName(name string) bool {
	w := words(name)
	if len(w) == 0 {
		return false
	}
	switch w[len(w)-1] {
	case "id", "ref", "hash", "sha", "commit", "digest", "checksum", "project", "org", "uuid", "address", "account", "name", "url", "path", "version", "revision", "model", "fingerprint":
		return true
	}
	return false
}

// ownID keeps what two servers ask for under one everyday name apart: a token for one must not reach the other.
func (r *reader) ownID(s gap) string {
	switch plain(s.id) {
	case "authorization", "apikey", "xapikey", "key", "token", "accesstoken", "authtoken", "bearertoken", "apitoken", "xapitoken", "secret", "password", "username", "user", "email", "url",
		"baseurl", "apiurl", "host", "endpoint", "clientid", "clientsecret", "secretkey", "accesskey", "projectid", "cookie", "proxyauthorization", "xauthtoken", "port", "database":
		if first, ok := r.askers[s.id]; ok && first != s.server {
			return inputID(upperSnake(s.server) + "_" + upperSnake(s.id))
		}
		r.askers[s.id] = s.server
	}
	return s.id
}

// subject is what the first sample text under an id names, such as drive in YOUR_GOOGLE_DRIVE_CLIENT_ID.
type subject struct{ server, words string }

// sameSubject reports whether a sample text asks for the same as the first one under its id. Two servers that name two things
// are asked for both.
func (r *reader) sameSubject(s gap, text string) bool {
	own := words(s.id)
	w := slices.DeleteFunc(words(text), func(w string) bool {
		return slices.Contains(own, w) || strings.Trim(w, "x0123456789") == "" || slices.Contains([]string{"your", "my", "the", "a", "here", "insert", "replace", "with", "enter", "put", "add", "api", "key",
			"token", "secret", "personal", "access", "pat", "ghp", "sk", "client", "id", "value", "real", "actual", "own", "password", "from", "example", "sample", "changeme", "placeholder", "test", "dummy"}, w)
	})
	now := subject{s.server, strings.Join(w, " ")}
	first, ok := r.subjects[s.id]
	if !ok {
		r.subjects[s.id] = now
	}
	return !ok || first.server == now.server || first.words == "" || now.words == "" || first.words == now.words
}

// sampleID names the input for a sample text: by its place, else by its own words.
func (r *reader) sampleID(s gap, text string) string {
	if !s.arg && !s.url || s.id != "" && s.id != "URL" && !strings.HasPrefix(s.id, "VALUE") {
		if id := r.ownID(s); id != s.id || r.sameSubject(s, text) {
			return id
		}
		return inputID(upperSnake(s.server) + "_" + upperSnake(s.id))
	}
	w := words(text)
	for len(w) > 1 && slices.Contains([]string{"your", "my", "the", "a", "insert", "replace", "with", "enter", "put", "add"}, w[0]) {
		w = w[1:]
	}
	if len(w) > 1 && w[len(w)-1] == "here" {
		w = w[:len(w)-1]
	}
	if id := upperSnake(strings.Join(w, "_")); id != "VALUE" && len(w) > 0 && len(id) <= 40 {
		return id
	}
	return inputID(upperSnake(s.server) + "_" + s.id)
}

// expand replaces variables of other clients.
func (r *reader) expand(s gap, text string) string {
	var out strings.Builder
	last := 0
	for _, m := range references().FindAllStringSubmatchIndex(text, -1) {
		out.WriteString(text[last:m[0]])
		last = m[1]
		whole, group := text[m[0]:m[1]], ""
		kind := 1
		for ; kind < len(m)/2; kind++ {
			if m[2*kind] >= 0 {
				group = text[m[2*kind]:m[2*kind+1]]
				break
			}
		}
		switch {
		case kind == 1 && strings.HasPrefix(group, "input:"):
			out.WriteString(r.reference(s, group[len("input:"):]))
		case kind == 7 && s.shell && r.shellLine(s.server):
			out.WriteString(whole)
		case kind == 7:
			r.note(schemas.NoteRisk, s.server, s.at, "%s holds $(…), which only a shell would run", s.where)
			out.WriteString(whole)
		case s.shell && kind >= 4, s.shell && kind == 1 && !strings.Contains(group, ":"):
			r.note(schemas.NoteRisk, s.server, s.at, "%s holds %s, which the shell fills in when it starts", s.where, whole)
			out.WriteString(whole)
		case kind == 6 && s.arg && !s.secret && !strings.Contains(s.where, "header"):
			r.note(schemas.NoteRisk, s.server, s.at, "%s holds %s, which only a shell would fill in", s.where, whole)
			out.WriteString(whole)
		default:
			out.WriteString(r.named(s, group, whole))
		}
	}
	out.WriteString(text[last:])
	return out.String()
}

// shellLine reports whether it was said already that a server is started by a line for a shell.
func (r *reader) shellLine(server string) bool {
	return slices.ContainsFunc(r.notes, func(n schemas.Note) bool {
		return n.Kind == schemas.NoteRisk && n.Server == server && n.Text == shellNote
	})
}

// reference keeps a ${input:ID} and declares the id.
func (r *reader) reference(s gap, id string) string {
	if r.vals.input(id) != nil {
		return r.vals.declare(id, false)
	}
	if renamed, ok := r.ids[id]; ok {
		return r.vals.declare(renamed, false)
	}
	if !schemas.ValidInput(id) {
		r.wrong(s.at, s.ptr, s.server, "use letters, digits, _, . and -, starting with a letter", "${input:%s} names no input", shownText(id))
		return "${input:" + inputID(id) + "}"
	}
	return r.vals.declare(id, secretName(id) || s.secret)
}

// named replaces a variable by name, with the default of a ${NAME:-default}.
func (r *reader) named(s gap, name, whole string) string {
	name, def, hasDef := defaultOf(name)
	name = bareVariable(name)
	switch {
	case mayHoldSecret(name) && (knownSecret().MatchString(name) || randomLooking(name)): // the value stands where its name should
		return r.vals.take(s.server, s.id, s.where, name)
	case workspaceVariable(name):
		r.note(schemas.NotePath, s.server, s.at, "%s: %s is the workspace here", s.where, whole)
		if s.where != "cwd" {
			return cmp.Or(r.up, ".")
		}
		return "."
	case machineVariable(name):
		r.note(schemas.NotePath, s.server, s.at, "%s: %s is a variable of one machine, left as it is; it must exist where the server runs", s.where, whole)
		return whole
	case name == "":
		return whole
	}
	id := inputID(name)
	if !variableForm().MatchString(name) && s.id != "" { // ${cmd: …} and the like: the other client works it out
		id = s.id
	}
	secret := secretName(name) || s.secret && len(whole) > 0
	ref := r.vals.declare(id, secret)
	if in := r.vals.input(id); hasDef && def != "" && in.Default == "" {
		if sample(def, secret) {
			return ref
		}
		if secret && !noSecret(def) || hasSecret(def) {
			return r.vals.take(s.server, id, s.where, def)
		}
		in.Default = def
	}
	return ref
}

var (
	embedded  = lazy.Regexp(`<{1,2}([\pL_][\pL\pN_ .:-]{1,60})>{1,2}|\b((?:YOUR|MY|TU|VOTRE|DEIN|SEU)_[A-Z0-9_]*[A-Z0-9])\b|\b(your[-_][a-z0-9]+(?:[-_][a-z0-9]+)*)\b`)
	userInfo  = lazy.Regexp(`\b([a-z][a-z0-9+.-]*)://([^\s/?#"'@:]*)(?::([^\s/?#"']*))?@[\w.\[$-]`)
	queryPart = lazy.Regexp(`(^|[?&;\s])([A-Za-z_][\w.-]*)=([^&#\s"';]+)`)
	jsonPair  = lazy.Regexp(`(\\*"([A-Za-z_][\w-]*)\\*"\s*:\s*\\*")([^"\\]+)(\\*")`)
	// sampleHost is a host that nobody has: all of it is asked for.
	sampleHost = lazy.Regexp(`(://)((?:your|my)-(?:own-)?(?:server|domain|host|instance|site|app|url|endpoint|mcp-server|server-url)(?:-\w+)?)\.(?:com|net|org|io|dev|app|ai|co)\b`)
	bracedName = lazy.Regexp(`(^|[^$%{])\{([A-Z][A-Z0-9_]{2,})\}`)
	urlVar     = lazy.Regexp(`\{([A-Za-z_]\w*)\}`)
)

// parts looks into a text: user info and query of URLs, members of inline JSON, sample words.
func (r *reader) parts(s gap, text string) string {
	if strings.Contains(text, "://") {
		text = r.userInfo(s, text)
	}
	if strings.ContainsAny(text, `="`) {
		text = r.pairsIn(s, text)
	}
	if s.url {
		text = r.urlParts(s, text)
	}
	if !r.stored {
		text = replaceGroups(sampleHost(), text, func(g []string) string {
			in := s
			in.id, in.arg = "VALUE", true
			return g[1] + r.vals.declare(r.sampleID(in, g[2]), false)
		})
	}
	if r.stored || pathLike(text) || strings.Count(text, " ") > 6 || s.shell {
		return text
	}
	text = replaceGroups(bracedName(), text, func(g []string) string { return g[1] + r.named(s, g[2], "{"+g[2]+"}") })
	return replaceGroups(embedded(), text, func(g []string) string {
		in := s
		in.id, in.arg = "VALUE", true
		name := g[1] + g[2] + g[3]
		if s.url && !ascii(name) {
			in.id = "URL"
		}
		ref := r.vals.declare(r.sampleID(in, name), secretName(name))
		if d := r.vals.input(strings.TrimSuffix(strings.TrimPrefix(ref, "${input:"), "}")); d != nil && d.Description == "" && !ascii(name) {
			d.Description = clip(name, 200)
		}
		return ref
	})
}

// pairsIn looks at the query parameters of a URL and the members of inline JSON.
func (r *reader) pairsIn(s gap, text string) string {
	text = replaceGroups(queryPart(), text, func(g []string) string {
		if isRef(g[3]) {
			return g[0]
		}
		in := s
		in.id, in.secret = upperSnake(g[2]), secretName(g[2]) || strings.EqualFold(g[2], "key") || strings.EqualFold(g[2], "code")
		if sample(g[3], in.secret) || in.secret && !noSecret(g[3]) || knownSecret().MatchString(g[3]) {
			in.arg, in.url = true, true
			return g[1] + g[2] + "=" + r.whole(in, g[3])
		}
		return g[0]
	})
	return replaceGroups(jsonPair(), text, func(g []string) string {
		in := s
		in.id, in.secret = upperSnake(g[2]), secretName(g[2])
		if isRef(g[3]) || !in.secret && !sample(g[3], false) && !knownSecret().MatchString(g[3]) || noSecret(g[3]) {
			return g[0]
		}
		lead := scheme().FindString(g[3])
		if g[3] == lead || isRef(g[3][len(lead):]) || noSecret(g[3][len(lead):]) {
			return g[0]
		}
		return g[1] + lead + r.whole(in, g[3][len(lead):]) + g[4]
	})
}

// whole replaces a part that is a sample or a secret as a whole.
func (r *reader) whole(s gap, text string) string {
	if sample(text, s.secret) {
		return r.vals.declare(s.id, s.secret)
	}
	return r.vals.take(s.server, s.id, s.where, text)
}

func ascii(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return c > 127 })
}

func isRef(s string) bool { return strings.HasPrefix(s, "$") }

// userInfo takes the password out of scheme://user:password@host.
func (r *reader) userInfo(s gap, text string) string {
	return replaceGroups(userInfo(), text, func(g []string) string {
		host := g[0][len(g[0])-1:]
		id := map[string]string{"postgres": "PG_PASSWORD", "postgresql": "PG_PASSWORD"}[g[1]]
		switch {
		case id == "" && !strings.HasPrefix(g[1], "http"):
			id = upperSnake(strings.SplitN(g[1], "+", 2)[0] + "_password")
		case id == "":
			id = upperSnake(s.server + "_password")
		}
		if !s.arg && !s.url && s.id != "" {
			id = inputID(s.id + "_PASSWORD")
		}
		in := s
		in.id, in.secret = id, true
		switch {
		case g[3] == "" && (randomLooking(g[2]) || knownSecret().MatchString(g[2])):
			return g[1] + "://" + r.whole(in, g[2]) + "@" + host
		case g[3] == "" || isRef(g[3]):
			return g[0]
		}
		user := g[2]
		if sample(user, false) {
			user = r.vals.declare(inputID(strings.TrimSuffix(id, "PASSWORD")+"USER"), false)
		}
		return g[1] + "://" + user + ":" + r.whole(in, g[3]) + "@" + host
	})
}

// urlParts asks for {name} in a URL's path and takes out a path segment that is a key.
func (r *reader) urlParts(s gap, text string) string {
	text = replaceGroups(urlVar(), text, func(g []string) string {
		if strings.Contains(text, "${input:"+g[1]+"}") || strings.Contains(text, "$"+g[0]) {
			return g[0]
		}
		return r.vals.declare(inputID(g[1]), secretName(g[1]))
	})
	head, query, cut := strings.Cut(text, "?")
	seg := strings.Split(head, "/")
	for i := 3; i < len(seg); i++ {
		if randomLooking(seg[i]) || wholeSecret(seg[i]) || uuidKey().MatchString(seg[i]) && opensServer(seg, i) {
			seg[i] = r.vals.take(s.server, upperSnake(s.server+"_URL_KEY"), s.where, seg[i])
		}
	}
	if head = strings.Join(seg, "/"); cut {
		head += "?" + query
	}
	return head
}

// opensServer reports whether a UUID in a path is what lets a caller in: an address that a host of servers made for one
// person, and not the number of a workspace or project.
func opensServer(seg []string, i int) bool {
	switch strings.TrimSuffix(strings.ToLower(seg[i-1]), "s") {
	case "workspace", "project", "org", "organization", "team", "account", "tenant", "user", "agent", "subscription", "app", "site", "customer", "space", "dataset", "database", "environment", "env":
		return false
	}
	return slices.ContainsFunc(seg[3:], func(s string) bool { return s == "mcp" || s == "server" || s == "sse" || s == "s" })
}

// replaceGroups is ReplaceAllStringFunc with the groups at hand.
func replaceGroups(re *regexp.Regexp, text string, f func(groups []string) string) string {
	var out strings.Builder
	last := 0
	for _, m := range re.FindAllStringSubmatchIndex(text, -1) {
		g := make([]string, len(m)/2)
		for i := range g {
			if m[2*i] >= 0 {
				g[i] = text[m[2*i]:m[2*i+1]]
			}
		}
		out.WriteString(text[last:m[0]] + f(g))
		last = m[1]
	}
	return out.String() + text[last:]
}
