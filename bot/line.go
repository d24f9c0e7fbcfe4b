package bot

import (
	"strings"
	"unicode"

	"bobbin/schemas"
)

// cutSpace splits a text at its first white space.
func cutSpace(s string) (first, rest string) {
	s = strings.TrimSpace(s)
	i := strings.IndexFunc(s, unicode.IsSpace)
	if i < 0 {
		return s, ""
	}
	return s[:i], strings.TrimSpace(s[i:])
}

// word takes one word off a typed line: quotes hold words together, a backslash escapes a space, a quote or itself and is
// plain in front of anything else, so that C:\Users stays as it is.
func word(s string) (w, rest string, err error) {
	s = strings.TrimLeftFunc(s, unicode.IsSpace)
	var b strings.Builder
	var open rune
	skip := false
	for i, r := range s {
		switch {
		case skip:
			skip = false
			b.WriteRune(r)
		case r == '\\' && open != '\'' && escapes(s[i+1:], open):
			skip = true
		case open != 0 && r == open:
			open = 0
		case open != 0:
			b.WriteRune(r)
		case r == '"' || r == '\'':
			open = r
		case unicode.IsSpace(r):
			return b.String(), s[i:], nil
		default:
			b.WriteRune(r)
		}
	}
	if open != 0 {
		return "", "", invalid("a quote ("+string(open)+") is not closed", "")
	}
	return b.String(), "", nil
}

func escapes(next string, open rune) bool {
	if next == "" {
		return false
	}
	if open == '"' {
		return next[0] == '"' || next[0] == '\\'
	}
	return strings.ContainsRune(" \t\"'\\", rune(next[0]))
}

// words splits a line as a shell does, without expanding anything.
func words(s string) ([]string, error) {
	var all []string
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimSpace(s) {
		w, rest, err := word(s)
		if err != nil {
			return nil, err
		}
		all, s = append(all, w), rest
	}
	return all, nil
}

// quote writes one argument so that words reads it back.
func quote(arg string) string {
	switch {
	case plainWord(arg):
		return arg
	case !strings.Contains(arg, "'"):
		return "'" + arg + "'"
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(arg) + `"`
}

func quoteAll(args []string) string {
	quoted := make([]string, len(args))
	for i, a := range args {
		quoted[i] = quote(a)
	}
	return strings.Join(quoted, " ")
}

// looksLikeConfig reports whether a text without a command is a pasted config.
func looksLikeConfig(s string) bool {
	inner := unfence(s)
	if strings.HasPrefix(s, "```") && (strings.Contains(inner, "mcpServers") || strings.Contains(inner, "mcp_servers")) {
		return true
	}
	return strings.HasPrefix(inner, "{") || strings.HasPrefix(s, `"mcpServers"`)
}

// parse reads what follows "/mcp".
func (b *Bot) parse(line string) (*verb, map[string]string, error) {
	if line == "" {
		line = "help"
	}
	if looksLikeConfig(line) {
		line = "add-json " + line
	}
	first, rest := cutSpace(line)
	second, after := cutSpace(rest)
	v, left := b.find([]string{first, second})
	if v == nil {
		if first == "chat" {
			first += " " + second
		}
		return nil, nil, b.unknownVerb(first)
	}
	if len(left) == 0 {
		rest = after
	}
	args, err := v.read(rest)
	return v, args, err
}

// read assigns the words of a line to the verb's arguments in order. A Rest argument takes the remainder as it stands; an
// optional argument in front of it gives way to JSON.
func (v *verb) read(rest string) (map[string]string, error) {
	args := map[string]string{}
	for i, a := range v.Args {
		rest = strings.TrimSpace(rest)
		if a.Rest {
			args[a.Name] = rest
			return args, nil
		}
		if rest == "" {
			return args, nil
		}
		if !a.Required && i+1 < len(v.Args) && v.Args[i+1].Kind == "json" && strings.ContainsRune("{[`\"#/", rune(rest[0])) {
			continue
		}
		w, left, err := word(rest)
		if err != nil {
			return nil, err
		}
		if len(a.Options) > 0 {
			w = strings.TrimPrefix(w, a.Name+":")
		}
		args[a.Name], rest = w, left
	}
	if strings.TrimSpace(rest) != "" {
		return nil, invalid("there is more in that line than `"+slash(v.Name)+"` takes", "`"+v.line()+"`")
	}
	return args, nil
}

// find gives the verb of up to two words and the words that are left. "policy" alone is "policy show".
func (b *Bot) find(ws []string) (*verb, []string) {
	for _, short := range []struct{ from, to string }{
		{"undo", "history undo"}, {"attach", "admin attach"}, {"detach", "admin detach"}, {"ls", "list"}, {"rm", "remove"},
	} {
		if len(ws) > 0 && ws[0] == short.from {
			ws = append(strings.Fields(short.to), ws[1:]...)
		}
	}
	all := b.verbs
	if len(ws) > 0 && ws[0] == "chat" {
		all = b.chat
	}
	for n := min(2, len(ws)); n > 0; n-- {
		name := strings.Join(ws[:n], " ")
		for i := range all {
			v := &all[i]
			if v.Name == name || (n == 1 && v.bare && strings.HasPrefix(v.Name, name+" ")) {
				return v, nonEmpty(ws[n:])
			}
		}
	}
	return nil, ws
}

func nonEmpty(ws []string) []string {
	if len(ws) == 1 && ws[0] == "" {
		return nil
	}
	return ws
}

// unknownVerb refuses without repeating the word, which may be a secret pasted in the wrong place.
func (b *Bot) unknownVerb(name string) error {
	if typed, ok := strings.CutPrefix(name, "chat "); ok {
		var known []string
		for _, v := range b.ChatVerbs() {
			known = append(known, v.Name)
		}
		hint := "`/chat help` lists what there is"
		if n := schemas.Nearest(typed, known); n != "" {
			hint = "did you mean `/chat " + n + "`? " + hint
		}
		return &schemas.Error{Code: schemas.CodeNotFound, Text: "/chat has no such verb", Hint: hint}
	}
	known := make([]string, 0, len(b.verbs))
	var of []string
	for _, v := range b.verbs {
		if rest, ok := strings.CutPrefix(v.Name, name+" "); ok {
			of = append(of, rest)
		}
		known = append(known, v.Name)
		if group, _, ok := strings.Cut(v.Name, " "); ok {
			known = append(known, group)
		}
	}
	if len(of) > 0 { // the word is a group's name, so nothing is given away
		return &schemas.Error{Code: schemas.CodeInvalid, Text: "`/mcp " + name + "` takes one of: " + strings.Join(of, ", "), Hint: "`/mcp help " + name + "`"}
	}
	hint := "`/mcp help` lists what there is"
	if n := schemas.Nearest(name, known); n != "" {
		hint = "did you mean `/mcp " + n + "`? " + hint
	}
	return &schemas.Error{Code: schemas.CodeNotFound, Text: "/mcp has no such verb", Hint: hint}
}
