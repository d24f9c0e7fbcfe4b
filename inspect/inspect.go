// Package inspect is a page that shows how MCP servers are and what goes over the wire: their tools, resources and prompts, calls by
// form, and every JSON-RPC message as it passes. It calls on the way that everybody's calls take, so that policy and audit hold here,
// too. It is a door, not a part of bot/web, because it also stands alone before the operator's servers, where there is no
// conversation.
package inspect

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"time"

	"bobbin/internal/look"
	"bobbin/schemas"
)

// Limits of the page.
const (
	maxBody    = 1<<20 + 4<<10 // bytes of one request, the arguments of a call in it
	maxCalls   = 16            // at a time
	maxStreams = 16
	longest    = 15 * time.Minute // of one call
	listTime   = time.Minute      // of a list, for which servers may have to start
	beat       = 15 * time.Second // between signs of life on a stream
	writeTime  = 10 * time.Second // for one of its writes
	readAgain  = 100 * time.Millisecond
)

//go:embed assets
var assets embed.FS

// live is how servers are. Watch ticks when that changed.
type live interface {
	Status(context.Context, schemas.ThreadID) ([]schemas.Status, error)
	Watch(schemas.ThreadID) (changes <-chan struct{}, stop func())
	Restart(ctx context.Context, thread schemas.ThreadID, server string) error
}

// lists is what servers offer, as far as the caller may use it. A list may start servers.
type lists interface {
	Tools(context.Context, schemas.Caller) ([]schemas.Tool, error)
	Resources(context.Context, schemas.Caller) ([]schemas.Resource, error)
	Prompts(context.Context, schemas.Caller) ([]schemas.Prompt, error)
}

// use is the one way of calls.
type use interface {
	Call(context.Context, schemas.Call) (schemas.Result, error)
	ReadResource(ctx context.Context, c schemas.Caller, server, uri string) (schemas.Result, error)
	Prompt(ctx context.Context, c schemas.Caller, server, name string, args map[string]string) (schemas.Result, error)
}

// wire shows messages as they pass: read gives those after number n that are kept, changed ticks when there are new ones.
type wire interface {
	Messages(ctx context.Context, c schemas.Caller, server string) (read func(n int) []schemas.Message, changed <-chan struct{}, stop func(), err error)
}

// Options of New. All but Base, Thread and Log are needed.
type Options struct {
	Live  live
	Lists lists
	Use   use
	Wire  wire
	// Member is the person at the page; Thread is filled in.
	Member schemas.Caller
	// Thread is the only one that is shown; "" = the one that the query names.
	Thread schemas.ThreadID
	// Base is where the handler is mounted, such as "/inspect"; "" = at the root.
	Base string
	Log  *slog.Logger
}

// Page is the page and its API. It lets everybody in: whoever serves it guards it, see [Guard]. It is safe for concurrent use.
type Page struct {
	opt            Options
	app            *template.Template
	calls, streams chan struct{}
}

// New checks the options and parses the page.
func New(opt Options) (*Page, error) {
	switch {
	case opt.Live == nil || opt.Lists == nil || opt.Use == nil || opt.Wire == nil:
		return nil, errors.New("inspect: Live, Lists, Use and Wire are needed")
	case !opt.Member.Member.Valid():
		return nil, errors.New("inspect: Member.Member is not a valid id")
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	app, err := template.ParseFS(assets, "assets/inspect.html")
	if err != nil {
		return nil, err
	}
	return &Page{opt: opt, app: app, calls: make(chan struct{}, maxCalls), streams: make(chan struct{}, maxStreams)}, nil
}

// Handler answers all paths below the base.
func (p *Page) Handler() http.Handler {
	mux, base := http.NewServeMux(), p.opt.Base
	mux.HandleFunc("GET "+base+"/{$}", p.page)
	if base != "" {
		mux.HandleFunc("GET "+base, p.page)
	}
	mux.HandleFunc("GET "+base+"/assets/{name}", look.Assets(assets))
	mux.Handle(base+"/api/", p.API(base))
	mux.HandleFunc("/", notFound)
	return mux
}

// API answers the paths of the API alone, those below prefix + "/api/".
func (p *Page) API(prefix string) http.Handler {
	mux := http.NewServeMux()
	for path, list := range map[string]func(context.Context, schemas.Caller) (any, error){
		"servers": p.servers, "tools": p.tools, "resources": p.resources, "prompts": p.prompts,
	} {
		mux.HandleFunc("GET "+prefix+"/api/"+path, p.listed(list))
	}
	mux.HandleFunc("POST "+prefix+"/api/call", p.used(p.call))
	mux.HandleFunc("POST "+prefix+"/api/read", p.used(p.read))
	mux.HandleFunc("POST "+prefix+"/api/prompt", p.used(p.prompt))
	mux.HandleFunc("POST "+prefix+"/api/restart", p.used(p.restart))
	mux.HandleFunc("GET "+prefix+"/api/events", p.events)
	mux.HandleFunc("/", notFound)
	return mux
}

// caller gives who asks, and in which thread; false: the query names none.
func (p *Page) caller(r *http.Request) (schemas.Caller, bool) {
	c := p.opt.Member
	c.Thread = p.opt.Thread
	if c.Thread == "" {
		c.Thread = schemas.ThreadID(r.URL.Query().Get("thread"))
	}
	return c, c.Thread.Valid()
}

func (p *Page) page(w http.ResponseWriter, r *http.Request) {
	c, ok := p.caller(r)
	if !ok {
		http.Error(w, "this page needs a thread: "+p.opt.Base+"?thread=NAME", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	err := p.app.Execute(w, struct {
		Base   string
		Thread schemas.ThreadID
		Alone  bool
	}{p.opt.Base, c.Thread, p.opt.Thread != ""})
	if err != nil {
		p.opt.Log.Debug("inspect: page", "err", err)
	}
}

func notFound(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusNotFound, refusal(&schemas.Error{Code: schemas.CodeNotFound, Text: "there is nothing at this address"}))
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
