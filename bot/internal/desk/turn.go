package desk

import (
	"strings"

	"bobbin/bot/internal/view"
	"bobbin/schemas"
)

// MaxText bounds a typed line and an uploaded config, in bytes.
const MaxText = 256 << 10

// Turn is one request on its way through a verb.
type Turn struct {
	Caller schemas.Caller
	Args   map[string]string
	File   *schemas.File
	Tell   func(string) // never nil

	Files     []schemas.File
	Mentioned bool
	Stream    func(view.Reply) // may be nil
}

// Arg is one argument, without the white space around it; "" when it was not given.
func (t Turn) Arg(name string) string { return strings.TrimSpace(t.Args[name]) }
