package model_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"bobbin/agent"
	"bobbin/agent/model/anthropic"
	"bobbin/agent/model/gemini"
	"bobbin/agent/model/modeltest"
	"bobbin/agent/model/openai"
	"bobbin/schemas"
)

func TestMain(m *testing.M) {
	// genai brings it along, and it starts when the program does.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

// maker is one provider and its fake.
type maker struct {
	label string
	name  string
	model string
	serve func(testing.TB, ...modeltest.Answer) *modeltest.Server
	open  func(url, key string, c *http.Client) (agent.Provider, error)
}

func makers() []maker {
	return []maker{
		{"openai", "openai", "gpt-6.1-terra", modeltest.OpenAI, func(url, key string, c *http.Client) (agent.Provider, error) {
			return openai.New(openai.Options{Key: schemas.NewSecret(key), BaseURL: url, HTTP: c})
		}},
		{"responses", "openai", "gpt-6.1-terra", modeltest.Responses, func(url, key string, c *http.Client) (agent.Provider, error) {
			return openai.New(openai.Options{Key: schemas.NewSecret(key), BaseURL: url, HTTP: c, Responses: true})
		}},
		{"gemini", "gemini", "gemini-3.8-flash", modeltest.Gemini, func(url, key string, c *http.Client) (agent.Provider, error) {
			return gemini.New(gemini.Options{Key: schemas.NewSecret(key), BaseURL: url, HTTP: c})
		}},
		{"anthropic", "anthropic", "claude-sonnet-5-5", modeltest.Anthropic, func(url, key string, c *http.Client) (agent.Provider, error) {
			return anthropic.New(anthropic.Options{Key: schemas.NewSecret(key), BaseURL: url, HTTP: c})
		}},
	}
}

// each runs a test with every provider, with a connection of its own.
func each(t *testing.T, f func(t *testing.T, m maker, open func(*modeltest.Server) agent.Provider)) {
	for _, m := range makers() {
		t.Run(m.label, func(t *testing.T) {
			t.Parallel()
			tr := &http.Transport{}
			t.Cleanup(tr.CloseIdleConnections)
			f(t, m, func(s *modeltest.Server) agent.Provider {
				p, err := m.open(s.URL, modeltest.Key, &http.Client{Transport: tr})
				if err != nil {
					t.Fatal(err)
				}
				return p
			})
		})
	}
}

// heard is all that a stream gave.
type heard struct {
	text, reasoning string
	began           []string
	parts           []agent.Part
	retries         []time.Duration
	tokens          schemas.Tokens
	stop            agent.Stop
	ended           bool
	err             error
}

func hear(t *testing.T, p agent.Provider, r agent.Request) (h heard) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for e, err := range p.Stream(ctx, r) {
		if h.ended || h.err != nil {
			t.Fatalf("something came after the end: %v %v", e, err)
		}
		if err != nil {
			h.err = err
			continue
		}
		switch e.Kind {
		case agent.EventText:
			h.text += e.Text
		case agent.EventReasoning:
			h.reasoning += e.Text
		case agent.EventCall:
			h.began = append(h.began, e.Call.Name)
		case agent.EventPart:
			h.parts = append(h.parts, *e.Part)
		case agent.EventRetry:
			h.retries = append(h.retries, e.Wait)
		case agent.EventEnd:
			h.tokens, h.stop, h.ended = e.Tokens, e.Stop, true
		}
	}
	if h.ended == (h.err != nil) {
		t.Fatalf("a stream ends with EventEnd or with an error: %v %v", h.ended, h.err)
	}
	return h
}

func failure(t *testing.T, h heard) *agent.Failure {
	t.Helper()
	var f *agent.Failure
	if !errors.As(h.err, &f) {
		t.Fatalf("no failure, but %v", h.err)
	}
	if strings.Contains(fmt.Sprintf("%v %s %v %#v", f, f.Hint, f.Err, f.Err), modeltest.Key) {
		t.Fatal("the key stands in a failure")
	}
	return f
}

const picture = "\x89PNG\r\n\x1a\nnot really"

func tools() []agent.Tool {
	return []agent.Tool{
		{Name: "mcp_github_issue", Description: "Makes an issue", Input: json.RawMessage(`{
			"type":"object","$defs":{"label":{"type":"string","enum":["bug","wish"]}},
			"properties":{"title":{"type":"string"},"label":{"oneOf":[{"$ref":"#/$defs/label"},{"type":"null"}]}},
			"required":["title"],"additionalProperties":false}`)},
		{Name: "mcp_weather_now", Input: json.RawMessage(`{"type":"object"}`)},
		{Name: "mcp_maps_find", Description: "Finds a place", Input: json.RawMessage(`{"oneOf":[{"required":["name"]},{"required":["code"]}]}`)},
	}
}

func said(text string) agent.Message {
	return agent.Message{Role: agent.User, Parts: []agent.Part{{Text: text}}}
}

func TestConversation(t *testing.T) {
	each(t, func(t *testing.T, m maker, open func(*modeltest.Server) agent.Provider) {
		s := m.serve(t,
			modeltest.Answer{Thinking: "Two things are wanted <here>.", Text: "I look — at “both”. ✓", In: 1000, Cached: 900, Out: 50, Calls: []modeltest.Call{
				{Name: "mcp_github_issue", Args: `{"title":"Lïnk \"broken\" \\ <a>","label":null,"n":12345678901234567890}`},
				{Name: "mcp_weather_now"},
				{Name: "mcp_weather_now", Args: `{"where":{"city":"Kyōto"}}`},
			}},
			modeltest.Answer{Thinking: "Easy.", Text: "Done."}, modeltest.Answer{Text: "You are welcome."})
		p := open(s)
		r := agent.Request{Model: m.model, System: "Be brief.", Tools: tools(), Messages: []agent.Message{{Role: agent.User, Parts: []agent.Part{
			{Text: "make an issue, and see the weather"}, {Image: &agent.Image{MIME: "image/png", Data: []byte(picture)}},
		}}}}
		h := hear(t, p, r)
		if h.err != nil {
			t.Fatal(h.err, errors.Unwrap(h.err))
		}
		if h.text != "I look — at “both”. ✓" || h.stop != agent.StopCalls || h.tokens != (schemas.Tokens{In: 1000, Cached: 900, Out: 50}) {
			t.Errorf("heard %q, %s, %+v", h.text, h.stop, h.tokens)
		}
		if h.reasoning != "Two things are wanted <here>." {
			t.Errorf("reasoning %q", h.reasoning)
		}
		var calls []agent.Call
		answer, results := agent.Message{Role: agent.Assistant, Parts: h.parts}, agent.Message{Role: agent.User}
		for _, p := range h.parts {
			if p.Call != nil {
				calls = append(calls, *p.Call)
				results.Parts = append(results.Parts, agent.Part{Result: &agent.Result{ID: p.Call.ID, Name: p.Call.Name, Text: "result " + fmt.Sprint(len(calls))}})
			}
		}
		if len(calls) != 3 || string(calls[0].Args) != `{"title":"Lïnk \"broken\" \\ <a>","label":null,"n":12345678901234567890}` ||
			string(calls[1].Args) != `{}` || string(calls[2].Args) != `{"where":{"city":"Kyōto"}}` {
			t.Fatalf("calls: %s", calls)
		}
		if calls[1].ID == calls[2].ID || calls[0].ID == "" || len(h.began) != 3 {
			t.Errorf("ids of calls: %+v, began %v", calls, h.began)
		}
		results.Parts[1].Result.Images = []agent.Image{{MIME: "image/png", Data: []byte(picture)}}
		results.Parts[2].Result.Failed = true
		r.Messages = append(r.Messages, roundTrip(t, answer), results, said("hurry"))
		h = hear(t, p, r)
		if h.err != nil || h.text != "Done." || h.stop != agent.StopDone {
			t.Fatalf("heard %+v; refused %v", h, s.Refused())
		}
		asked := s.Asked()[1]
		if asked.System != "Be brief." || asked.Text != "hurry" || asked.Images != 2 || len(asked.Results) != 3 || !strings.Contains(asked.Results[0], "result 1") {
			t.Errorf("asked %+v", asked)
		}
		if diff := cmp.Diff([]string{"mcp_github_issue", "mcp_weather_now", "mcp_maps_find"}, asked.Tools); diff != "" {
			t.Error(diff)
		}
		if !strings.Contains(string(asked.Body), "12345678901234567890") {
			t.Error("a long number was rounded on its way back")
		}
		for _, word := range []string{`"$defs"`, `"oneOf"`, `"additionalProperties"`, `"$ref"`} {
			if !strings.Contains(string(asked.Body), word) {
				t.Errorf("the schema lost %s", word)
			}
		}
		r.Messages = append(r.Messages, roundTrip(t, agent.Message{Role: agent.Assistant, Parts: h.parts}), said("thanks"))
		if h = hear(t, p, r); h.err != nil || h.text != "You are welcome." {
			t.Fatalf("heard %+v; refused %v", h, s.Refused())
		}
	})
}

// roundTrip stores a message and reads it, as a transcript does.
func roundTrip(t *testing.T, m agent.Message) (again agent.Message) {
	t.Helper()
	data, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &again); err != nil {
		t.Fatal(err)
	}
	return again
}

func TestFailures(t *testing.T) {
	each(t, func(t *testing.T, m maker, open func(*modeltest.Server) agent.Provider) {
		for _, c := range []struct {
			fail    modeltest.Fail
			words   string
			tooLong bool
		}{
			{modeltest.BadKey, m.name + " refuses the key", false},
			{modeltest.NoCredit, "no credit left at " + m.name, false},
			{modeltest.NoModel, m.name + " has no model " + m.model, false},
			{modeltest.TooLong, "does not fit into " + m.model, true},
			{modeltest.Filtered, "filter refuses", false},
		} {
			s := m.serve(t, modeltest.Answer{Fail: c.fail})
			h := hear(t, open(s), agent.Request{Model: m.model, Messages: []agent.Message{said("hello")}})
			f := failure(t, h)
			if !strings.Contains(f.Text, c.words) || f.TooLong != c.tooLong || f.Hint == "" || f.Cut || len(h.retries) > 0 {
				t.Errorf("%s: %q, hint %q, %+v, retries %v", c.fail, f.Text, f.Hint, f, h.retries)
			}
		}
	})
}

func TestRetries(t *testing.T) {
	each(t, func(t *testing.T, m maker, open func(*modeltest.Server) agent.Provider) {
		soon := map[string]string{"Retry-After-Ms": "20"}
		s := m.serve(t,
			modeltest.Answer{Fail: modeltest.Overloaded, Header: soon}, modeltest.Answer{Fail: modeltest.RateLimited, Header: soon},
			modeltest.Answer{Fail: modeltest.Page, Header: soon}, modeltest.Answer{Text: "here I am"})
		h := hear(t, open(s), agent.Request{Model: m.model, Messages: []agent.Message{said("hello")}})
		if h.err != nil || h.text != "here I am" {
			t.Fatalf("%+v", h)
		}
		if diff := cmp.Diff([]time.Duration{20e6, 20e6, 20e6}, h.retries); diff != "" {
			t.Error(diff)
		}
		always := modeltest.Answer{Fail: modeltest.Overloaded, Header: soon}
		s = m.serve(t, always, always, always, always)
		h = hear(t, open(s), agent.Request{Model: m.model, Messages: []agent.Message{said("hello")}})
		if f := failure(t, h); !strings.Contains(f.Text, "overloaded") || len(s.Asked()) != 4 || len(h.retries) != 3 || f.Cut {
			t.Errorf("%q after %d requests, %v", f.Text, len(s.Asked()), h.retries)
		}
		s = m.serve(t, modeltest.Answer{Fail: modeltest.RateLimited, Header: map[string]string{"Retry-After": "300"}})
		h = hear(t, open(s), agent.Request{Model: m.model, Messages: []agent.Message{said("hello")}})
		if f := failure(t, h); !strings.Contains(f.Hint, "5m") || len(h.retries) != 0 {
			t.Errorf("%q, hint %q, %v", f.Text, f.Hint, h.retries)
		}
	})
}

func TestBroken(t *testing.T) {
	each(t, func(t *testing.T, m maker, open func(*modeltest.Server) agent.Provider) {
		hello := agent.Request{Model: m.model, Messages: []agent.Message{said("hello")}}
		long := modeltest.Answer{Text: strings.Repeat("all work and no play ", 20), Cut: 20}
		h := hear(t, open(m.serve(t, long)), hello)
		if f := failure(t, h); !f.Cut || h.text == "" || !strings.Contains(f.Text, "broke off") || len(h.retries) > 0 {
			t.Errorf("cut: %+v, heard %q", f, h.text)
		}
		long.Broken = modeltest.Overloaded
		h = hear(t, open(m.serve(t, long)), hello)
		if f := failure(t, h); !f.Cut || h.text == "" || !strings.Contains(f.Text, "overloaded") || len(h.retries) > 0 {
			t.Errorf("an error in the stream: %+v, heard %q", f, h.text)
		}
		// Nothing was shown yet, so it is asked again.
		first := modeltest.Answer{Text: "never seen", Cut: 1, Broken: modeltest.Overloaded}
		if m.name != "anthropic" {
			first = modeltest.Answer{Raw: "\n"}
		}
		h = hear(t, open(m.serve(t, first, modeltest.Answer{Text: "whole"})), hello)
		if h.err != nil || h.text != "whole" || len(h.retries) != 1 {
			t.Errorf("%+v", h)
		}
	})
}

func TestCancel(t *testing.T) {
	each(t, func(t *testing.T, m maker, open func(*modeltest.Server) agent.Provider) {
		slow := modeltest.Answer{Text: strings.Repeat("slow ", 400), Slow: 30 * time.Second}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		time.AfterFunc(100*time.Millisecond, cancel)
		start := time.Now()
		var last error
		for _, err := range open(m.serve(t, slow)).Stream(ctx, agent.Request{Model: m.model, Messages: []agent.Message{said("hello")}}) {
			last = err
		}
		if took := time.Since(start); !errors.Is(last, context.Canceled) || took > 300*time.Millisecond {
			t.Errorf("ended after %s with %v", took, last)
		}
		// Who stops listening ends it, too.
		quick := modeltest.Answer{Text: strings.Repeat("word ", 4000), Slow: time.Millisecond}
		start = time.Now()
		for e := range open(m.serve(t, quick)).Stream(t.Context(), agent.Request{Model: m.model, Messages: []agent.Message{said("hello")}}) {
			if e.Kind == agent.EventText {
				break
			}
		}
		if took := time.Since(start); took > 300*time.Millisecond {
			t.Errorf("breaking off took %s", took)
		}
	})
}

func TestNobodyThere(t *testing.T) {
	each(t, func(t *testing.T, m maker, _ func(*modeltest.Server) agent.Provider) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		url := "http://" + l.Addr().String()
		l.Close()
		tr := &http.Transport{}
		t.Cleanup(tr.CloseIdleConnections)
		p, err := m.open(url, modeltest.Key, &http.Client{Transport: tr})
		if err != nil {
			t.Fatal(err)
		}
		h := hear(t, p, agent.Request{Model: m.model, Messages: []agent.Message{said("hello")}})
		if f := failure(t, h); f.Text != m.name+" does not answer at "+url || f.Hint == "" || len(h.retries) > 0 {
			t.Errorf("%q, hint %q", f.Text, f.Hint)
		}
	})
}

func TestLimits(t *testing.T) {
	each(t, func(t *testing.T, m maker, open func(*modeltest.Server) agent.Provider) {
		many := make([]modeltest.Call, 65)
		for i := range many {
			many[i].Name = "mcp_weather_now"
		}
		for words, a := range map[string]modeltest.Answer{
			"longer than 1 MiB":   {Text: strings.Repeat("x", 1<<20+1), Piece: 1 << 16},
			"longer than 256 KiB": {Calls: []modeltest.Call{{Name: "mcp_weather_now", Args: `{"a":"` + strings.Repeat("x", 256<<10) + `"}`}}, Piece: 1 << 16},
			"more than 64":        {Calls: many},
		} {
			h := hear(t, open(m.serve(t, a)), agent.Request{Model: m.model, Tools: tools(), Messages: []agent.Message{said("hello")}})
			if f := failure(t, h); !strings.Contains(f.Text, words) || f.Cut {
				t.Errorf("%s: %q", words, f.Text)
			}
		}
	})
}

func TestAnotherModelsParts(t *testing.T) {
	each(t, func(t *testing.T, m maker, open func(*modeltest.Server) agent.Provider) {
		s := m.serve(t, modeltest.Answer{Text: "fine"})
		foreign := []agent.Message{
			said("hello"),
			{Role: agent.Assistant, Parts: []agent.Part{
				{Reasoning: "hm", Opaque: &agent.Opaque{Model: "other/model", Data: json.RawMessage(`{"type":"thinking","x":"foreign"}`)}},
				{Opaque: &agent.Opaque{Model: m.name + "/older", Data: json.RawMessage(`{"type":"thinking","x":"foreign"}`)}},
				{Text: " \n "},
				{Call: &agent.Call{ID: "functions.weather:0", Name: "mcp_weather_now", Args: json.RawMessage(`{}`)}},
				{Call: &agent.Call{ID: "call_0", Name: "mcp_weather_now", Args: json.RawMessage(`{}`)}},
			}},
			{Role: agent.User, Parts: []agent.Part{
				{Result: &agent.Result{ID: "functions.weather:0", Name: "mcp_weather_now", Text: "sunny"}},
				{Result: &agent.Result{ID: "call_0", Name: "mcp_weather_now", Text: ""}},
			}},
			{Role: agent.Assistant, Parts: []agent.Part{{Opaque: &agent.Opaque{Model: "other/model", Data: json.RawMessage(`{}`)}}}},
			said("again"),
			{Role: agent.Assistant, Parts: []agent.Part{{Text: "so"}, {Call: &agent.Call{ID: "call_0", Name: "mcp_weather_now", Args: json.RawMessage(`{}`)}}}},
			{Role: agent.User, Parts: []agent.Part{{Result: &agent.Result{ID: "call_0", Name: "mcp_weather_now", Text: "rain"}}}},
		}
		h := hear(t, open(s), agent.Request{Model: m.model, Tools: tools(), Messages: foreign})
		if h.err != nil || h.text != "fine" {
			t.Fatalf("%+v; refused %v", h, s.Refused())
		}
		// A summary is asked for without tools.
		s.Add(modeltest.Answer{Text: "in short"})
		if h = hear(t, open(s), agent.Request{Model: m.model, Messages: foreign}); h.text != "in short" {
			t.Errorf("%+v; refused %v", h, s.Refused())
		}
		if body := string(s.Asked()[0].Body); strings.Contains(body, "foreign") {
			t.Errorf("another model's parts were sent: %s", body)
		}
	})
}
