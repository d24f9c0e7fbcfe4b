package schemas

import "time"

// Operated is the Auth.Type of an operator's server, which no file of a thread may have: its client comes from the operator's side.
const Operated = "operator"

// AdminServer is one of the operator's servers, as a thread sees it that may attach it.
type AdminServer struct {
	Name     string
	Type     string // "proxy": in a container, or "remote"
	State    string // as bobbin mcp list says: "running", "not_found", "failed", …
	Why      string // of a state that is not well
	Attached bool
}

// Attachment is the wish of a thread to use one of the operator's servers.
type Attachment struct {
	By       MemberID  `json:"by"`
	ByName   string    `json:"byName,omitempty"`
	Role     Role      `json:"role"`               // of who attached it, at that time
	Operator bool      `json:"operator,omitempty"` // who attached it sat at the machine
	At       time.Time `json:"at"`
}
