package registry_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"bobbin/registry"
	"bobbin/schemas"
)

const askName = `{"message":"Who?","requestedSchema":{"type":"object","properties":{"name":{"type":"string","minLength":2},"mail":{"type":"string","format":"email"}},"required":["name"]}}`

// asked is a thread with one server that asks in the middle of its calls.
func asked(t *testing.T, answer askFunc, change ...func(*registry.Options)) *house {
	t.Helper()
	h := newHouse(t, map[string]script{"fake": {Tools: tools(toolJSON("ask", readOnly), toolJSON("ask-and-go", readOnly), toolJSON("wait", readOnly),
		toolJSON("ask-complete", readOnly), toolJSON("page-first", readOnly))}},
		append(change, func(o *registry.Options) { o.Ask = answer })...)
	h.set(one, entry("s", "fake"))
	h.apply(one)
	return h
}

// questions gives the details of the audit records about questions.
func (h *house) questions() (details []string) {
	for _, r := range h.journal.all() {
		if r.Event == schemas.EventElicit {
			details = append(details, string(r.Member)+": "+r.Detail)
		}
	}
	return details
}

func TestElicit_AsksWhoCalled(t *testing.T) {
	h := asked(t, func(_ context.Context, q schemas.Elicit) (schemas.Elicited, error) {
		if q.Caller.Member != "ann" || q.Server != "s" || q.Message != "Who?" {
			t.Errorf("asked %+v", q)
		}
		if ps := q.Check(json.RawMessage(`{"name":"A","mail":"nowhere"}`)); len(ps) != 2 || !strings.Contains(ps.Error(), "email") {
			t.Errorf("mistakes: %v", ps)
		}
		time.Sleep(300 * time.Millisecond) // longer than the call may take: its clock stands still
		return schemas.Elicited{Action: "accept", Content: json.RawMessage(`{"name":"Ann"}`)}, nil
	}, func(o *registry.Options) { o.CallTimeout = 200 * time.Millisecond })
	res, err := h.call(by(one, "s.ask", askName))
	if err != nil || !strings.Contains(text(t, res), `"result":{"action":"accept","content":{"name":"Ann"}}`) {
		t.Fatalf("%v %v", res, err)
	}
}

// What cannot be put to the one who called is declined, and the log says why once.
func TestElicit_Declined(t *testing.T) {
	for name, c := range map[string]struct{ question, why string }{
		"a mode":         {`{"mode":"voice","message":"Sign in"}`, "ann: declined: its question is of an unknown mode"},
		"no schema":      {`{"message":"x","requestedSchema":{"type":"object","properties":{"a":{"type":7}}}}`, "ann: declined: its form cannot be used"},
		"too often":      {`{"message":"x","Times":20}`, "ann: declined: it asked too often in one call"},
		"nobody listens": {`{"message":"nobody"}`, "ann: declined: nobody could be asked"},
	} {
		t.Run(name, func(t *testing.T) {
			var times atomic.Int32
			h := asked(t, func(_ context.Context, q schemas.Elicit) (schemas.Elicited, error) {
				times.Add(1)
				if q.Message == "nobody" {
					return schemas.Elicited{}, &schemas.Error{Code: schemas.CodeAsk}
				}
				return schemas.Elicited{Action: "accept"}, nil
			})
			for range 2 {
				res, err := h.call(by(one, "s.ask", c.question))
				if err != nil || !strings.Contains(text(t, res), `"result":{"action":"decline"}`) {
					t.Fatalf("%v %v", res, err)
				}
			}
			if got := h.questions(); len(got) != 1 || got[0] != c.why {
				t.Errorf("audit %q", got)
			}
			if n := times.Load(); n > 32 {
				t.Errorf("asked %d times", n)
			}
		})
	}
}

// A question ends with the call that it is about.
func TestElicit_EndsWithTheCall(t *testing.T) {
	began, ended := make(chan struct{}), make(chan struct{})
	h := asked(t, func(ctx context.Context, _ schemas.Elicit) (schemas.Elicited, error) {
		close(began)
		<-ctx.Done()
		close(ended)
		return schemas.Elicited{Action: "cancel"}, nil
	})
	res, err := h.call(by(one, "s.ask-and-go", askName))
	if err != nil || text(t, res) != "went on" {
		t.Fatalf("%v %v", res, err)
	}
	<-began
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		t.Fatal("the question outlives its call")
	}
}

// While two members call one server, neither of them is asked what may be meant for the other.
func TestElicit_NotWhileOthersCall(t *testing.T) {
	h := asked(t, func(_ context.Context, q schemas.Elicit) (schemas.Elicited, error) {
		t.Errorf("%s was asked", q.Caller.Member)
		return schemas.Elicited{Action: "accept"}, nil
	})
	bob := by(one, "s.wait", `{}`)
	bob.Caller.Member = "bob"
	done := make(chan error)
	go func() { _, err := h.call(bob); done <- err }()
	for h.servers.saw("tools/call") == 0 {
		time.Sleep(time.Millisecond)
	}
	res, err := h.call(by(one, "s.ask", askName))
	if err != nil || !strings.Contains(text(t, res), `"action":"decline"`) {
		t.Fatalf("%v %v", res, err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := h.questions(); len(got) != 1 || got[0] != ": declined: several members call at once, and it cannot be told whom it asks" {
		t.Errorf("audit %q", got)
	}
}
