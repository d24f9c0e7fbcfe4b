package operator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"bobbin/schemas"
)

// What a change does to an entry of mcps.yaml.
const (
	Added   = "added"
	Changed = "changed"
	Same    = "none" // nothing
)

// Change is what writing an entry would do to mcps.yaml. It shows no secret.
type Change struct {
	Server string   `json:"server"`
	Kind   string   `json:"change"`           // added, changed or none
	Diff   string   `json:"diff,omitempty"`   // unified, of mcps.yaml, without the files' names
	Sealed []string `json:"sealed,omitempty"` // the names of values that go to the vault, new or other ones than there

	entry Server // holds the values
	base  string // print of the entry that is there, "" when there is none
}

// Propose says what writing an entry would change, and writes nothing. What an entry has that bobbin mcp add cannot say (allow,
// allow_docker_socket, writable) stays.
func (o *Operator) Propose(ctx context.Context, s Server) (Change, error) {
	if err := ctx.Err(); err != nil {
		return Change{}, err
	}
	if s.Type == "" {
		s.Type = Proxied
	}
	if s.Type == Proxied {
		s.fill()
	}
	if p := s.check(); p != nil {
		return Change{}, &schemas.Error{Code: schemas.CodeInvalid, Text: p.Text, Hint: p.Hint}
	}
	before, err := o.text()
	if err != nil {
		return Change{}, err
	}
	f, err := decode(before)
	if err != nil {
		return Change{}, unreadable(err)
	}
	if other := f.clash(s); other != "" {
		return Change{}, &schemas.Error{Code: schemas.CodeConflict, Text: clashing(s.Name, other), Hint: "choose another name"}
	}
	c := Change{Server: s.Name, Kind: Added}
	old, taken := f.Find(s.Name)
	switch {
	case taken:
		c.Kind, c.base = Changed, o.print(old)
		s.Allow, s.AllowDockerSocket, s.Writable = old.Allow, old.AllowDockerSocket, old.Writable
	case len(f.Servers) >= maxServers:
		return Change{}, &schemas.Error{Code: schemas.CodeTooLarge, Text: fmt.Sprintf("there are %d MCP servers already", maxServers)}
	}
	c.entry = s
	after, err := written(before, s.referenced(), taken)
	if err != nil {
		return Change{}, err
	}
	c.Sealed = o.news(ctx, s)
	if c.Diff, err = difference(before, after, f); err == nil && c.Diff == "" && len(c.Sealed) == 0 {
		c.Kind = Same
	}
	return c, err
}

// Commit does what was proposed, the secrets sealed; CodeConflict when the entry is another one by now.
func (o *Operator) Commit(ctx context.Context, c Change) error {
	if c.Kind == Same {
		return nil
	}
	var old Server
	err := o.change(ctx, func(text []byte, f File) ([]byte, error) {
		now, taken := f.Find(c.Server)
		if old = now; taken != (c.base != "") || taken && o.print(now) != c.base {
			return nil, &schemas.Error{Code: schemas.CodeConflict, Text: fmt.Sprintf("MCP server '%s' was changed meanwhile; nothing was written", c.Server), Hint: "run the command again to see what it changes now"}
		}
		sealed, err := o.seal(ctx, c.entry)
		if err != nil {
			return nil, err
		}
		return written(text, sealed, taken)
	})
	if err == nil {
		o.drop(ctx, old, c.entry.referenced())
	}
	return err
}

// written gives the text with an entry in it.
func written(text []byte, s Server, taken bool) ([]byte, error) {
	if len(s.Env) == 0 {
		s.Env = nil
	}
	if len(s.Headers) == 0 {
		s.Headers = nil
	}
	if taken {
		return replaced(text, s)
	}
	return appended(text, s)
}

// difference compares two texts of mcps.yaml, with what is a secret in either as the reference that it becomes.
func difference(before, after []byte, f File) (string, error) {
	was, _ := referenced(before, f.Servers)
	g, err := decode(after)
	if err != nil {
		return "", err
	}
	is, _ := referenced(after, g.Servers)
	old := string(was)
	text, err := udiff.ToUnified("", "", old, udiff.Lines(old, string(is)), 3)
	if err != nil || text == "" {
		return "", err
	}
	for range 2 { // the files' names
		_, text, _ = strings.Cut(text, "\n")
	}
	for _, s := range append(f.Servers, g.Servers...) { // what could not be replaced in place
		env, headers := literals(s)
		for group, refs := range map[*map[string]string]map[string]string{&s.Env: env, &s.Headers: headers} {
			for k := range refs {
				text = strings.ReplaceAll(text, (*group)[k], "****")
			}
		}
	}
	return text, nil
}

// news names the literal secrets of an entry that the vault does not hold yet.
func (o *Operator) news(ctx context.Context, s Server) (names []string) {
	for k, v := range s.secrets() {
		if is, err := o.opt.Secrets.Reveal(ctx, v.key); err != nil || is.Reveal() != v.value {
			names = append(names, k)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// drop forgets the values of an entry that another one in its place does not refer to.
func (o *Operator) drop(ctx context.Context, old, now Server) {
	kept := now.inputs()
	for k := range old.inputs() {
		if _, stays := kept[k]; stays {
			continue
		}
		if err := o.opt.Secrets.Delete(ctx, k); err != nil {
			o.opt.Log.Warn("a value that no MCP server uses any more stays in the vault", "server", old.Name, "err", err)
		}
	}
}

// inputs are the keys of the values that an entry refers to.
func (s Server) inputs() map[schemas.SecretKey]bool {
	all := map[schemas.SecretKey]bool{}
	for _, in := range []map[string]string{s.Env, s.Headers} {
		for v := range maps.Values(in) {
			for _, m := range reference().FindAllStringSubmatch(v, -1) {
				if m[1] == "input" {
					all[key(s, m[2])] = true
				}
			}
		}
	}
	return all
}
