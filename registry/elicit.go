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

// Bounds of a server's questions.
const (
	maxQuestion  = 2000     // characters of its words
	maxAnswer    = 64 << 10 // bytes of its schema
	maxQuestions = 16       // in one call: each of them stops its clock
)

// asking is the calls of one instance that are on their way, since a question does not say which of them it is about.
type asking struct {
	mu    sync.Mutex
	calls map[*patience]struct{}
	told  map[string]bool          // why questions were declined, as far as the audit log has it
	pages map[string]chan struct{} // that members were asked to open, by elicitationId; closed when the server says that one is done
}

// patience is the time that a call has left. It stands still while the member is asked.
type patience struct {
	who  schemas.Caller
	over <-chan struct{} // the call has ended

	mu        sync.Mutex
	left      time.Duration
	since     time.Time
	timer     *time.Timer
	asked     int // questions that are open
	questions int // all of them
	samples   int // requests for words of the model
	tell      func(waits bool)

	client putter          // of the caller, which is asked in place of the chat; nil: the chat
	words  *schemas.Client // answers what else a server asks for; nil: bobbin does
}

// putter puts a question to a person.
type putter func(context.Context, schemas.Elicit) (schemas.Elicited, error)

// told has fn called whenever the clock stops for a question or goes on; never after the call.
func (p *patience) told(fn func(waits bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tell = fn; p.asked > 0 {
		fn(true)
	}
}

// call bounds a call by time, as context.WithTimeoutCause would with errSilent, and lets questions stop the clock.
func (a *asking) call(ctx context.Context, in schemas.Call, limit time.Duration) (context.Context, *patience, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	p := &patience{who: in.Caller, client: in.Elicit, words: in.Client, over: ctx.Done(), left: limit, since: time.Now(), timer: time.AfterFunc(limit, func() { cancel(errSilent) })}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.calls == nil {
		a.calls = map[*patience]struct{}{}
	}
	a.calls[p] = struct{}{}
	return ctx, p, func() {
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

// pause stops the clock; false when the call was asked about too often.
func (p *patience) pause() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.questions++; p.questions > maxQuestions {
		return false
	}
	if p.asked++; p.asked > 1 {
		return true
	}
	if p.timer.Stop() {
		p.left -= time.Since(p.since)
	}
	if p.tell != nil {
		p.tell(true)
	}
	return true
}

func (p *patience) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked--; p.asked == 0 {
		p.since = time.Now()
		p.timer.Reset(max(p.left, time.Second))
		if p.tell != nil {
			p.tell(false)
		}
	}
}

// whose is the one member whose calls are on their way, and those calls; or why nobody can be asked.
func (a *asking) whose() (who schemas.Caller, calls []*patience, why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for p := range a.calls {
		if len(calls) > 0 && p.who.Member != who.Member {
			return schemas.Caller{}, nil, "several members call at once, and it cannot be told whom it asks"
		}
		who, calls = p.who, append(calls, p)
	}
	if len(calls) == 0 {
		return who, nil, "nobody was calling it"
	}
	return who, calls, ""
}

// pause stops the clocks of calls until resume; ok is false when one of them was asked about too often.
func pause(calls []*patience) (resume func(), ok bool) {
	stopped := make([]*patience, 0, len(calls))
	resume = func() {
		for _, p := range stopped {
			p.resume()
		}
	}
	for _, p := range calls {
		if !p.pause() {
			return resume, false
		}
		stopped = append(stopped, p)
	}
	return resume, true
}

// during gives a context that ends with the last of calls; stop ends it before, and must be called.
func during(ctx context.Context, calls []*patience) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer cancel()
		for _, p := range calls {
			select {
			case <-p.over:
			case <-ctx.Done():
				return
			}
		}
	})
	return ctx, func() {
		cancel()
		wg.Wait()
	}
}

// elicit answers a server that asks for input. Nobody but the one whose call it is may be asked, so a question outside of a call, or
// while members call at once, is declined. It ends with the calls that it may be about.
func (i *instance) elicit(ctx context.Context, params json.RawMessage) (json.RawMessage, error) {
	who, calls, why := i.asking.whose()
	if why != "" {
		return i.decline(ctx, who, why), nil
	}
	q, id, why := i.question(params)
	if why != "" {
		return i.decline(ctx, who, why), nil
	}
	resume, ok := pause(calls)
	defer resume()
	if !ok {
		return i.decline(ctx, who, "it asked too often in one call"), nil
	}
	ctx, cancel := during(ctx, calls)
	defer cancel()
	q.Caller = who
	if q.URL != "" {
		done, closed := i.asking.page(id)
		if closed == nil {
			return i.decline(ctx, who, "it asks for one page twice"), nil
		}
		defer closed()
		q.Done = done
	}
	answer, err := i.put(ctx, q, calls)
	if q.URL != "" {
		answer.Content = nil
	}
	if err != nil {
		if e, ok := errors.AsType[*schemas.Error](err); ok && e.Code == schemas.CodeAsk {
			return i.decline(ctx, who, "nobody could be asked"), nil
		}
		return nil, err
	}
	return json.Marshal(answer)
}

// put asks the client that the calls came from, where all of them came from one that can be asked, else the chat.
func (i *instance) put(ctx context.Context, q schemas.Elicit, calls []*patience) (schemas.Elicited, error) {
	var client putter
	for _, p := range calls {
		if client = p.client; client == nil {
			break
		}
	}
	if client == nil {
		return i.t.r.opt.Ask.Elicit(ctx, q)
	}
	answer, err := client(ctx, q)
	if schemas.CodeOf(err) == schemas.CodeAsk {
		return i.t.r.opt.Ask.Elicit(ctx, q)
	}
	how := answer.Action
	if err != nil {
		how = "no answer"
	}
	i.noteQuestion(ctx, q.Caller, "asked by way of the client: "+how)
	return answer, err
}

// question reads what a server asks; why says why it cannot be put to anybody. id is the elicitationId of a page.
func (i *instance) question(params json.RawMessage) (q schemas.Elicit, id, why string) {
	var in struct {
		Mode    string          `json:"mode"`
		Message string          `json:"message"`
		Schema  json.RawMessage `json:"requestedSchema"`
		URL     string          `json:"url"`
		ID      string          `json:"elicitationId"`
	}
	if err := json.Unmarshal(params, &in); err != nil {
		return q, "", "its question cannot be read"
	}
	q = schemas.Elicit{Server: i.name, Message: short(schemas.Clean(i.veil(in.Message), false), maxQuestion)}
	switch in.Mode {
	case "", "form":
		q.Schema, q.Check, why = i.form(in.Schema)
		return q, "", why
	case "url":
		q.URL, why = i.page(in.URL)
		if why == "" && (len(in.ID) > maxPageID || in.ID == "" && i.info.Protocol < unnamedPages) {
			why = "it does not name the page"
		}
		return q, in.ID, why
	}
	return q, "", "its question is of an unknown mode"
}

// form reads a form's schema.
func (i *instance) form(raw json.RawMessage) (json.RawMessage, func(json.RawMessage) schemas.Problems, string) {
	schema, err := cleanSchema(raw)
	if err != nil || len(raw) > maxAnswer {
		return nil, nil, "its form cannot be used"
	}
	compiled, err := compile(schema, true)
	if err != nil {
		return nil, nil, "its form cannot be used"
	}
	def := definition{Tool: schemas.Tool{Server: i.name, Input: schema}, compile: func() (*jsonschema.Schema, error) { return compiled, nil }}
	return schema, func(raw json.RawMessage) schemas.Problems {
		v, err := decode(raw)
		if err != nil {
			return schemas.Problems{{Text: "the answer is no JSON"}}
		}
		return def.check(v)
	}, ""
}

// first reports whether a reason to decline is new since the server started.
func (a *asking) first(why string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	said := a.told[why]
	if a.told == nil {
		a.told = map[string]bool{}
	}
	a.told[why] = true
	return !said
}

// decline writes down why a question is declined for the one it was meant for; the same reason once for a start of the server.
func (i *instance) decline(ctx context.Context, who schemas.Caller, why string) json.RawMessage {
	if i.asking.first(why) {
		i.noteQuestion(ctx, who, "declined: "+why)
	}
	return json.RawMessage(`{"action":"decline"}`)
}

func (i *instance) noteQuestion(ctx context.Context, who schemas.Caller, detail string) {
	rec := schemas.Record{At: i.t.r.opt.Now(), Thread: i.t.id, Member: who.Member, Name: who.Name, Door: who.Door, Event: schemas.EventElicit, Server: i.name, Detail: detail}
	if _, err := i.t.r.opt.Journal.Append(context.WithoutCancel(ctx), rec); err != nil {
		i.t.r.opt.Log.Error("cannot write the audit record of a question", "thread", i.t.id, "server", i.name, "err", err)
	}
}
