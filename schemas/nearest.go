package schemas

import (
	"strings"

	"github.com/agnivade/levenshtein"
)

// maxWord bounds what Nearest compares, in bytes: the work grows with the square.
const maxWord = 128

// Nearest gives the known word that somebody probably meant, for a "did you mean": letter case aside, at most a third of its
// letters away (Levenshtein). Of several as near, the first in the order of the alphabet; "" if none is near, or the word is long.
func Nearest(word string, known []string) string {
	if word == "" || len(word) > maxWord {
		return ""
	}
	best, distance := "", 0
	for _, k := range known {
		if len(k) > maxWord {
			continue
		}
		d := levenshtein.ComputeDistance(strings.ToLower(word), strings.ToLower(k))
		if d <= max(1, (len(k)+1)/3) && (best == "" || d < distance || d == distance && k < best) {
			best, distance = k, d
		}
	}
	return best
}
