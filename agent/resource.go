package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"bobbin/schemas"
)

const (
	maxMentions  = 5 // resources that one message attaches
	maxListed    = 100
	maxURI       = 2048 // bytes
	readName     = "read_resource"
	listName     = "list_resources"
	mentionForm  = `(?:^|[\s(\[,;])@([A-Za-z0-9][A-Za-z0-9._-]{0,47}):([^\s<>]+)`
	mentionStops = `.,;:!?)]}'"`
)

// mentioned reads the resources that a member named as @server:uri.
func (t *turn) mentioned(ctx context.Context, s schemas.Said) (parts []Part) {
	if t.a.opt.Resources == nil || !strings.Contains(s.Text, "@") {
		return nil
	}
	statuses, err := t.a.opt.Resources.Status(ctx, s.Caller.Thread)
	if err != nil {
		return nil
	}
	seen := map[string]bool{}
	for _, m := range regexp.MustCompile(mentionForm).FindAllStringSubmatch(s.Text, -1) {
		server, uri := m[1], strings.TrimRight(m[2], mentionStops)
		if uri == "" || len(uri) > maxURI || seen[server+":"+uri] || !slices.ContainsFunc(statuses, func(st schemas.Status) bool { return st.Name == server }) {
			continue
		}
		if len(seen) == maxMentions {
			return append(parts, Part{Text: fmt.Sprintf("[more resources are named than can be attached at once, which is %d]", maxMentions)})
		}
		seen[server+":"+uri] = true
		t.board.status("reads " + server + ":" + uri)
		r, err := t.a.opt.Resources.ReadResource(ctx, s.Caller, server, uri)
		t.heard(server)
		if err != nil {
			_, words, _ := worded(err)
			parts = append(parts, Part{Text: fenced("resource "+server+":"+uri, "it could not be read: "+words)})
			continue
		}
		got := read(r, int(t.room.Load()))
		t.room.Add(-int32(len(got.images)))
		parts = append(parts, Part{Text: fenced("resource "+server+":"+uri, got.text)})
		for i := range got.images {
			parts = append(parts, Part{Image: &got.images[i]})
		}
	}
	return parts
}

// resourceTools offers reading where some server has resources.
func (t *turn) resourceTools(ctx context.Context, o *offer) {
	if t.a.opt.Resources == nil {
		return
	}
	var err error
	if t.statuses, err = t.a.opt.Resources.Status(ctx, t.caller.Thread); err != nil {
		t.statuses = nil
	}
	var offering []string
	for _, s := range t.statuses {
		if s.Resources {
			offering = append(offering, s.Name)
		}
	}
	if len(offering) == 0 {
		return
	}
	list := Tool{Name: listName, Description: "Lists the resources (documents and data) that this thread's servers offer to read.",
		Input: json.RawMessage(`{"type":"object","properties":{"server":{"type":"string","description":"Only those of this server."}}}`)}
	o.add(list, &usable{name: listName, from: ownServer + "." + listName, readOnly: true, input: list.Input, do: t.listResources,
		whose: func(args json.RawMessage) []string {
			if one := named(args, "server"); one != "" {
				return []string{one}
			}
			return offering
		}})
	read := Tool{Name: readName, Description: "Reads one resource of a server. Addresses are in list_resources, or a member names one as @server:uri.",
		Input: json.RawMessage(`{"type":"object","properties":{"server":{"type":"string"},"uri":{"type":"string"}},"required":["server","uri"]}`)}
	o.add(read, &usable{name: readName, from: ownServer + "." + readName, reads: true, readOnly: true, input: read.Input, do: t.readResource,
		whose: func(args json.RawMessage) []string { return []string{named(args, "server")} }})
}

func (t *turn) listResources(ctx context.Context, c schemas.Caller, args json.RawMessage, _ []string, _ func(string)) (schemas.Result, error) {
	var in struct {
		Server string `json:"server"`
	}
	if json.Unmarshal(args, &in) != nil {
		return schemas.Result{}, &schemas.Error{Code: schemas.CodeInvalid, Text: "server is a text"}
	}
	all, err := t.a.opt.Resources.Resources(ctx, c)
	if err != nil {
		return schemas.Result{}, err
	}
	var b strings.Builder
	n := 0
	for _, r := range all {
		if in.Server != "" && r.Server != in.Server {
			continue
		}
		if n++; n > maxListed {
			continue
		}
		kind := ""
		if r.Template {
			kind = " (a pattern: fill in what stands in braces)"
		}
		fmt.Fprintf(&b, "- server %s, uri %s%s: %s %s\n", r.Server, r.URI, kind, r.Name, first(strings.Join(strings.Fields(r.Description), " "), 160))
	}
	switch {
	case n == 0:
		return textResult("there are none"), nil
	case n > maxListed:
		fmt.Fprintf(&b, "and %d more; name a server to see its own\n", n-maxListed)
	}
	return textResult(b.String()), nil
}

func (t *turn) readResource(ctx context.Context, c schemas.Caller, args json.RawMessage, _ []string, _ func(string)) (schemas.Result, error) {
	var in struct {
		Server string `json:"server"`
		URI    string `json:"uri"`
	}
	if json.Unmarshal(args, &in) != nil || in.Server == "" || in.URI == "" {
		return schemas.Result{}, &schemas.Error{Code: schemas.CodeInvalid, Text: "server and uri are needed, both are texts"}
	}
	return t.a.opt.Resources.ReadResource(ctx, c, in.Server, in.URI)
}
