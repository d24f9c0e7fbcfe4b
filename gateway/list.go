package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"bobbin/schemas"
)

const maxPageBytes = 4 << 20

// listed is a tool as clients see it: texts are the cleaned ones that people see, too.
type listed struct {
	Name        string          `json:"name"`
	Title       string          `json:"title,omitempty"`
	Description string          `json:"description,omitempty"`
	Input       json.RawMessage `json:"inputSchema"`
	Output      json.RawMessage `json:"outputSchema,omitempty"`
	Annotations *hints          `json:"annotations,omitempty"`
}

// hints are a tool's annotations without its texts.
type hints struct {
	ReadOnly    *bool `json:"readOnlyHint,omitempty"`
	Destructive *bool `json:"destructiveHint,omitempty"`
	Idempotent  *bool `json:"idempotentHint,omitempty"`
	OpenWorld   *bool `json:"openWorldHint,omitempty"`
}

// offered gives the tools that this client may see.
func (g *Gateway) offered(ctx context.Context, who identity) ([]schemas.Tool, error) {
	all, err := g.opt.Tools.Tools(ctx, who.caller)
	if who.server == "" || err != nil {
		return all, err
	}
	return slices.DeleteFunc(slices.Clone(all), func(t schemas.Tool) bool { return t.Server != who.server }), nil
}

func (x *exchange) listTools(ctx context.Context) outcome {
	all, err := x.g.offered(ctx, x.identity)
	if err != nil {
		return x.failed(ctx, err)
	}
	return x.page("tools", len(all), func(i int) []byte {
		t := all[i]
		l := listed{Name: t.Model, Title: t.Title, Description: t.Description, Input: t.Input, Output: t.Output}
		if x.server != "" {
			l.Name = t.Name
		}
		var def struct {
			Annotations *hints
			Output      *struct{} `json:"outputSchema"`
		}
		if json.Unmarshal(t.Raw, &def) == nil {
			l.Annotations = def.Annotations
		}
		if def.Output == nil { // clients hold a tool to any schema that is there
			l.Output = nil
		}
		return encode(l)
	})
}

// page gives the part of a list that the request's cursor asks for.
func (x *exchange) page(member string, n int, item func(int) []byte) outcome {
	from := 0
	if c := x.m.params.Cursor; c != "" {
		at, err := strconv.Atoi(strings.TrimPrefix(c, "at-"))
		if err != nil || !strings.HasPrefix(c, "at-") || at < 0 || at > 1<<20 {
			return wrong(codeParams, "that is no cursor of this list")
		}
		from = min(at, n)
	}
	b := append(append([]byte(`{"`), member...), `":[`...)
	i := from
	for ; i < n && i-from < x.g.opt.Page && len(b) < maxPageBytes; i++ {
		if i > from {
			b = append(b, ',')
		}
		b = append(b, item(i)...)
	}
	b = append(b, ']')
	if i < n {
		b = append(append(append(b, `,"nextCursor":"at-`...), strconv.Itoa(i)...), '"')
	}
	if x.modern() {
		b = append(b, `,"resultType":"complete","ttlMs":0,"cacheScope":"private"`...)
	}
	return outcome{result: append(b, '}')}
}

// resources gives those of this client's servers; of an address that two servers have, the first one's.
func (x *exchange) resources(ctx context.Context) ([]schemas.Resource, error) {
	all, err := x.g.opt.Resources.Resources(ctx, x.caller)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	var list []schemas.Resource
	for _, r := range all {
		if x.server == "" || r.Server == x.server {
			if !seen[r.URI] {
				list = append(list, r)
			}
			seen[r.URI] = true
		}
	}
	return list, nil
}

func (x *exchange) listResources(ctx context.Context, templates bool) outcome {
	all, err := x.resources(ctx)
	if err != nil {
		return x.failed(ctx, err)
	}
	all = slices.DeleteFunc(all, func(r schemas.Resource) bool { return r.Template != templates })
	member := "resources"
	if templates {
		member = "resourceTemplates"
	}
	return x.page(member, len(all), func(i int) []byte { return object(all[i].Raw, "") })
}

// prompted is a prompt with the name that clients call it by.
type prompted struct {
	schemas.Prompt
	name string
}

// prompts gives those of this client's servers; a name that two servers have goes with the server's in front.
func (x *exchange) prompts(ctx context.Context) ([]prompted, error) {
	all, err := x.g.opt.Prompts.Prompts(ctx, x.caller)
	if err != nil {
		return nil, err
	}
	times := map[string]int{}
	var list []prompted
	for _, p := range all {
		if x.server == "" || p.Server == x.server {
			times[p.Name]++
			list = append(list, prompted{p, p.Name})
		}
	}
	for i, p := range list {
		if times[p.Name] > 1 {
			list[i].name = p.Server + "." + p.Name
		}
	}
	return list, nil
}

func (x *exchange) listPrompts(ctx context.Context) outcome {
	all, err := x.prompts(ctx)
	if err != nil {
		return x.failed(ctx, err)
	}
	return x.page("prompts", len(all), func(i int) []byte {
		p := all[i]
		if p.Raw != nil {
			return object(p.Raw, p.name)
		}
		return encode(map[string]any{"name": p.name, "description": p.Description})
	})
}

// object copies an object of a server with its texts cleaned, and another name if one is given. Members whose meaning for people
// is not known here stay as they are.
func object(raw json.RawMessage, name string) []byte {
	var o map[string]json.RawMessage
	if json.Unmarshal(raw, &o) != nil || o == nil {
		return []byte("{}")
	}
	if name != "" {
		o["name"] = quote(name)
	}
	for _, key := range []string{"title", "description"} {
		var text string
		if json.Unmarshal(o[key], &text) == nil && text != "" {
			o[key] = quote(schemas.Clean(text, key == "title"))
		}
	}
	var args []struct {
		Name        string `json:"name"`
		Title       string `json:"title,omitempty"`
		Description string `json:"description,omitempty"`
		Required    bool   `json:"required,omitempty"`
	}
	if json.Unmarshal(o["arguments"], &args) == nil && args != nil {
		for i := range args {
			args[i].Title, args[i].Description = schemas.Clean(args[i].Title, true), schemas.Clean(args[i].Description, false)
		}
		o["arguments"] = encode(args)
	}
	return encode(o)
}

// known gives a prompt by the name that clients call it by.
func (x *exchange) known(ctx context.Context, name string) (prompted, bool, error) {
	all, err := x.prompts(ctx)
	i := slices.IndexFunc(all, func(p prompted) bool { return p.name == name })
	if i < 0 {
		return prompted{}, false, err
	}
	return all[i], true, err
}

// whose says which server has a resource: by its own address, else by a template that it fits.
func (x *exchange) whose(ctx context.Context, uri string) (string, error) {
	all, err := x.resources(ctx)
	if err != nil {
		return "", err
	}
	for _, r := range all {
		if !r.Template && r.URI == uri {
			return r.Server, nil
		}
	}
	best := ""
	fixed := -1
	for _, r := range all {
		if r.Template {
			if n, ok := fits(r.URI, uri); ok && n > fixed {
				best, fixed = r.Server, n
			}
		}
	}
	if best == "" && x.server != "" {
		return x.server, nil // it may know more than it lists
	}
	return best, nil
}

// fits reports whether an address may come of a template (RFC 6570): the literal parts are found in their order, each expression
// stands for anything. fixed is how many bytes are literal.
func fits(template, uri string) (fixed int, ok bool) {
	rest, first := uri, true
	for {
		literal, expression, more := strings.Cut(template, "{")
		fixed += len(literal)
		at := strings.Index(rest, literal)
		switch {
		case at < 0, first && at > 0:
			return fixed, false
		case !more:
			return fixed, literal == "" && !first || strings.HasSuffix(rest, literal) && (!first || rest == literal)
		}
		rest, first = rest[at+len(literal):], false
		if _, template, more = strings.Cut(expression, "}"); !more {
			return fixed, false
		}
	}
}

// print is what of a thread its clients hear about: when it differs, a list changed.
type print struct{ tools, resources, prompts string }

// look takes the print of what a client may see. It starts no server.
func (g *Gateway) look(ctx context.Context, who identity) (print, error) {
	var p print
	all, err := g.opt.States.Status(ctx, who.caller.Thread)
	if err != nil {
		return p, err
	}
	var res, pro, tools strings.Builder
	for _, st := range all {
		if who.server != "" && st.Name != who.server || st.State == schemas.Off || st.State == schemas.Failed || st.State == schemas.PendingState {
			continue
		}
		if st.Resources {
			res.WriteString(st.Name + " " + strconv.Itoa(st.ResourceChanges) + "\n")
		}
		if st.Prompts {
			pro.WriteString(st.Name + " " + strconv.Itoa(st.PromptChanges) + "\n")
		}
	}
	list, err := g.offered(ctx, who)
	if err != nil {
		return p, err
	}
	for _, t := range list {
		tools.WriteString(cmp.Or(t.Model, t.Name) + " " + t.Pin + "\n")
	}
	return print{tools.String(), res.String(), pro.String()}, nil
}
