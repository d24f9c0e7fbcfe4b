package bot_test

import (
	"context"
	"strings"
	"testing"

	"bobbin/bot"
	"bobbin/schemas"
)

// yard is an operator with one server, for boss alone.
type yard struct{ w *world }

func (y yard) attached() int {
	for i, e := range y.w.cfg.Entries {
		if e.Kind == schemas.Admin {
			return i
		}
	}
	return -1
}

func (y yard) List(_ context.Context, c schemas.Caller) ([]schemas.AdminServer, error) {
	if !c.Operator {
		return nil, nil
	}
	return []schemas.AdminServer{{Name: "search", Type: "proxy", State: "running", Attached: y.attached() >= 0}}, nil
}

func (y yard) Attach(_ context.Context, c schemas.Caller, name string) error {
	if !c.Operator || name != "search" {
		return &schemas.Error{Code: schemas.CodeDenied, Text: "there is no server " + name + " of the operator for this thread"}
	}
	def := schemas.Server{Name: name, Type: schemas.HTTP, URL: "http://search:8080/mcp", Auth: &schemas.Auth{Type: schemas.Operated}}
	y.w.cfg.Entries = append(y.w.cfg.Entries, schemas.Entry{Server: def, Kind: schemas.Admin, Owner: "operator", Enabled: true,
		Approval: &schemas.Approval{Fingerprint: def.Fingerprint(), Definition: def}})
	return nil
}

func (y yard) Detach(_ context.Context, _ schemas.Caller, name string) error {
	i := y.attached()
	if i < 0 || name != "search" {
		return &schemas.Error{Code: schemas.CodeNotFound, Text: "no server " + name + " of the operator is attached here"}
	}
	y.w.cfg.Entries = append(y.w.cfg.Entries[:i:i], y.w.cfg.Entries[i+1:]...)
	return nil
}

func TestAdmin(t *testing.T) {
	var w *world
	w = newWorld(t, func(o *bot.Options) { o.Operator = lateYard{&w} })
	want(t, w.say(boss(), "/mcp admin"), "search", "running", "/mcp attach search")
	wantCode(t, w.say(alice(), "/mcp admin"), schemas.CodeMissing)
	r := w.say(alice(), "/mcp attach search")
	wantCode(t, r, schemas.CodeDenied)
	for _, rec := range w.records {
		if rec.Event == schemas.EventApprove {
			t.Error("what was refused stands in the log as approved")
		}
	}
	want(t, w.say(boss(), "/mcp attach search"), "search is attached", "the operator's credentials", "search is ready")
	if rec := w.records[len(w.records)-1]; rec.Event != schemas.EventApprove || rec.Server != "search" || rec.Member != "boss" {
		t.Errorf("%+v", rec)
	}
	for _, line := range []string{"/mcp remove search", "/mcp edit search", "/mcp disable search"} {
		r := w.say(boss(), line)
		wantCode(t, r, schemas.CodeDenied)
		want(t, r, "/mcp detach search")
	}
	wantCode(t, w.say(alice(), "/mcp reload search"), schemas.CodeDenied)
	if r := w.say(boss(), "/mcp reload search"); r.Bad {
		t.Error(flat(r))
	}
	want(t, w.say(boss(), "/mcp detach search"), "search is detached")
	wantCode(t, w.say(boss(), "/mcp detach search"), schemas.CodeNotFound)
}

func TestAdmin_Shadowed(t *testing.T) { // local → remote → admin
	var w *world
	w = newWorld(t, func(o *bot.Options) { o.Operator = lateYard{&w} })
	w.cfg.Entries = append(w.cfg.Entries, schemas.Entry{Server: schemas.Server{Name: "search", Command: "x"}, Kind: schemas.Local, Owner: "alice"})
	want(t, w.say(boss(), "/mcp attach search"), "attached, but shadowed")
}

func TestAdmin_None(t *testing.T) {
	w := newWorld(t)
	for _, line := range []string{"/mcp admin", "/mcp attach x", "/mcp detach x"} {
		r := w.say(boss(), line)
		wantCode(t, r, schemas.CodeMissing)
		if !strings.Contains(flat(r), "the operator has no servers here") {
			t.Error(flat(r))
		}
	}
}

// lateYard is a yard whose world is made after it.
type lateYard struct{ w **world }

func (l lateYard) List(ctx context.Context, c schemas.Caller) ([]schemas.AdminServer, error) {
	return yard{*l.w}.List(ctx, c)
}

func (l lateYard) Attach(ctx context.Context, c schemas.Caller, name string) error {
	return yard{*l.w}.Attach(ctx, c, name)
}

func (l lateYard) Detach(ctx context.Context, c schemas.Caller, name string) error {
	return yard{*l.w}.Detach(ctx, c, name)
}
