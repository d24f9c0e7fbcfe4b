package host

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"bobbin/internal/durable"
	"bobbin/mcpstore"
	"bobbin/operator"
	"bobbin/schemas"
)

// attachTime is how long somebody in a chat waits for a server to start; what takes longer is the operator's to start beforehand.
const attachTime = 2 * time.Minute

// admins are the operator's servers as threads use them.
type admins struct {
	*operator.Operator
	store *mcpstore.Store
	log   *slog.Logger

	mu   sync.Mutex
	seen map[schemas.ThreadID]bool // that asked for a definition
}

// open needs the vault, which is opened after the store that asks for definitions.
func (a *admins) open(data *durable.Dir, secrets vaulted, opt Options) (err error) {
	if a.log = opt.Log; a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	a.Operator, err = operator.New(operator.Options{
		Data: data, Secrets: secrets, Getenv: os.LookupEnv, Engine: opt.Container.Engine, Binary: opt.Container.Binary, Log: opt.Log,
	})
	return err
}

// vaulted is what the operator's servers need of the vault.
type vaulted interface {
	Put(context.Context, schemas.SecretKey, schemas.Secret) error
	Reveal(context.Context, schemas.SecretKey) (schemas.Secret, error)
	Delete(context.Context, schemas.SecretKey) error
}

// definition is that of an attached server as threads see it, while the operator allows it there.
func (a *admins) definition(thread schemas.ThreadID, name string, by schemas.Attachment) (schemas.Server, bool) {
	a.mu.Lock()
	if a.seen == nil {
		a.seen = map[schemas.ThreadID]bool{}
	}
	a.seen[thread] = true
	a.mu.Unlock()
	if a.Operator == nil {
		return schemas.Server{}, false
	}
	f, _ := a.Current() // of a file that cannot be read the last good reading stands
	s, ok := f.Find(name)
	if !ok || s.Wrong != "" || !s.Allows(schemas.Caller{Thread: thread, Member: by.By, Role: by.Role, Operator: by.Operator}) {
		return schemas.Server{}, false
	}
	return a.Endpoint(s), true
}

// credentials gives the client of every connector: the operator's servers have their own, which no file of a thread can ask for.
func (a *admins) credentials(others func(schemas.ThreadID, schemas.MemberID, schemas.Server) *http.Client) func(schemas.ThreadID, schemas.MemberID, schemas.Server) *http.Client {
	return func(thread schemas.ThreadID, member schemas.MemberID, s schemas.Server) *http.Client {
		if s.Auth == nil || s.Auth.Type != schemas.Operated {
			return others(thread, member, s)
		}
		return &http.Client{
			Transport:     admitted{a, thread, s.Name, a.Client(s.Name).Transport},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
}

// hidden are the values of the operator's servers, which threads are not to see.
func (a *admins) hidden(ctx context.Context, _ schemas.ThreadID, e schemas.Entry) map[string]schemas.Secret {
	if e.Kind != schemas.Admin || a.Operator == nil {
		return nil
	}
	return a.Hidden(ctx, e.Name)
}

// admitted asks anew for each request whether the thread may still use the server.
type admitted struct {
	admins *admins
	thread schemas.ThreadID
	name   string
	server http.RoundTripper
}

func (t admitted) RoundTrip(r *http.Request) (*http.Response, error) {
	attached, err := t.admins.store.Attached(r.Context(), t.thread)
	if err != nil {
		return nil, err
	}
	by, ok := attached[t.name]
	if ok {
		_, ok = t.admins.definition(t.thread, t.name, by)
	}
	if !ok {
		return nil, &schemas.Error{Code: schemas.CodeDenied, Text: t.name + " is not for this thread any more"}
	}
	return t.server.RoundTrip(r)
}

// desk answers /mcp admin.
type desk struct{ *admins }

func (d desk) List(ctx context.Context, c schemas.Caller) ([]schemas.AdminServer, error) {
	attached, err := d.store.Attached(ctx, c.Thread)
	if err != nil {
		return nil, err
	}
	f, err := d.Load(ctx)
	if err != nil {
		return nil, err
	}
	states, err := d.Operator.List(ctx)
	if err != nil {
		return nil, err
	}
	var all []schemas.AdminServer
	for _, st := range states {
		s, _ := f.Find(st.Name)
		_, is := attached[st.Name]
		if !is && (!s.Allows(c) || s.Wrong != "") {
			continue
		}
		all = append(all, schemas.AdminServer{Name: st.Name, Type: st.Type, State: st.State, Why: st.Why, Attached: is})
	}
	return all, nil
}

// Attach starts the server, if it is the operator's to start, and then lets the thread use it.
func (d desk) Attach(ctx context.Context, c schemas.Caller, name string) error {
	f, err := d.Load(ctx)
	if err != nil {
		return err
	}
	s, ok := f.Find(name)
	if !ok || !s.Allows(c) {
		hint := "`/mcp admin list` shows those that are"
		if c.Operator {
			hint = "bobbin mcp list shows all; allow: in mcps.yaml says for whom each is"
		}
		return &schemas.Error{Code: schemas.CodeDenied, Text: "there is no server " + name + " of the operator for this thread", Hint: hint}
	}
	ctx, cancel := context.WithTimeout(ctx, attachTime)
	defer cancel()
	if _, err := d.Start(ctx, name, nil); err != nil {
		e, ok := errors.AsType[*schemas.Error](err)
		if ok && !c.Operator { // what the engine says is the operator's business
			return &schemas.Error{Code: e.Code, Text: name + " does not start", Hint: "tell the operator; bobbin mcp status " + name + " says why", Err: err}
		}
		return err
	}
	if err := d.Probe(ctx, name); err != nil {
		d.log.Info("an MCP server of the operator was not looked at before it was attached", "server", name, "err", err)
	}
	return d.store.Attach(ctx, c, s.Name)
}

func (d desk) Detach(ctx context.Context, c schemas.Caller, name string) error {
	attached, err := d.store.Attached(ctx, c.Thread)
	if err != nil {
		return err
	}
	by, ok := attached[name]
	switch {
	case !ok:
		return &schemas.Error{Code: schemas.CodeNotFound, Text: "no server " + name + " of the operator is attached here", Hint: "`/mcp list` shows those that are"}
	case by.By != c.Member && !c.Manages():
		return &schemas.Error{Code: schemas.CodeDenied, Text: "only who attached it or a manager of the thread can detach it"}
	}
	_, err = d.store.Release(ctx, c.Thread, name)
	return err
}

// run looks after the servers, and tells the threads that use some when the operator changed them.
func (a *admins) run(ctx context.Context, poke func(schemas.ThreadID)) error {
	defer a.Close() //nolint:errcheck // only a client of the engine
	return a.Run(ctx, func() {
		a.mu.Lock()
		all := make([]schemas.ThreadID, 0, len(a.seen))
		for id := range a.seen {
			all = append(all, id)
		}
		a.mu.Unlock()
		slices.SortFunc(all, func(x, y schemas.ThreadID) int { return strings.Compare(string(x), string(y)) })
		for _, id := range all {
			poke(id)
		}
	})
}
