package host

import (
	"context"
	"io"

	"bobbin/schemas"
)

// place says where a thread's programs run. Without isolation they run as the one who started bobbin: that is for people who sit at
// this machine. Members on Discord get it only when the operator named it: --sandbox process.
func (opt Options) place(l launcher) func(schemas.ThreadID) schemas.Place {
	return func(t schemas.ThreadID) schemas.Place {
		p := l.Place()
		switch {
		case p.Isolated || !p.Available || !t.IsSnowflake():
		case opt.Sandbox == "process":
			p.Where = "the operator's machine, as the operator. NOT isolated"
		default:
			p = schemas.Place{Why: "local servers need a sandbox here, and containers are not part of this build yet",
				Hint: "add a remote one with `/mcp connect`; the operator can start bobbin with --sandbox process, which runs members' programs as the operator, NOT isolated"}
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
