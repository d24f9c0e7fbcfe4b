package schemas

import (
	"strings"

	"github.com/agnivade/levenshtein"
)

// maxWord bounds what Nearest compares, in bytes: the work grows with the square.
const maxWord = 128

// Nearest gives the known word that somebody probably meant, for a "did you mean": letter case aside, at most a third of its
// letters away (Levenshtein; two neighbours that changed places count as one). Of several as near, the first in the order of the alphabet; "" if none is near, or the word is long.
func Nearest(word string, known []string) string {
	if word == "" || len(word) > maxWord {
		return ""
	}
	best, distance := "", 0
	for _, k := range known {
		if len(k) > maxWord {
			continue
		}
		d := edits(strings.ToLower(word), strings.ToLower(k))
		if d <= max(1, (len(k)+1)/3) && (best == "" || d < distance || d == distance && k < best) {
			best, distance = k, d
		}
	}
	return best
}

// edits is the distance of two words. Where the first is as long as the second, the slip of the fingers is looked for that people make
// most.
func edits(a, b string) int {
	d := levenshtein.ComputeDistance(a, b)
	if d != 2 || len(a) != len(b) {
		return d
	}
	for i := 1; i < len(a); i++ {
		if a[i-1] == b[i] && a[i] == b[i-1] && a[:i-1] == b[:i-1] && a[i+1:] == b[i+1:] {
			return 1
		}
	}
	return d
}
