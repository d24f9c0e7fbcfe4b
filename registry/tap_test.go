package registry_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"bobbin/registry"
	"bobbin/schemas"
)

func operator(id schemas.ThreadID) schemas.Caller {
	c := ann(id)
	c.Operator, c.Role = true, schemas.Owner
	return c
}

// seen waits for what was asked for, reading as a page does.
func seen(t *testing.T, read func(int) []schemas.Message, changed <-chan struct{}, enough func([]schemas.Message) bool) (all []schemas.Message) {
	t.Helper()
	late := time.After(10 * time.Second)
	for last := 0; ; {
		for _, m := range read(last) {
			all, last = append(all, m), m.N
		}
		if enough(all) {
			return all
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("never seen: %+v", all)
		}
	}
}

func answered(method string) func([]schemas.Message) bool {
	return func(all []schemas.Message) bool {
		return slices.ContainsFunc(all, func(m schemas.Message) bool { return m.Kind == schemas.MessageAnswer && m.Method == method })
	}
}

func TestMessages(t *testing.T) {
	const token = "s3cr3t-0123456789"
	h := newHouse(t, map[string]script{"fake": {Tools: tools(echoTool(), toolJSON("env", readOnly))}})
	h.vault.put(one, "s", "TOKEN", token)
	h.wishes.edit(one, func(c *schemas.Config) {
		c.Entries = []schemas.Entry{entry("s", "fake", func(e *schemas.Entry) { e.Env = map[string]string{"TOKEN": "${input:TOKEN}", "DIR": "/home/ann"} })}
		c.Inputs = []schemas.Input{{ID: "TOKEN", Type: "promptString", Password: true}}
	})
	h.apply(one)
	if _, err := h.call(by(one, "s.echo", `{"text":"before"}`)); err != nil {
		t.Fatal(err)
	}
	read, changed, stop, err := h.Messages(t.Context(), operator(one), "s")
	if err != nil {
		t.Fatal(err)
	}
	if rec := h.journal.last(); rec.Event != schemas.EventInspect || rec.Server != "s" || rec.Member != "ann" {
		t.Errorf("the audit log says %+v", rec)
	}
	c := by(one, "s.env", `{}`)
	c.Progress = func(json.RawMessage) {}
	if _, err := h.call(c); err != nil {
		t.Fatal(err)
	}
	all := seen(t, read, changed, answered("tools/call"))
	var kinds []string
	for n, m := range all {
		if strings.Contains(m.Text, token) || strings.Contains(m.Text, "before") {
			t.Errorf("shown: %s", m.Text)
		}
		if m.N != n+1 || m.As != "ann" || m.Size == 0 || !json.Valid([]byte(m.Text)) {
			t.Errorf("%+v", m)
		}
		kinds = append(kinds, fmt.Sprintf("%t %s %s", m.Sent, m.Kind, m.Method))
	}
	want := []string{"true request tools/call", "false notification notifications/progress", "false answer tools/call"}
	if !slices.Equal(kinds, want) {
		t.Errorf("%q", kinds)
	}
	if last := all[len(all)-1]; last.Took <= 0 || last.Took > 5*time.Second || !strings.Contains(last.Text, "***") {
		t.Errorf("%+v", last)
	}

	// A second page sees what the first one has; what nobody watches is not kept.
	again, _, stopToo, err := h.Messages(t.Context(), operator(one), "s")
	if err != nil || len(again(0)) != len(all) {
		t.Fatal(err, len(again(0)))
	}
	stop()
	stop()
	stopToo()
	if _, err := h.call(by(one, "s.echo", `{"text":"after"}`)); err != nil {
		t.Fatal(err)
	}
	anew, _, end, err := h.Messages(t.Context(), operator(one), "s")
	if err != nil || len(anew(0)) != 0 {
		t.Error(err, anew(0))
	}
	end()
}

func TestMessages_Denied(t *testing.T) {
	h := newHouse(t, map[string]script{"fake": {Tools: tools(echoTool())}})
	h.set(one, entry("s", "fake"))
	h.apply(one)
	owner := ann(one)
	owner.Role = schemas.Owner
	_, _, _, err := h.Messages(t.Context(), owner, "s")
	wantCode(t, err, schemas.CodeDenied, "only at the machine")
	_, _, _, err = h.Messages(t.Context(), operator(one), "x")
	wantCode(t, err, schemas.CodeNotFound, "")
	h.journal.mu.Lock()
	h.journal.broken = true
	h.journal.mu.Unlock()
	_, _, _, err = h.Messages(t.Context(), operator(one), "s")
	wantCode(t, err, schemas.CodeInternal, "audit log")
}

func TestMessages_Bounded(t *testing.T) {
	h := newHouse(t, map[string]script{"fake": {Tools: tools(echoTool(), toolJSON("big", readOnly))}})
	h.set(one, entry("s", "fake"))
	h.apply(one)
	read, _, stop, err := h.Messages(t.Context(), operator(one), "s")
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for range 300 {
		if _, err := h.call(by(one, "s.echo", `{"text":"x"}`)); err != nil {
			t.Fatal(err)
		}
	}
	if got := read(0); len(got) != 500 || got[499].N != 600 || got[0].N != 101 {
		t.Errorf("%d messages", len(got))
	}
	for range 20 {
		if _, err := h.call(by(one, "s.big", `{"Size":200000}`)); err != nil {
			t.Fatal(err)
		}
	}
	size := 0
	for _, m := range read(0) {
		size += len(m.Text)
		if len(m.Text) > 64<<10 {
			t.Errorf("a text of %d bytes", len(m.Text))
		}
	}
	if size > 1<<20 {
		t.Errorf("%d bytes are kept", size)
	}
	if last := read(639); len(last) != 1 || last[0].Size < 200000 {
		t.Errorf("%d", len(last))
	}
}

// What a member answers to a server's question, and a page for them alone, are not for who watches.
func TestMessages_BetweenMemberAndServer(t *testing.T) {
	h := asked(t, func(_ context.Context, q schemas.Elicit) (schemas.Elicited, error) {
		return schemas.Elicited{Action: "accept", Content: json.RawMessage(`{"name":"Confidential"}`)}, nil
	})
	read, changed, stop, err := h.Messages(t.Context(), operator(one), "s")
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if _, err := h.call(by(one, "s.ask", askName)); err != nil {
		t.Fatal(err)
	}
	if _, err := h.call(by(one, "s.ask", `{"mode":"url","url":"https://one.example/use/once","elicitationId":"e","message":"open"}`)); err != nil {
		t.Fatal(err)
	}
	all := seen(t, read, changed, func(all []schemas.Message) bool {
		n := 0
		for _, m := range all {
			if !m.Sent && m.Kind == schemas.MessageAnswer {
				n++
			}
		}
		return n == 2
	})
	var asks, answers int
	for _, m := range all {
		ask := m.Method == "elicitation/create" && m.Kind == schemas.MessageRequest
		if ask && strings.Contains(m.Text, "one.example") || m.Sent && strings.Contains(m.Text, "Confidential") {
			t.Errorf("shown: %s", m.Text)
		}
		if ask {
			asks++
		}
		if m.Sent && m.Kind == schemas.MessageAnswer && m.Method == "elicitation/create" {
			answers++
		}
	}
	if asks != 2 || answers != 2 {
		t.Errorf("%d questions, %d answers", asks, answers)
	}
}

func TestMessages_HTTP(t *testing.T) {
	server := httptest.NewServer(webServer(script{Tools: tools(echoTool()), Lean: 43}))
	defer server.Close()
	h := newHouse(t, nil, func(o *registry.Options) {
		o.HTTP = func(schemas.ThreadID, schemas.Server) *http.Client { return server.Client() }
	})
	h.set(one, approved(schemas.Entry{Server: schemas.Server{Name: "s", Type: schemas.HTTP, URL: server.URL}, Kind: schemas.Connector, Owner: "ann", Enabled: true}))
	h.apply(one)
	read, changed, stop, err := h.Messages(t.Context(), operator(one), "s")
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if _, err := h.call(by(one, "s.echo", `{"text":"hi"}`)); err != nil {
		t.Fatal(err)
	}
	all := seen(t, read, changed, answered("tools/call"))
	if len(all) != 2 || !all[0].Sent || !strings.Contains(all[0].Text, `"hi"`) {
		t.Errorf("%+v", all)
	}
}

// BenchmarkTap is a call while nobody watches, and while somebody does.
func BenchmarkTap(b *testing.B) {
	for _, watched := range []bool{false, true} {
		b.Run(fmt.Sprintf("watched=%t", watched), func(b *testing.B) {
			h, _ := newProcesses(b, map[string]script{"a": {Tools: tools(echoTool()), Lean: 43}}, quietJournal)
			h.set(one, entry("s", "a"))
			h.apply(one)
			if watched {
				_, _, stop, err := h.Messages(background(), operator(one), "s")
				if err != nil {
					b.Fatal(err)
				}
				defer stop()
			}
			c := by(one, "s.echo", `{"text":"hi"}`)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := h.Call(background(), c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
