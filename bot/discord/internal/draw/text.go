package draw

import (
	"strings"
	"unicode/utf16"

	"bobbin/internal/lazy"
	"bobbin/schemas"
)

// units counts as Discord does.
func units(s string) int {
	n := 0
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}

// short cuts a text to n units and says so with an ellipsis.
func short(s string, n int) string {
	if units(s) <= n {
		return s
	}
	left := n - 1
	for i, r := range s {
		if left -= utf16.RuneLen(r); left < 0 {
			return strings.TrimRight(s[:i], `\`) + "…"
		}
	}
	return s
}

// visible takes out what cannot be seen or changes how the rest is seen.
func visible(s string, oneLine bool) string { return schemas.Clean(s, oneLine) }

// linkish is what Discord would make a link or an invitation of.
var linkish = lazy.Regexp(`(?i)(?:[a-z][a-z0-9+.-]*://|www\.|discord\.gg/|discord(?:app)?\.com/invite/)[^\s` + "`" + `]*|mailto:\S+|tel:\S+`)

// Escape writes text so that Discord shows it as it is: no markdown, mention, timestamp, emoji or link comes of it. `code` spans stay;
// an address becomes one, since nothing else keeps Discord from making it a link.
func Escape(text string) string {
	text = visible(text, false)
	var b strings.Builder
	for text != "" {
		before, rest, ok := strings.Cut(text, "`")
		span, after, closed := strings.Cut(rest, "`")
		if !ok || !closed || span == "" || strings.Contains(span, "\n") {
			if ok { // a backtick that stands alone
				outside(&b, before)
				escape(&b, "`")
				text = rest
				continue
			}
			outside(&b, text)
			break
		}
		outside(&b, before)
		b.WriteString(Span(span))
		text = after
	}
	return b.String()
}

// slash says how a command that the bot names for a typed line is given here, where Discord asks for each option by itself.
func slash(command string) string {
	switch command {
	case "/mcp undo":
		return "/mcp history undo"
	case "/mcp upload PATH":
		return "/mcp upload"
	case "/mcp add-json {…}":
		return "/mcp add-json"
	case "/mcp secrets":
		return "/mcp secrets list"
	case "/mcp policy":
		return "/mcp policy show"
	case "/mcp history":
		return "/mcp history show"
	}
	return command
}

// Span writes a text of one line as inline code.
func Span(s string) string {
	s = strings.ReplaceAll(visible(slash(s), true), "`", "ˋ")
	if strings.TrimSpace(s) == "" {
		return ""
	}
	return "`" + s + "`"
}

func outside(b *strings.Builder, s string) {
	for s != "" {
		at := linkish().FindStringIndex(s)
		if at == nil {
			escape(b, s)
			return
		}
		link := strings.TrimRight(s[at[0]:at[1]], ".,;!?'\")]}>")
		escape(b, s[:at[0]])
		b.WriteString(Span(link))
		s = s[at[0]+len(link):]
		if link == "" {
			escape(b, s[:1])
			s = s[1:]
		}
	}
}

// escape puts a backslash before what would be markup where it stands, and before nothing else: names shall read as they are.
func escape(b *strings.Builder, s string) {
	word := func(i int) bool {
		return i >= 0 && i < len(s) && (s[i] >= '0' && s[i] <= '9' || s[i]|0x20 >= 'a' && s[i]|0x20 <= 'z')
	}
	for i, r := range s {
		first := strings.TrimLeft(s[strings.LastIndexByte(s[:i], '\n')+1:i], " ") == ""
		mark := false
		switch r {
		case '`': // escaped ones are read in different ways by different clients
			r = 'ˋ'
		case '\\', '*', '<', '[':
			mark = true
		case '_':
			mark = !word(i-1) || !word(i+1)
		case '~', '|':
			mark = strings.HasPrefix(s[i+1:], string(r)) || i > 0 && s[i-1] == byte(r)
		case '#', '>', '-', '+':
			mark = first
		case ':':
			mark = emoji().MatchString(s[i:])
		case '@':
			mark = strings.HasPrefix(s[i:], "@everyone") || strings.HasPrefix(s[i:], "@here")
		case '.':
			mark = word(i-1) && numbered(s[:i])
		}
		if mark {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
}

var emoji = lazy.Regexp(`^:[\w+~-]+:`)

// numbered reports whether a full stop after it would begin a numbered list.
func numbered(s string) bool {
	if i := strings.LastIndexByte(s, '\n'); i >= 0 {
		s = s[i+1:]
	}
	return strings.Trim(s, " 0123456789") == ""
}

// Fence writes preformatted text in a code block that nothing in it can end.
func Fence(text, language string) string {
	return "```" + language + "\n" + inFence(text) + "\n```"
}

func inFence(text string) string {
	text = strings.TrimRight(visible(text, false), "\n")
	text = strings.ReplaceAll(text, "```", "``ˋ")
	if strings.HasSuffix(text, "`") {
		text += " "
	}
	if text == "" {
		return " "
	}
	return text
}
