package openai_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"bobbin/agent"
	"bobbin/agent/model/modeltest"
	"bobbin/agent/model/openai"
	"bobbin/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func local(t *testing.T, s *modeltest.Server) *openai.Provider {
	t.Helper()
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	p, err := openai.New(openai.Options{Name: "local", Key: schemas.NewSecret(modeltest.Key), BaseURL: s.URL, HTTP: &http.Client{Transport: tr}, Start: "ollama serve"})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// answer is what came, in short.
type answer struct {
	Text, Reasoning string
	Calls           []string // "name args bad"
	Tokens          schemas.Tokens
	Stop            agent.Stop
}

func ask(t *testing.T, p *openai.Provider) (a answer, err error) {
	t.Helper()
	ids := map[string]bool{}
	for e, failed := range p.Stream(t.Context(), agent.Request{Model: "m", Messages: []agent.Message{{Role: agent.User, Parts: []agent.Part{{Text: "hi"}}}}}) {
		switch {
		case failed != nil:
			return a, failed
		case e.Kind == agent.EventRetry:
			t.Logf("again in %s: %s", e.Wait, e.Text)
		case e.Kind == agent.EventEnd:
			a.Tokens, a.Stop = e.Tokens, e.Stop
		case e.Kind == agent.EventPart && e.Part.Call != nil:
			c := e.Part.Call
			if c.ID == "" || ids[c.ID] {
				t.Errorf("id %q of %s", c.ID, c.Name)
			}
			ids[c.ID] = true
			a.Calls = append(a.Calls, strings.TrimSpace(c.Name+" "+string(c.Args)+" "+c.Bad))
		case e.Kind == agent.EventPart:
			a.Text += e.Part.Text
			a.Reasoning += e.Part.Reasoning
		}
	}
	return a, nil
}

// TestRedirect checks that the key goes to no other host.
func TestRedirect(t *testing.T) {
	s := modeltest.OpenAI(t, modeltest.Answer{Text: "never"})
	from := modeltest.OpenAI(t, modeltest.Answer{Status: 307, Raw: "elsewhere", Header: map[string]string{"Location": s.URL + "/chat/completions"}})
	if _, err := ask(t, local(t, from)); err == nil || len(s.Asked()) > 0 {
		t.Errorf("%v, and %d requests came", err, len(s.Asked()))
	}
}

// lines are a stream's data lines.
func lines(chunks ...string) string { return "data: " + strings.Join(chunks, "\n\ndata: ") + "\n\n" }

func TestDialects(t *testing.T) {
	const done = "[DONE]"
	for name, c := range map[string]struct {
		raw  string
		want answer
	}{
		"no index and no id": {lines(
			`{"choices":[{"delta":{"tool_calls":[{"type":"function","function":{"name":"a","arguments":"{\"x\":1}"}}]}}]}`,
			`{"choices":[{"delta":{"tool_calls":[{"function":{"name":"a","arguments":"{\"x\":2}"}},{"function":{"name":"b"}}]},"finish_reason":"stop"}]}`, done),
			answer{Calls: []string{`a {"x":1}`, `a {"x":2}`, `b {}`}, Stop: agent.StopCalls}},
		"index 0 for all, arguments as objects": {lines(
			`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"a","arguments":{"x":{"y":12345678901234567890}}}}]}}]}`,
			`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c2","function":{"name":"a","arguments":{}}}]},"finish_reason":"tool_calls"}]}`, done),
			answer{Calls: []string{`a {"x":{"y":12345678901234567890}}`, `a {}`}, Stop: agent.StopCalls}},
		"the same id for all": {lines(
			`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"a","arguments":"{}"}},{"index":1,"id":"x","function":{"name":"b","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`, done),
			answer{Calls: []string{`a {}`, `b {}`}, Stop: agent.StopCalls}},
		"id and name in every chunk": {lines(
			`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"a","arguments":"{\"k\":"}}]}}]}`,
			`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"a","arguments":"\"v\"}"}}]},"finish_reason":"tool_calls"}]}`, done),
			answer{Calls: []string{`a {"k":"v"}`}, Stop: agent.StopCalls}},
		"reasoning, no usage, no finish_reason": {lines(
			`{"choices":[{"delta":{"role":"assistant","content":"","reasoning":"h"}}]}`,
			`{"choices":[{"delta":{"reasoning":"m"}}]}`, `{"choices":[{"delta":{"content":"yes"}}]}`, done),
			answer{Text: "yes", Reasoning: "hm", Stop: agent.StopDone}},
		"both names of reasoning": {lines(
			`{"choices":[{"delta":{"reasoning":"hm","reasoning_content":"hm"}}]}`, `{"choices":[{"delta":{"content":"yes"},"finish_reason":"stop"}]}`),
			answer{Text: "yes", Reasoning: "hm", Stop: agent.StopDone}},
		"no [DONE], usage in every chunk": {lines(
			`{"choices":[{"delta":{"content":"y"}}],"usage":{"prompt_tokens":7,"completion_tokens":1,"total_tokens":8}}`,
			`{"choices":[{"delta":{"content":"es"},"finish_reason":"eos"}],"usage":{"prompt_tokens":7,"completion_tokens":2,"prompt_cache_hit_tokens":5}}`),
			answer{Text: "yes", Stop: agent.StopDone, Tokens: schemas.Tokens{In: 7, Cached: 5, Out: 2}}},
		"comments, CRLF, empty choices, nulls": {": PROCESSING\r\n\r\n" + strings.ReplaceAll(lines(
			`{"choices":[]}`, `{"choices":[{"delta":{"content":null,"tool_calls":null},"finish_reason":null}],"usage":null}`,
			`{"choices":[{"delta":{"content":"yes"},"finish_reason":"stop"}]}`, `{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}`, done), "\n", "\r\n"),
			answer{Text: "yes", Stop: agent.StopDone, Tokens: schemas.Tokens{In: 3, Out: 2}}},
		"bad arguments": {lines(
			`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"1","function":{"name":"a","arguments":"{\"x\":"}},{"index":1,"id":"2","function":{"name":"b","arguments":"[1]"}}]},"finish_reason":"tool_calls"}]}`, done),
			answer{Calls: []string{`a {} {"x":`, `b {} [1]`}, Stop: agent.StopCalls}},
		"length":  {lines(`{"choices":[{"delta":{"content":"ye"},"finish_reason":"length"}]}`, done), answer{Text: "ye", Stop: agent.StopLength}},
		"filter":  {lines(`{"choices":[{"delta":{},"finish_reason":"content_filter"}]}`, done), answer{Stop: agent.StopRefused}},
		"refusal": {lines(`{"choices":[{"delta":{"refusal":"I will not"},"finish_reason":"stop"}]}`, done), answer{Text: "I will not", Stop: agent.StopRefused}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ask(t, local(t, modeltest.OpenAI(t, modeltest.Answer{Raw: c.raw})))
			if err != nil {
				t.Fatal(err, errors.Unwrap(err))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	soon := map[string]string{"Retry-After-Ms": "1"}
	for name, c := range map[string]struct {
		answers    []modeltest.Answer
		text, hint string
		long, cut  bool
	}{
		"Ollama has no such model":  {[]modeltest.Answer{{Status: 404, Raw: `{"error":{"message":"model 'm' not found","type":"api_error"}}`}}, "local has no model m", "fetch it: ollama pull m", false, false},
		"a wrong path":              {[]modeltest.Answer{{Status: 404, Raw: `404 page not found`}}, "there is no API for models at http://", "many end in /v1", false, false},
		"FastAPI's wrong path":      {[]modeltest.Answer{{Status: 404, Raw: `{"detail":"Not Found"}`}}, "there is no API for models at http://", "", false, false},
		"a page":                    {[]modeltest.Answer{{Status: 200, Raw: `<html>hello</html>`, Header: map[string]string{"Content-Type": "text/html"}}}, "answers with a page", "base URL", false, false},
		"no stream":                 {[]modeltest.Answer{{Status: 200, Raw: `{"choices":[]}`, Header: map[string]string{"Content-Type": "application/json"}}}, "where an answer should stream", "base URL", false, false},
		"an error with status 200":  {[]modeltest.Answer{{Status: 200, Raw: `{"error":{"message":"no","code":401}}`, Header: map[string]string{"Content-Type": "application/json"}}}, "local refuses the key", "", false, false},
		"a redirect":                {[]modeltest.Answer{{Status: 307, Raw: "elsewhere", Header: map[string]string{"Location": "http://127.0.0.1:1/"}}}, "local sends requests on to another address", "base URL", false, false},
		"llama.cpp: too long":       {[]modeltest.Answer{{Status: 400, Raw: `{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error"}}`}}, "does not fit into m", "", true, false},
		"vLLM: too long":            {[]modeltest.Answer{{Status: 400, Raw: `{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens","type":"BadRequestError","code":400}`}}, "does not fit into m", "", true, false},
		"OpenRouter: no credit":     {[]modeltest.Answer{{Status: 402, Raw: `{"error":{"message":"Insufficient credits","code":402}}`}}, "no credit left at local", "", false, false},
		"no tools":                  {[]modeltest.Answer{{Status: 400, Raw: `{"error":{"message":"registry.ollama.ai/library/m does not support tools"}}`}}, "m cannot use tools", "", false, false},
		"something else":            {[]modeltest.Answer{{Status: 400, Raw: `{"error":{"message":"bad\nthing with ` + modeltest.Key + ` and sk-abcdefghijklmnop. "}}`}}, "local does not take the request: bad thing with *** and ***", "", false, false},
		"an error in the stream":    {[]modeltest.Answer{{Raw: lines(`{"choices":[{"delta":{"content":"y"}}]}`, `{"error":{"message":"Provider disconnected","code":502},"choices":[{"delta":{},"finish_reason":"error"}]}`)}}, "local failed by itself: Provider disconnected", "", false, true},
		"an error as the first":     {[]modeltest.Answer{{Raw: lines(`{"error":"overloaded"}`), Header: soon}, {Raw: lines(`{"error":{"message":"no","code":401}}`)}}, "local refuses the key", "", false, false},
		"neither end":               {[]modeltest.Answer{{Raw: lines(`{"choices":[{"delta":{"content":"y"}}]}`)}}, "the connection to local broke off", "", false, true},
		"no JSON":                   {[]modeltest.Answer{{Raw: lines(`{"choices":[{"delta":{"content":"y"}}]}`, `{"choices":[`)}}, "sent something that is no answer", "", false, true},
		"an endless line":           {[]modeltest.Answer{{Raw: "data: " + strings.Repeat("x", 5<<20)}}, "more than bobbin reads", "", false, false},
		"the wrong form altogether": {[]modeltest.Answer{{Status: 418, Raw: `[]`}}, "local does not take the request", "base URL", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ask(t, local(t, modeltest.OpenAI(t, c.answers...)))
			var f *agent.Failure
			if !errors.As(err, &f) {
				t.Fatalf("%v", err)
			}
			if !strings.Contains(f.Text, c.text) || !strings.Contains(f.Hint, c.hint) || f.TooLong != c.long || f.Cut != c.cut {
				t.Errorf("%q, hint %q, %+v", f.Text, f.Hint, f)
			}
			for _, s := range []string{f.Text, f.Hint, fmt.Sprint(f.Err)} {
				if strings.Contains(s, modeltest.Key) || strings.Contains(s, "<html>") {
					t.Errorf("%q", s)
				}
			}
		})
	}
}

// TestReasoningDetails checks OpenRouter's form of reasoning, which has to come back whole with the calls.
func TestReasoningDetails(t *testing.T) {
	s := modeltest.OpenAI(t, modeltest.Answer{Raw: lines(
		`{"choices":[{"delta":{"reasoning":"I ","reasoning_details":[{"type":"reasoning.text","text":"I ","index":0,"format":"anthropic-claude-v1"}]}}]}`,
		`{"choices":[{"delta":{"reasoning":"see","reasoning_details":[{"type":"reasoning.text","text":"see","index":0,"signature":null}]}}]}`,
		`{"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.text","signature":"abc","index":0}]}}]}`,
		`{"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.encrypted","data":"e1","index":1}]}}]}`,
		`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"a","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`, "[DONE]")})
	var opaque *agent.Opaque
	for e, err := range local(t, s).Stream(t.Context(), agent.Request{Model: "m", Messages: []agent.Message{{Role: agent.User, Parts: []agent.Part{{Text: "hi"}}}}}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == agent.EventPart && e.Part.Opaque != nil {
			opaque = e.Part.Opaque
		}
	}
	if opaque == nil || opaque.Model != "local/m" {
		t.Fatalf("%+v", opaque)
	}
	var got, want any
	_ = json.Unmarshal(opaque.Data, &got)
	_ = json.Unmarshal([]byte(`{"reasoning":"I see","reasoning_details":[
		{"type":"reasoning.text","text":"I see","index":0,"format":"anthropic-claude-v1","signature":"abc"},{"type":"reasoning.encrypted","data":"e1","index":1}]}`), &want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestResponses(t *testing.T) {
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	open := func(a ...modeltest.Answer) (*openai.Provider, *modeltest.Server) {
		s := modeltest.Responses(t, a...)
		p, err := openai.New(openai.Options{Key: schemas.NewSecret(modeltest.Key), BaseURL: s.URL, HTTP: &http.Client{Transport: tr}, Responses: true})
		if err != nil {
			t.Fatal(err)
		}
		return p, s
	}
	p, _ := open(modeltest.Answer{Text: "and so", Stop: "max_output_tokens"}, modeltest.Answer{Stop: "content_filter"},
		modeltest.Answer{Raw: lines( // an item that was begun and not ended
			`{"type":"response.output_item.added","output_index":0,"item":{"type":"message","id":"m"}}`,
			`{"type":"response.output_text.delta","output_index":0,"delta":"half"}`,
			`{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","call_id":"c","name":"a"}}`,
			`{"type":"response.incomplete","response":{"incomplete_details":{"reason":"max_output_tokens"}}}`)},
		modeltest.Answer{Raw: lines(`{"type":"error","code":"invalid_api_key","message":"no"}`)})
	for _, want := range []answer{
		{Text: "and so", Stop: agent.StopLength, Tokens: schemas.Tokens{In: 100, Out: 10}},
		{Stop: agent.StopRefused, Tokens: schemas.Tokens{In: 100, Out: 10}},
		{Text: "half", Stop: agent.StopLength},
	} {
		got, err := ask(t, p)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	_, err := ask(t, p)
	var f *agent.Failure
	if !errors.As(err, &f) || f.Text != "openai refuses the key" {
		t.Errorf("%v", err)
	}
}
