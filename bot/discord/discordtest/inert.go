package discordtest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// Transcript is everything that a user sees, channel by channel.
func (f *Fake) Transcript(u *User) string {
	f.mu.Lock()
	var at []*Channel
	for _, c := range f.channels {
		at = append(at, c)
	}
	f.mu.Unlock()
	var b strings.Builder
	for _, c := range at {
		if text := f.As(u, c).Transcript(); text != "" {
			fmt.Fprintf(&b, "# %s\n%s", c.Name, text)
		}
	}
	return b.String()
}

// What Discord's client makes of a text outside of code (Discord, Markdown Text 101 and Message Formatting).
var live = map[string]*regexp.Regexp{
	"a masked link": regexp.MustCompile(`\[[^\]]*\]\([^)]*\)`),
	"a link":        regexp.MustCompile(`(?i)(?:https?|discord|steam|ftp|file)://|discord\.gg/|discord(?:app)?\.com/invite/`),
	"a mention":     regexp.MustCompile(`<(?:@[!&]?|#)\d+>`),
	"a command":     regexp.MustCompile(`</[^>]+:\d+>`),
	"an emoji":      regexp.MustCompile(`<a?:\w+:\d+>|(?:^|[^\\\w]):[a-z_+-][\w+-]*:`),
	"a heading":     regexp.MustCompile(`(?m)^\s*#{1,3} `),
	"a quote":       regexp.MustCompile(`(?m)^\s*>{1,3} `),
	"a spoiler":     regexp.MustCompile(`\|\|[^|]+\|\|`),
	"everybody":     regexp.MustCompile(`(?:^|[^\\])@(?:everyone|here)`),
}

// Inert looks through all that was ever sent for what members, servers or tools could have slipped in: mentions, links, broken code
// blocks, hidden characters. It gives what is not inert; ours are mentions that the message pings, and times.
func (f *Fake) Inert() []string {
	var wrong []string
	for _, body := range f.Sent() {
		var v any
		if json.Unmarshal([]byte(body), &v) != nil {
			continue
		}
		wrong = append(wrong, inert(v, "")...)
	}
	return wrong
}

func inert(v any, key string) (wrong []string) {
	switch x := v.(type) {
	case map[string]any:
		for k, one := range x {
			wrong = append(wrong, inert(one, k)...)
		}
		if embeds, ok := x["embeds"].([]any); ok && len(embeds) > 0 {
			wrong = append(wrong, "an embed")
		}
	case []any:
		for _, one := range x {
			wrong = append(wrong, inert(one, key)...)
		}
	case string:
		for _, r := range x {
			if r != '\n' && r != '\t' && (unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co) || r >= 0xFE00 && r <= 0xFE0E || r >= 0xE0000 && r <= 0xE01FF) {
				wrong = append(wrong, fmt.Sprintf("a hidden character %U in %s: %.80q", r, key, x))
				break
			}
		}
		if key == "content" {
			wrong = append(wrong, Lively(x)...)
		}
	}
	return wrong
}

// Lively gives what Discord's client would make of a text beside showing it, other than bold type, lists, code, times, and pings of ours.
func Lively(text string) (wrong []string) {
	if strings.Count(text, "```")%2 == 1 {
		wrong = append(wrong, fmt.Sprintf("a code block without an end: %.200q", text))
	}
	plain := regexp.MustCompile("(?s)```.*?```").ReplaceAllString(text, " ")
	plain = regexp.MustCompile("``[^\n]*?``|`[^`\n]+`").ReplaceAllString(plain, `"`) // nothing behind it begins a line
	plain = regexp.MustCompile(`<@\d+> this is for you alone`).ReplaceAllString(plain, " ")
	plain = strings.ReplaceAll(plain, `\\`, "x") // a backslash is shown, so a line does not begin behind it
	bare := regexp.MustCompile(`\\[^\w\s]`).ReplaceAllString(plain, "x")
	for what, re := range live {
		if m := re.FindString(bare); m != "" {
			wrong = append(wrong, fmt.Sprintf("%s %q in %.200q", what, m, text))
		}
	}
	return wrong
}
