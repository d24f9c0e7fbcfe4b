package sandbox

import (
	"context"
	"io"

	"bobbin/schemas"
)

// Off is a launcher that refuses, with words.
type Off struct{ why, hint string }

// NewOff gives a launcher that never starts anything: why is what is missing, hint how to fix it (lower case, no final
// period).
func NewOff(why, hint string) *Off { return &Off{why, hint} }

// Launch refuses with CodeMissing.
func (o *Off) Launch(context.Context, schemas.Launch) (io.ReadWriteCloser, error) {
	return nil, &schemas.Error{Code: schemas.CodeMissing, Text: o.why, Hint: o.hint}
}

// Place says why nothing runs here.
func (o *Off) Place() schemas.Place { return schemas.Place{Why: o.why, Hint: o.hint} }

// Close does nothing.
func (o *Off) Close() error { return nil }
