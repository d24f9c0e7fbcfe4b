// Package web is the local chat page of bobbin: one column of conversation, one of the thread's servers. It turns what a
// browser sends into bot.Request and draws bot.Reply; it has no rules of its own. The page is for the person who sits at
// the machine: it answers loopback names only and opens only with the link that bobbin prints at start.
package web

import (
	"context"
	"errors"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"bobbin/bot"
	"bobbin/internal/look"
	"bobbin/schemas"
)

// Limits of the door. What a browser may hold open or send is bounded here; what a file may weigh is the bot's to say.
const (
	maxBody    = 1 << 20  // bytes of one request, a config to add included
	maxUpload  = 21 << 20 // of a message with files
	maxFiles   = 10       // of a message
	maxRooms   = 64       // threads kept in memory; the least recently used without an open page goes first
	maxClients = 16       // event streams of one thread
	maxRunning = 32       // requests of one thread at a time
	maxConns   = 256      // connections of Server
	longest    = 15 * time.Minute
	firstPage  = schemas.ThreadID("web-default")
)

// handler is the bot. Handle answers one request, concurrently; it does not fail, a refusal is a Reply. Subscribe is called
// once for each thread that is kept, and its stop once.
type handler interface {
	Handle(ctx context.Context, req bot.Request) bot.Reply
	Welcome(ctx context.Context, caller schemas.Caller) bot.Reply
	Subscribe(thread schemas.ThreadID, member schemas.MemberID) (notices <-chan bot.Notice, stop func())
}

// lister gives the column beside the conversation. Board is called whenever a page is opened or told that something changed;
// Complete, as one types, gives whole lines that go on from the typed one.
type lister interface {
	Board(ctx context.Context, caller schemas.Caller) (bot.Board, error)
	Complete(ctx context.Context, caller schemas.Caller, line string) []string
}

// Options are what a Door is made of. All fields but Watch and Hosts are needed.
type Options struct {
	Bot interface {
		handler
		lister
	}
	// Watch ticks whenever a server's state or tools changed in a thread, so that the column is live; usually the registry's.
	// nil: the column follows requests and notices alone.
	Watch func(schemas.ThreadID) (changes <-chan struct{}, stop func())
	// Threads lists the threads to offer in the switcher.
	Threads func(context.Context) ([]schemas.ThreadID, error)
	// Token opens the page; at least 16 characters, from a random source. It works as long as the Door lives.
	Token string
	// Member is the person at the machine; Thread and Door are filled in for each request.
	Member schemas.Caller
	// Hosts are further host:port values to answer to, for a published port of a container. Loopback names with the
	// port of the listener are always allowed.
	Hosts []string
	// Inspector answers /inspect and what is below it, behind the same guard as the page; nil: there is none.
	Inspector http.Handler
	Log       *slog.Logger
}

// Door serves the page. It is safe for concurrent use; Run must be running for requests to be answered.
type Door struct {
	opt     Options
	pages   pages
	guard   guard
	opened  chan *room
	ended   chan struct{}
	running sync.Once

	mu    sync.Mutex
	rooms map[schemas.ThreadID]*room
}

// New checks the options and parses the page.
func New(opt Options) (*Door, error) {
	switch {
	case opt.Bot == nil || opt.Threads == nil || opt.Log == nil:
		return nil, errors.New("web: Bot, Threads and Log are needed")
	case len(opt.Token) < 16:
		return nil, errors.New("web: Token needs at least 16 characters")
	case !opt.Member.Member.Valid():
		return nil, errors.New("web: Member.Member is not a valid id")
	}
	p, err := parsePages()
	if err != nil {
		return nil, err
	}
	return &Door{
		opt: opt, pages: p, guard: newGuard(opt.Token, opt.Hosts),
		opened: make(chan *room), ended: make(chan struct{}),
		rooms: map[schemas.ThreadID]*room{},
	}, nil
}

// Link is the address that opens the page of a Door listening on addr (host:port).
func (d *Door) Link(addr string) string {
	if host, port, err := net.SplitHostPort(addr); err == nil {
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			addr = net.JoinHostPort("127.0.0.1", port)
		}
	}
	return "http://" + addr + "/?" + url.Values{"token": {d.opt.Token}}.Encode()
}

// Handler answers all paths of the page. Only /healthz is open to those without the cookie.
func (d *Door) Handler() http.Handler {
	api := http.NewServeMux()
	api.HandleFunc("POST /api/threads/{id}/requests", d.inRoom(d.request))
	api.HandleFunc("DELETE /api/threads/{id}/requests/{n}", d.inRoom(d.cancel))
	api.HandleFunc("GET /api/threads/{id}/events", d.inRoom(d.events))
	api.HandleFunc("GET /api/threads/{id}/files/{n}/{block}", d.inRoom(d.file))
	api.HandleFunc("GET /api/threads/{id}/board", d.inThread(d.board))
	api.HandleFunc("GET /api/threads/{id}/welcome", d.inThread(d.welcome))
	api.HandleFunc("GET /api/threads/{id}/complete", d.inThread(d.complete))
	if d.opt.Inspector != nil {
		api.Handle("/inspect", d.opt.Inspector)
		api.Handle("/inspect/", d.opt.Inspector)
	}
	api.HandleFunc("GET /t/{id}", d.page)
	api.HandleFunc("GET /assets/{name}", look.Assets(assets))
	api.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/t/"+string(firstPage), http.StatusSeeOther)
	})
	api.HandleFunc("/", d.notFound)

	open := http.NewServeMux()
	open.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	open.Handle("/", d.guard.cookie(d.pages.locked, api))
	return d.guard.headers(d.guard.host(http.NewCrossOriginProtection().Handler(open)))
}

// Server gives an http.Server for the page, with limits against slow and many peers: headers within 5 s and 16 KiB, 256
// connections. Streams have no overall write timeout; each write of theirs has its own deadline.
func (d *Door) Server() *http.Server {
	var mu sync.Mutex
	live := map[net.Conn]bool{}
	return &http.Server{
		Handler:           d.Handler(),
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          log.New(logWriter{d.opt.Log}, "", 0),
		ConnState: func(c net.Conn, s http.ConnState) {
			mu.Lock()
			defer mu.Unlock()
			switch s {
			case http.StateNew:
				live[c] = true
				if len(live) > maxConns {
					_ = c.Close()
				}
			case http.StateClosed, http.StateHijacked:
				delete(live, c)
			}
		},
	}
}

type logWriter struct{ log *slog.Logger }

func (l logWriter) Write(p []byte) (int, error) {
	l.log.Debug("web", "msg", strings.TrimSpace(string(p)))
	return len(p), nil
}

// Run carries notices of open threads to their pages until ctx ends, then ends every stream and request of the door. It
// may be called once.
func (d *Door) Run(ctx context.Context) error {
	err := errors.New("web: Run was called twice")
	d.running.Do(func() {
		err = nil
		var pumps sync.WaitGroup
		defer pumps.Wait()
		defer d.end()
		for {
			select {
			case <-ctx.Done():
				return
			case r := <-d.opened:
				pumps.Go(func() { r.pump() })
			}
		}
	})
	return err
}

func (d *Door) end() {
	close(d.ended)
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, r := range d.rooms {
		r.close()
		delete(d.rooms, id)
	}
}

var errClosed = errors.New("the door is closed")
var errFull = errors.New("too many threads are open")

// enter gives the room of a thread, made if need be.
func (d *Door) enter(ctx context.Context, thread schemas.ThreadID) (*room, error) {
	select {
	case <-d.ended:
		return nil, errClosed
	default:
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if r := d.rooms[thread]; r != nil {
		r.touch()
		return r, nil
	}
	if len(d.rooms) >= maxRooms && !d.evict() {
		return nil, errFull
	}
	r := newRoom(thread, d.opt.Member.Member)
	var deaf, blind func()
	r.notices, deaf = d.opt.Bot.Subscribe(thread, d.opt.Member.Member)
	r.stop = deaf
	if d.opt.Watch != nil {
		r.changes, blind = d.opt.Watch(thread)
		r.stop = func() { deaf(); blind() }
	}
	patience := time.NewTimer(5 * time.Second)
	defer patience.Stop()
	select {
	case d.opened <- r:
		d.rooms[thread] = r
		return r, nil
	case <-d.ended:
	case <-ctx.Done():
	case <-patience.C:
	}
	r.stop()
	return nil, errClosed
}

// evict lets the least recently used room go, if there is one without a page or a running request.
func (d *Door) evict() bool {
	var oldest *room
	for _, r := range d.rooms {
		if !r.busy() && (oldest == nil || r.lastUse().Before(oldest.lastUse())) {
			oldest = r
		}
	}
	if oldest == nil {
		return false
	}
	oldest.close()
	delete(d.rooms, oldest.thread)
	return true
}

func (d *Door) caller(thread schemas.ThreadID) schemas.Caller {
	c := d.opt.Member
	c.Thread, c.Door = thread, schemas.DoorWeb
	return c
}
