package session

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
)

// listen keeps open what the server needs to announce changes by itself: the
// GET stream before 2026-07-28, subscriptions/listen since. A legacy stdio or
// SSE server just sends.
func (s *Session) listen() {
	if s.modern() {
		if filter := s.filter(); filter != "" {
			s.run(func() { s.subscribe(filter) })
		}
		return
	}
	if w, ok := s.link.(*web); ok {
		s.run(w.listen)
	}
}

// filter names the list changes that the server can announce.
func (s *Session) filter() string {
	var on []string
	for name, has := range map[string]bool{
		"toolsListChanged": s.info.ToolsChange, "promptsListChanged": s.info.PromptsChange, "resourcesListChanged": s.info.ResourcesChange,
	} {
		if has {
			on = append(on, `"`+name+`":true`)
		}
	}
	return strings.Join(on, ",")
}

// changed tells the owner that any list may have changed while nobody listened.
func (s *Session) changed() {
	if s.info.Tools {
		s.notify("notifications/tools/list_changed", nil)
	}
	if s.info.Resources {
		s.notify("notifications/resources/list_changed", nil)
	}
	if s.info.Prompts {
		s.notify("notifications/prompts/list_changed", nil)
	}
}

// subscribe holds a subscriptions/listen request open until the session ends
// or the server turns out not to know the method (2026-07-28, SEP-2575).
func (s *Session) subscribe(filter string) {
	pace := eventReader{}
	for n := 0; ; n++ {
		if n > 0 {
			s.changed()
		}
		opened := time.Now()
		_, err := s.link.roundTrip(s.life, &request{
			method: string(mcp.MethodSubscriptionsListen), params: []byte(`{"notifications":{` + filter + `}}`), stream: true,
		})
		if s.life.Err() != nil || refusedForGood(err) {
			return
		}
		if time.Now().Sub(opened) > maxPause {
			n = 0
		}
		if sleep(s.life, pace.pause(n)) != nil {
			return
		}
	}
}

// refusedForGood reports an answer that will not change by asking again.
func refusedForGood(err error) bool {
	var rpc *RPCError
	var status *StatusError
	return errors.As(err, &rpc) || errors.As(err, &status) && status.Status < 500 && status.Status != http.StatusTooManyRequests
}

// listen holds the GET stream open. A server without one answers 405.
func (w *web) listen() {
	var events eventReader
	worked := (*handshake)(nil) // the session on which the stream was open before
	for n := 0; ; n++ {
		hand := w.agreed.Load()
		opened := time.Now()
		resp, err := w.get(w.s.life, hand, events.lastID)
		switch {
		case err == nil:
			if worked != nil && worked != hand {
				events.lastID = ""
			}
			worked = hand
			next := newEventReader(resp.Body, w.s.opts.MaxEvent)
			next.lastID, next.retry = events.lastID, events.retry
			_, _, _ = w.drain(next, nil, 0, hand)
			resp.Body.Close()
			events.lastID, events.retry = next.lastID, next.retry
			if time.Now().Sub(opened) > maxPause {
				n = 0
			}
		case w.s.life.Err() != nil:
			return
		case worked == hand && gone(err, hand):
			events.lastID = ""
			_, _ = w.renew(w.s.life, hand)
		case refusedForGood(err):
			return
		}
		if sleep(w.s.life, events.pause(n)) != nil {
			return
		}
	}
}

// reshake starts a new session with the server in the version of the old one.
func (s *Session) reshake(ctx context.Context) (*handshake, error) {
	hand, _, err := s.shake(ctx, client.WithProtocolVersion(mcp.LATEST_LEGACY_PROTOCOL_VERSION))
	return hand, err
}
