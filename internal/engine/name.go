package engine

import (
	"context"
	"slices"

	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"bobbin/schemas"
)

// Podman reports whether an engine is Podman, which offers Docker's API, too, and means some of it otherwise. The error is a
// *schemas.Error.
func Podman(ctx context.Context, engine *client.Client) (bool, error) {
	v, err := engine.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		return false, &schemas.Error{Code: schemas.CodeMissing, Text: "the container engine does not say what it is", Hint: "see its log; a proxy before its socket must let GET /version through", Err: err}
	}
	return slices.ContainsFunc(v.Components, func(c system.ComponentVersion) bool { return c.Name == "Podman Engine" }), nil
}
