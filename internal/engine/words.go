package engine

import (
	"strings"

	"github.com/containerd/errdefs"

	"bobbin/internal/lazy"
	"bobbin/schemas"
)

// Explain gives words to what engines answer when they lack something of their own; nil: none of that.
func Explain(err error) *schemas.Error {
	if err == nil {
		return nil
	}
	for _, one := range []struct{ says, text, hint string }{
		{"container-init binary not found", "the container engine has no init program, which every container gets", "install catatonit beside Podman (Debian: apt install catatonit)"},
		{`"docker-init": executable file not found`, "the container engine has no init program, which every container gets", "install docker-init (Debian: apt install tini)"},
		{"requested cgroup controller", "the container engine may not limit memory, processes or the processor",
			"delegate the cgroup controllers to who runs it (systemd: Delegate=cpu memory pids), or run the engine as root"},
	} {
		if strings.Contains(err.Error(), one.says) {
			return &schemas.Error{Code: schemas.CodeMissing, Text: one.text, Hint: one.hint, Err: err}
		}
	}
	return nil
}

// Taken reports whether an engine made no container since its name is taken. Podman answers that with 500 in 4.3.
func Taken(err error) bool {
	return errdefs.IsConflict(err) || err != nil && strings.Contains(err.Error(), "name is already in use")
}

var (
	looked = lazy.Regexp(`lookup ([^\s:]+).*: (?:no such host|server misbehaving)`)
	asked  = lazy.Regexp(`https?://([^\s/"]+)\S*: .*(?:connection refused|timeout|Timeout|deadline exceeded|connection reset|EOF|unreachable|no route)`)
)

// Unreached words what an engine says about a registry that it did not reach; other words stay as they are.
func Unreached(why string) string {
	if m := looked().FindStringSubmatch(why); m != nil {
		return "the engine finds no host " + m[1]
	}
	if m := asked().FindStringSubmatch(why); m != nil {
		return m[1] + " does not answer the engine"
	}
	return why
}
