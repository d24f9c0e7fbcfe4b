package schemas

import "time"

// Record is one line of a thread's audit log. Seq, Prev and Hash are set by the log. It never holds an argument's or a
// result's text, nor any secret.
type Record struct {
	Seq     int64     `json:"seq"`
	At      time.Time `json:"at"`
	Thread  ThreadID  `json:"thread"`
	Member  MemberID  `json:"member,omitempty"`
	Name    string    `json:"name,omitempty"` // what people call the member
	Door    Door      `json:"door,omitempty"`
	Event   Event     `json:"event"`
	Origin  Origin    `json:"origin,omitempty"`
	Server  string    `json:"server,omitempty"`
	Tool    string    `json:"tool,omitempty"`
	RunsAs  MemberID  `json:"runsAs,omitempty"`
	Args    string    `json:"args,omitempty"`  // digest of the arguments: their keys and sizes, no values
	Bytes   int       `json:"bytes,omitempty"` // size of the result
	Ms      float64   `json:"ms,omitempty"`    // time taken
	Outcome Outcome   `json:"outcome,omitempty"`
	Receipt string    `json:"receipt,omitempty"` // joins begin and end
	Detail  string    `json:"detail,omitempty"`  // short, redacted: "1 added: github", a reason
	Torn    int       `json:"torn,omitempty"`    // bytes before this line that a crashed writer left unfinished; set by the log
	Prev    string    `json:"prev"`              // hash of the line before, "" for the first
	Hash    string    `json:"hash"`              // of this record without Hash
}

// Event names what happened.
type Event string

// The events.
const (
	EventCallBegin Event = "call.begin"
	EventCallEnd   Event = "call.end"
	EventRefused   Event = "call.refused"
	EventAsked     Event = "asked"     // a verb was asked for
	EventCommit    Event = "commit"    // configuration changed
	EventCancelled Event = "cancelled" // a card was cancelled
	EventApprove   Event = "approve"
	EventPolicy    Event = "policy"
	EventSecret    Event = "secret"   // set, replaced or deleted; names only
	EventOutside   Event = "outside"  // files changed outside of chat
	EventDropped   Event = "dropped"  // the thread was deleted on its platform
	EventElicit    Event = "elicit"   // a server asked the one who called it for input; names of fields only
	EventSampling  Event = "sampling" // a server asked for words of the model; how many, never which
	EventServer    Event = "server"   // started, stopped, failed
	EventEgress    Event = "egress"   // a sandbox reached a host for the first time, or was refused; host and port only
	EventChat      Event = "chat"     // the assistant began or ended an answer; how, never what was said
	EventInspect   Event = "inspect"  // somebody at the machine began to watch the messages of a server
	EventSignIn    Event = "sign-in"  // asked for, done, refused, ended; lent and withdrawn. Never a code or token
)

// Outcome of a call: the three outcomes, and refusal.
type Outcome string

// The outcomes.
const (
	OutcomeOK      Outcome = "ok"
	OutcomeFailed  Outcome = "failed"  // ran and failed
	OutcomeNotRun  Outcome = "not run" // never reached the server
	OutcomeUnknown Outcome = "unknown" // written, no answer
	OutcomeRefused Outcome = "refused"
)

// Verdict of checking a hash chain.
type Verdict struct {
	Thread  ThreadID
	Records int64
	OK      bool
	Line    int    // first bad line, from 1
	Why     string // what is wrong there
}
