package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"bobbin/internal/jsonscan"
)

const (
	listWait = time.Minute
	maxPages = 100
	maxTools = 10000
)

// The handshake of the proxy itself claims all that some client might be able to do: a program hears only the first one, and
// what no client can answer is refused when it is asked.
const (
	ownHello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",` +
		`"capabilities":{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}},"clientInfo":{"name":"bobbin","version":"1"}}}`
	ownReady = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	ownMeta  = `{"io.modelcontextprotocol/protocolVersion":"` + modern + `","io.modelcontextprotocol/clientInfo":{"name":"bobbin","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":{}}`
)

var errAnswer = errors.New("the server answered with an error, or not in the form of MCP")

// register is PUT for who wants the tools in the same answer: POST /servers/register {name, command, args, env, cwd}.
func (p *Proxy) register(w http.ResponseWriter, r *http.Request) {
	var o struct {
		Name string `json:"name"`
		Definition
	}
	if !decode(w, r, &o) {
		return
	}
	s, status := p.settled(w, r, o.Name, o.Definition)
	if s == nil {
		return
	}
	answer := struct {
		Status
		Tools []json.RawMessage `json:"tools"`
		Error string            `json:"error,omitempty"`
	}{Tools: []json.RawMessage{}}
	ctx, cancel := context.WithTimeout(r.Context(), listWait)
	defer cancel()
	tools, err := s.tools(ctx)
	if err != nil {
		s.mourn(ctx)
		status, answer.Error = http.StatusUnprocessableEntity, err.Error()
	} else if tools != nil {
		answer.Tools = tools
	}
	answer.Status = s.status(tailShown)
	tell(w, status, answer)
}

// mourn waits until it is known how a program ended that does not answer any more.
func (s *server) mourn(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for {
		s.mu.Lock()
		known, changed := s.link == nil || !s.link.broken(), s.changed
		s.mu.Unlock()
		if known {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// tools lists all tools of a server, as one more client of it.
func (s *server) tools(ctx context.Context) ([]json.RawMessage, error) {
	n, err := s.open(false)
	if err != nil {
		return nil, err
	}
	defer n.close()
	m, err := readMessage([]byte(ownHello))
	if err != nil {
		return nil, err
	}
	answer, err := s.initialize(ctx, &m)
	if err != nil {
		return nil, err
	}
	l, err := s.ready(ctx)
	if err != nil {
		return nil, err
	}
	meta := ""
	if e, err := jsonscan.Message(answer); err != nil || e.Result.Absent() {
		meta = `"_meta":` + ownMeta // it may be one that shakes no hands any more
	} else if err := l.initialized([]byte(ownReady)); err != nil {
		return nil, err
	}
	return l.tools(ctx, n, meta)
}

func (l *link) tools(ctx context.Context, from *session, meta string) ([]json.RawMessage, error) {
	var all []json.RawMessage
	params := meta
	for range maxPages {
		m, err := readMessage([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + params + `}}`))
		if err != nil {
			return nil, err
		}
		c := newCall(&m, from, false)
		if err := l.send(&m, c); err != nil {
			return nil, err
		}
		answer, err := l.wait(ctx, c, nil)
		if err != nil {
			return nil, err
		}
		var page struct {
			Result *struct {
				Tools []json.RawMessage `json:"tools"`
				Next  string            `json:"nextCursor"`
			} `json:"result"`
		}
		if json.Unmarshal(answer, &page) != nil || page.Result == nil {
			return nil, errAnswer
		}
		if all = append(all, page.Result.Tools...); page.Result.Next == "" {
			return all, nil
		}
		if len(all) > maxTools {
			break
		}
		cursor, err := json.Marshal(page.Result.Next)
		if err != nil {
			return nil, err
		}
		params = `"cursor":` + string(cursor)
		if meta != "" {
			params += "," + meta
		}
	}
	return nil, fmt.Errorf("the server lists more than %d tools or %d pages", maxTools, maxPages)
}
