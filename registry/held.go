package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"bobbin/schemas"

	"github.com/aymanbagabas/go-udiff"
)

const (
	heldPause = time.Minute
	tellTime  = 5 * time.Second
)

type heldEvent struct {
	server string
	reply  chan<- heldReply
}

type heldReply struct {
	tools []schemas.HeldTool
	err   error
}

type acceptEvent struct {
	caller schemas.Caller
	server string
	seen   map[string]string
	reply  chan<- error
}

// Held lists the tools of a server that wait for approval, with what changed.
func (r *Registry) Held(ctx context.Context, id schemas.ThreadID, server string) ([]schemas.HeldTool, error) {
	reply := make(chan heldReply, 1)
	t, err := r.post(ctx, id, heldEvent{server, reply})
	if err != nil {
		return nil, err
	}
	got, err := receive(ctx, t, reply)
	if err != nil {
		return nil, err
	}
	return got.tools, got.err
}

// Accept approves held tools: seen holds their names with the pins of the definitions that the person was shown (Tool.Pin). When
// the server describes one of them otherwise by now, nothing is approved and the code is CodeConflict. The owner of the server
// and managers may. The pins are on disk when it returns.
func (r *Registry) Accept(ctx context.Context, c schemas.Caller, server string, seen map[string]string) error {
	reply := make(chan error, 1)
	t, err := r.post(ctx, c.Thread, acceptEvent{c, server, seen, reply})
	if err != nil {
		return err
	}
	got, err := receive(ctx, t, reply)
	if err != nil {
		return err
	}
	return got
}

func (e heldEvent) handle(t *thread) {
	s := t.slots[e.server]
	if s == nil {
		e.reply <- heldReply{err: t.noServer(e.server)}
		return
	}
	e.reply <- heldReply{tools: s.waiting()}
}

// waiting lists the tools that wait for approval, with what changed.
func (s *slot) waiting() (tools []schemas.HeldTool) {
	if s.tools == nil {
		return nil
	}
	for _, d := range s.tools.list {
		if why := s.held(d); why != "" && passes(s.entry.Tools, d.Name) {
			tool := d.Tool
			tool.Kind, tool.Held = s.entry.Kind, why
			tools = append(tools, schemas.HeldTool{Tool: tool, Why: why, Diff: difference(s.approved[d.Name], d.Raw)})
		}
	}
	return tools
}

// waitingKey is the same for the same definitions that wait, "" when none does.
func (s *slot) waitingKey() string {
	if s.tools == nil || s.state != "" {
		return ""
	}
	var b strings.Builder
	for _, d := range s.tools.list {
		if s.held(d) != "" && passes(s.entry.Tools, d.Name) {
			b.WriteString(d.Pin)
		}
	}
	return b.String()
}

// announce tells of tools that wait and were not told of in this form. A server that changes its words all the time is not told
// of more often than heldPause.
func (t *thread) announce() {
	if t.r.opt.Tell == nil {
		return
	}
	now := time.Now()
	for _, s := range t.slots {
		if !t.fresh && (s.tellAt.IsZero() || now.Before(s.tellAt)) {
			continue
		}
		key := s.waitingKey()
		switch {
		case key == "" || key == s.toldHeld:
			s.tellAt = time.Time{}
			continue
		case !s.toldAt.IsZero() && now.Sub(s.toldAt) < heldPause:
			s.tellAt = s.toldAt.Add(heldPause)
			continue
		}
		s.toldHeld, s.toldAt, s.tellAt = key, now, time.Time{}
		name, tools := s.entry.Name, s.waiting()
		t.wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.life, tellTime)
			defer cancel()
			t.r.opt.Tell.Held(ctx, t.id, name, tools)
		})
	}
	t.fresh = false
}

func (e acceptEvent) handle(t *thread) {
	s := t.slots[e.server]
	switch {
	case s == nil:
		e.reply <- t.noServer(e.server)
		return
	case !e.caller.Manages() && (e.caller.Role < schemas.Member || e.caller.Member != s.entry.Owner):
		e.reply <- &schemas.Error{Code: schemas.CodeDenied, Text: "only the owner of " + e.server + " or a manager of the thread can approve its tools"}
		return
	case s.tools == nil:
		e.reply <- &schemas.Error{Code: schemas.CodeNotReady, Text: "the tools of " + e.server + " are not known now"}
		return
	}
	pins := maps.Clone(s.pins)
	if pins == nil {
		pins = map[string]string{}
	}
	now := map[string]string{}
	for _, d := range s.tools.list {
		now[d.Name] = d.Pin
	}
	for _, name := range slices.Sorted(maps.Keys(e.seen)) {
		switch pin, ok := now[name]; {
		case !ok:
			e.reply <- &schemas.Error{Code: schemas.CodeNotFound, Text: fmt.Sprintf("%s has no tool %q", e.server, short(schemas.Clean(name, true), 64))}
			return
		case pin != e.seen[name]:
			e.reply <- &schemas.Error{Code: schemas.CodeConflict, Text: name + " changed again meanwhile, so nothing was approved", Hint: "`/mcp enable " + e.server + "` shows it as it is now"}
			return
		}
		pins[name] = now[name]
	}
	ctx, cancel := t.disk()
	defer cancel()
	_, err := t.r.opt.Journal.Append(ctx, schemas.Record{
		At: t.r.opt.Now(), Thread: t.id, Member: e.caller.Member, Name: e.caller.Name, Door: e.caller.Door,
		Event: schemas.EventApprove, Server: e.server, Detail: short("tools: "+strings.Join(slices.Sorted(maps.Keys(e.seen)), ", "), 200),
	})
	if err != nil {
		e.reply <- &schemas.Error{Code: schemas.CodeInternal, Text: "the audit log cannot be written, so nothing was approved", Err: err}
		return
	}
	if err := t.r.opt.Wishes.Pin(ctx, t.id, e.server, maps.Clone(pins)); err != nil {
		e.reply <- &schemas.Error{Code: schemas.CodeInternal, Text: "the approval could not be kept", Err: err}
		return
	}
	s.pins, s.entry.Pins = pins, maps.Clone(pins)
	s.settle = time.Time{}
	s.remember()
	t.save(e.server)
	t.changed = true
	t.publish()
	e.reply <- nil
}

// difference shows two definitions of a tool as lines, as people and models would see them.
func difference(before, now json.RawMessage) string {
	text := udiff.Unified("", "", pretty(before), pretty(now))
	if _, body, ok := strings.Cut(text, "\n+++ \n"); ok {
		text = body
	}
	return text
}

func pretty(raw json.RawMessage) string {
	if raw == nil {
		return ""
	}
	v, err := decode(raw)
	if err != nil {
		return ""
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if e.Encode(v) != nil {
		return ""
	}
	return revealed(b.String())
}

// revealed writes characters that would not be seen as \u escapes, so that a change of them is seen.
func revealed(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r == '\n' || schemas.Clean(string(r), false) == string(r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\u{%x}`, r)
		}
	}
	return b.String()
}
