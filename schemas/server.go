package schemas

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Kind tells where a server's definition lives and who rules over it.
type Kind string

// The kinds, in load order: the first of two equal names wins, the other is shadowed.
const (
	Local     Kind = "local"     // mcp.json: a stdio program
	Connector Kind = "connector" // mcp_remote.json: reached by URL, added only through /mcp connect
	Admin     Kind = "admin"     // the operator's
)

// Transport of a server, in MCP's terms.
type Transport string

// The transports (MCP specification, Transports). HTTP is streamable HTTP, SSE the legacy HTTP+SSE.
const (
	Stdio Transport = "stdio"
	HTTP  Transport = "http"
	SSE   Transport = "sse"
)

// Server is one definition as a person wrote it, without any secret value. It is deliberately narrow: nothing in it can
// reach mounts, devices, users, capabilities or networks.
type Server struct {
	Name    string            `json:"-"`
	Type    Transport         `json:"type,omitempty"`
	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"` // values may hold ${input:ID}
	Cwd     string            `json:"cwd,omitempty"`
	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Auth    *Auth             `json:"auth,omitempty"`
	Timeout int               `json:"timeout,omitempty"` // milliseconds for one call, 1000 to 600000; 0 = the default of 60 s
	Tools   *ToolFilter       `json:"tools,omitempty"`
}

// Auth says how a connector signs in; never a token.
type Auth struct {
	Type     string   `json:"type"` // "none", "header" or "oauth"
	ClientID string   `json:"clientId,omitempty"`
	Scopes   []string `json:"scopes,omitempty"`
	Identity string   `json:"identity,omitempty"` // "requester", "lent" or "thread"
}

// ToolFilter narrows which of a server's tools exist here; names or globs. Exclude wins.
type ToolFilter struct {
	Include []string `json:"include,omitempty"`
	Exclude []string `json:"exclude,omitempty"`
}

// Input is one value to ask a person for, in the shape of VS Code's mcp.json.
type Input struct {
	Type        string   `json:"type"` // "promptString" or "pickString"
	ID          string   `json:"id"`
	Description string   `json:"description,omitempty"`
	Default     string   `json:"default,omitempty"`
	Options     []string `json:"options,omitempty"`
	Password    bool     `json:"password,omitempty"`
}

var nameForm = regexp.MustCompile(`\A[A-Za-z0-9][A-Za-z0-9._-]{0,47}\z`)

// ValidName reports whether name fits the rule for servers: [A-Za-z0-9][A-Za-z0-9._-]{0,47}. The names __proto__ and the
// like are refused by the leading character; "constructor" and "prototype" are refused here.
func ValidName(name string) bool {
	return nameForm.MatchString(name) && !slices.Contains([]string{"constructor", "prototype"}, strings.ToLower(name))
}

// Slug is the connection id of a server's name: "." becomes "-".
func Slug(name string) string { return strings.ReplaceAll(name, ".", "-") }

// Remote reports whether the server is reached by URL.
func (s Server) Remote() bool { return s.Type == HTTP || s.Type == SSE }

// Fingerprint is what an approval is bound to: the SHA-256, in hex, of the canonical definition (type, command, args, cwd,
// names and references of env, url, names and references of headers). A secret's value is not part of it, so that a
// rotation needs no new approval; the literal text of env and header values is.
func (s Server) Fingerprint() string {
	s.Timeout, s.Tools = 0, nil
	if s.Type == "" {
		s.Type = Stdio
	}
	// encoding/json sorts map keys and the struct order is fixed, which is canonical enough for a hash we alone compute.
	b, _ := json.Marshal(s)
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Inputs lists the ids of all ${input:ID} in the definition, each once, in order of first use.
func (s Server) Inputs() []string {
	var ids []string
	add := func(t string) {
		for _, m := range InputRef.FindAllStringSubmatch(t, -1) {
			if !slices.Contains(ids, m[1]) {
				ids = append(ids, m[1])
			}
		}
	}
	add(s.Command)
	for _, a := range s.Args {
		add(a)
	}
	for _, k := range sortedKeys(s.Env) {
		add(s.Env[k])
	}
	add(s.Cwd)
	add(s.URL)
	for _, k := range sortedKeys(s.Headers) {
		add(s.Headers[k])
	}
	return ids
}

// Equal reports whether two definitions are the same in every field.
func (s Server) Equal(o Server) bool {
	a, _ := json.Marshal(s)
	b, _ := json.Marshal(o)
	return s.Name == o.Name && string(a) == string(b)
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Approval is a person's yes to one fingerprint.
type Approval struct {
	Fingerprint string    `json:"fingerprint"`
	By          MemberID  `json:"by"`
	ByName      string    `json:"byName,omitempty"`
	At          time.Time `json:"at"`
	Definition  Server    `json:"definition"` // what was approved, so that it runs on and can be put back
}

// Entry is a server together with what is not shared in a download.
type Entry struct {
	Server
	Kind      Kind
	Title     string // the name as it was written, when it had to be changed
	Owner     MemberID
	OwnerName string
	Enabled   bool
	Approval  *Approval         // nil: never approved
	Pins      map[string]string // tool name → Tool.Pin at approval; nil: none taken yet
	Shadowed  bool              // an entry earlier in the load order has the name
	Loan      *Loan             // of a connector that signs in: whose sign-in others may use; nil: each their own
}

// Pending reports whether the file's definition waits for approval.
func (e Entry) Pending() bool {
	return e.Approval == nil || e.Approval.Fingerprint != e.Server.Fingerprint()
}

// Running gives the definition that may run: the file's when it is approved, else the last approved one; ok is false when
// there is none, or the entry is off or shadowed.
func (e Entry) Running() (s Server, ok bool) {
	if !e.Enabled || e.Shadowed || e.Approval == nil {
		return Server{}, false
	}
	if e.Pending() {
		s = e.Approval.Definition
		s.Name = e.Name
		return s, true
	}
	return e.Server, true
}

// Origin is the SecretKey.Origin of the entry's secrets.
func (s Server) Origin() string {
	if !s.Remote() {
		return "local"
	}
	return originOf(s.URL)
}

// Config is all that a thread wants, as one consistent reading of its files.
type Config struct {
	Thread   ThreadID
	Base     string // compare-and-swap base: changes with mcp.json and mcp_remote.json, not with approvals or pins
	Entries  []Entry
	Inputs   []Input
	Policy   Policy
	Problems Problems // a file cannot be read: Entries and Policy are the last good ones
	Remote   []Draft  // url entries of mcp.json: never loaded, shown as "not enabled: connect it"
}

// Find gives the entry with that name, exactly; shadowed ones are passed over.
func (c Config) Find(name string) (Entry, bool) {
	for _, e := range c.Entries {
		if e.Name == name && !e.Shadowed {
			return e, true
		}
	}
	return Entry{}, false
}
