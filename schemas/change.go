package schemas

import "time"

// Import is what a text of unknown kind was read as. With Problems nothing of it may be used.
type Import struct {
	Format   string // "claude-desktop", "claude-code", "vscode", "cursor", "windsurf", "cline", "roo", "gemini", "opencode", "codex", "zed", "registry", "map", "single", …
	Servers  []Draft
	Inputs   []Input
	Notes    []Note
	Problems Problems
	// Repaired is the mended text of a file that was broken in an obvious way (a missing brace, leading # lines), "" if none
	// was needed. The servers above come from it; the card must say so.
	Repaired string
	// Packages are what registry entries among the text can be installed from, by the names of Servers where the same entry is
	// also there as a command. An entry that can only be installed is here alone.
	Packages []Suggestion
}

// Draft is one imported server, ready to propose: no secret value in Server, its name valid and unique in the import.
type Draft struct {
	Server   Server
	Title    string // the name as written, if it had to be changed
	Disabled bool   // the text had it switched off
	Found    []Found
	Needs    []string // input ids with no value yet, in order
}

// Edit is a wished change of a thread's configuration. Several fields may be used at once.
type Edit struct {
	Put     []Draft  // add these, or change those of the same name
	Inputs  []Input  // declared with them; merged by id
	Remove  []string // forget these
	Enable  []string
	Disable []string
	Approve []string // approve what the file says now
	PutBack []string // restore the approved definition
	Undo    string   // restore the configuration as it was before revision ID
	Notes   []Note   // carried over to the proposal
	Hold    bool     // what is found is held in memory until bobbin ends, not sealed
	Source  string   // shown in history: "upload mcp.json", "add-json", "add"
}

// ChangeKind of a server in a proposal.
type ChangeKind string

// The kinds of changes.
const (
	Added     ChangeKind = "added"
	Changed   ChangeKind = "changed"
	Removed   ChangeKind = "removed"
	Enabled   ChangeKind = "enabled"
	Disabled  ChangeKind = "disabled"
	Approved  ChangeKind = "approved"
	Unchanged ChangeKind = "unchanged"
)

// Change is what a proposal does to one server.
type Change struct {
	Server string
	Kind   ChangeKind
	Fields []string // of a changed server: "args", "env", …
	Before *Server  // nil when added
	After  *Server  // nil when removed
	Owner  MemberID // of the entry before the change; "" when added
	Remote bool
}

// Proposal is a change that a person can look at and confirm. It holds found secrets in memory only.
type Proposal struct {
	Thread  ThreadID
	Base    string // Config.Base it was computed from; stale → CodeConflict at commit
	By      Caller
	Edit    Edit
	Changes []Change            // in file order; unchanged servers of an upload are listed, too, as Unchanged
	Diff    string              // masked unified diff of mcp.json (and mcp_remote.json), without file header; "" when nothing changes
	Found   []Found             // literal secrets to seal before the commit
	Needs   map[string][]string // server → input ids without a value known from this edit
	Notes   []Note
	Remote  []Draft  // URL entries that this edit cannot add: "not enabled: connect it"
	Kept    []string // servers of the thread that an upload does not mention and that stay
}

// Empty reports whether confirming would change nothing.
func (p Proposal) Empty() bool {
	for _, c := range p.Changes {
		if c.Kind != Unchanged {
			return false
		}
	}
	return true
}

// Revision is one committed change in a thread's history.
type Revision struct {
	ID      string    `json:"id"` // short, ordered, unique in the thread
	At      time.Time `json:"at"`
	By      MemberID  `json:"by"`
	ByName  string    `json:"byName,omitempty"`
	Door    Door      `json:"door,omitempty"`
	Source  string    `json:"source,omitempty"`
	Summary string    `json:"summary"` // "1 added: github"
	Diff    string    `json:"diff,omitempty"`
}

// Edited tells that a thread's files changed, by whatever hand.
type Edited struct {
	Thread ThreadID
	// Outside is true when no commit of this process made the change: an editor, another program, another bobbin.
	Outside  bool
	Removed  []string
	Waiting  []Change // new or changed definitions that wait for approval
	Problems Problems // the file cannot be read; the last good state runs on
	Policy   bool     // policy.json changed
	// By is the revision that made an outside change, when the files are exactly as it left them: another bobbin on the same
	// folder committed it. Policy is told apart from it.
	By *Revision
}

// File is a named content that a door sends or shows.
type File struct {
	Name string
	MIME string
	Data []byte
}
