package schemas

import "regexp"

// Secret is a value that must not be seen: it prints as *** and marshals as "***". Only Reveal gives it, and only the
// code that hands it to its one receiver may call that.
type Secret struct{ value string }

// NewSecret wraps a value.
func NewSecret(v string) Secret { return Secret{v} }

// Reveal gives the value itself.
func (s Secret) Reveal() string { return s.value }

func (Secret) String() string               { return "***" }
func (Secret) GoString() string             { return "***" }
func (Secret) MarshalText() ([]byte, error) { return []byte("***"), nil }

// SecretKey is what a sealed value is bound to; every field is part of the authenticated data.
type SecretKey struct {
	Member MemberID
	Thread ThreadID
	Server string // the server's name in its thread
	Name   string // the input's id
	Origin string // "local" for a program, scheme://host:port for a connector
}

// ValidInput reports whether id may name an input: no glob, no path.
func ValidInput(id string) bool {
	for i := range len(id) {
		switch c := id[i]; {
		case c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z', c == '_':
		case i > 0 && (c >= '0' && c <= '9' || c == '.' || c == '-'):
		default:
			return false
		}
	}
	return id != "" && len(id) <= 64
}

// InputRef matches every ${input:ID} in a text; group 1 is the id.
var InputRef = regexp.MustCompile(`\$\{input:([^}]*)\}`)

// Found is a literal secret that an import took out of a text and replaced by ${input:Input}.
type Found struct {
	Server string
	Input  string
	Value  Secret
	Where  string // "env GITHUB_TOKEN", "args 3", "header Authorization"
}
