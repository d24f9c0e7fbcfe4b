package schemas

import (
	"maps"
	"slices"
	"strings"
)

// Without gives the definition as it is when the inputs ids stay empty. What refers to one of them is left out: variables of the
// environment, arguments, and the flag right before an argument that is nothing but its value.
func (s Server) Without(ids ...string) Server {
	s.Args, s.Env = slices.Clone(s.Args), maps.Clone(s.Env)
	for _, id := range ids {
		ref := "${input:" + id + "}"
		maps.DeleteFunc(s.Env, func(_, v string) bool { return strings.Contains(v, ref) })
		for i := len(s.Args) - 1; i >= 0; i-- {
			if !strings.Contains(s.Args[i], ref) {
				continue
			}
			from := i
			if s.Args[i] == ref && i > 0 && strings.HasPrefix(s.Args[i-1], "-") && !strings.Contains(s.Args[i-1], "=") && s.Args[i-1] != "--" {
				from--
			}
			s.Args = slices.Delete(s.Args, from, i+1)
			i = from
		}
	}
	return s
}
