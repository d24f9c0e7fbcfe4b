package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"bobbin/internal/jsonscan"

	"github.com/mark3labs/mcp-go/mcp"
)

const (
	firstPause = time.Second // before a stream is opened again
	minPause   = 10 * time.Millisecond
	maxPause   = 30 * time.Second
	maxResume  = 100 // times that one answer may be continued
)

// event is a server-sent event (HTML Living Standard, 9.2). data is valid
// until the next one is read.
type event struct {
	name string
	data []byte
}

// eventReader reads one stream, event by event.
type eventReader struct {
	lines  *lineReader
	max    int64
	lastID string        // of the last complete event
	retry  time.Duration // what the server asked for, or zero
}

func newEventReader(r io.Reader, limit int64) *eventReader {
	return &eventReader{lines: newLineReader(r, int(limit)), max: limit}
}

// next returns the next event that has data.
func (r *eventReader) next() (event, error) {
	var e event
	id, hasID, hasData := "", false, false
	for {
		line, err := r.lines.next()
		if err != nil && (err != io.EOF || !hasData) {
			return event{}, err
		}
		if err != nil || len(line) == 0 {
			if hasID && err == nil {
				r.lastID, hasID = id, false
			}
			if hasData {
				return e, nil
			}
			e.name = ""
			continue
		}
		field, value := cutField(line)
		switch string(field) {
		case "event":
			e.name = string(value)
		case "data":
			switch {
			case hasData:
				e.data = append(append(e.data, '\n'), value...)
			case r.lines.blank(): // that is all of the event, and reading on does not move it
				e.data = value[:len(value):len(value)]
			default:
				e.data = append(e.data, value...)
			}
			hasData = true
			if int64(len(e.data)) > r.max {
				return event{}, fmt.Errorf("%w: an event above %d bytes", ErrTooLarge, r.max)
			}
		case "id":
			id, hasID = string(value), true
		case "retry":
			if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
				r.retry = time.Duration(ms) * time.Millisecond
			}
		}
	}
}

func cutField(line []byte) (field, value []byte) {
	for i, c := range line {
		if c == ':' {
			value := line[i+1:]
			if len(value) > 0 && value[0] == ' ' {
				value = value[1:]
			}
			return line[:i], value
		}
	}
	return line, nil
}

// pause returns how long to wait before attempt n (from 0) to open a stream again.
func (r *eventReader) pause(n int) time.Duration {
	p := firstPause
	if r.retry > 0 {
		p = max(r.retry, minPause)
	}
	return min(p<<min(n, 5), maxPause)
}

// follow reads the events of a POST until the answer to id. Before 2026-07-28
// a server may end the stream early and have the client fetch the rest
// (SEP-1699). It returns the response that the caller has to close, or nil if
// its stream is over.
func (w *web) follow(ctx context.Context, resp *http.Response, r *request, id int64, hand *handshake) (*http.Response, json.RawMessage, error) {
	limit := int64(maxStream)
	if r.stream {
		limit = 1<<63 - 1
	}
	for n := 0; ; n++ {
		body := &io.LimitedReader{R: resp.Body, N: limit}
		events := &eventReader{lines: w.borrow(body, w.s.opts.MaxEvent), max: w.s.opts.MaxEvent}
		result, answered, err := w.drain(events, r, id, hand)
		over := events.lines.over
		w.giveBack(events.lines)
		if answered && over {
			resp.Body.Close()
			return nil, result, err
		}
		if answered {
			return resp, result, err
		}
		if limit = body.N; limit <= 0 {
			return resp, nil, lost(fmt.Errorf("%w: a stream above %d bytes", ErrTooLarge, maxStream))
		}
		if cause := context.Cause(ctx); cause != nil {
			return resp, nil, lost(cause)
		}
		if err != io.EOF {
			return resp, nil, lost(err)
		}
		if events.lastID == "" || n >= maxResume || mcp.IsModernProtocol(hand.version) {
			return resp, nil, lost(errors.New("the server ended the answer's stream before the answer"))
		}
		if err := sleep(ctx, events.pause(0)); err != nil {
			return resp, nil, lost(err)
		}
		resp.Body.Close()
		next, err := w.get(ctx, hand, events.lastID)
		if err != nil {
			return resp, nil, lost(err)
		}
		resp = next
	}
}

// drain handles events until the answer to id or the end of the stream; id 0
// waits for no answer.
func (w *web) drain(events *eventReader, r *request, id int64, hand *handshake) (json.RawMessage, bool, error) {
	for {
		ev, err := events.next()
		if err != nil {
			return nil, false, err
		}
		w.s.see(false, ev.data)
		e, err := scanEnvelope(ev.data)
		switch {
		case err != nil:
			continue
		case e.method == nil:
			if got, ok := jsonscan.Int(e.id); ok && got == id {
				result, err := answerOf(e)
				return result, true, err
			}
		case e.id == nil && r != nil && r.progress != nil && ownProgress(e, id):
			r.progress(append(json.RawMessage(nil), e.params...))
		case e.id == nil && r != nil && r.log != nil && string(e.method) == logMethod:
			r.log(append(json.RawMessage(nil), e.params...))
		default:
			w.s.incoming(e, func(reply []byte) { w.s.errand(func() { w.post(reply, hand) }) })
		}
	}
}

func ownProgress(e envelope, id int64) bool {
	if string(e.method) != `"notifications/progress"` {
		return false
	}
	token, err := jsonscan.Find(e.params, jsonscan.All(e.params), "progressToken")
	got, ok := jsonscan.Int(token.Of(e.params))
	return err == nil && ok && got == id
}

// get opens the server's own stream, or continues an answer behind lastID.
func (w *web) get(ctx context.Context, hand *handshake, lastID string) (*http.Response, error) {
	req, err := w.request(ctx, http.MethodGet, nil, hand)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "text/event-stream")
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	resp, err := w.do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK || mediaType(resp) != "text/event-stream" {
		resp.Body.Close()
		return nil, &StatusError{Status: resp.StatusCode}
	}
	return resp, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
