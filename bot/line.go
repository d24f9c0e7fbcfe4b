package bot

import (
	"strings"

	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// looksLikeConfig reports whether a text without a command is a pasted config.
func looksLikeConfig(s string) bool {
	inner := words.Unfence(s)
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
	first, rest := words.CutSpace(line)
	second, after := words.CutSpace(rest)
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
		return nil, words.Invalid("there is more in that line than `"+slash(v.Name)+"` takes", "`"+v.line()+"`")
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
