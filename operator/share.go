package operator

import (
	"runtime"

	"bobbin/internal/engine"
	"bobbin/schemas"
)

// binary gives the program that is mounted in containers; this one is copied beside the servers.
func (o *Operator) binary() (string, error) {
	if runtime.GOOS != "linux" {
		return "", &schemas.Error{Code: schemas.CodeMissing, Text: "containers of MCP servers need bobbin on Linux, beside the engine", Hint: "run bobbin on Linux (WSL counts), or use servers of type remote"}
	}
	path, err := engine.Program(o.opt.Binary, "")
	if err != nil || o.opt.Binary != "" {
		return path, err
	}
	if path, err = engine.Share(o.state, path, "bobbin", 0o755); err != nil {
		return "", &schemas.Error{Code: schemas.CodeInvalid, Text: "bobbin's program cannot be copied to the data folder", Hint: "check who owns it, and whether there is room", Err: err}
	}
	return path, nil
}
