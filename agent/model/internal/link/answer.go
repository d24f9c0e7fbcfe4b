package link

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"strings"

	"bobbin/agent"
	"bobbin/schemas"
)

// Limits of one answer.
const (
	MaxText  = 1 << 20   // bytes of text, and as many of reasoning
	MaxArgs  = 256 << 10 // bytes of one call's arguments
	MaxCalls = 64
)

// End is how an answer ended.
type End struct {
	Tokens schemas.Tokens
	Stop   agent.Stop
}

// Answer takes what comes to the one who listens, within the limits. Its methods fail when nobody listens any more or a limit
// is passed; once then returns that error.
type Answer struct {
	yield   func(agent.Event) bool
	begun   bool // something but a retry was shown
	stopped bool
	showing bool // the one who listens is at work

	text, reasoning, calls int
}

type limitError struct{ what string }

func (e *limitError) Error() string { return e.what }

func (a *Answer) show(e agent.Event) error {
	a.begun, a.showing = true, true
	more := a.yield(e)
	a.showing = false
	if !more {
		a.stopped = true
		return errStop
	}
	return nil
}

// Text shows more of the answer.
func (a *Answer) Text(s string) error {
	if s == "" {
		return nil
	}
	if a.text += len(s); a.text > MaxText {
		return &limitError{"the answer is longer than 1 MiB"}
	}
	return a.show(agent.Event{Kind: agent.EventText, Text: s})
}

// Reasoning shows more of the thinking.
func (a *Answer) Reasoning(s string) error {
	if s == "" {
		return nil
	}
	if a.reasoning += len(s); a.reasoning > MaxText {
		return &limitError{"the model thinks in more than 1 MiB of text"}
	}
	return a.show(agent.Event{Kind: agent.EventReasoning, Text: s})
}

// Call says that one begins.
func (a *Answer) Call(id, name string) error {
	if a.calls++; a.calls > MaxCalls {
		return &limitError{"the model wants to use more than 64 tools at once"}
	}
	return a.show(agent.Event{Kind: agent.EventCall, Call: &agent.Call{ID: id, Name: name}})
}

// Part gives a whole part.
func (a *Answer) Part(p agent.Part) error {
	return a.show(agent.Event{Kind: agent.EventPart, Part: &p})
}

// Args gathers the arguments of a call.
type Args struct{ b strings.Builder }

// Add fails when the arguments are too long.
func (g *Args) Add(s string) error {
	if g.b.Len()+len(s) > MaxArgs {
		return &limitError{"the arguments of a tool are longer than 256 KiB"}
	}
	g.b.WriteString(s)
	return nil
}

// Whole reports whether they are a whole object.
func (g *Args) Whole() bool {
	s := strings.TrimSpace(g.b.String())
	return strings.HasSuffix(s, "}") && json.Valid([]byte(s))
}

// Len is how many bytes there are.
func (g *Args) Len() int { return g.b.Len() }

// Call is the whole call. No arguments at all are an empty object.
func (g *Args) Call(id, name string) *agent.Call {
	c := &agent.Call{ID: id, Name: name, Args: json.RawMessage("{}")}
	text := strings.TrimSpace(g.b.String())
	var compact bytes.Buffer
	switch {
	case text == "" || text == "null":
	case text[0] == '{' && json.Compact(&compact, []byte(text)) == nil:
		c.Args = compact.Bytes()
	default:
		c.Bad = text
	}
	return c
}

// NewID makes an id for a call up. It is like no other, because some providers want that of a whole conversation.
func NewID() string { return "call_" + rand.Text()[:20] }
