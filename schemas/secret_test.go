package schemas_test

import (
	"strings"
	"testing"

	"bobbin/schemas"
)

func TestValidInput(t *testing.T) {
	for id, valid := range map[string]bool{
		"a": true, "_": true, "GITHUB_TOKEN": true, "a.b-c1": true, strings.Repeat("a", 64): true,
		"": false, "1a": false, ".a": false, "-a": false, "a b": false, "a\n": false, "é": false, "a/b": false, "a*": false, strings.Repeat("a", 65): false,
	} {
		if schemas.ValidInput(id) != valid {
			t.Errorf("%q: %v", id, !valid)
		}
	}
}
