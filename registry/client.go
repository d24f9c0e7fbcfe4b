package registry

import (
	"context"
	"encoding/json"
	"errors"

	"bobbin/registry/internal/session"
	"bobbin/schemas"
)

// hooks are what the caller of this call hears and answers itself. Questions of a 2026-07-28 server come in the answer to its own call, so
// nobody has to guess whose they are.
func (c *call) hooks(progress func(json.RawMessage)) session.Hooks {
	h := session.Hooks{Progress: progress}
	if c.Log != nil {
		h.Log = func(params json.RawMessage) { c.Log(c.inst.conceal(params)) }
	}
	if c.asksClient() {
		h.Input = c.input
		h.Sampling, h.Roots = c.lends(c.Client != nil && c.Client.Sampling), c.lends(c.Client != nil && c.Client.Roots)
	}
	return h
}

// asksClient reports whether the caller speaks MCP itself: then a server hears what that client can do, not what bobbin can.
func (c *call) asksClient() bool {
	return c.Origin == schemas.ByGateway || c.Elicit != nil || c.Client != nil
}

// lends reports whether what the client can do may be asked of it: only where a rule of the thread lets the server.
func (c *call) lends(can bool) bool { return can && c.t.snap.Load().policy.Samples(c.tool.Server) }

// input answers one question of a server in this call.
func (c *call) input(ctx context.Context, key, method string, params json.RawMessage) (json.RawMessage, error) {
	i := c.inst
	switch method {
	case "elicitation/create":
		q, _, why := i.question(params)
		resume, ok := pause([]*patience{c.clock})
		defer resume()
		if why == "" && !ok {
			why = "it asked too often in one call"
		}
		if why != "" {
			return i.decline(ctx, c.Caller, why), nil
		}
		q.Caller, q.Key = c.Caller, key
		answer, err := i.put(ctx, q, []*patience{c.clock})
		if e, ok := errors.AsType[*schemas.Error](err); ok && e.Code == schemas.CodeAsk {
			return i.decline(ctx, c.Caller, "nobody could be asked"), nil
		}
		if err != nil {
			return nil, err
		}
		return json.Marshal(answer)
	case sampleMethod, "roots/list":
		can := c.Client != nil && (method == sampleMethod && c.Client.Sampling || method != sampleMethod && c.Client.Roots)
		if !c.lends(can) {
			return nil, i.unsampled(ctx, c.Caller, method+" is asked for, and no rule of this thread allows it, or the client cannot")
		}
		return i.lent(ctx, c.Caller, []*patience{c.clock}, c.Client, method, key, params)
	}
	return nil, errUnsampled
}

// words answers an older server that asks for words of a model: the client that the calls came from writes them, where all of them came
// from one that can, else bobbin's model.
func (i *instance) words(ctx context.Context, params json.RawMessage) (json.RawMessage, error) {
	who, calls, why := i.asking.whose()
	var client *schemas.Client
	for _, p := range calls {
		if client = p.words; client == nil || !client.Sampling {
			client = nil
			break
		}
	}
	if s := i.t.snap.Load(); why != "" || client == nil || s == nil || !s.policy.Samples(i.name) {
		if i.t.r.opt.Sample == nil {
			return nil, i.unsampled(ctx, who, "no model is set here")
		}
		return i.sampled(ctx, params)
	}
	return i.lent(ctx, who, calls, client, sampleMethod, "", params)
}

// lent has the client of a call answer. It asks its own user; how often is bounded, and each time is written down.
func (i *instance) lent(ctx context.Context, who schemas.Caller, calls []*patience, client *schemas.Client, method, key string, params json.RawMessage) (json.RawMessage, error) {
	resume, ok := pause(calls)
	defer resume()
	if !ok || !calls[0].mayAsk() || len(params) > maxSampleRequest {
		return nil, i.unsampled(ctx, who, "it asked too often in one call, or for too much")
	}
	ctx, stop := during(ctx, calls)
	defer stop()
	if err := i.journalSample(ctx, who, method+" by way of the client"); err != nil {
		return nil, err
	}
	return client.Ask(ctx, method, key, i.conceal(params))
}

// refusal gives a server's error to callers that speak MCP themselves.
func (i *instance) refusal(rpc *session.RPCError, err error) error {
	return &schemas.Refusal{Code: rpc.Code, Message: schemas.Clean(i.veil(rpc.Message), false), Data: i.conceal(rpc.Data), Err: err}
}
