package registry

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"bobbin/schemas"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// Bounds of a server's question.
const (
	maxQuestion = 2000     // characters of its words
	maxAnswer   = 64 << 10 // bytes of its schema
)

// asking is the calls of one instance that are on their way, since a question does not say which of them it is about.
type asking struct {
	mu    sync.Mutex
	calls map[*patience]schemas.Caller
}

// patience is the time that a call has left. It stands still while the member is asked.
type patience struct {
	mu    sync.Mutex
	left  time.Duration
	since time.Time
	timer *time.Timer
	asked int
}

// call bounds a call by time, as context.WithTimeoutCause would with errSilent, and lets questions stop the clock.
func (a *asking) call(ctx context.Context, who schemas.Caller, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	p := &patience{left: limit, since: time.Now(), timer: time.AfterFunc(limit, func() { cancel(errSilent) })}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.calls == nil {
		a.calls = map[*patience]schemas.Caller{}
	}
	a.calls[p] = who
	return ctx, func() {
		p.mu.Lock()
		p.timer.Stop()
		p.asked++ // nothing starts the clock again
		p.mu.Unlock()
		a.mu.Lock()
		delete(a.calls, p)
		a.mu.Unlock()
		cancel(context.Canceled)
	}
}

func (p *patience) pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked++; p.asked == 1 && p.timer.Stop() {
		p.left -= time.Since(p.since)
	}
}

func (p *patience) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked--; p.asked == 0 {
		p.since = time.Now()
		p.timer.Reset(max(p.left, time.Second))
	}
}

// whose is the one member whose calls are on their way, and those calls. With calls of several members nobody can tell.
func (a *asking) whose() (who schemas.Caller, calls []*patience, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for p, c := range a.calls {
		if len(calls) > 0 && c.Member != who.Member {
			return schemas.Caller{}, nil, false
		}
		who, calls = c, append(calls, p)
	}
	return who, calls, len(calls) > 0
}

// elicit answers a server that asks for input. Nobody but the one whose call it is may be asked, so a question outside of a call, or
// while members call at once, is declined, as is one that would send a person to a page.
func (i *instance) elicit(ctx context.Context, params json.RawMessage) (json.RawMessage, error) {
	declined := json.RawMessage(`{"action":"decline"}`)
	var q struct {
		Mode    string          `json:"mode"`
		Message string          `json:"message"`
		Schema  json.RawMessage `json:"requestedSchema"`
	}
	if err := json.Unmarshal(params, &q); err != nil || q.Mode != "" && q.Mode != "form" || len(q.Schema) > maxAnswer {
		return declined, nil
	}
	schema, err := cleanSchema(q.Schema)
	if err != nil {
		return declined, nil
	}
	who, calls, ok := i.asking.whose()
	if !ok {
		return declined, nil
	}
	for _, p := range calls {
		p.pause()
		defer p.resume()
	}
	def := definition{Tool: schemas.Tool{Server: i.name, Input: schema}, compile: func() (*jsonschema.Schema, error) { return compile(schema) }}
	answer, err := i.t.r.opt.Ask.Elicit(ctx, schemas.Elicit{
		Caller: who, Server: i.name, Message: short(schemas.Clean(i.veil(q.Message), false), maxQuestion), Schema: schema,
		Check: func(raw json.RawMessage) schemas.Problems {
			v, err := decode(raw)
			if err != nil {
				return schemas.Problems{{Text: "the answer is no JSON"}}
			}
			return def.check(v)
		},
	})
	if err != nil {
		if e, ok := errors.AsType[*schemas.Error](err); ok && e.Code == schemas.CodeAsk {
			return declined, nil
		}
		return nil, err
	}
	return json.Marshal(answer)
}
