package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"bobbin/schemas"
)

const (
	maxTapped     = 500      // messages of a server that are kept while somebody watches
	maxTapBytes   = 1 << 20  // of their texts
	maxTapText    = 64 << 10 // bytes shown of one
	maxTappedAsks = 256      // requests without an answer yet, whose time is taken
	maxTapWatches = 32       // at once, of all threads
)

// taps lets people watch the messages of servers. Nothing is kept, and next to nothing is done, while nobody does.
type taps struct {
	watched atomic.Int64 // so many watch

	mu   sync.Mutex
	open map[tapKey]*tap
}

type tapKey struct {
	thread schemas.ThreadID
	server string
}

// tap keeps the last messages of one server, of all its sessions.
type tap struct {
	mu      sync.Mutex
	last    int
	kept    []schemas.Message
	size    int
	asked   map[askedKey]asked
	watches map[chan struct{}]struct{}
}

type askedKey struct {
	inst *instance
	sent bool // by bobbin
	id   string
}

type asked struct {
	method string
	at     time.Time
}

// Messages lets somebody at the machine watch what goes over the wire between bobbin and a server, from now on or since another one
// began. read gives what is kept of the messages after number n, oldest first; changed ticks, never more than one waiting, when
// there are new ones; stop ends it. At most 500 messages and 1 MiB of a server are kept, and none when nobody watches. It is written
// to the audit log, before anything is shown.
func (r *Registry) Messages(ctx context.Context, c schemas.Caller, server string) (read func(n int) []schemas.Message, changed <-chan struct{}, stop func(), err error) {
	if !c.Operator {
		return nil, nil, nil, &schemas.Error{Code: schemas.CodeDenied, Text: "messages of servers are shown only at the machine that runs bobbin"}
	}
	_, s, err := r.view(ctx, c.Thread)
	if err != nil {
		return nil, nil, nil, err
	}
	if s.byName[server] == nil {
		return nil, nil, nil, noServer(server, names(s))
	}
	record := schemas.Record{Thread: c.Thread, Member: c.Member, Name: c.Name, Door: c.Door, Event: schemas.EventInspect, Server: server, Detail: "watches its messages"}
	if _, err := r.opt.Journal.Append(ctx, record); err != nil {
		return nil, nil, nil, &schemas.Error{Code: schemas.CodeInternal, Text: "the audit log cannot be written, so messages are not shown", Err: err}
	}
	return r.taps.watch(tapKey{c.Thread, server})
}

func (ts *taps) watch(key tapKey) (func(int) []schemas.Message, <-chan struct{}, func(), error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.watched.Load() >= maxTapWatches {
		return nil, nil, nil, &schemas.Error{Code: schemas.CodeTooLarge, Text: "too many pages watch messages already", Hint: "close one of them"}
	}
	t := ts.open[key]
	if t == nil {
		t = &tap{asked: map[askedKey]asked{}, watches: map[chan struct{}]struct{}{}}
		if ts.open == nil {
			ts.open = map[tapKey]*tap{}
		}
		ts.open[key] = t
	}
	tick := make(chan struct{}, 1)
	t.mu.Lock()
	t.watches[tick] = struct{}{}
	t.mu.Unlock()
	ts.watched.Add(1)
	return t.after, tick, sync.OnceFunc(func() {
		ts.mu.Lock()
		defer ts.mu.Unlock()
		ts.watched.Add(-1)
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.watches, tick)
		if len(t.watches) == 0 {
			delete(ts.open, key)
		}
	}), nil
}

// seen shows a message of the instance's session to who watches. Without anybody it is one look at a number.
func (i *instance) seen(sent bool, message []byte) {
	ts := &i.t.r.taps
	if ts.watched.Load() == 0 {
		return
	}
	ts.mu.Lock()
	t := ts.open[tapKey{i.t.id, i.name}]
	ts.mu.Unlock()
	if t != nil {
		t.add(i, time.Now(), sent, bytes.TrimSpace(message))
	}
}

// head is what tells messages apart.
type head struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Error  json.RawMessage `json:"error"`
	Result json.RawMessage `json:"result"`
}

func (t *tap) add(i *instance, at time.Time, sent bool, raw []byte) {
	m := schemas.Message{At: at, Sent: sent, As: i.member, Size: len(raw), Kind: schemas.MessageNoise}
	var h head
	if json.Unmarshal(raw, &h) == nil {
		m.ID, m.Method, m.Kind = string(h.ID), h.Method, h.kind()
		raw = i.conceal(discreet(sent, m.Kind, raw))
	} else {
		raw = []byte(i.veil(string(raw)))
	}
	m.Text = string(bytes.ToValidUTF8(raw[:min(len(raw), maxTapText)], nil))
	t.mu.Lock()
	defer t.mu.Unlock()
	switch key := (askedKey{i, sent, m.ID}); m.Kind {
	case schemas.MessageRequest:
		if len(t.asked) < maxTappedAsks {
			t.asked[key] = asked{m.Method, at}
		}
	case schemas.MessageAnswer, schemas.MessageError:
		key.sent = !sent
		if q, ok := t.asked[key]; ok {
			m.Method, m.Took = q.method, at.Sub(q.at)
			delete(t.asked, key)
		}
	}
	t.keep(m)
}

func (h head) kind() schemas.MessageKind {
	switch {
	case h.Method != "" && h.ID != nil:
		return schemas.MessageRequest
	case h.Method != "":
		return schemas.MessageNotification
	case h.Error != nil:
		return schemas.MessageError
	case h.Result != nil:
		return schemas.MessageAnswer
	}
	return schemas.MessageNoise
}

func (t *tap) keep(m schemas.Message) {
	t.last++
	m.N = t.last
	t.kept, t.size = append(t.kept, m), t.size+len(m.Text)
	drop := 0
	for len(t.kept)-drop > maxTapped || t.size > maxTapBytes {
		t.size -= len(t.kept[drop].Text)
		drop++
	}
	if drop > 0 {
		rest := copy(t.kept, t.kept[drop:])
		clear(t.kept[rest:])
		t.kept = t.kept[:rest]
	}
	for tick := range t.watches {
		select {
		case tick <- struct{}{}:
		default:
		}
	}
}

func (t *tap) after(n int) []schemas.Message {
	t.mu.Lock()
	defer t.mu.Unlock()
	skip := len(t.kept) - (t.last - n)
	return append([]schemas.Message(nil), t.kept[min(max(skip, 0), len(t.kept)):]...)
}

const withheldAnswer = "[not shown: it is between the member and the server]"

// discreet takes out of a message what is between a member and the server alone: answers to the server's questions, and pages for
// one member's eyes (MCP specification, Elicitation, and since 2026-07-28 SEP-2322).
func discreet(sent bool, kind schemas.MessageKind, raw []byte) []byte {
	answers := sent && kind == schemas.MessageAnswer && !bytes.Contains(raw, []byte(`"result":{}`))
	if !answers && !bytes.Contains(raw, []byte(`"inputResponses"`)) && !bytes.Contains(raw, []byte(`elicit`)) {
		return raw
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v map[string]any
	if d.Decode(&v) != nil {
		return raw
	}
	changed := answers
	if answers {
		v["result"] = withheldAnswer
	}
	changed = hush(v) || changed
	if !changed {
		return raw
	}
	out, err := json.Marshal(v)
	if err != nil {
		return fmt.Appendf(nil, "%q", withheldAnswer)
	}
	return out
}

// hush replaces inputResponses and the addresses of URL elicitations wherever they stand, and reports whether it did.
func hush(v any) (changed bool) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			_, text := value.(string)
			if key == "inputResponses" || key == "url" && text && v["elicitationId"] != nil || key == "url" && text && v["mode"] == "url" {
				v[key], changed = withheldAnswer, true
				continue
			}
			changed = hush(value) || changed
		}
	case []any:
		for _, value := range v {
			changed = hush(value) || changed
		}
	}
	return changed
}
