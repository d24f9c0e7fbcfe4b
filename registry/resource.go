package registry

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"bobbin/registry/internal/session"
	"bobbin/schemas"
)

const (
	listTime  = 10 * time.Second // for the lists of one server
	maxListed = 500              // resources or prompts of one server
	maxURI    = 2048             // bytes
)

// Resources lists what the thread's servers offer to read, in load order. Servers that do not answer in time are left
// out; idle ones that offer resources are started.
func (r *Registry) Resources(ctx context.Context, c schemas.Caller) ([]schemas.Resource, error) {
	return gather(ctx, r, c, "resources/read", func(st schemas.Status) bool { return st.Resources }, listResources)
}

// Prompts lists the thread's prompts in the same way.
func (r *Registry) Prompts(ctx context.Context, c schemas.Caller) ([]schemas.Prompt, error) {
	return gather(ctx, r, c, "prompts/get", func(st schemas.Status) bool { return st.Prompts }, listPrompts)
}

// gather asks all servers with an ability at once, as far as the policy lets the member use it by method.
func gather[T any](ctx context.Context, r *Registry, c schemas.Caller, method string, able func(schemas.Status) bool, list func(context.Context, *instance) ([]T, error)) ([]T, error) {
	t, s, err := r.view(ctx, c.Thread)
	if err != nil {
		return nil, err
	}
	if c.Role < schemas.Member {
		return nil, &schemas.Error{Code: schemas.CodeDenied, Text: "guests may look, not use tools"}
	}
	if s.unknown {
		t.discover(ctx, s)
		s = t.snap.Load()
	}
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	found := make([][]T, len(s.servers))
	var wg sync.WaitGroup
	for n, v := range s.servers {
		if !able(v.status) || v.meter == nil {
			continue
		}
		as := r.actsAs(ctx, v.entry, c)
		if as != v.entry.Owner && r.opt.Credentials == nil {
			continue
		}
		if s.policy.Decide(schemas.Tool{Server: v.entry.Name, Name: method}, c.Member, r.opt.Now()).Verb == schemas.Deny {
			continue // what may not be read is not asked for
		}
		wg.Go(func() {
			i, err := t.running(ctx, v.entry.Name, as)
			if err != nil {
				return
			}
			defer i.release(time.Now())
			if v := t.snap.Load().byName[i.name]; v == nil || r.actsAs(ctx, v.entry, c) != as {
				return // whose sign-in it uses changed while it started
			}
			found[n], err = list(ctx, i)
			if err != nil {
				r.opt.Log.Info("a server did not list its resources or prompts", "thread", t.id, "server", v.entry.Name, "err", i.mask(err.Error()))
			}
		})
	}
	wg.Wait()
	return slices.Concat(found...), nil
}

// running gives what serves a server as m, started and acquired.
func (t *thread) running(ctx context.Context, name string, m schemas.MemberID) (*instance, error) {
	for range 5 {
		if err := t.awaken(ctx, name, m); err != nil {
			return nil, err
		}
		if v := t.snap.Load().byName[name]; v != nil {
			if i := v.seat(m).inst; i != nil && i.acquire() {
				return i, nil
			}
		}
	}
	return nil, &schemas.Error{Code: schemas.CodeNotReady, Text: name + " keeps stopping"}
}

func listResources(ctx context.Context, i *instance) ([]schemas.Resource, error) {
	var all []schemas.Resource
	for _, template := range []bool{false, true} {
		list, fetch := session.List{}, i.sess.ListResources
		if template {
			fetch = i.sess.ListResourceTemplates
		}
		list, err := fetch(ctx)
		if err != nil && !template {
			return nil, err
		}
		for _, raw := range list.Items[:min(len(list.Items), maxListed)] {
			var w struct {
				URI         string `json:"uri"`
				Template    string `json:"uriTemplate"`
				Name        string `json:"name"`
				Title       string `json:"title"`
				MIME        string `json:"mimeType"`
				Description string `json:"description"`
			}
			uri := ""
			if json.Unmarshal(raw, &w) == nil {
				uri = cmp.Or(w.URI, w.Template)
			}
			if uri == "" || len(uri) > maxURI || schemas.Clean(uri, true) != uri {
				continue
			}
			all = append(all, schemas.Resource{
				Server: i.name, URI: uri, Name: short(schemas.Clean(cmp.Or(w.Title, w.Name), true), 128), MIME: short(schemas.Clean(w.MIME, true), 128),
				Description: cut(schemas.Clean(w.Description, false), maxDescription), Template: template, Raw: raw,
			})
		}
	}
	return all, nil
}

func listPrompts(ctx context.Context, i *instance) ([]schemas.Prompt, error) {
	list, err := i.sess.ListPrompts(ctx)
	if err != nil {
		return nil, err
	}
	var all []schemas.Prompt
	for _, raw := range list.Items[:min(len(list.Items), maxListed)] {
		var w struct {
			Name        string `json:"name"`
			Description string `json:"description"`
			Arguments   []struct {
				Name        string `json:"name"`
				Description string `json:"description"`
				Required    bool   `json:"required"`
			} `json:"arguments"`
		}
		if json.Unmarshal(raw, &w) != nil || w.Name == "" || len(w.Name) > maxToolName || schemas.Clean(w.Name, true) != w.Name {
			continue
		}
		p := schemas.Prompt{Server: i.name, Name: w.Name, Description: cut(schemas.Clean(w.Description, false), maxDescription), Raw: raw}
		for _, a := range w.Arguments {
			if schemas.Clean(a.Name, true) == a.Name && a.Name != "" {
				p.Arguments = append(p.Arguments, schemas.PromptArgument{Name: a.Name, Description: cut(schemas.Clean(a.Description, false), maxDescription), Required: a.Required})
			}
		}
		all = append(all, p)
	}
	return all, nil
}

// ReadResource reads one resource of a server: the bytes of a ReadResourceResult, audited like a call.
func (r *Registry) ReadResource(ctx context.Context, c schemas.Caller, server, uri string) (schemas.Result, error) {
	if uri == "" || len(uri) > maxURI {
		return schemas.Result{}, &schemas.Error{Code: schemas.CodeInvalid, Text: fmt.Sprintf("the address of a resource has 1 to %d bytes", maxURI)}
	}
	return r.ask(ctx, schemas.Call{Caller: c, Origin: originOf(c), Whole: c.Door == schemas.DoorGateway}, server, "resources/read", func(ctx context.Context, _ *call, s *session.Session) (json.RawMessage, error) {
		return s.ReadResource(ctx, uri)
	})
}

// Prompt fills in a prompt of a server: the bytes of a GetPromptResult, audited like a call.
func (r *Registry) Prompt(ctx context.Context, c schemas.Caller, server, name string, args map[string]string) (schemas.Result, error) {
	return r.Fill(ctx, schemas.Call{Caller: c, Origin: originOf(c)}, server, name, args)
}

// Fill is Prompt for a caller that may be asked in between: of in, all but Tool and Args counts.
func (r *Registry) Fill(ctx context.Context, in schemas.Call, server, name string, args map[string]string) (schemas.Result, error) {
	raw, err := json.Marshal(args)
	if err != nil || len(raw) > maxArguments {
		return schemas.Result{}, &schemas.Error{Code: schemas.CodeTooLarge, Text: "the arguments are too large"}
	}
	if args == nil {
		raw = json.RawMessage("{}")
	}
	in.Args = raw
	return r.ask(ctx, in, server, "prompts/get", func(ctx context.Context, c *call, s *session.Session) (json.RawMessage, error) {
		return s.GetPromptWith(ctx, name, raw, c.hooks(c.Progress))
	})
}

// Complete asks a server for values of an argument: the bytes of a CompleteResult, audited like a call. CodeMissing says that the server
// completes nothing.
func (r *Registry) Complete(ctx context.Context, c schemas.Caller, in schemas.Completion) (schemas.Result, error) {
	type ref struct {
		Type string `json:"type"`
		Name string `json:"name,omitempty"`
		URI  string `json:"uri,omitempty"`
	}
	params := struct {
		Ref      ref             `json:"ref"`
		Argument json.RawMessage `json:"argument"`
		Context  json.RawMessage `json:"context,omitempty"`
	}{ref{Type: "ref/prompt", Name: in.Prompt}, in.Argument, in.Context}
	if in.Prompt == "" {
		params.Ref = ref{Type: "ref/resource", URI: in.Template}
	}
	raw, err := json.Marshal(params)
	if err != nil || len(raw) > maxArguments {
		return schemas.Result{}, &schemas.Error{Code: schemas.CodeInvalid, Text: "the argument to complete cannot be read, or is too large"}
	}
	return r.ask(ctx, schemas.Call{Caller: c, Origin: originOf(c), Args: raw}, in.Server, "completion/complete", func(ctx context.Context, _ *call, s *session.Session) (json.RawMessage, error) {
		if !s.Info().Completions {
			return nil, fmt.Errorf("%w: %w", session.ErrNotSent, &schemas.Error{Code: schemas.CodeMissing, Text: in.Server + " completes nothing"})
		}
		return s.Complete(ctx, raw)
	})
}

// ask sends a request that is no tool call on the way that tool calls take.
func (r *Registry) ask(ctx context.Context, in schemas.Call, server, method string, fn func(context.Context, *call, *session.Session) (json.RawMessage, error)) (schemas.Result, error) {
	who := in.Caller
	in.Tool = server + "." + method
	t, s, err := r.view(ctx, who.Thread)
	if err != nil {
		return schemas.Result{}, err
	}
	v := s.byName[server]
	if v == nil || v.meter == nil {
		return schemas.Result{}, noServer(server, names(s))
	}
	c := &call{
		Call: in, r: r, t: t, snap: s, receipt: newReceipt(),
		tool: &tool{Tool: schemas.Tool{Server: server, Name: method, Kind: v.entry.Kind}, server: v, timeout: time.Duration(v.entry.Timeout) * time.Millisecond},
	}
	if who.Role < schemas.Member || !who.Member.Valid() {
		return schemas.Result{}, c.refused(ctx, &schemas.Error{Code: schemas.CodeDenied, Text: "guests may look, not use tools"})
	}
	c.as = r.actsAs(ctx, v.entry, who)
	if err := c.admit(ctx); err != nil {
		return schemas.Result{}, c.refused(ctx, err)
	}
	d := s.policy.Decide(c.tool.Tool, who.Member, r.opt.Now())
	if d.Verb == schemas.Deny {
		return schemas.Result{}, c.refused(ctx, denied(c.tool.Tool, d))
	}
	return c.send(ctx, c.timeout(), func(ctx context.Context, s *session.Session) (json.RawMessage, error) { return fn(ctx, c, s) })
}

func originOf(c schemas.Caller) schemas.Origin {
	if c.Door == schemas.DoorGateway {
		return schemas.ByGateway
	}
	return schemas.ByPerson
}

func names(s *snapshot) []string {
	var list []string
	for name := range s.byName {
		list = append(list, name)
	}
	slices.SortFunc(list, strings.Compare)
	return list
}
