package gateway

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"bobbin/internal/jsonscan"
	"bobbin/schemas"
)

// drainWait is how long requests go on after the client closed its end.
const drainWait = 5 * time.Second

// Stdio serves one client on a pair of streams, one message a line, until the client closes its end, ctx ends or Run does. Calls run as
// the caller, who started this program. It returns when nothing of it is under way.
func (g *Gateway) Stdio(ctx context.Context, caller schemas.Caller, server string, in io.Reader, out io.Writer) error {
	life, done := g.running()
	if life == nil {
		return errors.New("gateway: Stdio needs Run")
	}
	defer done()
	ctx, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(life, cancel)()
	caller.Door = schemas.DoorGateway
	n := &session{identity: identity{caller: caller, server: server}, g: g, version: latest, spoken: latest, under: map[string]context.CancelFunc{}, asked: map[string]chan *message{}}
	n.level.Store(firstLevel)
	p := &pipe{g: g, n: n, out: out, cancel: cancel, subs: map[string]context.CancelFunc{}}
	n.send = p.send
	defer p.wg.Wait()
	defer n.close()
	defer cancel()
	err := p.read(ctx, in)
	if err == nil && ctx.Err() == nil {
		p.drain(ctx)
	}
	return err
}

// drain lets what was asked for before the client closed its end be answered.
func (p *pipe) drain(ctx context.Context) {
	over := time.Now().Add(drainWait)
	for p.slots.Load() > 0 && ctx.Err() == nil && time.Now().Before(over) {
		wait(ctx, settle)
	}
}

// pipe is a client on a pair of streams.
type pipe struct {
	g      *Gateway
	n      *session
	cancel context.CancelFunc
	wg     sync.WaitGroup
	slots  atomic.Int32

	mu  sync.Mutex
	out io.Writer

	told sync.Once
	subs map[string]context.CancelFunc // subscriptions/listen, by their id; the reader's
}

func (p *pipe) send(b []byte) {
	b = append(b, '\n')
	jsonscan.OneLine(b[:len(b)-1])
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := p.out.Write(b); err != nil {
		p.cancel()
	}
}

// read takes lines until there are no more. A read cannot be broken off, so it has a goroutine that may outlive this one: the program ends then.
func (p *pipe) read(ctx context.Context, in io.Reader) error {
	lines := lineReader(ctx, in)
	for {
		select {
		case l := <-lines:
			if l.err == io.EOF {
				return nil
			} else if l.err != nil {
				return l.err
			}
			p.take(ctx, l.text)
		case <-ctx.Done():
			return nil
		}
	}
}

// lineRead is a line, or why there are no more.
type lineRead struct {
	text []byte
	err  error
}

func lineReader(ctx context.Context, in io.Reader) <-chan lineRead {
	lines := make(chan lineRead)
	go func() {
		r := bufio.NewReaderSize(in, 64<<10)
		for {
			text, err := line(r)
			for _, l := range []lineRead{{text: text}, {err: err}} {
				if l.err == nil && len(bytes.TrimSpace(l.text)) == 0 {
					continue
				}
				select {
				case lines <- l:
				case <-ctx.Done():
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	return lines
}

var errLine = &schemas.Error{Code: schemas.CodeTooLarge, Text: "the client sent a line above 4 MiB"}

func line(r *bufio.Reader) ([]byte, error) {
	var all []byte
	for {
		part, err := r.ReadSlice('\n')
		all = append(all, part...)
		switch {
		case err == bufio.ErrBufferFull && len(all) <= maxBody:
			continue
		case len(all) > maxBody:
			return nil, errLine
		}
		return all, err
	}
}

// take handles one message; requests on goroutines of their own.
func (p *pipe) take(ctx context.Context, b []byte) {
	m, err := read(b)
	if err != nil {
		code := codeInvalid
		if !jsonscan.Valid(b) {
			code = codeParse
		}
		p.send(wrong(code, "this is not one JSON-RPC message").frame(nil, nil))
		return
	}
	switch {
	case m.params.Meta.Version != nil || m.Method == "server/discover":
		p.modern(ctx, m)
	case !m.request():
		if m.Method == "notifications/initialized" {
			p.told.Do(func() {
				p.wg.Go(func() {
					p.g.follow(ctx, &p.n.identity, nil, nil, func() {}, func(method string) { p.send(notification(method, nil)) })
				})
			})
		}
		p.cancelled(m)
		p.n.aside(m)
	case m.Method == "initialize":
		p.g.converse(ctx, p.n, m, p.send)
	default:
		p.run(m, func() { p.g.converse(ctx, p.n, m, p.send) })
	}
}

func (p *pipe) run(m *message, fn func()) {
	if p.slots.Add(1) > maxUnder {
		p.slots.Add(-1)
		p.send(wrong(codeServer, "too many requests are under way; it did not run").frame(nil, m.ID))
		return
	}
	p.wg.Go(func() {
		defer p.slots.Add(-1)
		fn()
	})
}

// cancelled ends a subscription.
func (p *pipe) cancelled(m *message) {
	var in struct {
		ID json.RawMessage `json:"requestId"`
	}
	if m.Method == "notifications/cancelled" && json.Unmarshal(m.Params, &in) == nil && p.subs[string(in.ID)] != nil {
		p.subs[string(in.ID)]()
		delete(p.subs, string(in.ID))
	}
}

// modern takes a message of 2026-07-28.
func (p *pipe) modern(ctx context.Context, m *message) {
	if !m.request() {
		p.cancelled(m)
		p.n.aside(m)
		return
	}
	if v := m.params.Meta.Version; v == nil || *v != modern {
		f := &fault{code: codeVersion, text: "this protocol version is not spoken here"}
		if v == nil {
			f = &fault{code: codeParams, text: "io.modelcontextprotocol/protocolVersion is missing in _meta"}
		} else {
			f.data = encode(map[string]any{"supported": append([]string{modern}, handshaken()...), "requested": *v})
		}
		p.send(outcome{fault: f}.frame(nil, m.ID))
		return
	}
	if m.Method == "subscriptions/listen" {
		p.subscribe(ctx, m)
		return
	}
	p.run(m, func() {
		x := &exchange{identity: p.n.identity, g: p.g, m: m, version: modern, able: declared(m.params.Meta.Capabilities)}
		if i := slices.Index(levels(), m.params.Meta.Level); i >= 0 {
			x.level = &atomic.Int32{}
			x.level.Store(int32(i))
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		if !p.n.enlist(m.ID, cancel) {
			p.send(wrong(codeInvalid, "a request with this id is under way already").frame(nil, m.ID))
			return
		}
		o, _ := p.g.round(ctx, x, p.send)
		p.n.delist(m.ID)
		if !o.none() {
			p.send(o.frame(nil, m.ID))
		}
	})
}

// subscribe tells of the changes that a client wants to hear of, until it takes that back.
func (p *pipe) subscribe(ctx context.Context, m *message) {
	want, ack, ok := subscription(m)
	if !ok {
		p.send(wrong(codeParams, "notifications says which ones are wanted").frame(nil, m.ID))
		return
	}
	if len(p.subs) >= maxAsked || p.subs[string(m.ID)] != nil {
		p.send(wrong(codeServer, "too many subscriptions").frame(nil, m.ID))
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	p.subs[string(m.ID)] = cancel
	first := func() { p.send(notification("notifications/subscriptions/acknowledged", ack)) }
	p.wg.Go(func() {
		defer cancel()
		if len(want) == 0 {
			first()
		} else {
			p.g.follow(ctx, &p.n.identity, nil, nil, first, func(method string) {
				if want[method] {
					p.send(notification(method, about(m)))
				}
			})
		}
		p.send(closed(m).frame(nil, m.ID))
	})
}
