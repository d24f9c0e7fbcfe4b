//go:build linux

package sandbox_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"bobbin/sandbox"
	"bobbin/schemas"
)

func TestBuild(t *testing.T) {
	host := engine(t)
	const name = "bobbin-sandbox-test-built"
	var out bytes.Buffer
	opt := sandbox.BuildOptions{Engine: host, Image: name, Out: &out, Dockerfile: []byte("FROM " + testImage + "\nRUN echo hello; touch /workspace/there\n")}
	t.Cleanup(func() { _ = run(t, "docker", "-H", host, "image", "rm", name) })
	if err := sandbox.Build(t.Context(), opt); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "RUN echo hello") || !strings.Contains(out.String(), "\nhello\n") {
		t.Error(out.String())
	}
	for dockerfile, want := range map[string]struct {
		code  schemas.Code
		words string
	}{
		"FROM bobbin-absent.invalid/none\n":    {schemas.CodeMissing, "cannot pull"},
		"FROM " + testImage + "\nRUN exit 7\n": {schemas.CodeFailed, " 7"},
		"FORM x\n":                             {schemas.CodeFailed, "was not built"},
	} {
		opt.Dockerfile = []byte(dockerfile)
		err := sandbox.Build(t.Context(), opt)
		said, ok := errors.AsType[*schemas.Error](err)
		if !ok || said.Code != want.code || !strings.Contains(said.Text, want.words) || said.Hint == "" {
			t.Errorf("%q: %v", dockerfile, err)
		}
		t.Log(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := sandbox.Build(ended, opt); err == nil {
		t.Error("it builds when it should end")
	}
	opt.Engine = "unix:///nowhere/docker.sock"
	if err := sandbox.Build(t.Context(), opt); schemas.CodeOf(err) != schemas.CodeMissing || !strings.Contains(err.Error(), "no container engine answers") {
		t.Error(err)
	}
}
