//go:build linux

package sandbox_test

import (
	"strings"
	"testing"

	"bobbin/sandbox"
	"bobbin/schemas"
)

// TestDocker_Podman: what Podman does otherwise than Docker (4.3.1 to see). It takes any option of a volume and cannot mount it then,
// its filter allows user namespaces, and where it cannot limit something it may leave that out without a word.
func TestDocker_Podman(t *testing.T) {
	e, d, opt := openFake(t, nil)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	e.podman, e.quota = true, true
	e.bare = true
	if _, err := sandbox.NewDocker(t.Context(), opt); schemas.CodeOf(err) != schemas.CodeMissing || !strings.Contains(err.Error(), "limits neither memory") {
		t.Errorf("no limits: %v", err)
	}
	e.bare = false
	opt.Runtime = "runsc"
	if _, err := sandbox.NewDocker(t.Context(), opt); schemas.CodeOf(err) != schemas.CodeInvalid || !strings.Contains(err.Error(), "Podman takes no runtime") {
		t.Errorf("a runtime, which Podman passes over: %v", err)
	}
	opt.Runtime = ""
	d, err := sandbox.NewDocker(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	launch := schemas.Launch{Thread: "t1", Owner: "alice", Server: "notes", Command: "node"}
	e.loose = []string{"it has capabilities", "its memory is not limited"}
	if _, err := d.Launch(t.Context(), launch); schemas.CodeOf(err) != schemas.CodeDenied || !strings.Contains(err.Error(), "it has capabilities, its memory is not limited") {
		t.Errorf("an open sandbox: %v", err)
	}
	if e.running {
		t.Error("an open sandbox runs on")
	}
	if strings.Contains(strings.Join(e.volumes, ""), "size") || !strings.Contains(e.created[0], `"--confine"`) {
		t.Errorf("%s\n%s", e.volumes, e.created)
	}
	e.loose = nil
	c, err := d.Launch(t.Context(), launch)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
}
