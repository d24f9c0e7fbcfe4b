package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"bobbin/schemas"
)

// badNumber reports whether a number is none that can be used: infinite, not a number, minus zero.
func badNumber(s string) bool {
	f, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64)
	if err != nil {
		_, err = strconv.ParseInt(s, 0, 64)
		return err != nil
	}
	return math.IsInf(f, 0) || math.IsNaN(f) || f == 0 && strings.HasPrefix(s, "-")
}

// flag reads a switch, also written as text.
func (e *entry) flag(m member) bool {
	asText := strings.ToLower(strings.TrimSpace(m.value.text))
	switch {
	case m.value.kind == boolNode, m.value.kind == textNode && slices.Contains([]string{"true", "false", "yes", "no", "on", "off", "1", "0"}, asText):
		return slices.Contains([]string{"true", "yes", "on", "1"}, asText)
	case m.value.kind == textNode && (asText == "" || strings.ContainsAny(asText, "${}%<")), m.value.kind == nullNode:
		e.say(schemas.NoteIgnored, m.at, "%s is no switch; the server counts as enabled", m.key)
	case m.value.kind == numberNode && (asText == "0" || asText == "1"):
		return asText == "1"
	default:
		e.bad(m.value.at, m.key, "", "%q must be true or false, not %s", m.key, m.value.kind)
	}
	return meaningOf(m.key) == enabledKey
}

// readTimeout reads the time for one call. Below 1000 a bare number is taken for seconds.
func (e *entry) readTimeout(m member, k meaning) {
	s := strings.TrimSpace(m.value.text)
	if m.value.kind == textNode {
		if d, err := time.ParseDuration(s); err == nil {
			s, k = strconv.FormatInt(d.Milliseconds(), 10), timeoutMsKey
		} else if _, err := strconv.ParseFloat(s, 64); err != nil {
			e.say(schemas.NoteIgnored, m.at, "%s is no number; the default holds", m.key)
			return
		}
	}
	switch m.value.kind {
	case numberNode, textNode:
	case nullNode, objectNode:
		e.say(schemas.NoteIgnored, m.at, "%s is ignored", m.key)
		return
	default:
		e.bad(m.value.at, m.key, "", "%q must be a number, not %s", m.key, m.value.kind)
		return
	}
	f, _ := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64)
	if badNumber(s) || f < 0 {
		e.bad(m.value.at, m.key, "", "%q must be a positive number", m.key)
		return
	}
	inSeconds := (e.format == "roo" || e.format == "cline") && f < 10_000 // their documentation: seconds, at most an hour
	taken := ""
	if k == timeoutSecKey || k == timeoutKey && (f < 1000 || inSeconds) {
		f *= 1000
		if k == timeoutKey && f > 0 {
			taken = " " + s + " is taken for seconds"
		}
	}
	ms := int(min(f, 1e9))
	if f > 0 && (ms < 1000 || ms > 600_000) {
		ms = max(1000, min(ms, 600_000))
		if taken != "" {
			taken += " and"
		}
		taken += fmt.Sprintf(" becomes %s; 1 s to 10 min are possible", time.Duration(ms)*time.Millisecond)
	}
	if taken != "" {
		e.say(schemas.NoteMapped, m.at, "timeout%s", taken)
	}
	e.timeout = ms
}

// readTools reads which tools the client showed.
func (e *entry) readTools(m member, p string, k meaning) {
	v := m.value
	if k == toolsKey && v.kind == objectNode {
		e.toolObject(m, p)
		return
	}
	if v.kind != listNode {
		e.say(schemas.NoteIgnored, m.at, "%s is ignored", m.key)
		return
	}
	if k == toolsKey && len(v.items) > 0 && v.items[0].get("name") != nil {
		return // it describes them
	}
	var names []string
	for _, i := range v.items {
		if i.kind != textNode || len(i.text) > 128 || shown(i.text) != i.text {
			e.say(schemas.NoteIgnored, m.at, "%s holds something that is no tool name; it is ignored", m.key)
			return
		}
		if i.text = strings.TrimSpace(i.text); i.text != "" && !slices.Contains(names, i.text) {
			names = append(names, i.text)
		}
	}
	switch {
	case k == excludeKey:
		e.tools.Exclude = append(e.tools.Exclude, names...)
	case slices.Contains(names, "*"), len(names) == 0:
	default:
		e.tools.Include = append(e.tools.Include, names...)
	}
}

// toolObject reads {"include": …, "exclude": …} or a switch for each tool.
func (e *entry) toolObject(m member, p string) {
	v := m.value
	mode := v.get("mode").str()
	granted := &node{kind: listNode} // tools that the other client does not ask about
	for _, t := range v.members {
		tp := pointer(p, t.key)
		for _, o := range t.value.membersOf() {
			if notObeyed(o.key) && !(o.value.is(boolNode) && o.value.text == "false") {
				granted.items = append(granted.items, &node{kind: textNode, text: t.key, at: t.at})
			}
		}
		switch {
		case slices.Contains([]string{"include", "allow", "allowed", "enabled", "allowlist"}, t.key) && t.value.kind == listNode:
			e.readTools(t, tp, includeKey)
		case slices.Contains([]string{"exclude", "deny", "denied", "disabled", "denylist", "block"}, t.key) && t.value.kind == listNode:
			e.readTools(t, tp, excludeKey)
		case t.key == "list" && t.value.kind == listNode && mode != "":
			e.readTools(t, tp, map[bool]meaning{true: excludeKey, false: includeKey}[mode == "block" || mode == "deny" || mode == "exclude"])
		case t.value.kind == boolNode && t.value.text == "false", t.value.get("enabled").is(boolNode) && t.value.get("enabled").text == "false",
			t.value.get("disabled").is(boolNode) && t.value.get("disabled").text == "true":
			e.tools.Exclude = append(e.tools.Exclude, t.key)
		case t.value.kind == boolNode, t.key == "mode", t.value.kind == objectNode:
		default:
			e.say(schemas.NoteIgnored, m.at, "%s of %s is ignored", shownKey(t.key), m.key)
		}
	}
	e.notObeyed(member{"approval", m.at, granted})
}

// readAuth reads how a remote server signs in. A secret in it is never taken over.
func (e *entry) readAuth(m member) {
	a := &schemas.Auth{Type: "oauth"}
	if e.auth != nil {
		a = e.auth
	}
	v := m.value
	switch {
	case meaningOf(m.key) == scopesKey:
		a.Scopes = scopeList(v)
		if len(a.Scopes) == 0 {
			return
		}
	case v.kind == textNode && slices.Contains([]string{"none", "header", "oauth"}, strings.ToLower(v.text)):
		a.Type = strings.ToLower(v.text)
	case v.kind == textNode && slices.Contains([]string{"bearer", "apikey", "api_key", "token"}, strings.ToLower(v.text)):
		a.Type = "header"
	case v.kind == objectNode:
		if !e.authObject(m, a) {
			return
		}
	default:
		if v.kind != nullNode && !(v.kind == boolNode && v.text == "false") {
			e.say(schemas.NoteIgnored, m.at, "%s is ignored; how to sign in is asked at connect", m.key)
		}
		return
	}
	e.auth = a
}

func (e *entry) authObject(m member, a *schemas.Auth) bool {
	if len(m.value.members) == 0 {
		return true
	}
	if en := m.value.get("enabled"); en.is(boolNode) && en.text == "false" {
		return false
	}
	known := false
	for _, t := range m.value.members {
		switch plain(t.key) {
		case "type":
			if w := strings.ToLower(t.value.str()); slices.Contains([]string{"none", "header", "oauth"}, w) {
				a.Type, known = w, true
			}
		case "clientid":
			if s := t.value.str(); s != "" && !sample(s, true) && !references().MatchString(s) {
				a.ClientID = s
			}
			known = true
		case "scopes", "scope":
			a.Scopes, known = scopeList(t.value), true
		case "identity":
			if slices.Contains([]string{"requester", "lent", "thread"}, t.value.str()) {
				a.Identity = t.value.str()
			}
		case "tokenenv", "tokenenvvar", "envvar", "token", "bearertoken", "accesstoken":
			known = e.authToken(m.value, t, a) || known
		case "enabled", "callbackport", "redirecturi":
			known = true
		case "clientsecret":
			known = true
			e.say(schemas.NoteIgnored, t.at, "the client secret is not taken over; give it at connect")
		}
	}
	if !known {
		e.say(schemas.NoteIgnored, m.at, "%s is ignored; how to sign in is asked at connect", m.key)
	}
	return known
}

// authToken sends the bearer token of {"type": "bearer", "tokenEnv": "NAME"} or {…, "token": "…"} as a header.
func (e *entry) authToken(auth *node, t member, a *schemas.Auth) bool {
	if !t.value.is(textNode) || strings.TrimSpace(t.value.text) == "" {
		return false
	}
	if w := strings.ToLower(auth.get("type").str()); w != "bearer" && w != "token" {
		e.say(schemas.NoteIgnored, t.at, "%s is not taken over; give it at connect", shownKey(t.key))
		return true
	}
	v := *t.value
	if strings.Contains(strings.ToLower(t.key), "env") {
		if !envName().MatchString(v.text) {
			return false
		}
		v.text = "${" + v.text + "}"
	}
	a.Type = "header"
	e.bearer(member{t.key, t.at, &v})
	return true
}

func scopeList(v *node) []string {
	var out []string
	if v.is(textNode) {
		out = strings.Fields(strings.ReplaceAll(v.text, ",", " "))
	}
	if v.is(listNode) {
		for _, i := range v.items {
			out = append(out, strings.Fields(i.str())...)
		}
	}
	return out[:min(len(out), 64)]
}

// notObeyed names what a policy key of another client asked for.
func (e *entry) notObeyed(m member) {
	asked := ""
	switch v := m.value; {
	case v.kind == listNode:
		var names []string
		for _, i := range v.items {
			if s := shownText(i.str()); s != "" && !slices.Contains(names, s) {
				names = append(names, s)
			}
		}
		if len(names) == 0 {
			return
		}
		if len(names) > 6 {
			names = append(names[:6], "…")
		}
		asked = " for " + strings.Join(names, ", ")
	case v.kind == boolNode && v.text == "false", v.kind == nullNode:
		return
	case v.kind == boolNode, v.kind == textNode && v.text == "*":
		asked = " for everything"
	case v.kind == textNode && len(v.text) < 40 && m.key != "headersHelper":
		asked = " for " + shownText(v.text)
	}
	e.say(schemas.NoteNotObeyed, m.at, "%s asked%s; that is not granted, you decide here", m.key, asked)
}
