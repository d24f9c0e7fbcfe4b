package schemas

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Problem is one mistake in a text that a person gave, with its place. Text is lower case without a final period.
type Problem struct {
	File string `json:"file,omitempty"` // shown name, such as "mcp.json"; never a path
	Line int    `json:"line,omitempty"` // from 1; 0 = no place
	Col  int    `json:"col,omitempty"`  // from 1, in characters
	// Pointer is the JSON pointer (RFC 6901) of the value, such as /mcpServers/x/args/0; "" = the whole text.
	Pointer string `json:"pointer,omitempty"`
	Server  string `json:"server,omitempty"`
	Text    string `json:"text"`              // what is wrong
	Hint    string `json:"hint,omitempty"`    // the next step, or a nearest name: `did you mean "env"?`
	Excerpt string `json:"excerpt,omitempty"` // the offending line, masked, for a caret under it; may be empty
}

// String gives one line: `mcp.json:4:51: github: unknown key "envs" (did you mean "env"?)`.
func (p Problem) String() string {
	var b strings.Builder
	place := p.File
	if p.Line > 0 {
		place = strings.TrimPrefix(fmt.Sprintf("%s:%d:%d", place, p.Line, p.Col), ":")
	}
	if place != "" {
		b.WriteString(place + ": ")
	}
	if p.Server != "" {
		b.WriteString(p.Server + ": ")
	}
	b.WriteString(p.Text)
	if p.Hint != "" {
		b.WriteString(" (" + p.Hint + ")")
	}
	return b.String()
}

// Problems is all mistakes of a text at once, in order of place.
type Problems []Problem

// Error joins the problems, one a line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Named gives the mistakes of a call's arguments as people and models read them: each begins with its argument, by the pointer.
func (ps Problems) Named() Problems {
	ps = slices.Clone(ps)
	for i, p := range ps {
		if arg := strings.TrimPrefix(p.Pointer, "/"); arg != "" && !strings.HasPrefix(p.Text, strconv.Quote(arg)) {
			ps[i].Text = arg + ": " + p.Text
		}
	}
	return ps
}

// Code says which kind of refusal an Error is, so that a caller can act on it without reading words.
type Code string

// The codes.
const (
	CodeInvalid    Code = "invalid"    // the request or text is wrong
	CodeNotFound   Code = "not_found"  // no such server, tool, revision
	CodeDenied     Code = "denied"     // role or policy forbids; never reveals what exists
	CodeConflict   Code = "conflict"   // the base revision is stale; look again
	CodeExpired    Code = "expired"    // the card or link is no longer valid
	CodeNeeds      Code = "needs"      // a value (secret, sign-in) is missing
	CodePending    Code = "pending"    // the definition waits for approval
	CodeHeld       Code = "held"       // the tool's definition changed after approval
	CodeNotReady   Code = "not_ready"  // the server does not run; the call did not run
	CodeAsk        Code = "ask"        // a person must say yes first and nobody could be asked
	CodeFailed     Code = "failed"     // ran and failed
	CodeUnknown    Code = "unknown"    // whether it ran is unknown; never retried by itself
	CodeTooLarge   Code = "too_large"  // over a limit
	CodeUnreadable Code = "unreadable" // a stored file cannot be read; the last good state runs on
	CodeMissing    Code = "missing"    // this build or machine lacks a part
	CodeInternal   Code = "internal"   // our fault; the person sees only Ref
)

// Error is a refusal or failure with words for two audiences: Text and Hint for the person (lower case, no final period, no
// secret, no raw library error), Err for the operator's log.
type Error struct {
	Code Code
	Text string
	Hint string // the next step, often a command
	Ref  string // short reference that also stands in log and audit
	Err  error  // operator's chain; never shown to a person
}

// Error gives the operator's view.
func (e *Error) Error() string {
	s := string(e.Code) + ": " + e.Text
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// CodeOf finds the code in an error's chain; anything unclassified is CodeInternal, nil is "".
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	if _, ok := errors.AsType[Problems](err); ok {
		return CodeInvalid
	}
	return CodeInternal
}

// Note is something a person should know beside the result: an ignored key, a name that was changed, a risk.
type Note struct {
	Kind   NoteKind `json:"kind"`
	Server string   `json:"server,omitempty"`
	Line   int      `json:"line,omitempty"` // place in the text it came from; 0 = none
	Col    int      `json:"col,omitempty"`
	Text   string   `json:"text"` // lower case, no final period, no secret value
}

// NoteKind groups notes on a card.
type NoteKind string

// The kinds of notes.
const (
	NoteIgnored   NoteKind = "ignored"    // key without meaning here
	NoteNotObeyed NoteKind = "not_obeyed" // another client's approval or policy key: asked for, not granted
	NoteRenamed   NoteKind = "renamed"    // name changed to fit the rule; the old one stays as title
	NoteMapped    NoteKind = "mapped"     // another client's key or wrapper translated
	NoteRisk      NoteKind = "risk"       // shell text, loader variables, whole drives, engine sockets
	NoteUnpinned  NoteKind = "unpinned"   // no exact version: tomorrow's code may differ
	NotePath      NoteKind = "path"       // a path or program that must exist where the server runs
	NoteRemote    NoteKind = "remote"     // not enabled: remote servers are added with /mcp connect
	NoteSecret    NoteKind = "secret"     // a literal secret was found
	NoteRepair    NoteKind = "repair"     // the text was broken and a repair is offered
	NoteOther     NoteKind = "other"
)
