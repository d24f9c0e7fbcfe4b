package engine

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/moby/moby/client"

	"bobbin/schemas"
)

const pingTime = 3 * time.Second

// Connect gives a client of the engine at address, or of the one that the environment names (DOCKER_HOST) where that is empty, once
// it has answered. The error is a *schemas.Error; without says what one can do where there is no engine.
func Connect(ctx context.Context, address, without string) (*client.Client, error) {
	how := []client.Opt{client.FromEnv}
	if address != "" {
		how = []client.Opt{client.WithHost(address)}
	}
	engine, err := client.New(how...)
	if err != nil {
		return nil, &schemas.Error{Code: schemas.CodeInvalid, Text: "the address of the container engine is wrong", Hint: "look at DOCKER_HOST", Err: err}
	}
	host := engine.DaemonHost()
	ctx, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	if _, err := engine.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true}); err != nil {
		_ = engine.Close()
		hint := "start Docker, or name its socket in DOCKER_HOST; " + without
		if errors.Is(err, fs.ErrPermission) {
			hint = "put the user who runs bobbin into the group docker, or use a rootless engine"
		}
		return nil, &schemas.Error{Code: schemas.CodeMissing, Text: "no container engine answers at " + host, Hint: hint, Err: err}
	}
	return engine, nil
}
