package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"bobbin/internal/jsonscan"
	"bobbin/schemas"
)

// call runs a tool on the one path of calls. What the policy or the tool refuses is a result that says so, for the model to read;
// only a tool that is not there is a fault (MCP 2025-11-25, Tools, Error Handling).
func (x *exchange) call(ctx context.Context) outcome {
	name := x.m.params.Name
	if name == "" {
		return wrong(codeParams, "name is missing")
	}
	if x.server != "" {
		name = x.server + "." + name
	}
	in := x.wish()
	in.Tool, in.Args = name, x.m.params.Arguments
	res, err := x.g.opt.Tools.Call(ctx, in)
	if err == nil {
		return x.whole(res.Raw)
	}
	if f := refused(err); f != nil && ctx.Err() == nil {
		return outcome{fault: f}
	}
	if e, ok := errors.AsType[*schemas.Error](err); ok && ctx.Err() == nil {
		switch e.Code {
		case schemas.CodeNotFound:
			return wrong(codeParams, words(e))
		case schemas.CodeInternal:
		default:
			return x.said(words(e))
		}
	}
	if ps, ok := errors.AsType[schemas.Problems](err); ok {
		return x.said("the arguments do not fit:\n" + ps.Named().Error())
	}
	return x.failed(ctx, err)
}

// refused is the fault that a server gave itself.
func refused(err error) *fault {
	if r, ok := errors.AsType[*schemas.Refusal](err); ok {
		return &fault{code: r.Code, text: r.Message, data: r.Data}
	}
	return nil
}

// wish is a call with what this client hears and answers of it.
func (x *exchange) wish() schemas.Call {
	in := schemas.Call{Caller: x.caller, Origin: schemas.ByGateway, Whole: true, Elicit: x.question(), Client: x.client(), Ask: x.permission()}
	if token := x.m.params.Meta.Progress; token != nil && x.hears {
		in.Progress = func(params json.RawMessage) {
			if p := withToken(params, token); p != nil {
				x.tell("notifications/progress", p)
			}
		}
		waits := 0
		in.Waiting = func(why string) {
			if why != "" { // far below what the tool itself counts, since progress has to grow
				waits++
				x.tell("notifications/progress", fmt.Appendf(nil, `{"progressToken":%s,"progress":%de-9,"message":%s}`, token, waits, quote(why)))
			}
		}
	}
	if x.hears && x.level != nil {
		in.Log = x.log
	}
	return in
}

// log passes on a server's log message that is important enough for the client.
func (x *exchange) log(params json.RawMessage) {
	at, err := jsonscan.Find(params, jsonscan.All(params), "level")
	level, ok := jsonscan.Text(at.Of(params))
	if err == nil && ok && slices.Index(levels(), level) >= int(x.level.Load()) {
		x.tell("notifications/message", params)
	}
}

// withToken puts the client's own progress token in the place of ours.
func withToken(params, token []byte) []byte {
	at, err := jsonscan.Find(params, jsonscan.All(params), "progressToken")
	if err != nil || at.Absent() {
		return nil
	}
	return jsonscan.Splice(nil, params, jsonscan.Edit{At: at, By: token})
}

// said is a result of a tool that says what is wrong.
func (x *exchange) said(text string) outcome {
	return x.whole(encode(map[string]any{"content": []map[string]string{{"type": "text", "text": text}}, "isError": true}))
}

// words are an error's for a person, or a person's model.
func words(e *schemas.Error) string {
	text := e.Text
	if e.Hint != "" {
		text += " · " + e.Hint
	}
	if e.Ref != "" && !strings.Contains(text, e.Ref) {
		text += " · reference " + e.Ref
	}
	return text
}

// whole is a server's result as the bytes it came in; since 2026-07-28 it says of which type it is.
func (x *exchange) whole(raw json.RawMessage) outcome {
	raw = bytes.TrimSpace(raw)
	if len(raw) < 2 || raw[0] != '{' {
		return wrong(codeServer, "the server's answer is no object")
	}
	if !x.modern() || hasKey(raw, "resultType") {
		return outcome{result: raw}
	}
	return outcome{result: withMember(raw, `"resultType":"complete"`)}
}

// withMember puts a member in front of an object's own.
func withMember(raw []byte, member string) []byte {
	b := append(append(make([]byte, 0, len(raw)+len(member)+2), '{'), member...)
	rest := bytes.TrimLeft(raw[1:], " \t\r\n")
	if rest[0] != '}' {
		b = append(b, ',')
	}
	return append(b, rest...)
}

// hasKey reports whether a JSON object has a member of this name itself.
func hasKey(raw []byte, key string) bool {
	at, err := jsonscan.Find(raw, jsonscan.All(raw), key)
	return err != nil || !at.Absent()
}

// cached is whole for what says how long it may be kept, since 2026-07-28.
func (x *exchange) cached(raw json.RawMessage) outcome {
	o := x.whole(raw)
	if x.modern() && o.fault == nil && !hasKey(o.result, "ttlMs") {
		o.result = withMember(o.result, `"ttlMs":0,"cacheScope":"private"`)
	}
	return o
}

// failed is the fault for an error of the rooms below.
func (x *exchange) failed(ctx context.Context, err error) outcome {
	if ctx.Err() != nil {
		return outcome{} // nobody waits for it
	}
	if e, ok := errors.AsType[*schemas.Error](err); ok && e.Code != schemas.CodeInternal {
		code := codeServer
		if e.Code == schemas.CodeNotFound || e.Code == schemas.CodeInvalid {
			code = codeParams
		}
		return wrong(code, words(e))
	}
	if ps, ok := errors.AsType[schemas.Problems](err); ok {
		return wrong(codeParams, ps.Named().Error())
	}
	x.g.opt.Log.Error("a request of a client failed", "thread", x.caller.Thread, "method", x.m.Method, "err", err)
	text := "something went wrong on bobbin's side"
	if e, ok := errors.AsType[*schemas.Error](err); ok {
		text = words(e)
	}
	return wrong(codeInternal, text)
}

func (x *exchange) readResource(ctx context.Context) outcome {
	uri := x.m.params.URI
	if uri == "" {
		return wrong(codeParams, "uri is missing")
	}
	server, at, err := x.whose(ctx, uri)
	if err != nil {
		return x.failed(ctx, err)
	}
	if server != "" {
		res, err := x.g.opt.Resources.ReadResource(ctx, x.caller, server, at)
		if err == nil {
			return x.cached(res.Raw)
		}
		f := refused(err)
		switch e, ok := errors.AsType[*schemas.Error](err); {
		case f != nil && f.code != codeNoResource && f.code != codeParams && ctx.Err() == nil:
			return outcome{fault: f}
		case f == nil && (!ok || e.Code != schemas.CodeNotFound):
			return x.failed(ctx, err)
		}
	}
	f := &fault{code: codeNoResource, text: "no such resource here", data: encode(map[string]string{"uri": uri})}
	if x.modern() {
		f.code = codeParams
	}
	return outcome{fault: f}
}

func (x *exchange) getPrompt(ctx context.Context) outcome {
	p, ok, err := x.known(ctx, x.m.params.Name)
	switch {
	case err != nil:
		return x.failed(ctx, err)
	case !ok:
		return wrong(codeParams, "no such prompt here")
	}
	var args map[string]string
	if len(x.m.params.Arguments) > 0 && json.Unmarshal(x.m.params.Arguments, &args) != nil {
		return wrong(codeParams, "the arguments of a prompt are texts")
	}
	res, err := x.g.opt.Prompts.Fill(ctx, x.wish(), p.Server, p.Name, args)
	if err != nil {
		if f := refused(err); f != nil && ctx.Err() == nil {
			return outcome{fault: f}
		}
		return x.failed(ctx, err)
	}
	return x.whole(res.Raw)
}

// complete asks the server that offers the prompt or template for values; one that does not complete gives none.
func (x *exchange) complete(ctx context.Context) outcome {
	var in struct {
		Ref struct {
			Type, Name, URI string
		}
		Argument struct {
			Name  *string
			Value *string
		}
	}
	var raw struct{ Argument, Context json.RawMessage }
	if json.Unmarshal(x.m.Params, &in) != nil || json.Unmarshal(x.m.Params, &raw) != nil || in.Argument.Name == nil || in.Argument.Value == nil {
		return wrong(codeParams, "ref and argument are needed")
	}
	want := schemas.Completion{Argument: raw.Argument, Context: raw.Context}
	switch in.Ref.Type {
	case "ref/prompt":
		p, ok, err := x.known(ctx, in.Ref.Name)
		switch {
		case err != nil:
			return x.failed(ctx, err)
		case !ok:
			return wrong(codeParams, "no such prompt here")
		}
		want.Server, want.Prompt = p.Server, p.Name
	case "ref/resource":
		all, err := x.resources(ctx)
		if err != nil {
			return x.failed(ctx, err)
		}
		i := slices.IndexFunc(all, func(l located) bool {
			only, at := named(in.Ref.URI)
			return l.URI == at && (only == "" || only == l.Server)
		})
		if i < 0 {
			return wrong(codeParams, "no such resource here")
		}
		want.Server, want.Template = all[i].Server, all[i].URI
	default:
		return wrong(codeParams, "ref is a prompt or a resource")
	}
	res, err := x.g.opt.Prompts.Complete(ctx, x.caller, want)
	if e, ok := errors.AsType[*schemas.Error](err); ok && e.Code == schemas.CodeMissing {
		return x.whole([]byte(`{"completion":{"values":[],"total":0,"hasMore":false}}`))
	}
	if f := refused(err); f != nil && ctx.Err() == nil {
		return outcome{fault: f}
	}
	if err != nil {
		return x.failed(ctx, err)
	}
	return x.whole(res.Raw)
}
