package schemas

import (
	"context"
	"encoding/json"
	"time"
)

// Tool is one tool of a thread. Texts are cleaned of invisible and control characters: people and models see the same.
type Tool struct {
	Server      string // the server's name
	Name        string // as the server calls it
	Model       string // name for models: ext_{slug}_{tool}, at most 64 characters of [A-Za-z0-9_-]
	Kind        Kind
	Title       string
	Description string
	Input       json.RawMessage // JSON Schema 2020-12, whole
	Output      json.RawMessage // nil if none
	Raw         json.RawMessage // the definition as the server sent it
	Pin         string          // SHA-256 of name, description, schemas and annotations
	ReadOnly    bool            // says so and its name does not speak against it
	Writes      bool            // not read-only
	Risk        string          // "": none; "shell", "file system", "destructive": denied until a manager allows it
	Held        string          // "": usable; "changed" or "new": waits for approval
	Tokens      int             // estimate of what it costs the context
}

// Full is the name people write: server.tool.
func (t Tool) Full() string { return t.Server + "." + t.Name }

// Origin says on whose wish a call goes out.
type Origin string

// The origins of calls. A person's own call is its own yes, unless the tool is denied.
const (
	ByPerson    Origin = "person"
	ByAssistant Origin = "assistant"
	ByGateway   Origin = "gateway"
)

// Call is one tool call.
type Call struct {
	Caller  Caller
	Origin  Origin
	Tool    string          // server.tool or the name for models
	Args    json.RawMessage // an object; nil = {}
	Timeout time.Duration   // 0 = the server's, else 60 s
	// Progress, if set, gets notifications/progress params; called from another goroutine, never after the call returned.
	Progress func(json.RawMessage)
	// Wary names the servers whose answers the model has read in this turn: what they said may be what it wants now. A tool of
	// another server that writes then asks even if a rule allows it, unless Policy.Trust holds.
	Wary []string
	// Waiting, if set, is told what a person is waited for ("waits for @bob to allow github.close"), and "" when the call goes on.
	// It is called from other goroutines, one at a time and never after the call returned; it must be quick.
	Waiting func(why string)
	// Elicit, if set, is asked in place of the chat what a server asks in the middle of this call. It is called from other goroutines,
	// ends with its context, and never begins after the call returned. An error with CodeAsk hands the question to the chat. The
	// policy's questions go there all the same, see Ask.
	Elicit func(context.Context, Elicit) (Elicited, error)
	// Ask, if set, is asked what the policy asks where the chat has nobody to ask. AnswerOnce alone is a yes. It is for callers who sit at
	// this machine: whoever answers there could change the policy itself.
	Ask func(context.Context, Ask) (Answer, error)
	// Client, if set, answers what a server that a rule of the thread allows to asks for besides.
	Client *Client
	// Log, if set, gets the params of the server's log messages that certainly belong to this call, on Progress's terms.
	Log func(json.RawMessage)
	// Whole says that the caller takes a result of any length: nothing of it is cut for a model.
	Whole bool
}

// Result is the answer of a tool, as the bytes that the server sent (an MCP CallToolResult object).
type Result struct {
	Raw     json.RawMessage
	IsError bool // the tool itself says that it failed
	Server  string
	Tool    string
	RunsAs  MemberID
	Took    time.Duration
	Receipt string // short reference in the audit log
	Spilled string // id under which the whole result is kept when Raw was cut; "" otherwise
	Size    int    // bytes before any cut
}

// State of a live server.
type State string

// The states.
const (
	Starting      State = "starting"
	Ready         State = "ready"
	Idle          State = "idle" // stopped until it is needed; its tools are known
	Needs         State = "needs"
	PendingState  State = "pending approval"
	Held          State = "held"
	Failed        State = "failed"
	Off           State = "off"
	NeedsConnect  State = "needs connect"
	ShadowedState State = "shadowed"
)

// Status is how one server of a thread is, for lists.
type Status struct {
	Name      string
	Title     string
	Kind      Kind
	Transport Transport
	Owner     MemberID
	OwnerName string
	State     State
	Why       string   // of failed: the reason with the stderr tail's telling line; of held: which tools
	Fix       string   // of failed: the next step, as whoever refused the start named it; "" where nobody did
	Needs     []string // input ids without a value
	Pending   bool     // a changed definition waits while the approved one runs
	Tools     int
	Writing   int // of Tools, those that write
	Asking    int // of Tools, those that ask before a call
	HeldTools []string
	Blocked   int           // of Tools, those denied by default
	Tokens    int           // estimate for all tools
	PID       int           // of a local program, 0 otherwise
	Since     time.Time     // when it became ready
	Took      time.Duration // from start to ready, last time
	Calls     int
	Protocol  string // negotiated MCP revision
	// What the server that runs calls itself, with its version, and how it says that its tools should be used.
	Software, Instructions string
	RunsAs                 string // "@alice", "the one who asks"
	Resources              bool
	Prompts                bool
	// How often it announced that these lists changed, since it was configured.
	ResourceChanges, PromptChanges int
	Stderr                         string // cleaned tail, for /mcp show and /mcp doctor
}

// Resource and Prompt are listed per server; Raw is the object as the server sent it.
type Resource struct {
	Server, URI, Name, MIME, Description string
	Template                             bool
	Raw                                  json.RawMessage
}

// Prompt is one prompt of a server.
type Prompt struct {
	Server, Name, Description string
	Arguments                 []PromptArgument
	Raw                       json.RawMessage // the object as the server sent it
}

// PromptArgument is one argument of a prompt.
type PromptArgument struct {
	Name, Description string
	Required          bool
}

// Ask is a question to a person about one call: policy says ask.
type Ask struct {
	Caller Caller
	Tool   Tool
	Args   json.RawMessage
	Why    string // "it writes", "a rule of this thread says ask"
	// Each says that a yes is for this one call: every call asks anew, whatever was allowed for longer.
	Each bool
	// Shown says that the thread sees already who is waited for, in the answer that the call belongs to.
	Shown bool
}

// Answer to an Ask.
type Answer string

// The answers. AnswerHour lasts one hour, AnswerAlways until it is taken back; both for that member and tool.
const (
	AnswerOnce   Answer = "once"
	AnswerHour   Answer = "hour"
	AnswerAlways Answer = "always"
	AnswerDeny   Answer = "deny"
)

// HeldTool is a tool that waits for approval, shown to people.
type HeldTool struct {
	Tool Tool   // as the server says it now
	Why  string // "changed" or "new"
	Diff string // unified diff lines from the approved definition to the present one, cleaned; without file header
}

// Elicit is a server's question, in the middle of a call, to the member whose call it is (MCP specification, Elicitation).
// Schema is of form mode, URL of URL mode; one of them is set.
type Elicit struct {
	Caller  Caller
	Server  string
	Key     string          // under which the server asks it (2026-07-28); "" before
	Message string          // the server's own words, cleaned, at most 2,000 characters
	Schema  json.RawMessage // of the answer: an object of plain values
	URL     string          // a page to open, whole; nobody has opened it, and nothing but a person's own press may
	// Done is closed when the server says that the member is done with the page, which is an "accept"; nil when it never will.
	Done <-chan struct{}
	// Check gives all mistakes of an answer; of form mode.
	Check func(json.RawMessage) Problems
}

// Elicited is the member's answer. Action is "accept" with Content, "decline" or "cancel", as MCP names them.
type Elicited struct {
	Action  string          `json:"action"`
	Content json.RawMessage `json:"content,omitempty"`
}
