package gemini_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"bobbin/agent"
	"bobbin/agent/model/gemini"
	"bobbin/agent/model/modeltest"
	"bobbin/schemas"
)

func TestMain(m *testing.M) {
	// genai brings it along, and it starts when the program does.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

type answer struct {
	parts   []agent.Part
	end     agent.Event
	retries int
	err     error
}

func ask(t *testing.T, s *modeltest.Server, messages ...agent.Message) (a answer) {
	t.Helper()
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	p, err := gemini.New(gemini.Options{Key: schemas.NewSecret(modeltest.Key), BaseURL: s.URL, HTTP: &http.Client{Transport: tr}})
	if err != nil {
		t.Fatal(err)
	}
	if len(messages) == 0 {
		messages = []agent.Message{{Role: agent.User, Parts: []agent.Part{{Text: "hi"}}}}
	}
	for e, err := range p.Stream(t.Context(), agent.Request{Model: "gemini-3.8-flash", Messages: messages}) {
		switch {
		case err != nil:
			a.err = err
		case e.Kind == agent.EventPart:
			a.parts = append(a.parts, *e.Part)
		case e.Kind == agent.EventRetry:
			a.retries++
		case e.Kind == agent.EventEnd:
			a.end = e
		}
	}
	return a
}

func lines(chunks ...string) string {
	return "data: " + strings.Join(chunks, "\r\n\r\ndata: ") + "\r\n\r\n"
}

func signed(s string) *agent.Opaque {
	return &agent.Opaque{Model: "gemini/gemini-3.8-flash", Data: json.RawMessage(`{"thoughtSignature":"` + s + `"}`)}
}

func TestStreams(t *testing.T) {
	end := func(s agent.Stop) agent.Event { return agent.Event{Kind: agent.EventEnd, Stop: s} }
	for name, c := range map[string]struct {
		raw   string
		parts []agent.Part
		end   agent.Event
	}{
		"signatures stay in their parts": {lines(
			`{"candidates":[{"content":{"parts":[{"text":"th","thought":true},{"text":"ink","thought":true,"thoughtSignature":"AAA/+w=="},{"text":"one "}]}}]}`,
			`{"candidates":[{"content":{"parts":[{"text":"two"}]}}]}`,
			`{"candidates":[{"content":{"parts":[{"text":"three","thoughtSignature":"BBBB"}]}}]}`,
			`{"candidates":[{"content":{"parts":[{"text":"","thoughtSignature":"CCCC"}]},"finishReason":"STOP"}]}`),
			[]agent.Part{{Reasoning: "th"}, {Reasoning: "ink", Opaque: signed("AAA/+w==")}, {Text: "one two"}, {Text: "three", Opaque: signed("BBBB")}, {Opaque: signed("CCCC")}}, end(agent.StopDone)},
		"parallel calls without ids, with long numbers": {lines(
			`{"candidates":[{"content":{"parts":[{"functionCall":{"name":"a","args":{"id":12345678901234567890}},"thoughtSignature":"AAAA"},{"functionCall":{"name":"b"}}]},"finishReason":"STOP"}],
			"usageMetadata":{"promptTokenCount":9,"cachedContentTokenCount":4,"candidatesTokenCount":3,"thoughtsTokenCount":2}}`),
			[]agent.Part{
				{Call: &agent.Call{Name: "a", Args: json.RawMessage(`{"id":12345678901234567890}`)}, Opaque: signed("AAAA")},
				{Call: &agent.Call{Name: "b", Args: json.RawMessage(`{}`)}},
			}, agent.Event{Kind: agent.EventEnd, Stop: agent.StopCalls, Tokens: schemas.Tokens{In: 9, Cached: 4, Out: 5}}},
		"a blocked question": {lines(`{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"},"usageMetadata":{"promptTokenCount":9}}`),
			nil, agent.Event{Kind: agent.EventEnd, Stop: agent.StopRefused, Tokens: schemas.Tokens{In: 9}}},
		"a blocked answer": {lines(`{"candidates":[{"content":{"parts":[{"text":"we"}]}}]}`, `{"candidates":[{"finishReason":"SAFETY"}]}`), []agent.Part{{Text: "we"}}, end(agent.StopRefused)},
		"length":           {lines(`{"candidates":[{"content":{"parts":[{"text":"we"}]},"finishReason":"MAX_TOKENS"}]}`), []agent.Part{{Text: "we"}}, end(agent.StopLength)},
	} {
		t.Run(name, func(t *testing.T) {
			a := ask(t, modeltest.Gemini(t, modeltest.Answer{Raw: strings.ReplaceAll(c.raw, "\n\t", "")}))
			if a.err != nil {
				t.Fatal(a.err)
			}
			if diff := cmp.Diff(c.parts, a.parts, cmpopts.IgnoreFields(agent.Call{}, "ID")) + cmp.Diff(c.end, a.end); diff != "" {
				t.Error(diff)
			}
			for _, p := range a.parts {
				if p.Call != nil && p.Call.ID == "" {
					t.Error("a call without an id")
				}
			}
		})
	}
}

func TestMisshapen(t *testing.T) {
	bad := modeltest.Answer{Raw: lines(`{"candidates":[{"content":{},"finishReason":"MALFORMED_FUNCTION_CALL"}]}`)}
	if a := ask(t, modeltest.Gemini(t, bad, modeltest.Answer{Text: "yes"})); a.err != nil || a.retries != 1 {
		t.Errorf("%+v", a)
	}
}

func TestDailyQuota(t *testing.T) {
	a := ask(t, modeltest.Gemini(t, modeltest.Answer{Status: 429, Raw: `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"You exceeded your current quota",
		"details":[{"violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]},{"retryDelay":"20s"}]}}`}))
	var f *agent.Failure
	if !errors.As(a.err, &f) || f.Text != "today's allowance at gemini is used up" || a.retries != 0 {
		t.Errorf("%+v", a)
	}
}

// TestForeignCalls checks what a model gets whose conversation another one began: its calls have no signature.
func TestForeignCalls(t *testing.T) {
	s := modeltest.Gemini(t, modeltest.Answer{Text: "yes"})
	a := ask(t, s, agent.Message{Role: agent.User, Parts: []agent.Part{{Text: "hi"}}},
		agent.Message{Role: agent.Assistant, Parts: []agent.Part{{Call: &agent.Call{ID: "1", Name: "a", Args: json.RawMessage(`{}`)}}, {Call: &agent.Call{ID: "2", Name: "a", Args: json.RawMessage(`{}`)}}}},
		agent.Message{Role: agent.User, Parts: []agent.Part{{Result: &agent.Result{ID: "1", Name: "a", Images: []agent.Image{{MIME: "image/png", Data: []byte("x")}}}}, {Result: &agent.Result{ID: "2", Name: "a", Text: "two", Failed: true}}}})
	if a.err != nil {
		t.Fatal(a.err, s.Refused())
	}
	body := string(s.Asked()[0].Body)
	if strings.Count(body, `"skip_thought_signature_validator"`) != 1 || !strings.Contains(body, `"error":"two"`) || s.Asked()[0].Images != 1 {
		t.Error(body)
	}
}
