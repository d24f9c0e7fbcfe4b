package engine

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
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
		hint := "start Docker, or name its socket in DOCKER_HOST; " + without
		conn, dialed := engine.Dialer()(ctx) // what the client says of it is words alone
		switch other := podman(); {
		case dialed == nil:
			_ = conn.Close()
		case errors.Is(dialed, fs.ErrPermission):
			hint = "put the user who runs bobbin into the group docker, or use a rootless engine; only root uses that of Podman in /run/podman"
		case other != "" && other != host:
			hint = "Podman is here: DOCKER_HOST=" + other + "; " + without
		}
		_ = engine.Close()
		return nil, &schemas.Error{Code: schemas.CodeMissing, Text: "no container engine answers at " + host, Hint: hint, Err: err}
	}
	return engine, nil
}

// podman names the socket of a Podman on this machine, ours or root's; "" is none.
func podman() string {
	for _, folder := range []string{os.Getenv("XDG_RUNTIME_DIR"), "/run"} {
		path := filepath.Join(folder, "podman", "podman.sock")
		if info, err := os.Stat(path); filepath.IsAbs(path) && err == nil && info.Mode()&fs.ModeSocket != 0 {
			return "unix://" + path
		}
	}
	return ""
}
