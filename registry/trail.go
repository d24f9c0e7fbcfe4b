package registry

import (
	"bytes"
	"context"
	"strconv"

	"bobbin/internal/jsonscan"
	"bobbin/schemas"
)

// record is what all audit records of a call share.
func (c *call) record(e schemas.Event) schemas.Record {
	rec := schemas.Record{
		At: c.r.opt.Now(), Thread: c.Caller.Thread, Member: c.Caller.Member, Name: c.Caller.Name, Door: c.Caller.Door,
		Event: e, Origin: c.Origin, Receipt: c.receipt,
	}
	if c.tool == nil {
		rec.Tool = short(schemas.Clean(c.Tool, true), 128)
		return rec
	}
	rec.Server, rec.Tool, rec.RunsAs = c.tool.Server, c.tool.Name, c.runsAs()
	return rec
}

// runsAs is whose credentials and sandbox the call uses. It is settled when the call looks its tool up, and again when something
// changed while it waited.
func (c *call) runsAs() schemas.MemberID { return c.as }

// actsAs is whose credentials and sandbox a member's call of a server uses: the owner's; of a connector that runs as the one who
// asks their own, or the lender's while they have none.
func (r *Registry) actsAs(ctx context.Context, e schemas.Entry, c schemas.Caller) schemas.MemberID {
	switch {
	case !ownSignIn(e):
		return e.Owner
	case !e.Loan.Holds(r.opt.Now()), e.Loan.Member == c.Member:
		return c.Member
	case r.signed(ctx, c.Thread, c.Member, e):
		return c.Member
	case r.opt.Here != nil && !r.opt.Here(ctx, c.Thread, e.Loan.Member):
		return c.Member
	}
	return e.Loan.Member
}

// signed reports whether a member has a sign-in of their own for what runs.
func (r *Registry) signed(ctx context.Context, id schemas.ThreadID, m schemas.MemberID, e schemas.Entry) bool {
	def, runs := e.Running()
	return runs && r.opt.Signed != nil && r.opt.Signed(ctx, id, m, def)
}

// ownSignIn reports whether each member uses a connector with a sign-in of their own.
func ownSignIn(e schemas.Entry) bool {
	return e.Auth != nil && (e.Auth.Identity == "requester" || e.Auth.Type == "oauth" && e.Auth.Identity == "")
}

// begin writes the record without which nothing is sent.
func (c *call) begin(ctx context.Context) error {
	rec := c.record(schemas.EventCallBegin)
	rec.Args = digestArgs(c.Args)
	if _, err := c.r.opt.Journal.Append(ctx, rec); err != nil {
		return &schemas.Error{
			Code: schemas.CodeInternal, Text: "the audit log cannot be written, so the call was not made", Ref: c.receipt, Err: err,
		}
	}
	return nil
}

// begin writes the record without which nothing is started or contacted.
func (i *instance) begin(ctx context.Context) error {
	if _, err := i.t.r.opt.Journal.Append(ctx, i.record("start")); err != nil {
		return &schemas.Error{Code: schemas.CodeInternal, Text: "the audit log cannot be written, so it was not started", Err: err}
	}
	i.begun = true
	return nil
}

// ended writes how it went; what a server says about it is not the log's.
func (i *instance) ended(how string) {
	if !i.begun {
		return
	}
	if _, err := i.t.r.opt.Journal.Append(context.WithoutCancel(i.life), i.record(how)); err != nil {
		i.t.r.opt.Log.Error("cannot write the audit record of a server's end", "thread", i.t.id, "server", i.name, "err", err)
	}
}

func (i *instance) record(how string) schemas.Record {
	return schemas.Record{At: i.t.r.opt.Now(), Thread: i.t.id, Event: schemas.EventServer, Server: i.name, RunsAs: i.member, Detail: how}
}

// end writes the outcome, also when the caller has gone.
func (c *call) end(ctx context.Context, res schemas.Result, err error) {
	rec := c.record(schemas.EventCallEnd)
	rec.Bytes, rec.Ms = res.Size, float64(res.Took.Microseconds())/1000
	switch schemas.CodeOf(err) {
	case "":
		rec.Outcome = schemas.OutcomeOK
		if res.IsError {
			rec.Outcome = schemas.OutcomeFailed
		}
	case schemas.CodeFailed:
		rec.Outcome = schemas.OutcomeFailed
	case schemas.CodeUnknown:
		rec.Outcome = schemas.OutcomeUnknown
	default:
		rec.Outcome = schemas.OutcomeNotRun
	}
	c.write(ctx, rec)
}

// refused writes down a call that was not made and gives the error back.
func (c *call) refused(ctx context.Context, err error) error {
	if !c.Caller.Thread.Valid() || c.t == nil {
		return err
	}
	rec := c.record(schemas.EventRefused)
	rec.Args, rec.Outcome = digestArgs(c.Args), schemas.OutcomeRefused
	code := schemas.CodeOf(err)
	if code == schemas.CodeNotReady {
		rec.Outcome = schemas.OutcomeNotRun
	}
	rec.Detail = string(code)
	c.write(ctx, rec)
	return err
}

func (c *call) write(ctx context.Context, rec schemas.Record) {
	if _, err := c.r.opt.Journal.Append(context.WithoutCancel(ctx), rec); err != nil {
		c.r.opt.Log.Error("cannot write the audit record of a call", "thread", rec.Thread, "receipt", rec.Receipt, "event", rec.Event, "outcome", rec.Outcome, "err", err)
	}
}

const maxDigest = 300 // bytes

// digestArgs names the keys of an object with the size of their values in bytes: "repo 11, title 40". Keys that do not
// look like names are not repeated: a value can hide in them.
func digestArgs(args []byte) string {
	if len(args) <= 2 || len(args) > maxArguments {
		return ""
	}
	if !jsonscan.Object(args) {
		return "not an object, " + strconv.Itoa(len(args))
	}
	b := make([]byte, 0, 64)
	full := false
	_ = jsonscan.Members(args, jsonscan.All(args), func(key []byte, value jsonscan.Span) {
		switch {
		case full:
			return
		case len(b) > maxDigest:
			b, full = append(b, ", …"...), true
			return
		case len(b) > 0:
			b = append(b, ", "...)
		}
		if len(key) <= 40 && schemas.ValidInput(string(key)) {
			b = append(b, key...)
		} else {
			b = append(b, '?')
		}
		b = strconv.AppendInt(append(b, ' '), int64(value.To-value.From), 10)
	})
	return string(b)
}

// repeated gives a key that an object has twice, "" if none: servers differ in which one they obey.
func repeated(args []byte) string {
	var known [16][]byte
	keys, twice := known[:0], ""
	_ = jsonscan.Members(args, jsonscan.All(args), func(key []byte, _ jsonscan.Span) {
		for _, k := range keys {
			if bytes.Equal(k, key) {
				twice = string(key)
			}
		}
		if len(keys) < 256 {
			keys = append(keys, key)
		}
	})
	return twice
}

// saysError reports whether a CallToolResult has "isError": true. Most results do not mention it, and are not looked
// into; one that says it twice is not trusted.
func saysError(raw []byte) bool {
	if !bytes.Contains(raw, []byte(`"isError"`)) {
		return false
	}
	at, err := jsonscan.Find(raw, jsonscan.All(raw), "isError")
	return err != nil || string(at.Of(raw)) == "true"
}
