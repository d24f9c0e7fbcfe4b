package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"bobbin/registry"
	"bobbin/schemas"
)

func TestCall_RefusedNeverReachesTheServer(t *testing.T) {
	h := newHouse(t, map[string]script{"a": {Tools: tools(echoTool(), toolJSON("run_command"), toolJSON("save"), toolJSON("secret", readOnly))}})
	h.set(one, entry("s", "a"))
	h.policy(one, schemas.Policy{Thread: schemas.Rules{Deny: []string{"s.sec*"}}})
	h.apply(one)
	guest := by(one, "s.echo", `{"text":"x"}`)
	guest.Caller.Role = schemas.Guest
	assistant := by(one, "s.save", "")
	assistant.Origin = schemas.ByAssistant
	for name, c := range map[string]struct {
		call schemas.Call
		code schemas.Code
		said string
	}{
		"wrong type":      {by(one, "s.echo", `{"text":1}`), schemas.CodeInvalid, "must be string, not number"},
		"not an object":   {by(one, "s.echo", `[1]`), schemas.CodeInvalid, "must be one object"},
		"not JSON":        {by(one, "s.echo", `{"text":NaN}`), schemas.CodeInvalid, "not valid JSON"},
		"two values":      {by(one, "s.echo", `{} {}`), schemas.CodeInvalid, "not valid JSON"},
		"twice":           {by(one, "s.echo", `{"text":"a","text":"b"}`), schemas.CodeInvalid, "given twice"},
		"too large":       {by(one, "s.echo", `{"text":"`+strings.Repeat("x", 1<<20)+`"}`), schemas.CodeTooLarge, "1024 KiB"},
		"unknown":         {by(one, "s.nothing_like_it", `{}`), schemas.CodeNotFound, "/mcp tools"},
		"denied":          {by(one, "s.secret", ``), schemas.CodeDenied, "a rule of this thread denies it: s.secret | a manager can `/mcp policy forget s.sec*`"},
		"shell by person": {by(one, "s.run_command", ``), schemas.CodeDenied, "shell tools are denied here unless a manager allows them: s.run_command | a manager can `/mcp policy allow s.run_command`"},
		"guest":           {guest, schemas.CodeDenied, "guests may look"},
		"asks, no gate":   {assistant, schemas.CodeAsk, "needs a person's yes"},
	} {
		_, err := h.call(c.call)
		if schemas.CodeOf(err) != c.code || !strings.Contains(describe(err), c.said) {
			t.Errorf("%s: %v, want %s %q", name, err, c.code, c.said)
		}
		if r := h.journal.last(); r.Event != schemas.EventRefused || r.Outcome != schemas.OutcomeRefused || r.Detail != string(c.code) {
			t.Errorf("%s: audit %+v", name, r)
		}
	}
	if n := h.servers.saw("tools/call"); n != 0 {
		t.Fatalf("%d refused calls reached the server", n)
	}
	if _, err := h.call(by(one, "s.save", "")); err != nil {
		t.Errorf("a person's own call is its own yes: %v", err)
	}
}

func TestCall_CallerIsNeverTakenFromArguments(t *testing.T) {
	h := newHouse(t, map[string]script{"a": {Tools: tools(toolJSON("whoami", readOnly))}})
	h.set(one, entry("s", "a"))
	h.policy(one, schemas.Policy{Members: map[schemas.MemberID]schemas.Rules{"eve": {Deny: []string{"s.*"}}}})
	h.apply(one)
	c := by(one, "s.whoami", `{"user_id":"ann","member":"ann","caller":{"role":"owner"}}`)
	c.Caller.Member = "eve"
	_, err := h.call(c)
	wantCode(t, err, schemas.CodeDenied)
	if r := h.journal.last(); r.Member != "eve" {
		t.Errorf("audit %+v", r)
	}
	if h.servers.saw("tools/call") != 0 {
		t.Error("it was sent")
	}
}

func TestCall_AuditUnwritable(t *testing.T) {
	h := newHouse(t, map[string]script{"a": {Tools: tools(echoTool())}})
	h.set(one, entry("s", "a"))
	h.apply(one)
	h.journal.mu.Lock()
	h.journal.broken = true
	h.journal.mu.Unlock()
	_, err := h.call(by(one, "s.echo", `{"text":"x"}`))
	wantCode(t, err, schemas.CodeInternal, "the audit log cannot be written, so the call was not made")
	if h.servers.saw("tools/call") != 0 {
		t.Fatal("it was sent without a record")
	}
}

func TestCall_AuditHoldsNoValues(t *testing.T) {
	h := newHouse(t, map[string]script{"a": {Tools: tools(echoTool())}})
	h.set(one, entry("s", "a"))
	h.apply(one)
	ctx, cancel := context.WithCancel(background())
	res, err := h.Call(ctx, by(one, "s.echo", `{"text":"canary-value"}`))
	cancel()
	if err != nil {
		t.Fatal(err)
	}
	all, _ := json.Marshal(h.journal.all())
	if strings.Contains(string(all), "canary") || !strings.Contains(string(all), `"args":"text 14"`) {
		t.Errorf("audit %s", all)
	}
	if r := h.journal.last(); r.Receipt != res.Receipt || r.Ms <= 0 || r.Bytes != len(res.Raw) || r.RunsAs != "ann" {
		t.Errorf("end %+v", r)
	}
}

func TestCall_Outcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, map[string]script{"a": plainScript("rpc", "fail", "hang", "die")})
		h.set(one, entry("s", "a"))
		h.apply(one)
		_, err := h.call(by(one, "s.rpc", ""))
		wantCode(t, err, schemas.CodeFailed, "s answered: quota exceeded")
		if r := h.journal.last(); r.Outcome != schemas.OutcomeFailed {
			t.Errorf("%+v", r)
		}
		res, err := h.call(by(one, "s.fail", ""))
		if err != nil || !res.IsError || h.journal.last().Outcome != schemas.OutcomeFailed {
			t.Errorf("%+v %v", res, err)
		}
		began := time.Now()
		_, err = h.call(by(one, "s.hang", ""))
		wantCode(t, err, schemas.CodeUnknown, "s did not answer within 1 min; whether it ran is unknown, so I did not try again", "/mcp audit "+h.journal.last().Receipt)
		if took := time.Since(began); took != time.Minute {
			t.Errorf("took %v", took)
		}
		if r := h.journal.last(); r.Outcome != schemas.OutcomeUnknown {
			t.Errorf("%+v", r)
		}
		ctx, cancel := context.WithTimeout(background(), time.Second)
		defer cancel()
		_, err = h.Call(ctx, by(one, "s.hang", ""))
		wantCode(t, err, schemas.CodeUnknown, "broken off")
		if r := h.journal.last(); r.Outcome != schemas.OutcomeUnknown {
			t.Errorf("the end was not written after the caller had gone: %+v", r)
		}
		_, err = h.call(by(one, "s.die", ""))
		wantCode(t, err, schemas.CodeUnknown)
		if n := h.servers.saw("tools/call"); n != 5 {
			t.Errorf("%d requests for 5 calls", n)
		}
	})
}

func TestCall_EntryTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, map[string]script{"a": plainScript("hang")})
		h.set(one, entry("s", "a", func(e *schemas.Entry) { e.Timeout = 2000 }))
		h.apply(one)
		began := time.Now()
		_, err := h.call(by(one, "s.hang", ""))
		wantCode(t, err, schemas.CodeUnknown, "within 2 s")
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestCall_Gate(t *testing.T) {
	var answer atomic.Value
	var during func()
	var asked schemas.Ask
	h := newHouse(t, map[string]script{"a": {Tools: tools(toolJSON("save"), toolJSON("change", readOnly)), Rug: tools(toolJSON("save", `"description":"now evil"`), toolJSON("change", readOnly))}},
		func(o *registry.Options) {
			o.Gate = gateFunc(func(ctx context.Context, a schemas.Ask) (schemas.Answer, error) {
				asked = a
				if during != nil {
					during()
				}
				if err, ok := answer.Load().(error); ok {
					return "", err
				}
				return answer.Load().(schemas.Answer), nil
			})
		})
	h.set(one, entry("s", "a"))
	h.apply(one)
	c := by(one, "s.save", `{"a":1}`)
	c.Origin = schemas.ByAssistant
	answer.Store(schemas.AnswerOnce)
	if _, err := h.call(c); err != nil {
		t.Fatal(err)
	}
	if asked.Why != "it writes" || asked.Tool.Full() != "s.save" || string(asked.Args) != `{"a":1}` {
		t.Errorf("asked %+v", asked)
	}
	sent := h.servers.saw("tools/call")

	during = func() { h.policy(one, schemas.Policy{Thread: schemas.Rules{Deny: []string{"s.save"}}}); h.apply(one) }
	_, err := h.call(c)
	wantCode(t, err, schemas.CodeDenied, "a rule of this thread denies it")
	h.policy(one, schemas.Policy{})
	h.apply(one)

	during = func() {
		for range 2 { // the third listing is another
			if _, err := h.call(by(one, "s.change", "")); err != nil {
				t.Error(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		eventually(t, "held", func() bool { return len(h.status(one, "s").HeldTools) == 1 })
	}
	_, err = h.call(c)
	wantCode(t, err, schemas.CodeHeld)
	if got := h.servers.saw("tools/call") - sent; got != 2 { // the two calls of change
		t.Errorf("%d calls reached the server", got)
	}

	during = nil
	if err := h.Accept(background(), ann(one), "s", h.shown("s")); err != nil {
		t.Fatal(err)
	}
	answer.Store(schemas.AnswerDeny)
	_, err = h.call(c)
	wantCode(t, err, schemas.CodeDenied, "refused by a person")
}

func TestCall_GateGaveNoAnswer(t *testing.T) {
	h := newHouse(t, map[string]script{"a": {Tools: tools(toolJSON("save"))}}, func(o *registry.Options) {
		o.Gate = gateFunc(func(ctx context.Context, a schemas.Ask) (schemas.Answer, error) { return "", errors.New("door closed") })
	})
	h.set(one, entry("s", "a"))
	h.apply(one)
	c := by(one, "s.save", "")
	c.Origin = schemas.ByGateway
	_, err := h.call(c)
	wantCode(t, err, schemas.CodeAsk, "it did not run")
	if h.servers.saw("tools/call") != 0 {
		t.Error("sent without an answer")
	}
}

// Who may not call a tool learns nothing of its arguments from the refusal.
func TestCall_DeniedBeforeArguments(t *testing.T) {
	strict := toolJSON("execute_command", `"inputSchema":{"type":"object","properties":{"secret_shape":{"type":"string"}},"required":["secret_shape"],"additionalProperties":false}`)
	h := newHouse(t, map[string]script{"a": {Tools: tools(strict)}})
	h.set(one, entry("s", "a"))
	h.apply(one)
	for _, args := range []string{"", `{}`, `{"secret_shape":7}`, `{"x":1}`, `[`, `{"a":1,"a":2}`, strings.Repeat(" ", 2<<20)} {
		_, err := h.call(by(one, "s.execute_command", args))
		wantCode(t, err, schemas.CodeDenied)
		if strings.Contains(describe(err), "secret_shape") {
			t.Errorf("%s", describe(err))
		}
	}
	if r := h.journal.last(); r.Event != schemas.EventRefused || r.Detail != string(schemas.CodeDenied) || h.servers.saw("tools/call") != 0 {
		t.Errorf("%+v", r)
	}
	h.policy(one, schemas.Policy{Thread: schemas.Rules{Allow: []string{"s.execute_command"}}})
	h.apply(one)
	if _, err := h.call(by(one, "s.execute_command", `{}`)); !strings.Contains(fmt.Sprint(err), "secret_shape") {
		t.Errorf("allowed, and no mistake: %v", err)
	}
}

func TestCall_WaitingForAPersonIsNotCallTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, map[string]script{"a": {Tools: tools(toolJSON("save"))}}, func(o *registry.Options) {
			o.Gate = gateFunc(func(ctx context.Context, a schemas.Ask) (schemas.Answer, error) {
				time.Sleep(9 * time.Minute)
				return schemas.AnswerOnce, nil
			})
		})
		h.set(one, entry("s", "a"))
		h.apply(one)
		c := by(one, "s.save", "")
		c.Origin = schemas.ByAssistant
		res, err := h.call(c)
		if err != nil || res.Took > time.Second {
			t.Fatalf("%+v %v", res, err)
		}
	})
}

func TestCall_LargeResultIsCutAndKept(t *testing.T) {
	h := newHouse(t, map[string]script{"a": plainScript("big")})
	h.set(one, entry("s", "a"))
	h.apply(one)
	res, err := h.call(by(one, "s.big", `{"size":3000000}`))
	if err != nil {
		t.Fatal(err)
	}
	var got struct{ Content []struct{ Type, Text string } }
	if err := json.Unmarshal(res.Raw, &got); err != nil || len(got.Content) != 2 || len(got.Content[0].Text) != 20000 ||
		!strings.Contains(got.Content[1].Text, "cut by bobbin") || res.Size < 3000000 || res.Spilled == "" {
		t.Fatalf("%.200s… size %d spilled %q %v", res.Raw, res.Size, res.Spilled, err)
	}
	f, err := h.Result(background(), one, res.Spilled)
	if err != nil || len(f.Data) != 3000000 || f.Name != "result.txt" {
		t.Fatalf("%s %d %v", f.Name, len(f.Data), err)
	}
	_, err = h.Result(background(), "T2", res.Spilled)
	wantCode(t, err, schemas.CodeNotFound)
	_, err = h.Result(background(), one, "../../x")
	wantCode(t, err, schemas.CodeNotFound)
	if res, err := h.call(by(one, "s.big", `{"size":19000}`)); err != nil || res.Spilled != "" {
		t.Errorf("below the limit: %v", err)
	}
	for range 55 {
		if _, err := h.call(by(one, "s.big", `{"size":30000}`)); err != nil {
			t.Fatal(err)
		}
	}
	_, err = h.Result(background(), one, res.Spilled)
	wantCode(t, err, schemas.CodeNotFound)
}

func TestCall_AtOnceIsBounded(t *testing.T) {
	h := newHouse(t, map[string]script{"a": plainScript("wait", "hang")}, func(o *registry.Options) { o.PerServer = 2 })
	h.set(one, entry("s", "a"))
	h.apply(one)
	ctx, cancel := context.WithCancel(background())
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() { _, _ = h.Call(ctx, by(one, "s.hang", "")) })
	}
	eventually(t, "both are out", func() bool { return h.servers.saw("tools/call") == 2 })
	short, stop := context.WithTimeout(background(), 20*time.Millisecond)
	defer stop()
	_, err := h.Call(short, by(one, "s.wait", ""))
	wantCode(t, err, schemas.CodeNotReady, "did not run")
	if r := h.journal.last(); r.Event != schemas.EventRefused || r.Outcome != schemas.OutcomeNotRun {
		t.Errorf("%+v", r)
	}
	cancel()
	wg.Wait()
	if h.servers.saw("tools/call") != 2 {
		t.Error("more than two at once")
	}
}

func TestCall_ThreadsBleedNothing(t *testing.T) {
	h := newHouse(t, map[string]script{"a": plainScript("whoami", "echo"), "b": plainScript("whoami", "echo")})
	e := func(cmd string) schemas.Entry {
		return entry("s", cmd, func(e *schemas.Entry) { e.Env = map[string]string{"TOKEN": "${input:KEY}"} })
	}
	h.vault.put("T1", "s", "KEY", "secret-of-T1")
	h.vault.put("T2", "s", "KEY", "secret-of-T2")
	h.set("T1", e("a"))
	h.set("T2", e("b"))
	for _, id := range []schemas.ThreadID{"T1", "T2"} { // not a password, so that the answer may show whose it is
		h.wishes.edit(id, func(c *schemas.Config) { c.Inputs = []schemas.Input{{ID: "KEY", Type: "promptString"}} })
	}
	var wg sync.WaitGroup
	for _, id := range []schemas.ThreadID{"T1", "T2"} {
		who := map[schemas.ThreadID]string{"T1": "T1/s/a/secret-of-T1", "T2": "T2/s/b/secret-of-T2"}[id]
		for n := range 20 {
			wg.Go(func() {
				res, err := h.call(by(id, "s.whoami", ""))
				if err != nil || text(t, res) != who {
					t.Errorf("%s: %s %v", id, res.Raw, err)
				}
				arg := fmt.Sprintf(`{"n":"%s-%d"}`, id, n)
				res, err = h.call(by(id, "s.echo", arg))
				if err != nil || text(t, res) != arg {
					t.Errorf("%s: %s for %s, %v", id, res.Raw, arg, err)
				}
			})
		}
	}
	wg.Wait()
	h.set("T2")
	h.apply("T2")
	if _, err := h.call(by("T1", "s.whoami", "")); err != nil {
		t.Error(err)
	}
	_, err := h.call(by("T2", "s.whoami", ""))
	wantCode(t, err, schemas.CodeNotFound)
	for _, r := range h.journal.all() {
		if r.Thread != "T1" && r.Thread != "T2" {
			t.Errorf("audit of %q", r.Thread)
		}
	}
}

func TestResourcesAndPrompts(t *testing.T) {
	h := newHouse(t, map[string]script{"a": {Tools: tools(echoTool()), Abilities: `,"resources":{},"prompts":{}`}, "b": {Tools: tools(echoTool())}})
	h.set(one, entry("s", "a"), entry("n", "b"))
	h.apply(one)
	res, err := h.Resources(background(), ann(one))
	if err != nil || len(res) != 2 || res[0].URI != "file:///a" || !res[1].Template {
		t.Fatalf("%+v %v", res, err)
	}
	ps, err := h.Prompts(background(), ann(one))
	if err != nil || len(ps) != 1 || !ps[0].Arguments[0].Required {
		t.Fatalf("%+v %v", ps, err)
	}
	got, err := h.ReadResource(background(), ann(one), "s", "file:///a")
	if err != nil || !strings.Contains(string(got.Raw), "hello") || h.journal.last().Tool != "resources/read" {
		t.Fatalf("%s %v", got.Raw, err)
	}
	got, err = h.Prompt(background(), ann(one), "s", "hi", map[string]string{"who": "x"})
	if err != nil || !strings.Contains(string(got.Raw), "user") {
		t.Fatalf("%s %v", got.Raw, err)
	}
	_, err = h.ReadResource(background(), ann(one), "x", "file:///a")
	wantCode(t, err, schemas.CodeNotFound)
	h.policy(one, schemas.Policy{Thread: schemas.Rules{Deny: []string{"s"}}})
	h.apply(one)
	_, err = h.ReadResource(background(), ann(one), "s", "file:///a")
	wantCode(t, err, schemas.CodeDenied)
	if n := h.servers.saw("resources/read"); n != 1 {
		t.Errorf("%d reads", n)
	}
}

func TestCall_RulesChangedWhileItWaited(t *testing.T) {
	h := newHouse(t, map[string]script{"a": plainScript("wait", "whoami")}, func(o *registry.Options) { o.PerServer = 1 })
	h.set(one, entry("s", "a"))
	h.apply(one)
	first := make(chan error, 1)
	go func() { _, err := h.call(by(one, "s.wait", "")); first <- err }()
	eventually(t, "it is out", func() bool { return h.servers.saw("tools/call") == 1 })
	second := make(chan error, 1)
	go func() { _, err := h.call(by(one, "s.whoami", "")); second <- err }()
	time.Sleep(20 * time.Millisecond) // let it queue; if it has not, it is denied all the same
	h.policy(one, schemas.Policy{Thread: schemas.Rules{Deny: []string{"s.whoami"}}})
	h.apply(one)
	wantCode(t, <-second, schemas.CodeDenied)
	if err := <-first; err != nil {
		t.Error(err)
	}
	if n := h.servers.saw("tools/call"); n != 1 {
		t.Errorf("%d calls reached the server", n)
	}
}

func TestCall_NoSuchToolOfAServerThatStarts(t *testing.T) {
	h := newHouse(t, map[string]script{"a": plainScript("echo")})
	h.set(one, entry("s", "a"))
	h.apply(one)
	h.stop()
	h.servers.scripts["a"] = script{Mute: true}
	h.boot()
	ctx, cancel := context.WithCancel(background())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { _, _ = h.Call(ctx, by(one, "s.echo", "")) })
	eventually(t, "starting", func() bool { return h.status(one, "s").State == schemas.Starting })
	for _, name := range []string{"s.ecko", "ext_s_ecko"} { // its tools are known from the last time
		_, err := h.call(by(one, name, ""))
		wantCode(t, err, schemas.CodeNotFound, "no tool is called", "did you mean")
	}
}
