// Package draw turns replies and forms into Discord messages and modals. It is pure, and the one place that knows how text must be
// written so that it stays text.
package draw

import (
	"bobbin/bot"
	"bobbin/schemas"
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
	Upload  int // largest file in bytes; 0 = wire.MaxUpload
	// Asker is who asked for an answer of the assistant, and AskerName what the others see of that.
	Asker     schemas.MemberID
	AskerName string
}
