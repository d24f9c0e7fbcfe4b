package schemas

import "strings"

// ThreadID names a thread, the unit of configuration: a Discord snowflake, "web-…" or "terminal-…".
// A ThreadID is safe as a folder name once Valid says so.
type ThreadID string

// MemberID names a member, the unit of identity: a platform's user id, never a display name.
type MemberID string

// Valid reports whether the id has the one allowed form, ^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$ with no trailing newline.
func (t ThreadID) Valid() bool { return validID(string(t)) }

// validID is asked several times for each call, so it is no regular expression.
func validID(id string) bool {
	for i, c := range []byte(id) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case i > 0 && (c == '-' || c == '_'):
		default:
			return false
		}
	}
	return 0 < len(id) && len(id) <= 64
}

// IsSnowflake reports whether the id is one of Discord's: the thread's members come over the internet, and nobody of them sits at
// this machine.
func (t ThreadID) IsSnowflake() bool {
	return len(t) >= 15 && len(t) <= 20 && strings.Trim(string(t), "0123456789") == ""
}

// Valid reports whether the id has the form of a ThreadID.
func (m MemberID) Valid() bool { return validID(string(m)) }

// Door names where a request came in: "terminal", "web", "discord" or "gateway".
type Door string

// The doors.
const (
	DoorTerminal Door = "terminal"
	DoorWeb      Door = "web"
	DoorDiscord  Door = "discord"
	DoorGateway  Door = "gateway"
)

// Role is what a member may do in a thread, from least to most.
type Role int

// The roles. A guest may look, a member brings and uses servers of their own, a manager rules over all servers and
// policy of the thread, the owner is a manager who cannot be narrowed by another manager's rules.
const (
	Guest Role = iota
	Member
	Manager
	Owner
)

func (r Role) String() string { return [...]string{"guest", "member", "manager", "owner"}[r] }

// Caller is who asks, from the platform's own event and never from arguments.
type Caller struct {
	Thread   ThreadID
	Member   MemberID
	Name     string // what people call the member; shown, never compared
	Door     Door
	Role     Role
	Operator bool // sits at the machine that runs bobbin (terminal, local web page)
}

// Manages reports whether the caller may change servers and rules of other members.
func (c Caller) Manages() bool { return c.Role >= Manager }
