package host

import (
	"context"
	"errors"

	"bobbin/gateway"
	"bobbin/internal/durable"
	"bobbin/schemas"
)

// Gateway is how MCP clients outside of chat reach threads.
type Gateway struct {
	// Origin is where they reach Host.Gateway.Handler, such as https://bot.example.com; nil or "": nowhere, and only stdio is served.
	Origin func() string
	// Program is how a client on this machine starts this program, with the flags that find the data folder; nil: not known.
	Program []string
}

// gateway opens the gateway on its folder.
func (opt Options) gateway(dir *durable.Dir, h *Host, calls measured, standing func(context.Context, schemas.ThreadID, schemas.MemberID) (schemas.Role, bool)) *gateway.Gateway {
	return gateway.New(gateway.Options{
		Tools: calls, Resources: h.Registry, Prompts: h.Registry, States: h.Registry, Watch: h.Registry.Watch, Tokens: dir, Standing: standing,
		Origin: opt.Gateway.Origin, Program: opt.Gateway.Program, Version: opt.Version, Log: opt.Log,
	})
}

// leaving ends a member's tokens together with their sign-ins.
func (a accounts) leaving(ctx context.Context, thread schemas.ThreadID, member schemas.MemberID, err error) error {
	return errors.Join(err, a.tokens.Left(ctx, thread, member))
}
