package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"bobbin/internal/durable"
	"bobbin/schemas"
)

// tools is what a thread's servers offer. Both are called concurrently and end with ctx; Tools is called for every step of an answer.
type tools interface {
	Tools(context.Context, schemas.Caller) ([]schemas.Tool, error)
	Call(context.Context, schemas.Call) (schemas.Result, error)
}

// own is bobbin's own tools. All are called concurrently; CallOwn ends with ctx. Masked gives the arguments of a call as they may be
// kept, shown and sent to a model again, whether the name is one of theirs or only nearly.
type own interface {
	OwnTools(context.Context, schemas.Caller) []schemas.Tool
	CallOwn(context.Context, schemas.Call) (schemas.Result, error)
	Masked(name string, args json.RawMessage) json.RawMessage
}

// resources is what a thread's servers offer to read. Status must be quick: it is called for every step of an answer.
type resources interface {
	Status(context.Context, schemas.ThreadID) ([]schemas.Status, error)
	Resources(context.Context, schemas.Caller) ([]schemas.Resource, error)
	ReadResource(ctx context.Context, c schemas.Caller, server, uri string) (schemas.Result, error)
}

// journal keeps the audit record. Called concurrently.
type journal interface {
	Append(context.Context, schemas.Record) (schemas.Record, error)
}

// Choice is a model that threads may choose.
type Choice struct {
	Name     string // as schemas.Model names it: "anthropic/claude-sonnet-5"
	Provider Provider
	Model    string // the provider's own name
	Window   int    // tokens that it reads at most; 0 = unknown
}

// Options of New. Zero numbers mean the defaults named; a negative one of a budget means none.
type Options struct {
	Tools     tools
	Own       own       // nil: bobbin has no tools of its own
	Resources resources // nil: no resources
	Journal   journal
	Chats     *durable.Dir // data/chat, with a folder for each thread
	Spent     *durable.Dir // data/spent, with a file for each member
	Models    []Choice     // the first one is a new thread's; empty: Say is refused
	Prompt    string       // the operator's own words to the model, after ours

	Steps       int           // of one answer; 40
	Time        time.Duration // of one answer, waiting for people left out; 30 min
	TurnTokens  int           // of one answer, In and Out of all its steps; 4,000,000
	MemberTurns int           // answers begun in a minute, of one member in a thread; 20
	ThreadTurns int           // and of all; 60
	// MemberTokens and ThreadTokens bound what a member in all threads, and a thread, may spend in a day (UTC); 0 = no bound.
	MemberTokens, ThreadTokens int

	Now func() time.Time
	Log *slog.Logger
}

func (o *Options) fill() error {
	if o.Tools == nil || o.Journal == nil || o.Chats == nil || o.Spent == nil {
		return errors.New("agent: Tools, Journal, Chats and Spent are required")
	}
	for n, m := range o.Models {
		switch {
		case m.Name == "" || m.Provider == nil || m.Model == "":
			return fmt.Errorf("agent: model %d has no name or no provider", n+1)
		case slices.ContainsFunc(o.Models[:n], func(c Choice) bool { return c.Name == m.Name }):
			return fmt.Errorf("agent: model %q is there twice", m.Name)
		}
	}
	o.Steps = cmp.Or(o.Steps, 40)
	o.Time = cmp.Or(o.Time, 30*time.Minute)
	o.TurnTokens = cmp.Or(o.TurnTokens, 4_000_000)
	o.MemberTurns = cmp.Or(o.MemberTurns, 20)
	o.ThreadTurns = cmp.Or(o.ThreadTurns, 60)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

// Agent answers members. All methods may be called concurrently. It has no goroutines but those that a Say waits for.
type Agent struct {
	opt Options

	mu      sync.Mutex                   // of what follows
	threads map[schemas.ThreadID]*thread // those with an answer on its way
	begun   map[rateKey][]time.Time      // answers of the last minute
}

// New checks the options.
func New(opt Options) (*Agent, error) {
	if err := opt.fill(); err != nil {
		return nil, err
	}
	return &Agent{opt: opt, threads: map[schemas.ThreadID]*thread{}, begun: map[rateKey][]time.Time{}}, nil
}
