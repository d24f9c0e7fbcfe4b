package engine_test

import (
	"errors"
	"strings"
	"testing"

	"bobbin/internal/engine"
)

func TestExplain(t *testing.T) { // what engines say, and what one installs
	for says, want := range map[string]string{
		"Error response from daemon: container create: container-init binary not found on the host: stat /usr/libexec/podman/catatonit: no such file or directory":                                          "catatonit",
		`Error response from daemon: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: exec: "docker-init": executable file not found in $PATH`: "tini",
		"Error response from daemon: crun: the requested cgroup controller `cpu` is not available: OCI runtime error":                                                                                       "Delegate",
	} {
		if e := engine.Explain(errors.New(says)); e == nil || !strings.Contains(e.Hint, want) {
			t.Errorf("%s: %v", says, e)
		}
	}
	if engine.Explain(nil) != nil || engine.Explain(errors.New("no such container")) != nil {
		t.Error("it explains what it does not know")
	}
}

func TestTaken(t *testing.T) {
	podman := errors.New(`Error response from daemon: container create: creating container storage: the container name "a" is already in use by 8f80. You have to remove that container to be able to reuse that name: that name is already in use`)
	if !engine.Taken(podman) || engine.Taken(nil) || engine.Taken(errors.New("no such image")) {
		t.Error("Podman 4.3 answers 500 with these words")
	}
}

func TestUnreached(t *testing.T) {
	for why, want := range map[string]string{
		`Get "https://hub.example/v2/": dial tcp: lookup hub.example on 10.0.0.53:53: no such host`:          "the engine finds no host hub.example",
		`Get "https://hub.example:5000/v2/": dial tcp 10.1.2.3:5000: connect: connection refused`:            "hub.example:5000 does not answer the engine",
		`Get "https://hub.example/v2/": net/http: request canceled (Client.Timeout exceeded while awaiting)`: "hub.example does not answer the engine",
		"pull access denied for x, repository does not exist or may require 'docker login'":                  "pull access denied for x, repository does not exist or may require 'docker login'",
	} {
		if got := engine.Unreached(why); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", why, got, want)
		}
	}
}
