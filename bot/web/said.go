package web

import (
	"fmt"
	"slices"
	"strings"

	"bobbin/schemas"
)

// said is what the conversation keeps of the person's own words. Definitions and values are left out, for they may hold
// secrets: the card that answers shows them masked.
func (in asked) said() string {
	if len(in.files) > 0 {
		names := make([]string, len(in.files))
		for i, f := range in.files {
			names[i] = f.Name + " · " + size(len(f.Data))
		}
		rest := in
		rest.files = nil
		return strings.TrimSpace(rest.said() + "\n" + strings.Join(names, "\n"))
	}
	text := strings.TrimSpace(in.Text)
	words := strings.Fields(text)
	switch {
	case in.file != nil:
		return in.file.Name + " · " + size(len(in.file.Data))
	case in.Action != nil || in.Verb == "" && text == "":
		return ""
	case in.Verb != "":
		return "/mcp " + in.Verb
	case words[0] == "/mcp":
		return command(text, words[1:])
	case text[0] == '{' || strings.HasPrefix(text, "```") || strings.HasPrefix(text, `"mcpServers"`):
		return "a config, " + plural(strings.Count(text, "\n")+1, "line")
	}
	return text
}

// command leaves out what follows a verb that takes definitions or values, JSON behind any other, and words that are no
// verb at all: they may be a secret in the wrong place.
func command(text string, words []string) string {
	bringing := []string{"add", "add-json", "connect", "edit", "install", "secrets"}
	switch {
	case len(words) == 0:
		return text
	case len(words[0]) > 12 || strings.Trim(words[0], "abcdefghijklmnopqrstuvwxyz-") != "":
		return "/mcp …"
	case !slices.Contains(bringing, words[0]):
		before, _, cut := strings.Cut(text, "{")
		if cut {
			return strings.TrimSpace(before) + " {…}"
		}
		return text
	}
	out, rest := "/mcp "+words[0], words[1:]
	if len(rest) > 0 && schemas.ValidName(rest[0]) {
		out, rest = out+" "+rest[0], rest[1:]
	}
	if len(rest) > 0 {
		out += " …"
	}
	return out
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

func size(n int) string {
	if n < 1024 {
		return plural(n, "byte")
	}
	return fmt.Sprintf("%.1f KiB", float64(n)/1024)
}
