package schemas_test

import (
	"strings"
	"testing"

	"bobbin/schemas"
)

func TestNearest(t *testing.T) {
	known := []string{"github", "gitlab", "c", "echo", "Notes", strings.Repeat("x", 200)}
	for word, want := range map[string]string{
		"githib": "github", "GITHUB": "github", "gitab": "gitlab", "gitxxb": "github", "cc": "c", "ecko": "echo", "ehco": "echo", "hceo": "", "notse": "Notes",
		"zzzzzz": "", "": "", strings.Repeat("x", 199): "",
	} {
		if got := schemas.Nearest(word, known); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}
