// Package lazy holds what is dear to make until somebody needs it. A regular expression with a counted repeat takes up to a MiB:
// all of them together were more than half of what a bobbin at rest kept, and most runs of the program use none.
package lazy

import (
	"regexp"
	"sync"
)

// Regexp gives a regular expression that is compiled at the first call, for variables of packages; it panics there when expr is
// wrong. TestLazyRegexps compiles all of them. What it gives is safe for concurrent use.
func Regexp(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
