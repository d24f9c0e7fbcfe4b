package registry

import (
	"bytes"
	"context"
	"strconv"
	"strings"

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
	ctx, cancel := context.WithTimeout(context.WithoutCancel(i.life), journalTime)
	defer cancel()
	if _, err := i.t.r.opt.Journal.Append(ctx, i.record(how)); err != nil {
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
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), journalTime)
	defer cancel()
	if _, err := c.r.opt.Journal.Append(ctx, rec); err != nil {
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
	var b strings.Builder
	ok := members(args, func(key, value []byte) bool {
		if b.Len() > maxDigest {
			b.WriteString(", …")
			return false
		}
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		if name := string(key); len(name) <= 40 && schemas.ValidInput(name) {
			b.WriteString(name)
		} else {
			b.WriteByte('?')
		}
		b.WriteByte(' ')
		b.WriteString(strconv.Itoa(len(value)))
		return true
	})
	if !ok {
		return "not an object, " + strconv.Itoa(len(args))
	}
	return b.String()
}

// repeated gives a key that an object has twice, "" if none: servers differ in which one they obey.
func repeated(args []byte) string {
	var keys [][]byte
	var twice string
	members(args, func(key, _ []byte) bool {
		for _, k := range keys {
			if bytes.Equal(k, key) {
				twice = string(key)
				return false
			}
		}
		if len(keys) < 256 {
			keys = append(keys, key)
		}
		return true
	})
	return twice
}

// members gives each member of a JSON object to fn until it says false; values are found by their brackets and quotes
// alone, so that text which is not JSON gives nonsense but ends. It reports whether the text looks like an object.
func members(object []byte, fn func(key, value []byte) bool) bool {
	b := bytes.TrimSpace(object)
	if len(b) < 2 || b[0] != '{' || b[len(b)-1] != '}' {
		return false
	}
	b = b[1 : len(b)-1]
	var key []byte
	depth, start := 0, 0
	end := func(i int) bool {
		more := key == nil || fn(key, bytes.TrimSpace(b[start:i]))
		key, start = nil, i+1
		return more
	}
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			for i++; i < len(b) && b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case ':':
			if depth == 0 && key == nil {
				key, start = bytes.TrimSpace(b[start:i]), i+1
				key = unquoted(key)
			}
		case ',':
			if depth == 0 && !end(i) {
				return true
			}
		}
	}
	end(len(b))
	return true
}

// saysError reports whether a CallToolResult has "isError": true, without decoding results that do not mention it.
func saysError(raw []byte) bool {
	for rest := raw; ; {
		i := bytes.Index(rest, []byte(`"isError"`))
		if i < 0 {
			return false
		}
		rest = bytes.TrimLeft(rest[i+len(`"isError"`):], " \t\r\n")
		if value, ok := bytes.CutPrefix(rest, []byte(":")); ok && bytes.HasPrefix(bytes.TrimLeft(value, " \t\r\n"), []byte("true")) {
			break
		}
	}
	says := false
	members(raw, func(key, value []byte) bool {
		if string(key) == "isError" {
			says = string(value) == "true"
		}
		return true
	})
	return says
}

func unquoted(b []byte) []byte {
	if len(b) < 2 {
		return []byte{}
	}
	return b[1 : len(b)-1]
}
