package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"bobbin/registry/internal/session"
)

// All questions of one result are asked at once, under the server's keys, and only what was declared for this request is.
func TestHooks_Input(t *testing.T) {
	f := &fake{t: t, modern: true}
	var seen []string
	f.on = map[string]func(message, func(string)) string{"tools/call": func(m message, _ func(string)) string {
		seen = append(seen, string(m.Params))
		if len(seen) > 1 {
			return `{"content":[]}`
		}
		return `{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"message":"?"}},"b":{"method":"roots/list"}}}`
	}}
	rw, _ := f.stdio()
	s := open(t, session.Options{Stdio: rw, OnElicit: func(context.Context, json.RawMessage) (json.RawMessage, error) {
		return nil, errors.New("not this way")
	}})
	var both sync.WaitGroup
	both.Add(2)
	_, err := s.CallWith(t.Context(), "x", nil, session.Hooks{Roots: true, Input: func(_ context.Context, key, method string, _ json.RawMessage) (json.RawMessage, error) {
		both.Done()
		both.Wait() // at once
		return json.RawMessage(`{"` + key + `":"` + method + `"}`), nil
	}})
	if err != nil || len(seen) != 2 {
		t.Fatalf("%v %q", err, seen)
	}
	if !strings.Contains(seen[0], `"roots":{}`) || strings.Contains(seen[0], "sampling") {
		t.Errorf("declared %s", seen[0])
	}
	if !strings.Contains(seen[1], `"inputResponses":{"a":{"a":"elicitation/create"},"b":{"b":"roots/list"}}`) {
		t.Errorf("answered %s", seen[1])
	}
}

func TestHooks_InputRefused(t *testing.T) {
	f := &fake{t: t, modern: true, on: map[string]func(message, func(string)) string{"prompts/get": func(message, func(string)) string {
		return `{"resultType":"input_required","inputRequests":{"a":{"method":"sampling/createMessage","params":{}}}}`
	}}}
	rw, _ := f.stdio()
	s := open(t, session.Options{Stdio: rw})
	_, err := s.GetPromptWith(t.Context(), "x", nil, session.Hooks{Input: func(context.Context, string, string, json.RawMessage) (json.RawMessage, error) {
		return nil, errors.New("no")
	}})
	if !errors.Is(err, session.ErrInputUnavailable) {
		t.Error(err)
	}
}

// Log messages come before the answer that they belong to.
func TestHooks_Log(t *testing.T) {
	f := &fake{t: t}
	f.on = map[string]func(message, func(string)) string{"tools/call": func(m message, send func(string)) string {
		send(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`)
		return `{}`
	}}
	rw, _ := f.stdio()
	s := open(t, session.Options{Stdio: rw})
	logs := 0
	h := session.Hooks{Log: func(p json.RawMessage) {
		if string(p) != `{"level":"info","data":"x"}` {
			t.Errorf("%s", p)
		}
		logs++
	}}
	for range 3 {
		if _, err := s.CallWith(t.Context(), "x", nil, h); err != nil {
			t.Fatal(err)
		}
	}
	if logs != 3 {
		t.Errorf("%d of 3", logs)
	}
}
