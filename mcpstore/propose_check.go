package mcpstore

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"bobbin/mcpstore/internal/config"
	"bobbin/schemas"
)

// rules reports whether the caller may change what belongs to others or to nobody.
func rules(c schemas.Caller) bool { return c.Manages() || c.Operator }

func (p *plan) mine(e schemas.Entry) bool {
	return rules(p.by) || (e.Owner != "" && e.Owner == p.by.Member)
}

// check settles names, roles, limits and the text itself, and fills in the changes.
func (p *plan) check(s *Store) error {
	for _, x := range p.moves {
		c, ok := p.change(x)
		if !ok {
			continue
		}
		if c.Kind != schemas.Unchanged {
			if err := p.allowed(x, c.Kind); err != nil {
				return err
			}
		}
		if x.approved && len(p.out.Needs[x.name()]) == 0 {
			if ids := x.after.Inputs(); len(ids) > 0 && (c.Kind == schemas.Approved || slices.Contains(p.edit.PutBack, x.name())) {
				p.need(x.name(), ids)
			}
		}
		p.out.Changes = append(p.out.Changes, c)
	}
	if err := p.checkNames(); err != nil {
		return err
	}
	for i, doc := range p.next {
		if n := len(doc.Servers); n > s.opt.servers {
			return &schemas.Error{
				Code: schemas.CodeTooLarge, Text: fmt.Sprintf("that would make %d servers in %s; a thread holds at most %d", n, fileName(i), s.opt.servers),
				Hint: "/mcp remove those that nobody uses",
			}
		}
	}
	return p.checkText(s)
}

// change says what happens to a transition; ok is false when the edit does not touch it.
func (p *plan) change(x *transition) (c schemas.Change, ok bool) {
	c = schemas.Change{Server: x.name(), Before: x.before, After: x.after, Owner: x.entry.Owner, Remote: x.remote}
	switch {
	case x.before == nil:
		c.Kind, x.approved = schemas.Added, true
	case x.after == nil:
		c.Kind = schemas.Removed
	default:
		if x.before != x.after {
			c.Fields = fields(*x.before, *x.after)
		}
		if x.title != x.entry.Title {
			c.Fields = append(c.Fields, "title")
		}
		if x.refresh {
			c.Fields = append(c.Fields, x.because)
		}
		switched := x.enabled != x.entry.Enabled
		switch {
		case len(c.Fields) > 0:
			c.Kind, x.approved = schemas.Changed, x.approve
			if switched {
				c.Fields = append(c.Fields, "enabled")
			}
		case x.approve && p.asks(x) && x.entry.Pending():
			c.Kind, x.approved = schemas.Approved, true
		case switched && x.enabled:
			c.Kind = schemas.Enabled
		case switched:
			c.Kind = schemas.Disabled
		case x.named:
			c.Kind = schemas.Unchanged
		default:
			return c, false
		}
	}
	return c, true
}

// asks reports whether the edit wants a yes to what the file says already. An upload does not: a download that is uploaded
// again changes nothing.
func (p *plan) asks(x *transition) bool {
	return p.edit.Source == connectSource || slices.Contains(p.edit.Approve, x.name())
}

func (p *plan) allowed(x *transition, kind schemas.ChangeKind) error {
	if kind == schemas.Added {
		if x.owner == "" || x.owner == p.by.Member || rules(p.by) {
			return nil
		}
		return denied(x.name(), x.owner, x.ownerIs)
	}
	if !p.mine(x.entry) {
		return denied(x.name(), x.entry.Owner, x.entry.OwnerName)
	}
	if p.takesValues(x) {
		who := atOwner(x.entry.OwnerName)
		return &schemas.Error{
			Code: schemas.CodeDenied, Text: fmt.Sprintf("%s runs with the values of %s, so only %s can change what gets them", x.name(), who, who),
			Hint: "ask " + who + ", or /mcp disable or /mcp remove it",
		}
	}
	return nil
}

// takesValues reports whether a manager would have another member's sealed values given to a definition that this member never
// saw. The operator may: the vault's key is theirs anyway.
func (p *plan) takesValues(x *transition) bool {
	owner, a := x.entry.Owner, x.entry.Approval
	return x.approved && owner != "" && owner != p.by.Member && owner != p.asker.Member && !p.by.Operator &&
		len(x.after.Inputs()) > 0 && (a == nil || a.Fingerprint != x.after.Fingerprint())
}

func denied(server string, owner schemas.MemberID, name string) *schemas.Error {
	if owner == "" {
		return &schemas.Error{
			Code: schemas.CodeDenied, Text: server + " was not added in chat and belongs to nobody yet",
			Hint: "a manager of the thread can approve, change or remove it",
		}
	}
	who := atOwner(name)
	return &schemas.Error{
		Code: schemas.CodeDenied, Text: fmt.Sprintf("only %s or a manager of the thread can change %s", who, server),
		Hint: "ask " + who + ", or add your own under another name",
	}
}

func atOwner(name string) string {
	if name == "" {
		return "its owner"
	}
	return "@" + strings.TrimPrefix(name, "@")
}

// checkNames refuses a new server whose name would be taken for another's.
func (p *plan) checkNames() error {
	for _, x := range p.moves {
		if x.before != nil || x.after == nil {
			continue
		}
		for _, y := range p.moves {
			if y == x || y.after == nil {
				continue
			}
			a, b := x.name(), y.name()
			switch {
			case a == b:
				return invalid(fmt.Sprintf("%s is already the name of a %s", a, kindWords(y.remote)), "choose another name")
			case strings.EqualFold(a, b):
				return invalid(fmt.Sprintf("%s differs from %s only in upper and lower case", a, b), "choose another name, or change "+b)
			case strings.EqualFold(schemas.Slug(a), schemas.Slug(b)):
				return invalid(fmt.Sprintf("the tools of %s and %s would have the same names", a, b), "choose a name that differs in more than . and -")
			}
		}
	}
	return nil
}

// checkText reads what is new in the next files as Load will, so that nothing is committed that cannot be loaded. Servers that
// stay as they are have been read before.
func (p *plan) checkText(s *Store) error {
	for i := range p.next {
		p.read[i] = p.snap.docs[i]
		if !p.rewrites(i) {
			continue
		}
		if len(p.text(i)) > config.MaxText {
			return &schemas.Error{
				Code: schemas.CodeTooLarge, Text: fmt.Sprintf("%s would be larger than %d KiB", fileName(i), config.MaxText>>10),
				Hint: "/mcp remove those that nobody uses",
			}
		}
		doc := s.decode(i, encode(i, p.fresh(i)))
		if len(doc.Problems) > 0 {
			return doc.Problems
		}
		p.adopt(i, doc)
	}
	return nil
}

// adopt takes the fresh servers as they were read: an approval is bound to that form, and a literal secret or a variable that a
// door let through has become an input, so that it never reaches the file.
func (p *plan) adopt(i int, doc config.Stored) {
	read := map[string]schemas.Server{}
	for _, srv := range doc.Servers {
		read[srv.Name] = srv
	}
	for _, x := range p.moves {
		if x.after == nil || order(x) != i {
			continue
		}
		if srv, fresh := read[x.after.Name]; fresh {
			*x.after = canonical(srv)
		}
	}
	for j, srv := range p.next[i].Servers {
		if fresh, ok := read[srv.Name]; ok {
			p.next[i].Servers[j] = canonical(fresh)
		}
	}
	p.next[i].Inputs = mergeInputs(p.next[i].Inputs, doc.Inputs)
	p.out.Found = append(p.out.Found, doc.Found...)
	for _, f := range doc.Found {
		p.out.Notes = append(p.out.Notes, schemas.Note{
			Kind: schemas.NoteSecret, Server: f.Server,
			Text: fmt.Sprintf("%s holds a secret; it moves to your vault and the config keeps ${input:%s}", f.Where, f.Input),
		})
	}
	p.read[i] = config.Stored{Servers: p.next[i].Servers, Inputs: p.next[i].Inputs, Schema: p.next[i].Schema}
}

// fresh is the part of a next file that the present one does not have.
func (p *plan) fresh(i int) config.Stored {
	doc := p.next[i]
	doc.Servers = nil
	for _, x := range p.moves {
		if order(x) == i && x.after != nil && x.before != x.after && (x.before == nil || !x.after.Equal(*x.before)) {
			doc.Servers = append(doc.Servers, *x.after)
		}
	}
	used := map[string]bool{}
	for _, srv := range doc.Servers {
		for _, id := range srv.Inputs() {
			used[id] = true
		}
	}
	doc.Inputs = slices.DeleteFunc(slices.Clone(doc.Inputs), func(in schemas.Input) bool { return !used[in.ID] })
	return doc
}

// rewrites reports whether the file's content changes.
func (p *plan) rewrites(i int) bool {
	for _, c := range p.out.Changes {
		if order(&transition{remote: c.Remote}) != i {
			continue
		}
		switch c.Kind {
		case schemas.Added, schemas.Changed, schemas.Removed:
			return true
		case schemas.Enabled: // the file itself may switch it off
			if p.snap.docs[i].Disabled[c.Server] {
				return true
			}
		case schemas.Approved:
			if slices.ContainsFunc(p.snap.docs[i].Found, func(f schemas.Found) bool { return f.Server == c.Server }) {
				return true
			}
		}
	}
	return false
}

// text is the next file. Literal secrets that a hand put into servers which this edit leaves alone stay as they are: nobody
// has sealed them yet.
func (p *plan) text(i int) []byte {
	doc := p.next[i]
	doc.Servers = slices.Clone(doc.Servers)
	for _, f := range p.snap.docs[i].Found {
		at := slices.IndexFunc(doc.Servers, func(srv schemas.Server) bool { return srv.Name == f.Server })
		if at >= 0 && !p.settles(f.Server, i) {
			doc.Servers[at] = withLiteral(doc.Servers[at], f)
		}
	}
	for _, d := range p.snap.docs[i].Remote { // never loaded, but not ours to delete
		if p.find(d.Server.Name) == nil {
			doc.Servers = append(doc.Servers, d.Server)
		}
	}
	return bytes.TrimLeft(encode(i, doc), "\n")
}

// settles reports whether the edit approves the server of that file, so that its secrets are sealed with it.
func (p *plan) settles(server string, i int) bool {
	return slices.ContainsFunc(p.moves, func(x *transition) bool {
		return x.name() == server && order(x) == i && x.approved
	})
}

func withLiteral(srv schemas.Server, f schemas.Found) schemas.Server {
	ref := "${input:" + f.Input + "}"
	put := func(t string) string { return strings.ReplaceAll(t, ref, f.Value.Reveal()) }
	return mapTexts(srv, put)
}

// proposal finishes what people see.
func (p *plan) proposal(tags tagger) schemas.Proposal {
	out := p.out
	for i := range p.next {
		for _, f := range p.snap.docs[i].Found {
			known := slices.ContainsFunc(out.Found, func(o schemas.Found) bool { return o.Server == f.Server && o.Input == f.Input })
			if p.settles(f.Server, i) && !known {
				out.Found = append(out.Found, f)
			}
		}
	}
	if strings.HasPrefix(out.Edit.Source, "upload") && len(out.Edit.Put) > 0 {
		for _, x := range p.moves {
			if !x.named && !x.remote && x.after != nil {
				out.Kept = append(out.Kept, x.name())
			}
		}
	}
	for i := range p.next {
		if p.snap.broken[i] && p.rewrites(i) {
			out.Notes = append(out.Notes, schemas.Note{
				Kind: schemas.NoteRepair,
				Text: fmt.Sprintf("%s cannot be read; confirming writes the last good state with this change in its place and keeps the broken text as %s.broken", fileName(i), fileName(i)),
			})
		}
	}
	out.Diff = tags.diff(p.snap.docs, p.next, [2]bool{p.rewrites(0), p.rewrites(1)})
	return out
}
