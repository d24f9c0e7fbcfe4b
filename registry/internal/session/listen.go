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
		if time.Since(opened) > maxPause {
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
	var pace eventReader
	var worked *handshake // the session on which the stream was open before
	for n := 0; ; n++ {
		began := time.Now()
		hand, err := w.hear(&pace, &worked)
		switch {
		case w.s.life.Err() != nil:
			return
		case w.agreed.Load() != hand:
			continue // a new session, so the stream moves there
		case err == nil && time.Since(began) > maxPause:
			n = 0
		case worked == hand && gone(err, hand):
			_, _ = w.renew(w.s.life, hand)
		case refusedForGood(err):
			return
		}
		if sleep(w.s.life, pace.pause(n)) != nil {
			return
		}
	}
}

// hear opens the stream once and reads it to its end. It returns the session it used.
func (w *web) hear(pace *eventReader, worked **handshake) (*handshake, error) {
	ctx, cancel := context.WithCancel(w.s.life)
	defer cancel()
	w.listening.Store(&cancel) // before the session is looked up: a renewal ends this connection or is seen
	hand := w.agreed.Load()
	if *worked != hand {
		pace.lastID = ""
	}
	resp, err := w.get(ctx, hand, pace.lastID)
	w.opened.Do(func() { close(w.open) })
	if err != nil {
		return hand, err
	}
	defer resp.Body.Close()
	if *worked != nil && pace.lastID == "" {
		w.s.changed()
	}
	*worked = hand
	events := newEventReader(resp.Body, w.s.opts.MaxEvent)
	events.lastID, events.retry = pace.lastID, pace.retry
	_, _, _ = w.drain(events, nil, 0, hand) // how it ended does not matter
	pace.lastID, pace.retry = events.lastID, events.retry
	return hand, nil
}

// reshake starts a new session with the server in the version of the old one.
func (s *Session) reshake(ctx context.Context) (*handshake, error) {
	hand, _, err := s.shake(ctx, client.WithProtocolVersion(mcp.LATEST_LEGACY_PROTOCOL_VERSION))
	return hand, err
}
