package rule

import (
	"context"
	"time"

	"bobbin/bot/internal/desk"
	"bobbin/schemas"
)

// config is what a thread wants.
type config interface {
	Load(context.Context, schemas.ThreadID) (schemas.Config, error)
}

// policies changes a thread's policy: read, change, write under one lock. The function may be called more than once.
type policies interface {
	Rule(context.Context, schemas.ThreadID, func(*schemas.Policy) error) error
}

// tools are those that a rule would be about.
type tools interface {
	Tools(context.Context, schemas.Caller) ([]schemas.Tool, error)
}

// live lets calls obey what was stored.
type live interface {
	Apply(context.Context, schemas.ThreadID) error
}

// Options are what Rules need, all of it.
type Options struct {
	Config    config
	Rules     policies
	Tools     tools
	Live      live
	CardTTL   time.Duration // how long a question waits for its answer
	StartWait time.Duration // how long new rules are waited for, 2 s at most
	Now       func() time.Time
}

// Rules answers the verbs about rules and puts the questions that rules raise. It is safe for concurrent use.
type Rules struct {
	opt  Options
	desk *desk.Desk
}

// New returns Rules that speak by way of a desk.
func New(d *desk.Desk, opt Options) *Rules { return &Rules{opt, d} }
