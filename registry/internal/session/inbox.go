package session

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"bobbin/internal/jsonscan"
)

const (
	maxNotices     = 256
	maxNoticeBytes = 1 << 20
	maxAsked       = 4 // questions of one server to a person at a time

	refused = -1 // "User rejected sampling request" (MCP specification, Sampling, Error Handling)
)

// notices is a bounded queue of notifications with one goroutine at a time.
type notices struct {
	mu      sync.Mutex
	queue   []notice
	size    int
	running bool
	dropped uint64
}

type notice struct {
	method string
	params json.RawMessage
}

func (n *notices) droppedSoFar() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dropped
}

// asked holds the server's open questions by their id.
type asked struct {
	mu   sync.Mutex
	open map[string]context.CancelFunc
}

// incoming takes a notification or a request of the server. It never blocks,
// and neither may reply.
func (s *Session) incoming(e envelope, reply func([]byte)) {
	method, ok := jsonscan.Text(e.method)
	if !ok {
		return
	}
	if e.id == nil {
		if method == "notifications/cancelled" {
			s.withdraw(e.params)
			return
		}
		s.notify(method, e.params)
		return
	}
	if !jsonscan.ID(e.id) {
		return
	}
	switch {
	case method == "ping":
		reply(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{}}`+"\n", e.id))
	case s.answerer(method) != nil:
		s.question(method, e, reply)
	default:
		reply(refusal(e.id, -32601, "method not found"))
	}
}

func refusal(id []byte, code int, message string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`+"\n", id, code, message)
}

// notify queues a notification. A list change that already waits covers this one too.
func (s *Session) notify(method string, params []byte) {
	if s.opts.OnNotify == nil {
		return
	}
	n := &s.notices
	n.mu.Lock()
	defer n.mu.Unlock()
	if listChange(method) {
		for _, q := range n.queue {
			if q.method == method {
				return
			}
		}
		params = nil
	} else if len(n.queue) >= maxNotices || n.size+len(params) > maxNoticeBytes {
		n.dropped++
		return
	}
	n.queue = append(n.queue, notice{method, bytes.Clone(params)})
	n.size += len(params)
	if !n.running {
		n.running = s.run(s.tell)
	}
}

func listChange(method string) bool {
	switch method {
	case "notifications/tools/list_changed", "notifications/resources/list_changed", "notifications/prompts/list_changed":
		return true
	}
	return false
}

// tell empties the queue and ends.
func (s *Session) tell() {
	n := &s.notices
	for {
		n.mu.Lock()
		if len(n.queue) == 0 || s.life.Err() != nil {
			n.queue, n.size, n.running = nil, 0, false
			n.mu.Unlock()
			return
		}
		next := n.queue[0]
		n.queue = n.queue[1:]
		n.size -= len(next.params)
		n.mu.Unlock()
		s.opts.OnNotify(next.method, next.params)
	}
}

// answerer gives what answers a request of the server; nil: nothing does.
func (s *Session) answerer(method string) func(context.Context, json.RawMessage) (json.RawMessage, error) {
	switch method {
	case "elicitation/create":
		return s.opts.OnElicit
	case "sampling/createMessage":
		return s.opts.OnSample
	}
	return nil
}

// question asks on a goroutine of its own and answers whenever there is one
// (legacy protocol: the server sends a request).
func (s *Session) question(method string, e envelope, reply func([]byte)) {
	id, params := string(e.id), bytes.Clone(e.params)
	ctx, cancel := context.WithCancel(s.life)
	s.asked.mu.Lock()
	defer s.asked.mu.Unlock()
	if s.asked.open == nil {
		s.asked.open = map[string]context.CancelFunc{}
	}
	if _, twice := s.asked.open[id]; twice || len(s.asked.open) >= maxAsked {
		cancel()
		reply(refusal(e.id, -32603, "too many open questions"))
		return
	}
	started := s.run(func() {
		result := s.ask(ctx, method, params)
		withdrawn := ctx.Err() != nil
		s.asked.mu.Lock()
		delete(s.asked.open, id)
		s.asked.mu.Unlock()
		cancel()
		switch {
		case withdrawn:
		case result == nil:
			reply(refusal(e.id, refused, "the request was refused"))
		default:
			reply(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", id, result))
		}
	})
	if !started {
		cancel()
		return
	}
	s.asked.open[id] = cancel
}

// ask returns the answer on one line. Without one it is an ElicitResult of "cancel", or nil where a refusal is an error (Sampling).
func (s *Session) ask(ctx context.Context, method string, params json.RawMessage) []byte {
	result, err := s.answerer(method)(ctx, params)
	if err == nil && len(result) > 0 {
		if result, err = compactObject(result); err == nil {
			return result
		}
	}
	if method == "sampling/createMessage" {
		return nil
	}
	return []byte(`{"action":"cancel"}`)
}

// withdraw ends a question that the server no longer wants answered.
func (s *Session) withdraw(params []byte) {
	id, err := jsonscan.Find(params, jsonscan.All(params), "requestId")
	if err != nil {
		return
	}
	s.asked.mu.Lock()
	defer s.asked.mu.Unlock()
	if cancel := s.asked.open[string(id.Of(params))]; cancel != nil {
		cancel()
	}
}
