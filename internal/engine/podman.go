package engine

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"slices"

	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"bobbin/schemas"
)

const maxInfo = 1 << 20

// Podman reports whether an engine is Podman, which offers Docker's API, too, and means some of it otherwise. The error is a
// *schemas.Error: the engine does not say, or it is a Podman that would pass over all limits of containers without a word.
func Podman(ctx context.Context, engine *client.Client) (bool, error) {
	v, err := engine.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		return false, &schemas.Error{Code: schemas.CodeMissing, Text: "the container engine does not say what it is", Hint: "see its log; a proxy before its socket must let GET /version through", Err: err}
	}
	if !slices.ContainsFunc(v.Components, func(c system.ComponentVersion) bool { return c.Name == "Podman Engine" }) {
		return false, nil
	}
	info, err := ask(ctx, engine)
	switch {
	case err != nil:
		err = &schemas.Error{Code: schemas.CodeMissing, Text: "Podman does not say what it can do", Hint: "see its log", Err: err}
	case info.Rootless && info.CgroupVersion == "1":
		err = &schemas.Error{Code: schemas.CodeMissing, Text: "this Podman runs without root, and limits neither memory nor processes nor the processor on this system (control groups of version 1)",
			Hint: "run it as root: DOCKER_HOST=unix:///run/podman/podman.sock; or boot with systemd.unified_cgroup_hierarchy=1"}
	}
	return true, err
}

// own is what Podman adds to Docker's description of an engine, which the client of that does not read.
type own struct {
	Rootless      bool
	CgroupVersion string
}

func ask(ctx context.Context, engine *client.Client) (info own, err error) {
	web := &http.Client{Transport: &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return engine.Dialer()(ctx) },
		DisableKeepAlives: true,
	}}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://podman/info", nil)
	if err != nil {
		return info, err
	}
	resp, err := web.Do(r)
	if err != nil {
		return info, err
	}
	defer resp.Body.Close()
	return info, json.NewDecoder(io.LimitReader(resp.Body, maxInfo)).Decode(&info)
}
