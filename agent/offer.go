package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"bobbin/schemas"
)

// offer is what the model may call in one step.
type offer struct {
	list   []Tool // as it is sent
	byName map[string]*usable
	search func() *index // of the servers' tools; nil where all are sent
}

// usable is one tool, whoever has it.
type usable struct {
	name     string                              // for people
	from     string                              // whose results it gives
	whose    func(args json.RawMessage) []string // servers whose words a call's result brings; nil: only bobbin's
	reads    bool                                // one resource, of the first of them
	hidden   bool                                // it has to be found before it is shown
	readOnly bool
	input    json.RawMessage
	do       func(ctx context.Context, c schemas.Caller, args json.RawMessage, wary []string, waiting func(string)) (schemas.Result, error)
}

// ownServer is whose the tools of bobbin are.
const ownServer = "bobbin"

// offered reads the thread's tools anew.
func (t *turn) offered(ctx context.Context) (*offer, error) {
	list, err := t.a.opt.Tools.Tools(ctx, t.caller)
	if err != nil {
		return nil, err
	}
	o := &offer{byName: map[string]*usable{}}
	if t.a.opt.Own != nil {
		for _, tool := range t.a.opt.Own.OwnTools(ctx, t.caller) {
			o.add(t.ownTool(tool))
		}
	}
	t.resourceTools(ctx, o)
	hidden := t.tooMany(list)
	if hidden {
		o.search = sync.OnceValue(func() *index { return newIndex(list) })
		o.add(t.searchTool(o, list))
	}
	for _, tool := range list {
		if o.byName[tool.Model] != nil || tool.Model == "" {
			continue
		}
		u := t.serverTool(tool)
		u.hidden = hidden
		if o.byName[tool.Model] = u; !hidden {
			o.list = append(o.list, shown(tool))
		}
	}
	if hidden {
		o.list = append(o.list, t.foundTools(list)...)
	}
	return o, nil
}

func (o *offer) add(tool Tool, u *usable) {
	if tool.Name == "" || o.byName[tool.Name] != nil {
		return
	}
	o.byName[tool.Name] = u
	o.list = append(o.list, tool)
}

// shown is a tool as the model sees it.
func shown(t schemas.Tool) Tool {
	input := t.Input
	if len(input) == 0 {
		input = json.RawMessage(`{"type":"object"}`)
	}
	return Tool{Name: cmp.Or(t.Model, t.Name), Description: describe(cmp.Or(t.Description, t.Title)), Input: input}
}

func (t *turn) serverTool(tool schemas.Tool) *usable {
	return &usable{
		name: tool.Full(), from: tool.Full(), whose: always(tool.Server), readOnly: tool.ReadOnly && tool.Held == "", input: tool.Input,
		do: func(ctx context.Context, c schemas.Caller, args json.RawMessage, wary []string, waiting func(string)) (schemas.Result, error) {
			return t.a.opt.Tools.Call(ctx, schemas.Call{Caller: c, Origin: schemas.ByAssistant, Tool: tool.Model, Args: args, Wary: wary, Waiting: waiting})
		},
	}
}

func (t *turn) ownTool(tool schemas.Tool) (Tool, *usable) {
	return shown(tool), &usable{
		name: tool.Name, whose: t.ownWords(tool), from: ownServer + "." + tool.Name, readOnly: tool.ReadOnly, input: tool.Input,
		do: func(ctx context.Context, c schemas.Caller, args json.RawMessage, wary []string, waiting func(string)) (schemas.Result, error) {
			if !tool.ReadOnly { // a card may have to be answered first, and an installation takes its time
				t.clock.pause()
				defer t.clock.resume()
			}
			return t.a.opt.Own.CallOwn(ctx, schemas.Call{Caller: c, Origin: schemas.ByAssistant, Tool: tool.Name, Args: args, Wary: wary, Waiting: waiting})
		},
	}
}

// always is the same server for all arguments.
func always(server string) func(json.RawMessage) []string {
	return func(json.RawMessage) []string { return []string{server} }
}

// named is what arguments name under a key.
func named(args json.RawMessage, key string) string {
	var all map[string]json.RawMessage
	var name string
	if json.Unmarshal(args, &all) == nil {
		_ = json.Unmarshal(all[key], &name) // what is no text names nothing
	}
	return name
}

// ownWords is whose words one of bobbin's own tools brings: what a command wrote, what a new server says, why others failed.
func (t *turn) ownWords(tool schemas.Tool) func(json.RawMessage) []string {
	if !tool.ReadOnly {
		return func(args json.RawMessage) []string { return []string{ownServer, named(args, "name")} }
	}
	return func(json.RawMessage) (servers []string) {
		for _, s := range t.statuses {
			if s.Why != "" {
				servers = append(servers, s.Name)
			}
		}
		return servers
	}
}

// unknown tells the model what it may have meant.
func (o *offer) unknown(name string) string {
	var known []string
	for n := range o.byName {
		known = append(known, n)
	}
	slices.Sort(known)
	said := fmt.Sprintf("there is no tool %q here, so nothing ran", first(label(name), 128))
	var near []string
	if n := schemas.Nearest(name, known); n != "" {
		near = append(near, n)
	}
	if o.search != nil {
		for _, tool := range o.search().find(name, 3) {
			if !slices.Contains(near, tool.Model) {
				near = append(near, tool.Model)
			}
		}
	} else {
		for _, n := range known {
			if len(near) < 3 && !slices.Contains(near, n) && strings.HasSuffix(n, "_"+lastWord(name)) {
				near = append(near, n)
			}
		}
	}
	if len(near) > 0 {
		return said + "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return said + "; a member can add a server that has it"
}

func lastWord(name string) string {
	return name[strings.LastIndexAny(name, "_.")+1:]
}
