package operator

import (
	"slices"
	"strings"

	"bobbin/schemas"
)

// goodAllow reports whether a word of an allow list has a form that can match.
func goodAllow(a string) bool {
	kind, id, ok := strings.Cut(a, ":")
	if !ok {
		return a == "*" || schemas.ThreadID(a).Valid()
	}
	switch kind {
	case "thread", "member", "session":
		return id == "*" || schemas.ThreadID(id).Valid()
	case "role":
		return slices.Contains([]string{"member", "manager", "owner"}, id)
	}
	return false
}

// Allows reports whether a caller may attach the server to their thread. Without a list only who sits at the machine may; with one
// it binds them, too.
func (s Server) Allows(c schemas.Caller) bool {
	if len(s.Allow) == 0 {
		return c.Operator
	}
	return slices.ContainsFunc(s.Allow, func(a string) bool {
		kind, id, ok := strings.Cut(a, ":")
		if !ok {
			return a == "*" || a == string(c.Thread)
		}
		switch kind {
		case "thread":
			return id == "*" || id == string(c.Thread)
		case "member":
			return id == "*" || id == string(c.Member)
		case "role":
			return c.Role >= map[string]schemas.Role{"member": schemas.Member, "manager": schemas.Manager, "owner": schemas.Owner}[id]
		}
		return false
	})
}

// allowsSession reports whether a session of that name may use the server; the operator makes sessions, so without a list any may.
func (s Server) allowsSession(name string) bool {
	return len(s.Allow) == 0 || slices.ContainsFunc(s.Allow, func(a string) bool {
		id, isSession := strings.CutPrefix(a, "session:")
		return a == "*" || a == name || isSession && (id == "*" || id == name)
	})
}
