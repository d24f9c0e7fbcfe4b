package agent_test

import (
	"context"
	"strings"
	"testing"

	"bobbin/agent"
	"bobbin/schemas"
)

// A server's words reach the model alone: no tools, nothing of the thread; in the middle of an answer, too.
func TestSample(t *testing.T) {
	w := newWorld(t, []reply{uses(call("1", "ext_a_b", `{}`)), says("short"), says("done")})
	w.servers.add("a.b", true, func(ctx context.Context, c schemas.Call) (schemas.Result, error) {
		got, err := w.Sample(ctx, schemas.Sampling{Caller: c.Caller, Server: "a", System: "Be brief", MaxTokens: 50, Messages: []schemas.SamplingWords{{Role: "user", Text: "Sum up"}}})
		if err != nil || got.Text != "short" || got.Model != "fake/one" || got.Cut {
			t.Errorf("%+v %v", got, err)
		}
		return text("a", got.Text), nil
	})
	w.say("a secret of the thread")
	r := w.model.seen()[1]
	if len(r.Tools) > 0 || len(r.Messages) != 1 || wrote(r, 0) != "Sum up" || !strings.HasSuffix(r.System, "Be brief") || r.MaxTokens != 50 || strings.Contains(r.System, "bobbin") {
		t.Errorf("%+v", r)
	}
	if own, _, err := w.Usage(t.Context(), alice()); err != nil || own.Tokens.In != 300 {
		t.Errorf("%+v %v", own, err)
	}
	w.open(func(o *agent.Options) { o.MemberTokens = 100 })
	if _, err := w.Sample(t.Context(), schemas.Sampling{Caller: alice(), MaxTokens: 1, Messages: []schemas.SamplingWords{{Role: "user", Text: "more"}}}); schemas.CodeOf(err) != schemas.CodeTooLarge {
		t.Error(err)
	}
}
