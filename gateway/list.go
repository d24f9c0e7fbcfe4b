package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

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
		var def struct{ Annotations *hints }
		if json.Unmarshal(t.Raw, &def) == nil {
			l.Annotations = def.Annotations
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

// resources gives those of this client's servers. An address that two servers have is the first one's, since links in results mean
// no other; the second's goes with the server's name in front, by which any resource can be asked for.
func (x *exchange) resources(ctx context.Context) ([]located, error) {
	all, err := x.g.opt.Resources.Resources(ctx, x.caller)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	var list []located
	for _, r := range all {
		l := located{r, r.URI}
		if seen[l.at] || strings.HasPrefix(l.at, namedHead) {
			l.at = namedHead + l.Server + ":" + l.URI
		}
		if !seen[l.at] && (x.server == "" || r.Server == x.server) {
			seen[l.at] = true
			list = append(list, l)
		}
	}
	x.g.seenResources.put(x.identity, list)
	return list, nil
}

// namedHead begins an address with a server's name in front.
const namedHead = "bobbin:"

// located is a resource with the address that clients have of it.
type located struct {
	schemas.Resource
	at string
}

// named takes the server's name off an address; "" if there is none in front.
func named(uri string) (server, at string) {
	if rest, ok := strings.CutPrefix(uri, namedHead); ok {
		if server, at, ok := strings.Cut(rest, ":"); ok {
			return server, at
		}
	}
	return "", uri
}

func (x *exchange) listResources(ctx context.Context, templates bool) outcome {
	all, err := x.resources(ctx)
	if err != nil {
		return x.failed(ctx, err)
	}
	all = slices.DeleteFunc(all, func(l located) bool { return l.Template != templates })
	member, address := "resources", "uri"
	if templates {
		member, address = "resourceTemplates", "uriTemplate"
	}
	return x.page(member, len(all), func(i int) []byte {
		l := all[i]
		if l.at == l.URI {
			return object(l.Raw, "", "")
		}
		return object(l.Raw, address, l.at)
	})
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
	x.g.seenPrompts.put(x.identity, list)
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
			return object(p.Raw, "name", p.name)
		}
		return encode(map[string]any{"name": p.name, "description": p.Description})
	})
}

// object copies an object of a server with its texts cleaned, and another value of the member that clients know it by, if one is given. Members whose meaning for people
// is not known here stay as they are.
func object(raw json.RawMessage, key, value string) []byte {
	var o map[string]json.RawMessage
	if json.Unmarshal(raw, &o) != nil || o == nil {
		return []byte("{}")
	}
	if key != "" {
		o[key] = quote(value)
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
	for _, list := range []func() ([]prompted, error){
		func() ([]prompted, error) { return x.g.seenPrompts.get(x.identity), nil },
		func() ([]prompted, error) { return x.prompts(ctx) },
	} {
		all, err := list()
		if err != nil {
			return prompted{}, false, err
		}
		if i := slices.IndexFunc(all, func(p prompted) bool { return p.name == name }); i >= 0 {
			return all[i], true, nil
		}
	}
	return prompted{}, false, nil
}

// whose says which server has a resource and where: by its own address, else by a template that it fits.
func (x *exchange) whose(ctx context.Context, uri string) (server, at string, err error) {
	if server, at = owner(x.g.seenResources.get(x.identity), uri); server != "" {
		return server, at, nil
	}
	all, err := x.resources(ctx)
	if err != nil {
		return "", "", err
	}
	if server, at = owner(all, uri); server == "" {
		server, at = x.server, uri // it may know more than it lists
	}
	return server, at, nil
}

func owner(all []located, uri string) (server, at string) {
	only, at := named(uri)
	most := -1
	for _, l := range all {
		switch {
		case only != "" && l.Server != only:
		case !l.Template && l.URI == at:
			return l.Server, at
		case l.Template:
			if n, ok := fits(l.URI, at); ok && n > most {
				server, most = l.Server, n
			}
		}
	}
	return server, at
}

const (
	seenFor = 10 * time.Second // that what servers listed is believed, when something of it is asked for
	maxSeen = 256
)

// recent is what clients of a thread were listed a moment ago, so that not each read asks all servers what they have.
type recent[T any] struct {
	mu  sync.Mutex
	all map[identity]listing[T]
}

type listing[T any] struct {
	items []T
	at    time.Time
}

// alike are clients that see the same.
func alike(who identity) identity {
	return identity{server: who.server, caller: schemas.Caller{Thread: who.caller.Thread, Member: who.caller.Member}}
}

func (r *recent[T]) get(who identity) []T {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.all[alike(who)]; time.Since(l.at) < seenFor {
		return l.items
	}
	return nil
}

func (r *recent[T]) put(who identity, items []T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil || len(r.all) >= maxSeen {
		r.all = map[identity]listing[T]{}
	}
	r.all[alike(who)] = listing[T]{items, time.Now()}
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
type print struct{ tools, resources, prompts [sha256.Size]byte }

// look takes the print of what a client may see. It starts no server.
func (g *Gateway) look(ctx context.Context, who *identity) (*print, error) {
	all, err := g.opt.States.Status(ctx, who.caller.Thread)
	if err != nil {
		return nil, err
	}
	tools, res, pro := sha256.New(), sha256.New(), sha256.New()
	for _, st := range all {
		if who.server != "" && st.Name != who.server || st.State == schemas.Off || st.State == schemas.Failed || st.State == schemas.PendingState {
			continue
		}
		if st.Resources {
			_, _ = fmt.Fprintln(res, st.Name, st.ResourceChanges)
		}
		if st.Prompts {
			_, _ = fmt.Fprintln(pro, st.Name, st.PromptChanges)
		}
	}
	list, err := g.offered(ctx, *who)
	if err != nil {
		return nil, err
	}
	for _, t := range list {
		_, _ = fmt.Fprintln(tools, t.Model, t.Name, t.Pin)
	}
	return &print{[sha256.Size]byte(tools.Sum(nil)), [sha256.Size]byte(res.Sum(nil)), [sha256.Size]byte(pro.Sum(nil))}, nil
}
