//go:build linux

package sandbox_test

import (
	"strings"
	"testing"

	"bobbin/schemas"
)

// TestDocker_OwnTools: an installation uses the image's own tools, whatever a package left under their names.
func TestDocker_OwnTools(t *testing.T) {
	t.Parallel()
	w := openDocker(t, nil)
	m := w.someone()
	w.sh(m, `for d in .local/bin .npm/global/bin; do mkdir -p $d; for n in npm node git python3 base64 mkdir mv; do printf '#!/bin/sh\necho fake\n' >$d/$n; /bin/chmod 755 $d/$n; done; done`)
	if own := w.exec(m, "git", "--version"); own.Stdout != "fake\n" {
		t.Errorf("a member's own command is not found first: %+v", own)
	}
	for _, tool := range []string{"npm", "node", "git", "python3"} {
		x, err := w.Exec(t.Context(), schemas.Exec{Thread: "t1", Member: m, Install: true, Args: []string{tool, "--version"}})
		if err != nil || x.Code != 0 || strings.Contains(x.Stdout, "fake") {
			t.Errorf("%s: %+v, %v", tool, x, err)
		}
	}
	if err := w.Put(t.Context(), m, "/workspace/x", "y", []byte("what was put")); err != nil {
		t.Error(err)
	}
	if got := w.sh(m, "cat x/y"); got != "what was put" {
		t.Errorf("put %q", got)
	}
}
