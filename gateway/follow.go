package gateway

import (
	"context"
	"errors"

	"bobbin/schemas"
)

// subscribe has the client told when a resource is updated (MCP specification before 2026-07-28, Resources, Subscriptions).
func (x *exchange) subscribe(ctx context.Context) outcome {
	uri := x.m.params.URI
	if uri == "" {
		return wrong(codeParams, "uri is missing")
	}
	server, err := x.whose(ctx, uri)
	if err != nil {
		return x.failed(ctx, err)
	}
	if server == "" {
		return outcome{fault: &fault{code: codeNoResource, text: "no such resource here", data: encode(map[string]string{"uri": uri})}}
	}
	updates, stop, err := x.g.opt.Resources.Follow(ctx, x.caller, server, uri)
	if e, ok := errors.AsType[*schemas.Error](err); ok && e.Code == schemas.CodeMissing {
		return wrong(codeParams, words(e))
	}
	if f := refused(err); f != nil && ctx.Err() == nil {
		return outcome{fault: f}
	}
	if err != nil {
		return x.failed(ctx, err)
	}
	if !x.n.follow(uri, updates, stop) {
		return wrong(codeServer, "this session follows too many resources, or has ended")
	}
	return outcome{result: []byte("{}")}
}

// follow passes updates of a resource on until unfollow or the end of the session.
func (n *session) follow(uri string, updates <-chan struct{}, stop func()) bool {
	ended := make(chan struct{})
	n.mu.Lock()
	ok := !n.ended && len(n.subs) < maxUnder
	twice := n.subs[uri] != nil
	if ok && !twice {
		if n.subs == nil {
			n.subs = map[string]func(){}
		}
		n.subs[uri] = func() { close(ended) }
	}
	n.mu.Unlock()
	started := ok && !twice && n.g.spawn(func() {
		defer stop()
		for {
			select {
			case <-ended:
				return
			case <-updates:
			}
			n.mu.Lock()
			send := n.send
			n.mu.Unlock()
			if send != nil {
				send(notification("notifications/resources/updated", encode(map[string]string{"uri": uri})))
			}
		}
	})
	if !started {
		stop()
		return ok && twice
	}
	return true
}

func (n *session) unfollow(uri string) {
	n.mu.Lock()
	end := n.subs[uri]
	delete(n.subs, uri)
	n.mu.Unlock()
	if end != nil {
		end()
	}
}
