// Package draw turns replies and forms into Discord messages and modals. It is pure, and the one place that knows how text must be
// written so that it stays text.
package draw

import (
	"bobbin/bot"
	"bobbin/bot/discord/internal/wire"
)

// Kind says what a component that is minted will do.
type Kind int

// The kinds.
const (
	Choose Kind = iota // a button for one choice
	Pick               // a select menu for the reply's choices; its value is the index of the choice, in decimal
	Open               // a button that opens the reply's form
)

// Pen says how a reply is drawn.
type Pen struct {
	// Mint gives the custom id of a component: a nonce that the door keeps, never data. choice is of Choose only.
	Mint func(kind Kind, choice bot.Choice) string
	V2   bool // the message has Components V2 already, which cannot be taken back
	// Private makes the first message ephemeral and all others, too.
	Private bool
	Upload  int    // largest file in bytes; 0 = wire.MaxUpload
	Head    string // a line of ours before the reply, such as "confirmed by Ann"; may be ""
}

// Reply draws a reply as one message, or a few when it is long; what would take more than three becomes a file. Choices and the
// form's button are on the last one. A short plain answer is a plain message, all else has Components V2.
func Reply(r bot.Reply, p Pen) []wire.Outgoing { panic("stub") }

// Settled draws a card once more after it was answered: what it was about in short, without anything to press, and under it how it ended.
func Settled(r bot.Reply, how string, p Pen) wire.Outgoing { panic("stub") }

// Line draws one line of ours, such as progress. Untrusted text in it is already clean.
func Line(text string, p Pen) wire.Outgoing { panic("stub") }

// Pages is how many modals a form takes, five fields each.
func Pages(f bot.Form) int { panic("stub") }

// Modal draws page n of a form, from 0, with values typed before. Custom ids of fields are "f" and the field's index. fits is false
// when a value that stands there is too long for Discord; then the form cannot be used here.
func Modal(f bot.Form, n int, values map[string]string, id string) (m wire.Modal, fits bool) {
	panic("stub")
}

// Values reads what Modal asked for, by field name, out of wire's Fields of that page.
func Values(f bot.Form, n int, fields map[string][]string) map[string]string { panic("stub") }

// Locale is the translation of names and descriptions of one language, by "mcp", "add-json", "history show" or "call.tool".
type Locale struct {
	Names        map[string]string
	Descriptions map[string]string
}

// Command builds /mcp with a subcommand for every verb and a group for verbs of two words. It fails when Discord would refuse it.
func Command(verbs []bot.Verb, locales map[string]Locale) (wire.Command, error) { panic("stub") }

// Escape writes text so that Discord shows it as it is: no markdown, mention, timestamp, emoji or link comes of it. `code` spans stay.
func Escape(text string) string { panic("stub") }

// Fence writes preformatted text in a code block that nothing in it can end.
func Fence(text, language string) string { panic("stub") }
