package mcpstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"bobbin/mcpstore/internal/config"
	"bobbin/schemas"
)

// connectSource is the Edit.Source that may add servers by URL.
const connectSource = "connect"

// Propose computes what an edit would do, and whether the caller may do it. It writes nothing.
func (s *Store) Propose(ctx context.Context, by schemas.Caller, e schemas.Edit) (schemas.Proposal, error) {
	snap, err := s.read(ctx, by.Thread)
	if err != nil {
		return schemas.Proposal{}, err
	}
	p, err := s.plan(snap, by, by, e)
	if err != nil {
		return schemas.Proposal{}, err
	}
	return p.proposal(s.tags), nil
}

// transition is one server, or the place of one, on its way from before to after.
type transition struct {
	entry    schemas.Entry // as it is; the zero Entry for a new one
	before   *schemas.Server
	after    *schemas.Server
	remote   bool
	enabled  bool // after
	title    string
	owner    schemas.MemberID // of a server that is restored
	ownerIs  string
	named    bool   // the edit mentions it
	approve  bool   // the caller says yes to after
	refresh  bool   // inputs or secrets change beside the definition
	because  string // "inputs", "secret"
	approved bool   // approve, and it was not before
}

// plan is an edit carried out on a snapshot, not yet on disk.
type plan struct {
	snap  *snapshot
	by    schemas.Caller
	asker schemas.Caller // by, or at the commit who asked for it
	edit  schemas.Edit
	moves []*transition // in file order, local before remote
	next  [2]config.Stored
	read  [2]config.Stored // the next files as Load will read them
	out   schemas.Proposal
}

func (s *Store) plan(snap *snapshot, by, asker schemas.Caller, e schemas.Edit) (*plan, error) {
	if by.Member == "" || (by.Role < schemas.Member && !by.Operator) {
		return nil, &schemas.Error{
			Code: schemas.CodeDenied, Text: "guests of this thread can look, not change",
			Hint: "ask a member of the thread to do it",
		}
	}
	if snap.refuse != nil {
		return nil, snap.refuse
	}
	if (snap.broken[fileLocal] || snap.broken[fileRemote]) && !rules(by) {
		return nil, &schemas.Error{
			Code: schemas.CodeUnreadable, Text: snap.cfg.Problems[0].String(),
			Hint: "the file must be fixed first; a manager of the thread can replace it",
		}
	}
	p := &plan{snap: snap, by: by, asker: asker, edit: e}
	p.out = schemas.Proposal{Thread: snap.cfg.Thread, Base: snap.cfg.Base, By: by, Edit: e, Notes: slices.Clone(e.Notes)}
	for _, entry := range snap.cfg.Entries {
		srv := canonical(entry.Server)
		p.moves = append(p.moves, &transition{
			entry: entry, before: &srv, after: &srv, remote: entry.Kind == schemas.Connector, enabled: entry.Enabled, title: entry.Title,
		})
	}
	inputs, err := p.carryOut(s)
	if err != nil {
		return nil, err
	}
	p.documents(inputs)
	if err := p.check(s); err != nil {
		return nil, err
	}
	return p, nil
}

// carryOut applies the parts of the edit and gives the inputs that it declares.
func (p *plan) carryOut(s *Store) ([]schemas.Input, error) {
	if err := p.clashes(); err != nil {
		return nil, err
	}
	inputs := p.edit.Inputs
	if p.edit.Undo != "" {
		restored, err := p.undo(s)
		if err != nil {
			return nil, err
		}
		inputs = append(slices.Clone(inputs), restored...)
	}
	steps := []struct {
		names []string
		do    func(*transition) error
	}{
		{p.edit.Remove, func(x *transition) error { x.after = nil; return nil }},
		{p.edit.PutBack, putBack},
		{p.edit.Approve, func(x *transition) error { x.approve = true; return nil }},
		{p.edit.Enable, func(x *transition) error { x.enabled = true; return nil }},
		{p.edit.Disable, func(x *transition) error { x.enabled = false; return nil }},
	}
	for i, step := range steps {
		if i == 1 { // what is removed makes room first; what is put may be switched in the same edit
			if err := p.put(); err != nil {
				return nil, err
			}
		}
		for _, name := range step.names {
			x := p.find(name)
			if x == nil {
				return nil, unknownServer(p.snap.cfg, name)
			}
			x.named = true
			if err := step.do(x); err != nil {
				return nil, err
			}
		}
	}
	return inputs, nil
}

// clashes refuses an edit that says two things about one server.
func (p *plan) clashes() error {
	said := map[string]bool{}
	for _, d := range p.edit.Put {
		if said[d.Server.Name] {
			return invalid(fmt.Sprintf("%s is given twice", d.Server.Name), "leave one of them out")
		}
		said[d.Server.Name] = true
	}
	for _, list := range [][]string{p.edit.Remove, p.edit.PutBack, p.edit.Approve} {
		for _, name := range list {
			if said[name] {
				return invalid(fmt.Sprintf("%s is to be changed in two ways at once", name), "do one after the other")
			}
			said[name] = true
		}
	}
	for _, name := range p.edit.Enable {
		if slices.Contains(p.edit.Disable, name) {
			return invalid(fmt.Sprintf("%s is to be switched on and off at once", name), "choose one")
		}
	}
	return nil
}

func putBack(x *transition) error {
	if x.entry.Approval == nil {
		return &schemas.Error{
			Code: schemas.CodeNotFound, Text: x.entry.Name + " was never approved, so there is nothing to put back",
			Hint: "/mcp remove " + x.entry.Name,
		}
	}
	srv := canonical(x.entry.Approval.Definition)
	srv.Name = x.entry.Name
	x.after = &srv
	return nil
}

// find gives the transition with that name that is not shadowed.
func (p *plan) find(name string) *transition {
	for _, x := range p.moves {
		if x.name() == name && !x.entry.Shadowed {
			return x
		}
	}
	return nil
}

func (x *transition) name() string {
	if x.before != nil {
		return x.before.Name
	}
	return x.after.Name
}

// put adds or changes the drafts of the edit.
func (p *plan) put() error {
	for _, d := range p.edit.Put {
		srv := canonical(d.Server)
		if !schemas.ValidName(srv.Name) {
			return invalid(fmt.Sprintf("%.60q is no name for a server", srv.Name), "use letters, digits, dot, - and _, at most 48, a letter or digit first")
		}
		x := p.find(srv.Name)
		if srv.Remote() && !p.mayPutRemote(x, srv) {
			p.out.Remote = append(p.out.Remote, d)
			p.out.Notes = append(p.out.Notes, schemas.Note{
				Kind: schemas.NoteRemote, Server: srv.Name, Text: "not enabled: remote servers are added with /mcp connect",
			})
			continue
		}
		if x != nil && x.before != nil && x.remote != srv.Remote() {
			return invalid(fmt.Sprintf("%s is already the name of a %s", srv.Name, kindWords(x.remote)), "choose another name, or `/mcp remove "+srv.Name+"` first")
		}
		if x == nil {
			x = &transition{remote: srv.Remote(), enabled: true}
			p.moves = append(p.moves, x)
		}
		p.putInto(x, srv, d)
	}
	slices.SortStableFunc(p.moves, func(a, b *transition) int { return cmp.Compare(order(a), order(b)) })
	return nil
}

func (p *plan) putInto(x *transition, srv schemas.Server, d schemas.Draft) {
	if x.before != nil {
		// Other clients' files have no such keys: absent means untouched.
		srv.Timeout = cmp.Or(srv.Timeout, x.before.Timeout)
		srv.Tools = cmp.Or(srv.Tools, x.before.Tools)
		srv.Auth = cmp.Or(srv.Auth, x.before.Auth)
	}
	x.after, x.named, x.approve = &srv, true, true
	x.title = cmp.Or(d.Title, x.title)
	x.enabled = x.enabled && !d.Disabled
	if len(d.Found) > 0 {
		x.refresh, x.because = true, "secret"
		p.out.Found = append(p.out.Found, d.Found...)
	}
	if len(d.Needs) > 0 {
		p.need(srv.Name, d.Needs)
	}
}

func (p *plan) need(server string, ids []string) {
	if p.out.Needs == nil {
		p.out.Needs = map[string][]string{}
	}
	p.out.Needs[server] = ids
}

// mayPutRemote reports whether a draft with a URL may be used: from /mcp connect, or for a connector that keeps its URL.
func (p *plan) mayPutRemote(x *transition, srv schemas.Server) bool {
	if p.edit.Source == connectSource {
		return true
	}
	return x != nil && x.remote && x.before != nil && x.before.URL == srv.URL && x.before.Type == srv.Type
}

// order of a transition: the two files, each with its present servers first.
func order(x *transition) int {
	if x.remote {
		return 1
	}
	return 0
}

func kindWords(remote bool) string {
	if remote {
		return "connector"
	}
	return "local server"
}

// undo sets every server to what it was before the revision.
func (p *plan) undo(s *Store) ([]schemas.Input, error) {
	if len(p.edit.Put)+len(p.edit.Remove)+len(p.edit.PutBack)+len(p.edit.Approve) > 0 {
		return nil, invalid("an undo cannot be mixed with other changes", "do one after the other")
	}
	rev, err := s.revision(p.snap.cfg.Thread, p.edit.Undo)
	if err != nil {
		return nil, err
	}
	wanted := map[bool]map[string]bool{false: {}, true: {}}
	var inputs []schemas.Input
	for i, remote := range []bool{false, true} {
		doc := config.Stored{}
		if text := rev.Before.text(i); text != "" {
			doc = s.decode(i, []byte(text))
		}
		if len(doc.Problems) > 0 {
			return nil, &schemas.Error{Code: schemas.CodeUnreadable, Text: "the stored revision is damaged", Hint: "choose another one in `/mcp history`"}
		}
		for _, srv := range doc.Servers {
			srv = canonical(srv)
			wanted[remote][srv.Name] = true
			at := slices.IndexFunc(p.moves, func(x *transition) bool { return x.remote == remote && x.name() == srv.Name })
			if at < 0 {
				rec := rev.Before.State[srv.Name]
				at = len(p.moves)
				p.moves = append(p.moves, &transition{remote: remote, title: rec.Title, owner: rec.Owner, ownerIs: rec.OwnerName})
			}
			p.moves[at].after, p.moves[at].enabled = &srv, rev.Before.enabled(srv.Name)
		}
		inputs = append(inputs, doc.Inputs...)
	}
	for _, x := range p.moves {
		if !wanted[x.remote][x.name()] {
			x.after = nil
		}
		x.approve = x.after != nil && (x.before == nil || !x.after.Equal(*x.before))
		x.named = x.approve || x.after == nil
		if x.approve {
			p.need(x.name(), x.after.Inputs())
		}
	}
	slices.SortStableFunc(p.moves, func(a, b *transition) int { return cmp.Compare(order(a), order(b)) })
	return inputs, nil
}

// documents makes the next files out of the moves.
func (p *plan) documents(edited []schemas.Input) {
	pool := p.pool(edited)
	for i := range p.next {
		p.next[i].Schema = p.snap.docs[i].Schema
	}
	for _, x := range p.moves {
		if x.after != nil {
			p.next[order(x)].Servers = append(p.next[order(x)].Servers, *x.after)
		}
	}
	for i := range p.next {
		used := map[string]bool{}
		for _, srv := range p.next[i].Servers {
			for _, id := range srv.Inputs() {
				used[id] = true
			}
		}
		for _, in := range pool {
			if used[in.ID] {
				p.next[i].Inputs = append(p.next[i].Inputs, in)
			}
		}
	}
}

// pool joins the present inputs with those of the edit. A present one is replaced only when no server uses it that the caller
// may not change, and not by the bare declaration that an import makes for a reference.
func (p *plan) pool(edited []schemas.Input) []schemas.Input {
	pool := slices.Clone(p.snap.cfg.Inputs)
	for _, in := range edited {
		at := slices.IndexFunc(pool, func(x schemas.Input) bool { return x.ID == in.ID })
		switch {
		case at < 0:
			pool = append(pool, in)
		case !sameInput(pool[at], in) && !bare(in) && p.mayDeclare(in.ID):
			pool[at] = in
			for _, x := range p.moves {
				if x.named && x.after != nil && slices.Contains(x.after.Inputs(), in.ID) && x.because == "" {
					x.refresh, x.because = true, "inputs"
				}
			}
		}
	}
	return pool
}

func sameInput(a, b schemas.Input) bool {
	return a.Type == b.Type && a.Description == b.Description && a.Default == b.Default && a.Password == b.Password &&
		slices.Equal(a.Options, b.Options)
}

func bare(in schemas.Input) bool {
	return in.Default == "" && len(in.Options) == 0 && (in.Description == "" || in.Description == in.ID)
}

func (p *plan) mayDeclare(id string) bool {
	used := false
	for _, x := range p.moves {
		if x.after == nil || !slices.Contains(x.after.Inputs(), id) {
			continue
		}
		if x.before != nil && (!x.named || !p.mine(x.entry)) {
			return false
		}
		used = true
	}
	return used
}

// canonical gives the one form in which definitions are compared and stored.
func canonical(srv schemas.Server) schemas.Server {
	if srv.Type == "" && srv.URL == "" {
		srv.Type = schemas.Stdio
	}
	return srv
}

func invalid(text, hint string) *schemas.Error {
	return &schemas.Error{Code: schemas.CodeInvalid, Text: text, Hint: hint}
}

func unknownServer(cfg schemas.Config, name string) *schemas.Error {
	e := &schemas.Error{Code: schemas.CodeNotFound, Text: fmt.Sprintf("no server is called %.60q here", name), Hint: "`/mcp list` shows all"}
	var names []string
	for _, entry := range cfg.Entries {
		names = append(names, entry.Name)
	}
	if near := schemas.Nearest(name, names); near != "" {
		e.Hint = fmt.Sprintf("did you mean %q?", near)
	}
	return e
}
