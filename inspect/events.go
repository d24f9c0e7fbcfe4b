package inspect

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"bobbin/schemas"
)

// line is a schemas.Message as the page needs it.
type line struct {
	N      int                 `json:"n"`
	At     time.Time           `json:"at"`
	Sent   bool                `json:"sent"`
	Kind   schemas.MessageKind `json:"kind"`
	Method string              `json:"method,omitempty"`
	ID     string              `json:"id,omitempty"`
	Ms     *float64            `json:"ms,omitempty"`
	As     schemas.MemberID    `json:"as,omitempty"`
	Text   string              `json:"text"`
	Size   int                 `json:"size"`
}

// events streams "servers" when the servers have to be looked at again, and, with ?server=, "message" for each message of that one;
// "watching" says from when on.
func (p *Page) events(w http.ResponseWriter, r *http.Request) {
	c, ok := p.caller(r)
	if !ok {
		p.refuse(w, r, errNoThread)
		return
	}
	select {
	case p.streams <- struct{}{}:
		defer func() { <-p.streams }()
	default:
		p.refuse(w, r, &schemas.Error{Code: schemas.CodeTooLarge, Text: "too many pages are open", Hint: "close one of them"})
		return
	}
	read, news, stop := func(int) []schemas.Message { return nil }, (<-chan struct{})(nil), func() {}
	if name := r.URL.Query().Get("server"); name != "" {
		var err error
		if read, news, stop, err = p.opt.Wire.Messages(r.Context(), c, name); err != nil {
			p.refuse(w, r, err)
			return
		}
	}
	defer stop()
	changes, end := p.opt.Live.Watch(c.Thread)
	defer end()
	w.Header().Set("Content-Type", "text/event-stream")
	s := stream{w: w, c: http.NewResponseController(w)}
	s.send("watching", struct{}{})
	pulse := time.NewTicker(beat)
	defer pulse.Stop()
	for last := 0; s.err == nil; {
		for _, m := range read(last) {
			last = m.N
			s.send("message", lineOf(m))
		}
		s.flush()
		select {
		case <-news:
			pause(r, readAgain) // what comes in a burst is written at once
		case <-changes:
			s.send("servers", struct{}{})
		case <-pulse.C:
			s.write(": \n\n")
		case <-r.Context().Done():
			return
		}
	}
}

// pause waits for d, or until the request ends.
func pause(r *http.Request, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.Context().Done():
	}
}

func lineOf(m schemas.Message) line {
	l := line{m.N, m.At, m.Sent, m.Kind, m.Method, m.ID, nil, m.As, m.Text, m.Size}
	if m.Took > 0 {
		took := ms(m.Took)
		l.Ms = &took
	}
	return l
}

// stream writes server-sent events (HTML Living Standard, 9.2); each write has a deadline of its own. The first error stays.
type stream struct {
	w   http.ResponseWriter
	c   *http.ResponseController
	err error
}

func (s *stream) send(event string, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		s.err = err
		return
	}
	s.write(fmt.Sprintf("event: %s\ndata: %s\n\n", event, data))
}

func (s *stream) write(text string) {
	if s.err != nil {
		return
	}
	_ = s.c.SetWriteDeadline(time.Now().Add(writeTime))
	_, s.err = s.w.Write([]byte(text))
}

func (s *stream) flush() {
	if s.err == nil {
		s.err = s.c.Flush()
	}
}
