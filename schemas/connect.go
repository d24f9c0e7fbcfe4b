package schemas

import "time"

// SignIn is a member's wish to sign in to a connector. What comes of it belongs to that member, thread and definition alone.
type SignIn struct {
	Caller Caller
	Server Server
	Shared string // who will be able to use it, in words for the page: "only you"
	Device bool   // by a code that is typed on another device (RFC 8628); only where the authorization server offers it
}

// Link is a sign-in that has begun: for one member, one use and a few minutes.
type Link struct {
	ID      string
	URL     string // our own page; with Code, the authorization server's
	Code    string // to type there; of a device sign-in only
	Proof   Proof
	Offer   Offer
	Expires time.Time
}

// Proof says what makes sure that the browser is the member's own, so that a link that was passed on connects nobody else.
type Proof string

// The proofs.
const (
	ProofCode  Proof = "code"  // the page ends with a short code, which the member types where nobody else sees it
	ProofLogin Proof = "login" // the page asks the browser to log in to the platform, as that member
	ProofHere  Proof = "here"  // only this machine can open the page, and the member sits at it
)

// Offer is how a remote server wants its users to sign in, before anybody did.
type Offer struct {
	Issuer string   // of the authorization server (RFC 8414)
	Scopes []string // that will be asked for
	Device bool     // it knows device sign-in
}

// Probe is what a remote server says about itself.
type Probe struct {
	Transport    Transport // HTTP or SSE, whichever answered
	Name         string
	Title        string
	Version      string
	Protocol     string // negotiated MCP revision
	Instructions string
	Tools        []Tool
	Tokens       int // estimate of what all tools cost the context
	Writing      int // of Tools, those that write
	Resources    bool
	Prompts      bool
}

// Loan lets everybody in a thread use a connector with one member's sign-in.
type Loan struct {
	Member MemberID  `json:"member"`
	Name   string    `json:"name,omitempty"`
	At     time.Time `json:"at"`
	Until  time.Time `json:"until,omitzero"` // zero: until it is withdrawn
}

// Holds reports whether the loan is good at that time; a nil one is not.
func (l *Loan) Holds(now time.Time) bool {
	return l != nil && (l.Until.IsZero() || now.Before(l.Until))
}
