package host

import (
	"context"
	"errors"
	"io"

	"bobbin/schemas"
)

// place says where a thread's programs run. Without isolation they run as the one who started bobbin: that is for people who sit at
// this machine. Members on Discord get it only when the operator named it: --sandbox process. why is what is missing for containers.
func (opt Options) place(l launcher, why error) func(schemas.ThreadID) schemas.Place {
	return func(t schemas.ThreadID) schemas.Place {
		p := l.Place()
		switch {
		case p.Isolated || !p.Available || !t.IsSnowflake():
		case opt.Sandbox == "process":
			p.Where = "the operator's machine, as the operator. NOT isolated"
		default:
			p = schemas.Place{Why: "local servers need a sandbox here, and there is none", Hint: "add a remote one with `/mcp connect`; " +
				"the operator can start Docker, which gives every member a container"}
			if e, ok := errors.AsType[*schemas.Error](why); ok {
				p.Why = "local servers need a sandbox here, and " + e.Text
			}
		}
		return p
	}
}

// local starts programs only where the place says so: also those that were approved while another setting held.
type local struct {
	launcher
	place func(schemas.ThreadID) schemas.Place
}

func (l local) Launch(ctx context.Context, x schemas.Launch) (io.ReadWriteCloser, error) {
	if p := l.place(x.Thread); !p.Available && l.launcher.Place().Available {
		return nil, &schemas.Error{Code: schemas.CodeMissing, Text: p.Why, Hint: p.Hint}
	}
	return l.launcher.Launch(ctx, x)
}
