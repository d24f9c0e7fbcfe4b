package schemas

import (
	"encoding/json"
	"time"
)

// Said is one message of a member to the assistant. The door fills Caller from the platform's own event.
type Said struct {
	Caller Caller
	Text   string
	Files  []File // what was attached: images and texts
}

// Answering is how far an answer is: the whole of it each time, never a difference. Texts are cleaned of invisible and control
// characters; links in them are for a door to make inert.
type Answering struct {
	Text   string // Markdown, as far as it has come
	Steps  []Step // in the order in which they began
	Status string // what goes on just now, in words: "waits for @bob to allow github.close", "the model is busy, again in 5 s"; "" = nothing to say
	Done   bool
	// Joined says that the message went into an answer that its member was being given already: that one's Say shows it all, and
	// there is nothing to show here.
	Joined bool
	Why    string // when it ended early, in words: "stopped by @alice", "after 40 steps"; "" = the model ended it
	Model  string // who answers, as /chat model names it
	Tokens Tokens // of the turn so far
}

// Step is one use of a tool in an answer: what everybody in the thread may see of it.
type Step struct {
	Tool    string // server.tool, or the name of one of bobbin's own
	State   StepState
	RunsAs  MemberID
	Took    time.Duration // waiting for people left out
	Size    int           // bytes of the result
	Receipt string        // short reference in the audit log
	Why     string        // of one that failed or was denied, in words
	// Args and Result are for those who may see them: the one who asked. A door shows them to nobody else.
	Args   json.RawMessage
	Result string
}

// StepState is how far a Step is.
type StepState string

// The states of a step.
const (
	StepWaiting StepState = "waiting" // for a person
	StepRunning StepState = "running"
	StepDone    StepState = "done"
	StepFailed  StepState = "failed" // the tool or the way to it
	StepDenied  StepState = "denied" // by policy or a person
	StepStopped StepState = "stopped"
)

// Tokens is what a model counted.
type Tokens struct {
	In     int `json:"in"`               // read, those from a cache included
	Cached int `json:"cached,omitempty"` // of In
	Out    int `json:"out"`
}

// ChatMode says when the assistant answers a message that is no command.
type ChatMode string

// The modes. Mentioned is Discord's default: a mention or a reply to one of its messages; Always is the others'.
const (
	ChatMentioned ChatMode = "mentioned"
	ChatAlways    ChatMode = "always"
	ChatOff       ChatMode = "off"
)

// Model is one that the operator allows.
type Model struct {
	Name   string // "anthropic/claude-sonnet-5": the provider, a slash, the model's own name
	Window int    // tokens that it reads at most; 0 = unknown
	Chosen bool   // in this thread
	// Tools and ToolTokens are what servers may offer at most for the assistant to read all of it; above, it searches.
	Tools, ToolTokens int
}

// Usage is what the assistant spent in a time.
type Usage struct {
	Since  time.Time
	Turns  int
	Calls  int // of tools
	Tokens Tokens
	Limit  int // of tokens, In and Out together; 0 = none
}
