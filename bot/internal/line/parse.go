package line

import (
	"cmp"
	"slices"
	"strings"

	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// Config reports whether a text without a command is a pasted config.
func Config(s string) bool {
	inner := words.Unfence(s)
	if strings.HasPrefix(s, "```") && (strings.Contains(inner, "mcpServers") || strings.Contains(inner, "mcp_servers")) {
		return true
	}
	return strings.HasPrefix(inner, "{") || strings.HasPrefix(s, `"mcpServers"`)
}

// Parse reads what follows "/mcp", or with "chat" in front what follows "/chat".
func (t Table) Parse(line string) (*Verb, map[string]string, error) {
	line = cmp.Or(line, "help")
	if Config(line) {
		line = "add-json " + line
	}
	first, rest := words.CutSpace(line)
	second, after := words.CutSpace(rest)
	v, left := t.Find([]string{first, second})
	if v == nil {
		return nil, nil, t.Unknown(strings.TrimSpace(first + " " + second))
	}
	if len(left) == 0 {
		rest = after
	} else if v.Bare && v.Name != first {
		if n := schemas.Nearest(second, t.of(first)); n != "" {
			return nil, nil, &schemas.Error{Code: schemas.CodeNotFound, Text: "`/mcp " + first + "` takes one of: " + strings.Join(t.of(first), ", "),
				Hint: "did you mean `/mcp " + first + " " + n + "`?"}
		}
	}
	args, err := v.read(rest)
	return v, args, err
}

// read assigns the words of a line to the verb's arguments in order. A Rest argument takes the remainder as it stands; an
// optional argument in front of it gives way to JSON.
func (v *Verb) read(rest string) (map[string]string, error) {
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
		w, left, err := words.First(rest)
		if err != nil {
			return nil, err
		}
		if len(a.Options) > 0 {
			w = strings.TrimPrefix(w, a.Name+":")
		}
		args[a.Name], rest = w, left
	}
	if strings.TrimSpace(rest) != "" {
		return nil, words.Invalid("there is more in that line than `"+Slash(v.Name)+"` takes", "`"+v.Line()+"`")
	}
	return args, nil
}

// Find gives the verb of up to two words and the words that are left; nil: there is none. "policy" alone is "policy show", and the
// verbs of /chat have "chat" in front.
func (t Table) Find(ws []string) (v *Verb, left []string) {
	for _, short := range []struct{ from, to string }{
		{"undo", "history undo"}, {"attach", "admin attach"}, {"detach", "admin detach"}, {"ls", "list"}, {"rm", "remove"},
	} {
		if len(ws) > 0 && ws[0] == short.from {
			ws = append(strings.Fields(short.to), ws[1:]...)
		}
	}
	all := t.MCP
	if len(ws) > 0 && ws[0] == "chat" {
		all = t.Chat
	}
	for n := min(2, len(ws)); n > 0; n-- {
		name := strings.Join(ws[:n], " ")
		for i := range all {
			v := &all[i]
			if v.Name == name || (n == 1 && v.Bare && strings.HasPrefix(v.Name, name+" ")) {
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

// of is the words that a group takes.
func (t Table) of(group string) (all []string) {
	for _, v := range t.MCP {
		if rest, ok := strings.CutPrefix(v.Name, group+" "); ok {
			all = append(all, rest)
		}
	}
	return all
}

// Unknown refuses what is no verb, with the one that was probably meant. It never repeats a word that is not known, which may be a
// secret pasted in the wrong place.
func (t Table) Unknown(typed string) error {
	first, rest := words.CutSpace(typed)
	second, _ := words.CutSpace(rest)
	if first == "chat" {
		var known []string
		for _, v := range t.Chat {
			known = append(known, strings.TrimPrefix(v.Name, "chat "))
		}
		return noVerb("/chat", schemas.Nearest(second, known))
	}
	if of := t.of(first); len(of) > 0 { // the word is a group's name, so nothing is given away
		hint := "`/mcp help " + first + "`"
		if n := schemas.Nearest(second, of); n != "" {
			hint = "did you mean `/mcp " + first + " " + n + "`? " + hint
		}
		return &schemas.Error{Code: schemas.CodeInvalid, Text: "`/mcp " + first + "` takes one of: " + strings.Join(of, ", "), Hint: hint}
	}
	return noVerb("/mcp", t.near(first))
}

// near is the verb, or the group, that a word was probably meant for, "" for none.
func (t Table) near(word string) string {
	elsewhere := map[string]string{"delete": "remove", "uninstall": "remove", "status": "list", "servers": "list", "start": "enable", "stop": "disable", "test": "doctor", "run": "call"}
	if n := elsewhere[strings.ToLower(word)]; n != "" {
		return n
	}
	var known []string
	for _, v := range t.MCP {
		group, _, _ := strings.Cut(v.Name, " ")
		known = append(known, v.Name, group)
	}
	return schemas.Nearest(word, append(known, "undo", "attach", "detach"))
}

func noVerb(command, near string) error {
	hint := "`" + command + " help` lists what there is"
	if near != "" {
		hint = "did you mean `" + command + " " + near + "`? " + hint
	}
	return &schemas.Error{Code: schemas.CodeNotFound, Text: command + " has no such verb", Hint: hint}
}

// NoCommand refuses a line that begins with a slash and no command of ours, with what was probably meant: "/mpc list", "/list",
// "/mcp-list".
func (t Table) NoCommand(text string) error {
	first, rest := words.CutSpace(strings.TrimPrefix(text, "/"))
	first = strings.ToLower(first)
	meant := ""
	switch n := schemas.Nearest(first, []string{"mcp", "chat"}); {
	case n != "" && rest == "":
		meant = "/" + n + " help"
	case n != "":
		second, _ := words.CutSpace(rest)
		if v, _ := t.Find([]string{second}); v != nil && n == "mcp" {
			meant = "/mcp " + second
		} else {
			meant = "/" + n
		}
	default:
		word := strings.TrimLeft(strings.TrimPrefix(first, "mcp"), "-_/:.")
		group := slices.ContainsFunc(t.MCP, func(v Verb) bool { return v.Name == word || strings.HasPrefix(v.Name, word+" ") })
		if group && word != "" {
			meant = "/mcp " + word
		} else if near := t.near(word); near != "" {
			meant = "/mcp " + near
		}
	}
	hint := "`/mcp help` lists what there is"
	if meant != "" {
		hint = "did you mean `" + meant + "`? " + hint
	}
	return words.Invalid("I know no such command", hint)
}
