package registry_test

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"

	"bobbin/registry"
	"bobbin/schemas"
)

// A tool that writes on another server than those that have answered asks, whatever allows it, unless those are trusted.
func TestCall_Wary(t *testing.T) {
	var asked []schemas.Ask
	h := newHouse(t, map[string]script{"a": {Tools: tools(toolJSON("save"), toolJSON("look", readOnly))}}, func(o *registry.Options) {
		o.Gate = gateFunc(func(ctx context.Context, a schemas.Ask) (schemas.Answer, error) {
			asked = append(asked, a)
			return schemas.AnswerDeny, nil
		})
	})
	h.set(one, entry("s", "a"), entry("weather", "a"))
	allow := schemas.Policy{Thread: schemas.Rules{Allow: []string{"s.save"}}}
	trust := allow
	trust.Trust = []string{"wea*"}
	for _, c := range []struct {
		policy schemas.Policy
		tool   string
		origin schemas.Origin
		wary   []string
		why    string // "": not asked
	}{
		{allow, "s.save", schemas.ByAssistant, nil, ""},
		{allow, "s.save", schemas.ByAssistant, []string{"s"}, ""},
		{allow, "s.save", schemas.ByAssistant, []string{"s", "weather"}, "weather answered before it in this turn"},
		{allow, "s.look", schemas.ByAssistant, []string{"weather"}, ""},
		{allow, "s.save", schemas.ByPerson, []string{"weather"}, ""},
		{trust, "s.save", schemas.ByAssistant, []string{"weather"}, ""},
		{trust, "s.save", schemas.ByAssistant, []string{"weather", "mail"}, "mail answered before it in this turn"},
		{schemas.Policy{}, "s.save", schemas.ByAssistant, []string{"weather"}, "it writes, and weather answered before it in this turn"},
	} {
		h.policy(one, c.policy)
		h.apply(one)
		asked = nil
		in := by(one, c.tool, "")
		in.Origin, in.Wary = c.origin, c.wary
		sent := h.servers.saw("tools/call")
		_, err := h.call(in)
		switch {
		case c.why == "" && (err != nil || len(asked) > 0):
			t.Errorf("%s after %v: %v, asked %+v", c.tool, c.wary, err, asked)
		case c.why != "" && (len(asked) != 1 || asked[0].Why != c.why || asked[0].Each != (len(c.wary) > 0) || h.servers.saw("tools/call") != sent):
			t.Errorf("%s after %v: asked %+v", c.tool, c.wary, asked)
		}
	}
}

func TestCall_SaysWhoIsWaitedFor(t *testing.T) {
	var told []string
	h := newHouse(t, map[string]script{"a": {Tools: tools(toolJSON("save"))}}, func(o *registry.Options) {
		o.Gate = gateFunc(func(ctx context.Context, a schemas.Ask) (schemas.Answer, error) {
			told = append(told, "asked")
			return schemas.AnswerOnce, nil
		})
	})
	h.set(one, entry("s", "a"))
	h.apply(one)
	c := by(one, "s.save", "")
	c.Origin, c.Waiting = schemas.ByAssistant, func(why string) { told = append(told, why) }
	if _, err := h.call(c); err != nil {
		t.Fatal(err)
	}
	if want := []string{"waits for @" + c.Caller.Name + " to allow s.save", "asked", ""}; !slices.Equal(told, want) {
		t.Errorf("%q", told)
	}
}

// Where nobody is in the chat a caller at this machine may be asked, once a call; what anybody answered in the chat stands.
func TestCall_AsksTheCaller(t *testing.T) {
	nobody := &schemas.Error{Code: schemas.CodeAsk, Text: "nobody could be asked"}
	var chat schemas.Answer
	var fault error
	h := newHouse(t, map[string]script{"a": {Tools: tools(toolJSON("save"))}}, func(o *registry.Options) {
		o.Gate = gateFunc(func(context.Context, schemas.Ask) (schemas.Answer, error) { return chat, fault })
	})
	h.set(one, entry("s", "a"))
	h.apply(one)
	for _, c := range []struct {
		chat   schemas.Answer
		fault  error
		caller schemas.Answer
		ran    bool
		asked  int
	}{
		{schemas.AnswerDeny, nobody, schemas.AnswerOnce, true, 1},
		{schemas.AnswerDeny, nobody, schemas.AnswerDeny, false, 1},
		{schemas.AnswerDeny, nobody, schemas.AnswerAlways, false, 1},
		{schemas.AnswerDeny, nobody, "", false, 1},
		{schemas.AnswerDeny, nil, schemas.AnswerOnce, false, 0},
		{schemas.AnswerDeny, &schemas.Error{Code: schemas.CodeExpired, Text: "nobody answered"}, schemas.AnswerOnce, false, 0},
		{schemas.AnswerOnce, nil, schemas.AnswerDeny, true, 0},
	} {
		chat, fault = c.chat, c.fault
		asked, sent := 0, h.servers.saw("tools/call")
		in := by(one, "s.save", "")
		in.Origin = schemas.ByGateway
		in.Ask = func(_ context.Context, q schemas.Ask) (schemas.Answer, error) {
			asked++
			return c.caller, nil
		}
		_, err := h.call(in)
		if ran := h.servers.saw("tools/call") > sent; ran != c.ran || (err == nil) != c.ran || asked != c.asked {
			t.Errorf("%+v: ran %v, asked %d, %v", c, ran, asked, err)
		}
	}
}

func TestCall_SaysThatAQuestionIsWaitedFor(t *testing.T) {
	h := asked(t, func(context.Context, schemas.Elicit) (schemas.Elicited, error) {
		return schemas.Elicited{Action: "accept", Content: json.RawMessage(`{"name":"Ann"}`)}, nil
	})
	var mu sync.Mutex
	var told []string
	c := by(one, "s.ask", askName)
	c.Waiting = func(why string) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, why)
	}
	if _, err := h.call(c); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"waits for @" + c.Caller.Name + " to answer s", ""}; !slices.Equal(told, want) {
		t.Errorf("%q", told)
	}
}
