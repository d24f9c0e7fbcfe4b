package schemas

import (
	"encoding/json"
	"time"
)

// GatewayToken lets MCP clients outside of chat use a thread's tools as one member. The secret is shown once, when it is made, and only
// its SHA-256 is kept.
type GatewayToken struct {
	ID     string   // short, no secret: it names the token in lists and in the secret itself
	Thread ThreadID // the only one that it opens
	Member MemberID // whose calls they are
	Person string   // what people call the member
	Name   string   // what the member calls the token: "laptop"; cleaned
	Made   time.Time
	Used   time.Time // last, to the minute; zero = never
	Until  time.Time // zero = until it is revoked
}

// Holds reports whether the token has not run out.
func (t GatewayToken) Holds(now time.Time) bool { return t.Until.IsZero() || now.Before(t.Until) }

// Completion is a wish for values that could complete an argument (MCP specification, Completion).
type Completion struct {
	Server   string
	Prompt   string // the prompt whose argument it is; or
	Template string // the resource template's URI
	// Argument is the object {name, value}, Context the arguments that are settled; both as the client sent them.
	Argument, Context json.RawMessage
}
