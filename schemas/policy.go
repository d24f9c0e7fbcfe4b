package schemas

import (
	"path"
	"strings"
	"time"
)

// Policy is a thread's rules about tools: policy.json. Patterns are globs over server.tool ("github.*", "*.delete_*"); a
// pattern without a dot means a whole server.
type Policy struct {
	Schema  string             `json:"$schema,omitempty"`
	Thread  Rules              `json:"thread"`
	Members map[MemberID]Rules `json:"members,omitempty"` // narrow the thread's rules for that member, never widen them
	Grants  []Grant            `json:"grants,omitempty"`
}

// Rules are three lists of patterns. Deny wins over all, ask over allow by default.
type Rules struct {
	Allow []string `json:"allow,omitempty"`
	Ask   []string `json:"ask,omitempty"`
	Deny  []string `json:"deny,omitempty"`
}

// Grant is a member's yes to a tool that asks, for a time.
type Grant struct {
	Tool   string     `json:"tool"` // exact server.tool
	Pin    string     `json:"pin"`  // the definition it was given for
	Member MemberID   `json:"member"`
	Until  *time.Time `json:"until,omitempty"` // nil = until taken back
}

// Verb of a decision.
type Verb string

// The verbs.
const (
	Allow   Verb = "allow"
	AskVerb Verb = "ask"
	Deny    Verb = "deny"
)

// Decision of a policy about one tool and member.
type Decision struct {
	Verb   Verb
	Why    string // lower case, for people: "shell tools are denied here unless a manager allows them"
	Hidden bool   // the member's own allow list leaves the tool out
	Rule   string // the pattern that decided, "" for a default
}

// Match reports whether a pattern covers server.tool.
func Match(pattern, server, tool string) bool {
	if pattern == "*" {
		return true
	}
	if strings.HasPrefix(pattern, "ext_") {
		return false
	}
	if s, t, ok := cutServer(pattern, server); ok {
		okS, _ := path.Match(s, server)
		okT, _ := path.Match(t, tool)
		return okS && okT
	}
	ok, _ := path.Match(pattern, server)
	return ok
}

// cutServer splits a pattern into its server and tool parts. Server names may hold dots, so the exact name is tried first.
func cutServer(pattern, server string) (s, t string, ok bool) {
	if rest, found := strings.CutPrefix(pattern, server+"."); found {
		return server, rest, true
	}
	return strings.Cut(pattern, ".")
}

func firstMatch(patterns []string, server, tool string) string {
	for _, p := range patterns {
		if Match(p, server, tool) {
			return p
		}
	}
	return ""
}

// Decide says what holds for a member's call of a tool at a time. Deny wins; a member's own lists only narrow; risky tools
// are denied until the thread allows them; tools that write ask; read-only ones run.
func (p Policy) Decide(t Tool, m MemberID, now time.Time) Decision {
	mine := p.Members[m]
	if r := firstMatch(p.Thread.Deny, t.Server, t.Name); r != "" {
		return Decision{Verb: Deny, Rule: r, Why: "a rule of this thread denies it"}
	}
	if r := firstMatch(mine.Deny, t.Server, t.Name); r != "" {
		return Decision{Verb: Deny, Rule: r, Why: "your own rule denies it"}
	}
	if len(mine.Allow) > 0 && firstMatch(mine.Allow, t.Server, t.Name) == "" {
		return Decision{Verb: Deny, Hidden: true, Why: "it is not on your own allow list"}
	}
	allowed := firstMatch(p.Thread.Allow, t.Server, t.Name)
	if t.Risk != "" && allowed == "" {
		return Decision{Verb: Deny, Why: t.Risk + " tools are denied here unless a manager allows them"}
	}
	asked, why := firstMatch(p.Thread.Ask, t.Server, t.Name), "a rule of this thread says ask"
	if asked == "" {
		asked, why = firstMatch(mine.Ask, t.Server, t.Name), "your own rule says ask"
	}
	switch {
	case asked == "" && (allowed != "" || !t.Writes):
		return Decision{Verb: Allow, Rule: allowed}
	case asked == "":
		why = "it writes"
	}
	for _, g := range p.Grants {
		if g.Tool == t.Full() && g.Member == m && g.Pin == t.Pin && (g.Until == nil || now.Before(*g.Until)) {
			return Decision{Verb: Allow, Rule: asked, Why: "you allowed it"}
		}
	}
	return Decision{Verb: AskVerb, Rule: asked, Why: why}
}
