package session

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Every error of a request wraps exactly one of ErrNotSent, ErrLost, *RPCError
// and *StatusError, so that [OutcomeOf] can tell what became of it. Causes such as
// context.Canceled or ErrTooLarge stand beside them in the same chain.
var (
	// ErrNotSent: the server never saw the request, so trying again is safe.
	ErrNotSent = errors.New("request was not sent")
	// ErrLost: the request went out and no usable answer came back. It may have
	// taken effect.
	ErrLost = errors.New("request was sent, its outcome is unknown")
	// ErrClosed: the session is over.
	ErrClosed = errors.New("session is closed")
	// ErrTooLarge: the server sent a message above the limit.
	ErrTooLarge = errors.New("message from the server is too large")
	// ErrGarbage: the server sent something that is not MCP.
	ErrGarbage = errors.New("answer from the server is not MCP")
	// ErrStuck: the server stopped reading its input.
	ErrStuck = errors.New("server does not read its input")
	// ErrInputUnavailable: the tool asks for input from a person and nobody
	// can be asked, or it asked too often.
	ErrInputUnavailable = errors.New("tool asks for input that cannot be given")
	// ErrRedirect: the server tried to send a request elsewhere.
	ErrRedirect = errors.New("redirect to another address refused")
)

// Noise stands in the chain of an error of a server that printed lines which are not MCP, and gives the first of them: at
// most 200 printable bytes, untrusted. Such a line often says what the program really is.
type Noise struct{ First string }

func (n *Noise) Error() string { return "its first line that is not MCP: " + n.First }

// RPCError is a JSON-RPC error answer: the server saw the request and refused
// or failed it (JSON-RPC 2.0, section 5.1). Message and Data come from the
// server and are untrusted; Message is cut at 4 KiB, Data above 64 KiB dropped.
type RPCError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

func (e *RPCError) Error() string {
	return fmt.Sprintf("server answered error %d: %s", e.Code, e.Message)
}

// StatusError is an HTTP answer that carries no JSON-RPC message. Excerpt is
// at most 200 printable bytes of the body, untrusted.
type StatusError struct {
	Status  int
	Excerpt string
}

func (e *StatusError) Error() string { return fmt.Sprintf("server answered HTTP status %d", e.Status) }

// Outcome says what became of a request.
type Outcome int

// The outcomes of a request.
const (
	Done    Outcome = iota // it ran, the result is there
	NotRun                 // it did not run; trying again is safe
	Failed                 // it ran, or was looked at, and the server reported an error
	Unknown                // nobody knows whether it ran; never retry by itself
)

// OutcomeOf classifies an error of this package. What it does not recognise is Unknown.
func OutcomeOf(err error) Outcome {
	var rpc *RPCError
	var status *StatusError
	switch {
	case err == nil:
		return Done
	case errors.Is(err, ErrNotSent):
		return NotRun
	case errors.Is(err, ErrInputUnavailable):
		return Failed
	case errors.Is(err, ErrLost):
		return Unknown
	case errors.As(err, &rpc):
		return Failed
	case errors.As(err, &status) && status.Status >= 400 && status.Status < 500:
		return NotRun
	}
	return Unknown
}

func notSent(cause error) error { return fmt.Errorf("%w: %w", ErrNotSent, cause) }

func lost(cause error) error { return fmt.Errorf("%w: %w", ErrLost, cause) }
