package schemas

import (
	"context"
	"encoding/json"
	"time"
)

// GatewayToken lets MCP clients outside of chat use a thread's tools as one member. The secret is shown once, when it is made, and only
// its SHA-256 is kept.
type GatewayToken struct {
	ID     string   // short, no secret: it names the token in lists and in the secret itself
	Thread ThreadID // the only one that it opens
	Member MemberID // whose calls they are
	Person string   // what people call the member
	Name   string   // what the member calls the token: "laptop"; cleaned
	Made   time.Time
	Used   time.Time // last, to the minute; zero = never
	Until  time.Time // zero = until it is revoked
}

// Holds reports whether the token has not run out.
func (t GatewayToken) Holds(now time.Time) bool { return t.Until.IsZero() || now.Before(t.Until) }

// Completion is a wish for values that could complete an argument (MCP specification, Completion).
type Completion struct {
	Server   string
	Prompt   string // the prompt whose argument it is; or
	Template string // the resource template's URI
	// Argument is the object {name, value}, Context the arguments that are settled; both as the client sent them.
	Argument, Context json.RawMessage
}

// Client is what the program that a call came from can do for a server in the middle of it, if its user agrees: it declared so.
type Client struct {
	Sampling, Roots bool
	// Ask puts sampling/createMessage or roots/list to it: the params as the server sent them but for secrets, and the key of 2026-07-28.
	// It is called from other goroutines and ends with its context.
	Ask func(ctx context.Context, method, key string, params json.RawMessage) (json.RawMessage, error)
}

// Refusal is a JSON-RPC error as a server gave it, for callers that speak MCP themselves. It stands in the chain of an Error with CodeFailed;
// its message and data are the server's, secrets left out.
type Refusal struct {
	Code    int
	Message string
	Data    json.RawMessage // nil if none
	Err     error           // the operator's chain
}

func (r *Refusal) Error() string { return r.Message }

func (r *Refusal) Unwrap() error { return r.Err }
