package schemas

import (
	"path"
	"slices"
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
	// Permissions open what is closed to everybody otherwise.
	Permissions []Permission `json:"permissions,omitempty"`
	Egress      *EgressRules `json:"egress,omitempty"` // which hosts the thread's programs may reach
	// Trust are servers whose answers a manager believes: tools of other servers need no new yes after them. Names or globs.
	Trust []string `json:"trust,omitempty"`
	// Sampling are servers that may ask for words of the thread's model, after their member's yes. Names or globs. A server that
	// runs hears of it when it starts next.
	Sampling []string `json:"sampling,omitempty"`
}

// Trusts reports whether the answers of a server are believed.
func (p Policy) Trusts(server string) bool {
	return slices.ContainsFunc(p.Trust, func(pattern string) bool { return glob(pattern, server) })
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
	Mine   bool   // Rule is the member's own
}

// Match reports whether a pattern covers server.tool exactly as it is written: the reading for rules that allow.
func Match(pattern, server, tool string) bool {
	if pattern == "*" || glob(pattern, server) && !strings.Contains(pattern, ".") {
		return true
	}
	if rest, ok := strings.CutPrefix(pattern, server+"."); ok {
		return glob(rest, tool)
	}
	s, t, ok := strings.Cut(pattern, ".")
	return ok && glob(s, server) && glob(t, tool)
}

// MatchWide is Match for rules that ask or deny, which cover too much rather than too little: letter case does not count, a
// pattern with a dot may also mean a whole server with a dot in its name, and a malformed one covers everything.
func MatchWide(pattern, server, tool string) bool {
	if _, err := path.Match(pattern, ""); err != nil {
		return true
	}
	pattern, server, tool = strings.ToLower(pattern), strings.ToLower(server), strings.ToLower(tool)
	return Match(pattern, server, tool) || glob(pattern, server) || glob(pattern, server+"."+tool)
}

// glob is path.Match without its special treatment of "/", which tool names may hold.
func glob(pattern, name string) bool {
	ok, err := path.Match(strings.ReplaceAll(pattern, "/", "\x00"), strings.ReplaceAll(name, "/", "\x00"))
	return ok && err == nil
}

func firstMatch(match func(pattern, server, tool string) bool, patterns []string, t Tool) string {
	for _, p := range patterns {
		if match(p, t.Server, t.Name) {
			return p
		}
	}
	return ""
}

// Decide says what holds for a member's call of a tool at a time. Deny wins; a member's own lists only narrow; risky tools
// are denied until the thread allows them; tools that write ask; read-only ones run.
func (p Policy) Decide(t Tool, m MemberID, now time.Time) Decision {
	mine := p.Members[m]
	if r := firstMatch(MatchWide, p.Thread.Deny, t); r != "" {
		return Decision{Verb: Deny, Rule: r, Why: "a rule of this thread denies it"}
	}
	if r := firstMatch(MatchWide, mine.Deny, t); r != "" {
		return Decision{Verb: Deny, Rule: r, Mine: true, Why: "your own rule denies it"}
	}
	if len(mine.Allow) > 0 && firstMatch(Match, mine.Allow, t) == "" {
		return Decision{Verb: Deny, Hidden: true, Why: "it is not on your own allow list"}
	}
	allowed := firstMatch(Match, p.Thread.Allow, t)
	if t.Risk != "" && allowed == "" {
		return Decision{Verb: Deny, Why: t.Risk + " tools are denied here unless a manager allows them"}
	}
	asked, why := firstMatch(MatchWide, p.Thread.Ask, t), "a rule of this thread says ask"
	if asked == "" {
		asked, why = firstMatch(MatchWide, mine.Ask, t), "your own rule says ask"
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
