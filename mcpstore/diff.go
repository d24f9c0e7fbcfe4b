package mcpstore

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"bobbin/mcpstore/internal/config"
	"bobbin/schemas"

	"github.com/aymanbagabas/go-udiff"
)

// fields names what differs between two definitions of one server, by the keys of the file.
func fields(before, after schemas.Server) []string {
	var names []string
	a, b := reflect.ValueOf(before), reflect.ValueOf(after)
	for i := range a.NumField() {
		key, _, _ := strings.Cut(a.Type().Field(i).Tag.Get("json"), ",")
		if key != "-" && !sameValue(a.Field(i), b.Field(i)) {
			names = append(names, key)
		}
	}
	return names
}

// sameValue takes an empty list, map or object for a missing one.
func sameValue(a, b reflect.Value) bool {
	empty := func(v reflect.Value) bool {
		return v.IsZero() || (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.Len() == 0
	}
	return empty(a) && empty(b) || reflect.DeepEqual(a.Interface(), b.Interface())
}

// tagger masks values. The key lives as long as the process, so that a tag tells equal values from different ones and cannot
// be looked up.
type tagger struct{ key []byte }

func (t tagger) mask(value string) string {
	if value == "" {
		return value
	}
	mac := hmac.New(sha256.New, t.key)
	mac.Write([]byte(value))
	return "<secret " + hex.EncodeToString(mac.Sum(nil))[:4] + ">"
}

// literals masks what a value holds beside ${input:…} and the name of an authentication scheme.
func (t tagger) literals(value string) string {
	var b strings.Builder
	last := 0
	part := func(text string) {
		trimmed := strings.TrimSpace(text)
		if trimmed == "" || slices.Contains([]string{"bearer", "basic", "token", ":"}, strings.ToLower(trimmed)) {
			b.WriteString(text)
			return
		}
		b.WriteString(t.mask(text))
	}
	for _, at := range schemas.InputRef.FindAllStringIndex(value, -1) {
		part(value[last:at[0]])
		b.WriteString(value[at[0]:at[1]])
		last = at[1]
	}
	part(value[last:])
	return b.String()
}

// sensitive reports whether a variable or header of that name usually holds a secret.
func sensitive(key string) bool {
	key = strings.Map(func(c rune) rune {
		if c == '_' || c == '-' || c == '.' {
			return -1
		}
		return unicode.ToLower(c)
	}, key)
	for _, word := range []string{
		"token", "secret", "passw", "passphrase", "pwd", "apikey", "accesskey", "privatekey", "credential", "auth", "cookie",
		"session", "bearer", "signature", "dsn", "connectionstring", "databaseurl", "webhook",
	} {
		if strings.Contains(key, word) {
			return true
		}
	}
	return strings.HasSuffix(key, "key") || strings.HasSuffix(key, "pass") || strings.HasSuffix(key, "pat")
}

func (t tagger) masked(srv schemas.Server) schemas.Server {
	hide := func(m map[string]string) map[string]string {
		m = maps.Clone(m)
		for k, v := range m {
			if sensitive(k) {
				m[k] = t.literals(v)
			}
		}
		return m
	}
	srv.Env, srv.Headers = hide(srv.Env), hide(srv.Headers)
	return srv
}

func (t tagger) text(i int, doc config.Stored) string {
	doc.Servers, doc.Inputs = slices.Clone(doc.Servers), slices.Clone(doc.Inputs)
	for j, srv := range doc.Servers {
		doc.Servers[j] = t.masked(canonical(srv))
	}
	for j, in := range doc.Inputs {
		if in.Password || sensitive(in.ID) {
			doc.Inputs[j].Default = t.mask(in.Default)
		}
	}
	if len(doc.Servers)+len(doc.Inputs) == 0 {
		return ""
	}
	return string(encode(i, doc))
}

// diff shows what changes in the files that are rewritten, in canonical form and masked. mcp_remote.json has a line of its own
// ahead.
func (t tagger) diff(before, after [2]config.Stored, rewritten [2]bool) string {
	var b strings.Builder
	for i := range before {
		if !rewritten[i] {
			continue
		}
		text := unified(t.text(i, before[i]), t.text(i, after[i]))
		if text != "" && i == fileRemote {
			b.WriteString("# " + fileName(i) + "\n")
		}
		b.WriteString(text)
	}
	return b.String()
}

const diffContext = 3 // lines

func unified(before, after string) string {
	if before == after {
		return ""
	}
	text, err := udiff.ToUnified("", "", before, udiff.Lines(before, after), diffContext)
	if err != nil {
		return "" // only for edits that do not fit their text
	}
	for range 2 { // the file header
		_, text, _ = strings.Cut(text, "\n")
	}
	return text
}

// mapTexts changes every text of a definition in which an input may stand.
func mapTexts(srv schemas.Server, change func(string) string) schemas.Server {
	all := func(m map[string]string) map[string]string {
		m = maps.Clone(m)
		for k, v := range m {
			m[k] = change(v)
		}
		return m
	}
	srv.Command, srv.Cwd, srv.URL = change(srv.Command), change(srv.Cwd), change(srv.URL)
	srv.Args = slices.Clone(srv.Args)
	for i, a := range srv.Args {
		srv.Args[i] = change(a)
	}
	srv.Env, srv.Headers = all(srv.Env), all(srv.Headers)
	return srv
}
