// Package agent is the assistant: it lets a model use a thread's tools, step by step, under budgets, and keeps what was said.
//
// A Provider is the seam to a model; everything above it is the same for all of them.
package agent

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"bobbin/schemas"
)

// Provider streams steps of one provider's models. It is safe for concurrent use.
type Provider interface {
	// Stream sends one request and yields what comes, in order. Parts come whole (EventPart) after their pieces, and all parts of
	// the answer before EventEnd, which is the last. An error ends the stream and is the last thing yielded: a *Failure, or
	// ctx.Err(). It retries by itself what the provider says may be retried, as long as nothing was yielded but EventRetry; a
	// stream that was cut after a first piece is a *Failure with Cut set. Breaking out of the loop closes the connection.
	Stream(ctx context.Context, r Request) iter.Seq2[Event, error]
}

// Request is one step: the whole conversation, and what the model may call.
type Request struct {
	Model     string // the provider's own name
	System    string
	Messages  []Message // begins with a User message; calls and their results are paired
	Tools     []Tool    // in an order that does not change from step to step without need, for the provider's cache
	MaxTokens int       // of the answer; 0 = the provider's usual
}

// Tool is a tool as a model sees it.
type Tool struct {
	Name        string // [A-Za-z0-9_-]{1,64}
	Description string
	Input       json.RawMessage // JSON Schema of an object, whole
}

// Role of a Message.
type Role string

// The roles. Results of calls stand in a User message of their own, in the order of the calls.
const (
	User      Role = "user"
	Assistant Role = "assistant"
)

// Message is one entry of a conversation. Its JSON form is the transcript's, and must stay readable.
type Message struct {
	Role   Role             `json:"role"`
	By     schemas.MemberID `json:"by,omitempty"`   // who spoke
	Name   string           `json:"name,omitempty"` // and how they are called
	At     time.Time        `json:"at"`
	Parts  []Part           `json:"parts"`
	Model  string           `json:"model,omitempty"` // who answered, as schemas.Model names it
	Tokens schemas.Tokens   `json:"tokens,omitzero"` // of the step that this answer ended
}

// Part is one piece of a Message; exactly one of Text, Reasoning, Image, Call and Result is set, or none beside Opaque.
type Part struct {
	Text      string  `json:"text,omitempty"`
	Reasoning string  `json:"reasoning,omitempty"` // a summary for people; replayed only by Opaque
	Image     *Image  `json:"image,omitempty"`
	Call      *Call   `json:"call,omitempty"`
	Result    *Result `json:"result,omitempty"`
	// Opaque is the provider's own form of the part (signatures, encrypted reasoning). It is sent back unchanged to the same
	// provider and model, and to nobody else.
	Opaque *Opaque `json:"opaque,omitempty"`
}

// Opaque is what only the provider and model that made it can read.
type Opaque struct {
	Model string          `json:"model"` // as schemas.Model names it
	Data  json.RawMessage `json:"data"`
}

// Image is a picture.
type Image struct {
	MIME string `json:"mime"`
	Data []byte `json:"data"`
}

// Call is a model's wish to use a tool. Args is an object; what the model sent when it was none is in Bad, and Args is {}.
type Call struct {
	ID   string          `json:"id"` // unique in its message; made up where the provider gives none
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
	Bad  string          `json:"bad,omitempty"`
}

// Result is what came of a Call.
type Result struct {
	ID     string  `json:"id"`
	Name   string  `json:"name"`
	Text   string  `json:"text"`
	Images []Image `json:"images,omitempty"`
	Failed bool    `json:"failed,omitempty"`
}

// EventKind says what an Event is.
type EventKind int

// The kinds of events.
const (
	EventText      EventKind = iota // Text: more of the answer
	EventReasoning                  // Text: more of what the model shows of its thinking
	EventCall                       // Call: one begins, with ID and Name alone
	EventPart                       // Part: one is whole
	EventRetry                      // Wait: the provider is busy or failed, and is asked again after it; Text says why
	EventEnd                        // Tokens, Stop
)

// Stop says why an answer ended.
type Stop string

// The reasons. Refused is the provider's own filter.
const (
	StopDone    Stop = "done"
	StopCalls   Stop = "calls"
	StopLength  Stop = "length"
	StopRefused Stop = "refused"
)

// Event is one piece of a stream.
type Event struct {
	Kind   EventKind
	Text   string
	Call   *Call
	Part   *Part
	Wait   time.Duration
	Tokens schemas.Tokens
	Stop   Stop
}

// Failure is what went wrong with a provider, in words for people, without its key and without raw bodies.
type Failure struct {
	Text    string // "anthropic refuses the key"
	Hint    string // "the operator checks ANTHROPIC_API_KEY"
	Cut     bool   // the stream broke after it had begun
	TooLong bool   // the conversation does not fit into the model's window
	Err     error
}

func (f *Failure) Error() string { return f.Text }

func (f *Failure) Unwrap() error { return f.Err }
