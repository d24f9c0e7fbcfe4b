package operator

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/mattn/go-shellwords"
	"github.com/moby/moby/client"

	"bobbin/internal/durable"
	"bobbin/schemas"
)

const (
	lockWait = 10 * time.Second
	stateDir = "operator"
)

// Options of New. Data and Secrets are required.
type Options struct {
	Data    *durable.Dir // the data folder: holds mcps.yaml and operator/
	Secrets secrets
	Getenv  func(string) (string, bool) // for ${env:NAME}, which only this file may use; nil = none
	Engine  string                      // unix://…; "" = DOCKER_HOST, else the usual socket
	Binary  string                      // a static bobbin for this machine, which runs in the containers; "" = this program
	Now     func() time.Time            // nil = time.Now
	Log     *slog.Logger                // nil = discard

	health  time.Duration // between two looks at the servers; 2 s
	backoff time.Duration // after the first end of a server; 500 ms
}

// Operator rules over the operator's servers. It is safe for concurrent use, by goroutines and by processes on one machine: what it
// knows lies in mcps.yaml, in the engine and in operator/ of the data folder.
type Operator struct {
	opt      Options
	state    *durable.Dir
	servers  *durable.Dir // one folder a server that was started
	instance string       // tells what this data folder made from what others made at the same engine
	salt     []byte       // of fingerprints

	mu     sync.Mutex
	engine *client.Client // nil until it is first needed
	podman bool           // that is what it is
	read   reading
	ways   map[string]*way         // by unit
	far    map[string]*http.Client // for remote servers, by origin
	health map[string]*health
}

// reading is the last one of mcps.yaml.
type reading struct {
	done  bool
	info  os.FileInfo // nil: there was none
	fresh bool        // it was too young for its stamp to tell a later write
	sum   string
	file  File
	err   error
}

// New opens the folder of the operator's servers. No engine is asked yet.
func New(opt Options) (*Operator, error) {
	if opt.Data == nil || opt.Secrets == nil {
		return nil, errors.New("operator: Data and Secrets are required")
	}
	if opt.Getenv == nil {
		opt.Getenv = func(string) (string, bool) { return "", false }
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	if opt.health <= 0 {
		opt.health = 2 * time.Second
	}
	if opt.backoff <= 0 {
		opt.backoff = firstBackoff
	}
	state, err := opt.Data.Sub(stateDir)
	if err != nil {
		return nil, &schemas.Error{Code: schemas.CodeInvalid, Text: stateDir + " in the data folder cannot be used", Hint: "check who owns it", Err: err}
	}
	servers, err := state.Sub("servers")
	if err != nil {
		return nil, &schemas.Error{Code: schemas.CodeInvalid, Text: stateDir + "/servers in the data folder cannot be used", Hint: "check who owns it", Err: err}
	}
	o := &Operator{opt: opt, state: state, servers: servers, ways: map[string]*way{}, far: map[string]*http.Client{}, health: map[string]*health{}}
	id, err := identity(state)
	if err != nil {
		return nil, &schemas.Error{Code: schemas.CodeInvalid, Text: stateDir + "/instance in the data folder cannot be used", Hint: "check who owns it", Err: err}
	}
	o.instance, o.salt = durable.Sum([]byte(id))[:32], []byte(id)
	return o, nil
}

// identity is this data folder's own, and secret: fingerprints are keyed with it.
func identity(state *durable.Dir) (string, error) {
	const name = "instance"
	if !state.Has(name) {
		if err := state.Write(name, []byte(rand.Text()+rand.Text())); err != nil {
			return "", err
		}
	}
	id, err := state.Read(name, 256)
	if err == nil && len(id) != 52 {
		err = errors.New("operator: the instance's id is damaged")
	}
	return string(id), err
}

// Close lets go of the engine. What runs in containers runs on.
func (o *Operator) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, w := range o.ways {
		w.http.CloseIdleConnections()
	}
	for _, c := range o.far {
		c.CloseIdleConnections()
	}
	if o.engine == nil {
		return nil
	}
	return o.engine.Close()
}

// Load reads mcps.yaml; a missing one is empty. An unchanged file costs one lstat. When it cannot be read, the last good reading is
// given together with the error.
func (o *Operator) Load(ctx context.Context) (File, error) {
	if err := ctx.Err(); err != nil {
		return File{}, err
	}
	return o.Current()
}

// Current is Load.
func (o *Operator) Current() (File, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	info, err := os.Lstat(filepath.Join(o.opt.Data.Path(), FileName))
	if err != nil {
		info = nil
	}
	r := &o.read
	if r.done && !r.fresh && same(r.info, info) {
		return r.file, r.err
	}
	r.done, r.info = true, info
	r.fresh = info != nil && time.Since(info.ModTime()) < 100*time.Millisecond
	text, err := o.text()
	if err != nil {
		r.sum, r.err = "", err
		return r.file, err
	}
	if sum := durable.Sum(text); sum != r.sum {
		file, err := decode(text)
		if r.sum, r.err = sum, unreadable(err); err == nil {
			r.file = file
		}
	}
	if r.file.Prefix == "" {
		r.file.Prefix = defaultPrefix
	}
	return r.file, r.err
}

func same(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && os.SameFile(a, b)
}

func (o *Operator) text() ([]byte, error) {
	text, err := o.opt.Data.Read(FileName, maxFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, &schemas.Error{Code: schemas.CodeUnreadable, Text: FileName + " cannot be read", Hint: "it must be a regular file of at most 1 MiB that belongs to who runs bobbin", Err: err}
	}
	return text, nil
}

// unreadable puts the mistakes of a text into one error.
func unreadable(err error) error {
	if ps, ok := errors.AsType[schemas.Problems](err); ok && len(ps) > 0 {
		return &schemas.Error{Code: schemas.CodeUnreadable, Text: ps[0].String(), Hint: "correct it in an editor; what was read before stays in force", Err: err}
	}
	return err
}

// change rewrites mcps.yaml under its lock. Literal secrets of other entries are sealed on the way.
func (o *Operator) change(ctx context.Context, do func(text []byte, f File) ([]byte, error)) error {
	wait, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	unlock, err := o.opt.Data.Lock(wait, FileName)
	if err != nil {
		return &schemas.Error{Code: schemas.CodeConflict, Text: FileName + " cannot be changed: somebody else is writing", Hint: "try again in a moment", Err: err}
	}
	defer unlock()
	before, err := o.text()
	if err != nil {
		return err
	}
	f, err := decode(before)
	if err != nil {
		return unreadable(err)
	}
	text, err := do(before, f)
	if err != nil {
		return err
	}
	if text, err = o.sealed(ctx, text); err != nil {
		return err
	}
	if string(text) == string(before) {
		return nil
	}
	if err := o.opt.Data.Write(FileName, text); err != nil {
		return &schemas.Error{Code: schemas.CodeFailed, Text: FileName + " could not be saved", Hint: "look at the free space and at who owns the data folder", Err: err}
	}
	return nil
}

// sealed gives the text with references in the place of literal secrets. What it cannot change in place stays.
func (o *Operator) sealed(ctx context.Context, text []byte) ([]byte, error) {
	f, err := decode(text)
	if err != nil {
		return nil, unreadable(err)
	}
	for _, s := range f.Servers {
		if _, err := o.seal(ctx, s); err != nil {
			return nil, err
		}
	}
	text, stuck := referenced(text, f.Servers)
	for _, name := range stuck {
		o.opt.Log.Warn("a secret in mcps.yaml stays as it is, since it cannot be replaced in place", "server", name)
	}
	return text, nil
}

// Seal moves literal secrets of mcps.yaml into the vault and leaves references. Without any it writes nothing.
func (o *Operator) Seal(ctx context.Context) error {
	f, err := o.Load(ctx)
	if err != nil {
		return err
	}
	for _, s := range f.Servers {
		if env, headers := literals(s); len(env)+len(headers) > 0 {
			return o.change(ctx, func(text []byte, _ File) ([]byte, error) { return text, nil })
		}
	}
	return nil
}

// Remove takes an entry out, stops what runs of it and forgets its values.
func (o *Operator) Remove(ctx context.Context, name string) error {
	f, err := o.Load(ctx)
	if err != nil {
		return err
	}
	s, ok := f.Find(name)
	if !ok {
		return notFound(name)
	}
	if s.Type == Proxied {
		if err := o.Stop(ctx, name); err != nil && schemas.CodeOf(err) != schemas.CodeMissing { // without an engine nothing runs
			return err
		}
	}
	if err := o.change(ctx, func(text []byte, _ File) ([]byte, error) { return without(text, name) }); err != nil {
		return err
	}
	o.drop(ctx, s, Server{})
	for _, r := range s.replicas() {
		if err := o.servers.RemoveAll(r.unit()); err != nil {
			return err
		}
	}
	return nil
}

// words splits a command line as a shell would, without doing anything that one does.
func words(line string) ([]string, error) {
	p := shellwords.NewParser()
	p.ParseEnv, p.ParseBacktick = false, false
	return p.Parse(line)
}

func asError(err error) (*schemas.Error, bool) { return errors.AsType[*schemas.Error](err) }
