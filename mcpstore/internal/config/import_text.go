package config

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"bobbin/schemas"
)

// plainText checks that data is a text of bearable size and gives it as UTF-8 without byte order mark.
func plainText(data []byte) ([]byte, []schemas.Note, *schemas.Problem) {
	var notes []schemas.Note
	if len(data) > MaxText {
		return nil, nil, &schemas.Problem{Text: fmt.Sprintf("the file is larger than %d KiB", MaxText>>10), Hint: "a config of servers is far smaller; is it the right file?"}
	}
	if text, ok := fromUTF16(data); ok {
		data = text
		notes = append(notes, schemas.Note{Kind: schemas.NoteMapped, Text: "the file was UTF-16; it is read as UTF-8"})
	}
	if rest, ok := bytes.CutPrefix(data, []byte("\xef\xbb\xbf")); ok {
		data = rest
		notes = append(notes, schemas.Note{Kind: schemas.NoteMapped, Text: "a byte order mark at the start was left out"})
	}
	if p := textProblem(data); p != nil {
		return nil, nil, p
	}
	return data, notes, nil
}

// textProblem says why data is no text of servers at all, nil if it may be one.
func textProblem(data []byte) *schemas.Problem {
	start := bytes.TrimSpace(data[:min(len(data), 512)])
	lower := bytes.ToLower(start)
	switch {
	case len(bytes.TrimSpace(data)) == 0:
		return &schemas.Problem{Text: "the text is empty", Hint: `paste {"mcpServers": {…}}`}
	case bytes.HasPrefix(lower, []byte("<!doctype")), bytes.HasPrefix(lower, []byte("<html")), bytes.HasPrefix(lower, []byte("<?xml")):
		return &schemas.Problem{Text: "this is a web page, not a config file", Hint: "download the raw file"}
	case bytes.HasPrefix(data, []byte("\x89PNG")), bytes.HasPrefix(data, []byte("\xff\xd8\xff")), bytes.HasPrefix(data, []byte("GIF8")), bytes.HasPrefix(data, []byte("%PDF")):
		return &schemas.Problem{Text: "this is a picture or document, not a config file", Hint: "send the config as text"}
	case bytes.HasPrefix(data, []byte("PK\x03\x04")):
		return &schemas.Problem{Text: "this is a zip archive, not a config file", Hint: "unpack it and send its manifest.json or config file"}
	}
	src := newSource("", data)
	for i := 0; i < len(data); {
		c, n := utf8.DecodeRune(data[i:])
		switch {
		case c == utf8.RuneError && n == 1:
			line, col := src.raw(i)
			return &schemas.Problem{Line: line, Col: col, Text: fmt.Sprintf("the file is not UTF-8: byte 0x%02x", data[i]), Hint: "save it as UTF-8"}
		case c < ' ' && c != '\t' && c != '\n' && c != '\r' && c != '\f', c == 0x7f:
			line, col := src.raw(i)
			return &schemas.Problem{Line: line, Col: col, Text: fmt.Sprintf("the file holds the control character U+%04X", c), Hint: "is it a text file?"}
		}
		i += n
	}
	return nil
}

// fromUTF16 decodes UTF-16, which has a byte order mark or begins with characters of ASCII.
func fromUTF16(data []byte) ([]byte, bool) {
	var order binary.ByteOrder
	switch {
	case bytes.HasPrefix(data, []byte{0xff, 0xfe}):
		order = binary.LittleEndian
	case bytes.HasPrefix(data, []byte{0xfe, 0xff}):
		order = binary.BigEndian
	case len(data) > 7 && data[1] == 0 && data[3] == 0 && data[5] == 0 && data[0] != 0:
		order, data = binary.LittleEndian, append([]byte{0xff, 0xfe}, data...)
	case len(data) > 7 && data[0] == 0 && data[2] == 0 && data[4] == 0 && data[1] != 0:
		order, data = binary.BigEndian, append([]byte{0xfe, 0xff}, data...)
	default:
		return nil, false
	}
	if len(data)%2 != 0 {
		return nil, false
	}
	units := make([]uint16, 0, len(data)/2)
	for i := 2; i < len(data); i += 2 {
		units = append(units, order.Uint16(data[i:]))
	}
	return []byte(string(utf16.Decode(units))), true
}

// visible escapes control, invisible and direction characters.
func visible(s string) string {
	var b strings.Builder
	for _, c := range s {
		if hiddenRune(c) {
			fmt.Fprintf(&b, "\\u%04x", c)
		} else {
			b.WriteRune(c)
		}
	}
	return b.String()
}

func hiddenRune(c rune) bool {
	return c == utf8.RuneError || !unicode.IsPrint(c) || unicode.Is(unicode.Cf, c) || unicode.IsSpace(c) && c != ' '
}

// shown gives a text as it may be shown: visible, at most 60 characters.
func shown(s string) string {
	if r := []rune(s); len(r) > 60 {
		s = string(r[:60]) + "…"
	}
	return visible(s)
}

// shownKey quotes a key, masked if it looks like a secret.
func shownKey(k string) string {
	if hasSecret(k) {
		return `"…"`
	}
	return `"` + shown(k) + `"`
}

// shownText gives a short text for a note, masked if it looks like a secret.
func shownText(s string) string {
	if hasSecret(s) || userInfo().MatchString(s) {
		return "…"
	}
	return shown(s)
}

// shownPath gives a path for a note, masked if it looks like a secret. A long one loses its front: the end tells more.
func shownPath(s string) string {
	rs := []rune(s)
	if len(rs) <= 60 || shownText(s) == "…" {
		return shownText(s)
	}
	end := string(rs[len(rs)-59:])
	if i := strings.IndexAny(end, `/\`); i >= 0 && i < len(end)-1 {
		end = end[i:]
	}
	return "…" + visible(end)
}

// maskLine hides everything of a line but names, switches, flags and a few well-known words. Each character stays one.
func maskLine(line string, json bool) string {
	out := []rune(line)
	for i, c := range out {
		if c != '\t' && hiddenRune(c) {
			out[i] = '•'
		}
	}
	hide := func(from, to int) {
		for i := from; i < to; i++ {
			if unicode.IsLetter(out[i]) || unicode.IsDigit(out[i]) || unicode.IsPunct(out[i]) && !strings.ContainsRune(`"'{}[]:,`, out[i]) || out[i] > 127 {
				out[i] = '•'
			}
		}
	}
	if !json {
		i := slicesIndexAny(out, ":=")
		if name := strings.TrimLeft(string(out[:max(i, 0)]), " \t-[\""); i < 0 || hasSecret(name) {
			i = 0
		}
		hide(i, len(out))
		return string(out)
	}
	for i := 0; i < len(out); i++ {
		if out[i] != '"' {
			j := i
			for j < len(out) && out[j] != '"' {
				j++
			}
			if w := strings.Trim(string(out[i:j]), " \t,:{}[]"); w != "true" && w != "false" && w != "null" {
				hide(i, j)
			}
			i = j - 1
			continue
		}
		j := i + 1
		for j < len(out) && out[j] != '"' {
			if out[j] == '\\' {
				j++
			}
			j++
		}
		j = min(j, len(out))
		text := string(out[i+1 : j])
		if !(nextIs(out, j+1, ':') && !hasSecret(text)) && !wellKnown(text) {
			hide(i+1, j)
		}
		i = j
	}
	return string(out)
}

// nextIs reports whether c is the next rune from i that is no blank.
func nextIs(rs []rune, i int, c rune) bool {
	for i < len(rs) && (rs[i] == ' ' || rs[i] == '\t') {
		i++
	}
	return i < len(rs) && rs[i] == c
}

func slicesIndexAny(rs []rune, any string) int {
	for i, c := range rs {
		if strings.ContainsRune(any, c) {
			return i
		}
	}
	return -1
}

func wellKnown(s string) bool {
	switch s {
	case "npx", "node", "uvx", "uv", "python", "python3", "docker", "bunx", "-y", "run", "-i", "--rm", "-e", "stdio", "http", "sse", "cmd", "/c", "bash", "-c", "mcp-remote", "-m":
		return true
	}
	return false
}
