package registry

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"bobbin/schemas"
)

// wary says why a model's call of a tool that writes asks although a rule may allow it: other servers' words came before it.
func (c *call) wary() string {
	if c.Origin != schemas.ByAssistant || !c.tool.Writes {
		return ""
	}
	var others []string
	for _, server := range c.Wary {
		if server != c.tool.Server && !c.snap.policy.Trusts(server) && !slices.Contains(others, server) {
			others = append(others, server)
		}
	}
	if len(others) == 0 {
		return ""
	}
	return short(schemas.Clean(strings.Join(others, ", "), true), 200) + " answered before it in this turn"
}

// permit asks a person where the policy says so. Waiting for one is not call time; what was looked up before the wait is looked
// up again after it.
func (c *call) permit(ctx context.Context) error {
	d := c.verdict
	switch {
	case d.Verb == schemas.Allow || c.Origin == schemas.ByPerson:
		return nil
	case c.r.opt.Gate == nil:
		return &schemas.Error{Code: schemas.CodeAsk, Text: c.tool.Full() + " needs a person's yes, and nobody can be asked here", Hint: "`/mcp call " + c.tool.Full() + "`"}
	}
	c.waits(person(c.Caller) + " to allow " + c.tool.Full())
	answer, err := c.person(ctx, schemas.Ask{Caller: c.Caller, Tool: c.tool.Tool, Args: c.Args, Why: d.Why, Each: c.wary() != "",
		Shown: c.Origin == schemas.ByAssistant && c.Waiting != nil})
	c.waits("")
	switch {
	case err != nil:
		return &schemas.Error{Code: schemas.CodeAsk, Text: c.tool.Full() + " needs a person's yes, and nobody gave it; it did not run",
			Hint: "somebody in the chat says yes when it is called again, or a manager lets it run: `/mcp policy allow " + c.tool.Full() + "`", Err: err}
	case !slices.Contains([]schemas.Answer{schemas.AnswerOnce, schemas.AnswerHour, schemas.AnswerAlways}, answer):
		return &schemas.Error{Code: schemas.CodeDenied, Text: c.tool.Full() + " was refused by a person; it did not run"}
	}
	pin := c.tool.Pin
	if err := c.find(ctx); err != nil {
		return err
	}
	if c.tool.Pin != pin {
		return &schemas.Error{Code: schemas.CodeHeld, Text: c.tool.Full() + " changed while the question was open; it did not run"}
	}
	if err := c.admit(ctx); err != nil {
		return err
	}
	return c.decide(ctx)
}

// person asks in the chat, and where nobody is there, by way of the caller if that is possible: then a yes is for this once.
func (c *call) person(ctx context.Context, q schemas.Ask) (schemas.Answer, error) {
	answer, err := c.r.opt.Gate.Ask(ctx, q)
	if c.Ask == nil || schemas.CodeOf(err) != schemas.CodeAsk {
		return answer, err
	}
	if answer, err = c.Ask(ctx, q); answer != schemas.AnswerOnce {
		answer = schemas.AnswerDeny
	}
	rec := c.record(schemas.EventElicit)
	rec.Detail = "its client was asked whether it may run: " + string(answer)
	c.write(ctx, rec)
	return answer, err
}

// waits tells the caller who is waited for to do what, or that the call goes on.
func (c *call) waits(what string) {
	if c.Waiting == nil {
		return
	}
	if what != "" {
		what = "waits for " + what
	}
	c.Waiting(what)
}

func person(c schemas.Caller) string {
	return "@" + short(schemas.Clean(cmp.Or(c.Name, string(c.Member)), true), 64)
}
