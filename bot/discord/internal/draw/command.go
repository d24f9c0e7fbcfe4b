package draw

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"bobbin/bot"
	"bobbin/bot/discord/internal/wire"
	"bobbin/internal/lazy"
)

// Locale is the translation of names and descriptions of one language, by "mcp", "add-json", "history show", "call.tool"
// or "chat mode".
type Locale struct {
	Names        map[string]string
	Descriptions map[string]string
}

// maxPasted is what a text option holds (Discord, Application Command Option).
const maxPasted = 6000

var commandName = lazy.Regexp(`^[-_\p{L}\p{N}]+$`)

// Chat builds /chat, with the assistant's verbs as subcommands. It fails when Discord would refuse it.
func Chat(verbs []bot.Verb, locales map[string]Locale) (wire.Command, error) {
	root := wire.Command{Type: wire.ChatInput, Name: "chat", Description: "The assistant of this thread: model, when it answers, what it spent", IntegrationTypes: []int{0}, Contexts: []int{0, 1}}
	translate(&root, "chat", locales)
	for _, v := range verbs {
		v.Name = "chat " + v.Name
		sub := wire.Command{Type: wire.SubCommand, Name: strings.TrimPrefix(v.Name, "chat "), Description: describe(v.Summary, v.Name), Options: arguments(v, locales)}
		translate(&sub, v.Name, locales)
		root.Options = append(root.Options, sub)
	}
	return root, check(root)
}

// Command builds /mcp with a subcommand for every verb and a group for verbs of two words. It fails when Discord would refuse it.
func Command(verbs []bot.Verb, locales map[string]Locale) (wire.Command, error) {
	root := wire.Command{Type: wire.ChatInput, Name: "mcp", Description: "Tools of this thread: add, use, look after", IntegrationTypes: []int{0}, Contexts: []int{0, 1}}
	translate(&root, "mcp", locales)
	for _, v := range verbs {
		group, name, two := strings.Cut(v.Name, " ")
		sub := wire.Command{Type: wire.SubCommand, Name: cmp.Or(name, group), Description: describe(v.Summary, v.Name), Options: arguments(v, locales)}
		translate(&sub, v.Name, locales)
		if !two {
			root.Options = append(root.Options, sub)
			continue
		}
		i := slices.IndexFunc(root.Options, func(c wire.Command) bool { return c.Name == group && c.Type == wire.SubCommandGroup })
		if i < 0 {
			i = len(root.Options)
			root.Options = append(root.Options, wire.Command{Type: wire.SubCommandGroup, Name: group, Description: describe("", group)})
			translate(&root.Options[i], group, locales)
		}
		root.Options[i].Options = append(root.Options[i].Options, sub)
	}
	return root, check(root)
}

func describe(s, otherwise string) string { return short(cmp.Or(visible(s, true), otherwise), 100) }

// arguments gives a verb's options, required ones first, as Discord demands.
func arguments(v bot.Verb, locales map[string]Locale) []wire.Command {
	var out []wire.Command
	for _, a := range v.Args {
		o := wire.Command{Type: wire.StringOption, Name: a.Name, Description: describe(a.Hint, a.Name), Required: a.Required}
		switch {
		case a.Kind == "file":
			o.Type, o.Required = wire.AttachmentOption, true
		case a.Kind == "json": // a modal asks for it, which keeps its lines
			o.Required, o.MaxLength = false, maxPasted
		case a.Kind == "server" || a.Kind == "admin" || a.Kind == "tool" || a.Kind == "model":
			o.Autocomplete = true
		}
		for _, c := range a.Options {
			o.Choices = append(o.Choices, wire.Choice{Name: c, Value: c})
		}
		translate(&o, v.Name+"."+a.Name, locales)
		out = append(out, o)
	}
	slices.SortStableFunc(out, func(a, b wire.Command) int {
		switch {
		case a.Required == b.Required:
			return 0
		case a.Required:
			return -1
		}
		return 1
	})
	return out
}

func translate(c *wire.Command, key string, locales map[string]Locale) {
	for lang, l := range locales {
		if n := l.Names[key]; n != "" {
			c.NameLocal = with(c.NameLocal, lang, n)
		}
		if d := l.Descriptions[key]; d != "" {
			c.DescriptionLocal = with(c.DescriptionLocal, lang, d)
		}
	}
}

func with(m map[string]string, k, v string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	m[k] = v
	return m
}

// check tells what Discord would refuse.
func check(c wire.Command) error {
	var wrong []error
	var walk func(c wire.Command, path string)
	walk = func(c wire.Command, path string) {
		names := []string{c.Name}
		for _, n := range c.NameLocal {
			names = append(names, n)
		}
		for _, n := range names {
			if !commandName().MatchString(n) || utf8.RuneCountInString(n) > 32 || strings.ToLower(n) != n {
				wrong = append(wrong, fmt.Errorf("%s: %q is no name for a command: lower case letters, digits, - and _, at most 32", path, n))
			}
		}
		texts := []string{c.Description}
		for _, d := range c.DescriptionLocal {
			texts = append(texts, d)
		}
		for _, d := range texts {
			if n := units(d); n < 1 || n > 100 {
				wrong = append(wrong, fmt.Errorf("%s: a description has %d characters, allowed are 1 to 100", path, n))
			}
		}
		if len(c.Options) > wire.MaxOptions || len(c.Choices) > wire.MaxOptions {
			wrong = append(wrong, fmt.Errorf("%s: %d options and %d choices, at most 25", path, len(c.Options), len(c.Choices)))
		}
		for _, o := range c.Options {
			walk(o, path+" "+o.Name)
		}
	}
	walk(c, "/"+c.Name)
	if n := Size(c); n > wire.MaxCommandText {
		wrong = append(wrong, fmt.Errorf("/%s has %d characters in all, at most %d", c.Name, n, wire.MaxCommandText))
	}
	return errors.Join(wrong...)
}

// Size is what Discord counts against 8,000: names, descriptions and values of a command and all in it, of each the longest translation.
func Size(c wire.Command) int {
	longest := func(s string, local map[string]string) int {
		n := units(s)
		for _, l := range local {
			n = max(n, units(l))
		}
		return n
	}
	n := longest(c.Name, c.NameLocal) + longest(c.Description, c.DescriptionLocal)
	for _, ch := range c.Choices {
		n += units(ch.Name) + units(ch.Value)
	}
	for _, o := range c.Options {
		n += Size(o)
	}
	return n
}
