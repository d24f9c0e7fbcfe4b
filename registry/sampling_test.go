package registry_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"bobbin/registry"
	"bobbin/schemas"
)

type sampleFunc func(context.Context, schemas.Sampling) (schemas.Sampled, error)

func (f sampleFunc) Sample(ctx context.Context, s schemas.Sampling) (schemas.Sampled, error) {
	return f(ctx, s)
}

const wantWords = `{"messages":[{"role":"user","content":{"type":"text","text":"Sum\u200b up"}}],"systemPrompt":"Be brief","maxTokens":100000,"modelPreferences":{"hints":[{"name":"big"}]}}`

// sampling is a thread with one server that asks for words of the model, under a policy.
func sampling(t *testing.T, p schemas.Policy, answer schemas.Answer, model sampleFunc) (*house, *[]schemas.Ask) {
	t.Helper()
	var asked []schemas.Ask
	h := newHouse(t, map[string]script{"fake": {Tools: tools(toolJSON("sample", readOnly))}}, func(o *registry.Options) {
		o.Sample = model
		o.Gate = gateFunc(func(_ context.Context, a schemas.Ask) (schemas.Answer, error) {
			asked = append(asked, a)
			return answer, nil
		})
	})
	h.policy(one, p)
	h.set(one, entry("s", "fake"))
	h.apply(one)
	return h, &asked
}

// declared reports whether initialize held a text.
func (s *speaker) declared(part string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.seen, func(m string) bool { return strings.HasPrefix(m, "initialize ") && strings.Contains(m, part) })
}

func (h *house) samples() (details []string) {
	for _, r := range h.journal.all() {
		if r.Event == schemas.EventSampling {
			details = append(details, r.Detail)
		}
	}
	return details
}

func TestSampling_AfterAYes(t *testing.T) {
	var got schemas.Sampling
	h, asked := sampling(t, schemas.Policy{Sampling: []string{"s"}}, schemas.AnswerOnce, func(_ context.Context, s schemas.Sampling) (schemas.Sampled, error) {
		got = s
		return schemas.Sampled{Text: "short", Model: "fake/one"}, nil
	})
	res, err := h.call(by(one, "s.sample", wantWords))
	if err != nil || !strings.Contains(text(t, res), `"content":{"text":"short","type":"text"},"model":"fake/one","role":"assistant","stopReason":"endTurn"`) {
		t.Fatalf("%v %v", res, err)
	}
	if got.Caller.Member != "ann" || got.Server != "s" || got.System != "Be brief" || got.MaxTokens != 1000 || len(got.Messages) != 1 || got.Messages[0].Text != "Sum up" {
		t.Errorf("%+v", got)
	}
	if a := *asked; len(a) != 1 || string(a[0].Args) != `{"system":"Be brief","messages":[{"role":"user","text":"Sum up"}],"maxTokens":1000}` || a[0].Tool.Full() != "s.sampling/createMessage" || !a[0].Each {
		t.Errorf("%+v", a)
	}
	if !h.servers.speakers[0].declared(`"sampling":{}`) {
		t.Error("the server was not told that it may ask")
	}
	if d := h.samples(); !slices.Equal(d, []string{"allowed"}) {
		t.Errorf("%q", d)
	}
}

func TestSampling_Refused(t *testing.T) {
	open := schemas.Policy{Sampling: []string{"*"}}
	words := func(content string) string {
		return `{"messages":[{"role":"user","content":` + content + `}],"maxTokens":10}`
	}
	plain := words(`{"type":"text","text":"x"}`)
	for name, c := range map[string]struct {
		policy  schemas.Policy
		answer  schemas.Answer
		request string
		detail  string
		asked   int
	}{
		"by default":      {schemas.Policy{}, schemas.AnswerOnce, plain, "", 0},
		"another server":  {schemas.Policy{Sampling: []string{"other"}}, schemas.AnswerOnce, plain, "", 0},
		"by a person":     {open, schemas.AnswerDeny, plain, "refused: a person refused", 1},
		"with tools":      {open, schemas.AnswerOnce, `{"messages":[{"role":"user","content":{"type":"text","text":"x"}}],"tools":[{}]}`, "refused: it wants to give the model tools", 0},
		"a picture":       {open, schemas.AnswerOnce, words(`{"type":"image","data":"AAAA","mimeType":"image/png"}`), "refused: its request holds more than text", 0},
		"too long":        {open, schemas.AnswerOnce, words(`{"type":"text","text":"` + strings.Repeat("x", 20_001) + `"}`), "refused: its request is too long", 0},
		"nothing":         {open, schemas.AnswerOnce, `{"messages":[]}`, "refused: its request has 0 messages; 1 to 20 are possible", 0},
		"the other role":  {open, schemas.AnswerOnce, `{"messages":[{"role":"assistant","content":{"type":"text","text":"x"}}]}`, "refused: the roles of its messages do not take turns, or one is empty", 0},
		"too often":       {open, schemas.AnswerOnce, `{"Times":4,"messages":[{"role":"user","content":{"type":"text","text":"x"}}]}`, "refused: it asked too often in one call", 3},
		"the model fails": {open, schemas.AnswerOnce, words(`{"type":"text","text":"fail"}`), "refused: the model gave no answer", 1},
	} {
		t.Run(name, func(t *testing.T) {
			h, asked := sampling(t, c.policy, c.answer, func(_ context.Context, s schemas.Sampling) (schemas.Sampled, error) {
				if s.Messages[0].Text == "fail" {
					return schemas.Sampled{}, errors.New("key sk-secret refused")
				}
				return schemas.Sampled{Text: "short"}, nil
			})
			res, err := h.call(by(one, "s.sample", c.request))
			if err != nil || !strings.Contains(text(t, res), `"error"`) || strings.Contains(text(t, res), "sk-secret") || len(*asked) != c.asked {
				t.Errorf("%v %v, asked %d times", res, err, len(*asked))
			}
			if c.policy.Sampling == nil && h.servers.speakers[0].declared("sampling") {
				t.Error("declared")
			}
			d := h.samples()
			if last := strings.Join(d[max(0, len(d)-1):], ""); last != c.detail {
				t.Errorf("%q", d)
			}
		})
	}
}

// A rule that was taken back holds at once, also for a server that was told it may ask.
func TestSampling_RuleTakenBack(t *testing.T) {
	h, asked := sampling(t, schemas.Policy{Sampling: []string{"s"}}, schemas.AnswerOnce, func(context.Context, schemas.Sampling) (schemas.Sampled, error) {
		return schemas.Sampled{Text: "short"}, nil
	})
	h.policy(one, schemas.Policy{})
	h.apply(one)
	res, err := h.call(by(one, "s.sample", wantWords))
	if err != nil || !strings.Contains(text(t, res), `"code":-1`) || len(*asked) != 0 {
		t.Errorf("%v %v", res, err)
	}
}
