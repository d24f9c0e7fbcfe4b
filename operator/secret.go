package operator

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"bobbin/internal/lazy"
	"bobbin/schemas"
)

// owner is whom the operator's values and servers belong to, beside all members.
const owner = "operator"

// secrets keeps sealed values. Called concurrently. Reveal answers CodeNeeds when there is no value.
type secrets interface {
	Put(context.Context, schemas.SecretKey, schemas.Secret) error
	Reveal(context.Context, schemas.SecretKey) (schemas.Secret, error)
	Delete(context.Context, schemas.SecretKey) error
}

func key(s Server, input string) schemas.SecretKey {
	origin := "local"
	if s.Type == Remote {
		origin = schemas.Server{Type: schemas.HTTP, URL: s.URL}.Origin()
	}
	return schemas.SecretKey{Member: owner, Thread: owner, Server: s.Name, Name: input, Origin: origin}
}

var (
	reference   = lazy.Regexp(`\$\{(input|env):([^}]*)\}`)
	secretWords = lazy.Regexp(`(?i)(^|[^a-z])(token|secret|passw(or)?d|passphrase|pwd|pass|pat|auth|authorization|credentials?|cookie|jwt|bearer|dsn|sid|signature|mnemonic|webhook|api_?key|access_?key|private_?key|key)s?$`)
	camel       = lazy.Regexp(`([a-z])([A-Z])`)
	scheme      = lazy.Regexp(`\A(?i:bearer|basic|token) `)
)

// secretive reports whether a literal value is to be sealed: by its name, or because it looks generated.
func secretive(name, value string) bool {
	if value == "" || reference().MatchString(value) {
		return false
	}
	if secretWords().MatchString(camel().ReplaceAllString(name, "${1}_${2}")) {
		return !slices.Contains([]string{"true", "false", "none", "0", "1"}, strings.ToLower(value))
	}
	if u, err := url.Parse(value); err == nil && u.Host != "" {
		_, has := u.User.Password()
		return has
	}
	return generated(value)
}

// generated reports whether a text looks like a key: long, one word, letters and digits mixed.
func generated(v string) bool {
	if len(v) < 20 || strings.ContainsAny(v, " \t\n/\\") {
		return false
	}
	var letters, digits int
	for _, c := range v {
		switch {
		case unicode.IsLetter(c):
			letters++
		case unicode.IsDigit(c):
			digits++
		}
	}
	return letters > 4 && digits > 2
}

// literals gives what of an entry's values is to be sealed: the reference that takes each value's place, by key.
func literals(s Server) (env, headers map[string]string) {
	env, headers = map[string]string{}, map[string]string{}
	for k, v := range s.Env {
		if secretive(k, v) {
			env[k] = "${input:" + k + "}"
		}
	}
	for k, v := range s.Headers {
		harmless := slices.Contains([]string{"accept", "content-type", "user-agent", "accept-language", "mcp-protocol-version"}, strings.ToLower(k))
		if v == "" || harmless || reference().MatchString(v) {
			continue
		}
		headers[k] = scheme().FindString(v) + "${input:" + inputOf(k) + "}"
	}
	return env, headers
}

// inputOf makes a header's name one of an input.
func inputOf(header string) string {
	id := strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r == '.' || r < 0x80 && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			return r
		}
		return '_'
	}, header)
	if !schemas.ValidInput(id) {
		id = "H_" + id
	}
	return id[:min(len(id), 64)]
}

// sealable is a literal secret of an entry, and where it goes.
type sealable struct {
	key   schemas.SecretKey
	value string
}

// secrets are the literal ones of an entry, by the name of the variable or header.
func (s Server) secrets() map[string]sealable {
	all := map[string]sealable{}
	env, headers := literals(s)
	for k, ref := range env {
		all[k] = sealable{key(s, reference().FindStringSubmatch(ref)[2]), s.Env[k]}
	}
	for k, ref := range headers {
		all[k] = sealable{key(s, reference().FindStringSubmatch(ref)[2]), strings.TrimPrefix(s.Headers[k], scheme().FindString(s.Headers[k]))}
	}
	return all
}

// referenced is the entry with references in the place of literal secrets.
func (s Server) referenced() Server {
	env, headers := literals(s)
	s.Env, s.Headers = maps.Clone(s.Env), maps.Clone(s.Headers)
	maps.Copy(s.Env, env)
	maps.Copy(s.Headers, headers)
	return s
}

// seal puts the literal secrets of an entry into the vault and gives the entry with references.
func (o *Operator) seal(ctx context.Context, s Server) (Server, error) {
	all := s.secrets()
	for _, k := range slices.Sorted(maps.Keys(all)) {
		if err := o.opt.Secrets.Put(ctx, all[k].key, schemas.NewSecret(all[k].value)); err != nil {
			return s, &schemas.Error{Code: schemas.CodeOf(err), Text: "the value of " + k + " cannot be sealed, so nothing was changed", Hint: hintOf(err), Err: err}
		}
	}
	return s.referenced(), nil
}

// resolve gives the values of a table, with references replaced. A value that is missing is CodeNeeds.
func (o *Operator) resolve(ctx context.Context, s Server, in map[string]string) (map[string]schemas.Secret, error) {
	out := make(map[string]schemas.Secret, len(in))
	for _, k := range slices.Sorted(maps.Keys(in)) {
		var failed error
		v := reference().ReplaceAllStringFunc(in[k], func(ref string) string {
			m := reference().FindStringSubmatch(ref)
			if m[1] == "env" {
				v, ok := o.opt.Getenv(m[2])
				if !ok && failed == nil {
					failed = &schemas.Error{Code: schemas.CodeNeeds, Text: s.Name + " needs " + schemas.Clean(m[2], true) + " in bobbin's environment", Hint: "set it where bobbin is started"}
				}
				return v
			}
			v, err := o.opt.Secrets.Reveal(ctx, key(s, m[2]))
			if err != nil && failed == nil {
				failed = err
				if schemas.CodeOf(err) == schemas.CodeNeeds {
					failed = &schemas.Error{Code: schemas.CodeNeeds, Text: s.Name + " needs " + schemas.Clean(m[2], true), Hint: fmt.Sprintf("write the value in place of ${input:%s} in %s, then: bobbin mcp start %s", schemas.Clean(m[2], true), FileName, s.Name), Err: err}
				}
			}
			return v.Reveal()
		})
		if failed != nil {
			return nil, failed
		}
		out[k] = schemas.NewSecret(v)
	}
	return out, nil
}

// Hidden gives the values of a server that nobody is to see in what it answers, by where they stand; none of one that is not there.
// Words that came from bobbin's own environment are not among them, unless they look like secrets.
func (o *Operator) Hidden(ctx context.Context, name string) map[string]schemas.Secret {
	f, _ := o.Load(ctx) // of a file that cannot be read the last good reading stands
	s, _ := f.Find(name)
	return o.hidden(ctx, s)
}

func (o *Operator) hidden(ctx context.Context, s Server) map[string]schemas.Secret {
	all := map[string]schemas.Secret{}
	for group, in := range map[string]map[string]string{"env": s.Env, "header": s.Headers} {
		for k, raw := range in {
			refs := reference().FindAllStringSubmatch(raw, -1)
			if len(refs) == 0 && (group == "header" || secretive(k, raw)) {
				all[group+" "+k] = schemas.NewSecret(strings.TrimPrefix(raw, scheme().FindString(raw)))
			}
			for _, m := range refs {
				got, err := o.resolve(ctx, s, map[string]string{k: m[0]})
				if v := got[k].Reveal(); err == nil && (m[1] == "input" || secretive(k, v) || secretive(m[2], v)) {
					all[group+" "+k+" "+m[2]] = got[k]
				}
			}
		}
	}
	for k, v := range all { // a server may tell the password alone
		if u, err := url.Parse(v.Reveal()); err == nil {
			if password, ok := u.User.Password(); ok {
				all[k+" password"] = schemas.NewSecret(password)
			}
		}
	}
	return all
}

// masks are those values as they stand in lines, longest first.
func (o *Operator) masks(ctx context.Context, s Server) []string {
	var all []string
	for _, v := range o.hidden(ctx, s) {
		if text := v.Reveal(); len(text) >= 4 {
			all = append(all, text)
		}
		for line := range strings.Lines(v.Reveal()) { // of a key in PEM, say
			if line = strings.TrimSpace(line); len(line) >= 12 {
				all = append(all, line)
			}
		}
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	return slices.Compact(all)
}

func masked(text string, masks []string) string {
	for _, m := range masks {
		text = strings.ReplaceAll(text, m, "****")
	}
	return text
}

func hintOf(err error) string {
	if e, ok := asError(err); ok {
		return e.Hint
	}
	return ""
}
