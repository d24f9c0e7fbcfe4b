// Package session keeps one live session with one MCP server, over a child's
// stdio, streamable HTTP or legacy HTTP+SSE, in the protocol versions from
// 2024-11-05 to 2026-07-28.
//
// mcp-go's client agrees on the protocol version; everything after that
// travels as bytes: a result is checked to be valid JSON, and never decoded.
package session

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

// maxErrands bounds the goroutines for messages that nobody waits for.
const maxErrands = 16

// Options say how to reach a server and what to offer it. Exactly one of
// Stdio and URL is set.
type Options struct {
	// Name and Version tell the server who calls. Name is required.
	Name, Version string

	// Stdio is the input and output of a started server. The session owns it:
	// Close on it must be idempotent and must unblock Read and Write.
	Stdio io.ReadWriteCloser

	// URL is the server's endpoint and Client the way to it, already guarded
	// against reaching private addresses. The session works on a copy without
	// cookies and total time-out that follows no redirect to another origin.
	URL     string
	Client  *http.Client
	Headers map[string]string // sent to the server's own origin only

	// SSE asks for the legacy HTTP+SSE transport. Without it that transport
	// is still used if the server refuses a POST of initialize as such
	// servers do.
	SSE bool

	// Era is the protocol version that this server spoke last time, or empty.
	// It only decides what is tried first.
	Era string

	MaxLine        int           // bytes of a stdio message; 4 MiB if zero
	MaxBody        int64         // bytes of a JSON body after decompression; 8 MiB if zero
	MaxEvent       int64         // bytes of a server-sent event; 1 MiB if zero
	ConnectTimeout time.Duration // until the version is agreed; 30 s if zero
	WriteTimeout   time.Duration // for a stdio server to take a message; 30 s if zero

	// OnNotify gets the server's notifications, one after the other, on a
	// goroutine that may block and may use the session, but must not close
	// it. A list_changed is never lost, repeated ones may come once; others
	// are dropped above 256 waiting, see [Session.Dropped].
	OnNotify func(method string, params json.RawMessage)

	// OnNoise, if set, gets the first line of a child process that is not MCP,
	// shortened; called by the goroutine that reads, it must not block.
	OnNoise func(first string)

	// OnMessage, if set, sees every JSON-RPC message as it goes out or comes in, and a child's lines that are none. It is called by the
	// goroutines that carry them, also concurrently: it must be quick, must not block, and must not keep or change the bytes.
	OnMessage func(sent bool, message []byte)

	// OnElicit asks a person on behalf of the server and returns the
	// ElicitResult object. Its context ends with the session or when the server
	// withdraws the question, and has no other deadline. An error answers
	// "cancel". nil means that the ability is not declared.
	OnElicit func(ctx context.Context, params json.RawMessage) (json.RawMessage, error)

	// OnSample asks a model on behalf of the server, in the same way, and returns
	// the CreateMessageResult object. An error refuses.
	OnSample func(ctx context.Context, params json.RawMessage) (json.RawMessage, error)
}

// Info is what the server said about itself. Everything but Protocol and
// Transport is untrusted.
type Info struct {
	Name, Title, Version string
	Instructions         string
	Protocol             string // the agreed version; give it as Options.Era next time
	Transport            string // "stdio", "http" or "sse"

	Tools, Resources, Prompts, Completions      bool
	ToolsChange, ResourcesChange, PromptsChange bool // announces list changes
	Subscribe                                   bool // announces updates of single resources, before 2026-07-28
}

// Session is a live session. All methods may be called concurrently.
type Session struct {
	opts  Options
	link  link
	info  Info
	meta  string    // the open _meta object of every request; empty before 2026-07-28
	metas [4]string // the same for requests with hooks
	ids   atomic.Int64
	shown sync.Map // tool name → *mcp.Tool with x-mcp-header annotations

	life context.Context
	stop context.CancelFunc
	done chan struct{}

	mu      sync.Mutex
	err     error // why the session ended
	closing bool
	wg      sync.WaitGroup

	errands chan struct{} // a semaphore
	notices notices
	asked   asked
}

// Open connects and agrees on a protocol version. ctx bounds only that; the
// session lives until [Session.Close]. On an error everything given is closed.
func Open(ctx context.Context, o Options) (*Session, error) {
	if o.Name == "" {
		return nil, errors.New("session: no client name")
	}
	if (o.Stdio == nil) == (o.URL == "") {
		return nil, errors.New("session: exactly one of Stdio and URL is needed")
	}
	if o.URL != "" && o.Client == nil {
		return nil, errors.New("session: a URL needs an HTTP client")
	}
	fill(&o.MaxLine, 4<<20)
	fill(&o.MaxBody, 8<<20)
	fill(&o.MaxEvent, 1<<20)
	fill(&o.ConnectTimeout, 30*time.Second)
	fill(&o.WriteTimeout, 30*time.Second)

	s := &Session{opts: o, done: make(chan struct{}), errands: make(chan struct{}, maxErrands)}
	s.life, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	ctx, cancel := context.WithTimeout(ctx, o.ConnectTimeout)
	defer cancel()
	if err := s.connect(ctx); err != nil {
		_ = s.Close(ctx)
		if p, ok := s.link.(*pipe); ok {
			err = p.noisy(err)
		}
		return nil, err
	}
	s.listen()
	return s, nil
}

func fill[T int | int64 | time.Duration](field *T, preset T) {
	if *field <= 0 {
		*field = preset
	}
}

// Info returns what the server said when the session was opened.
func (s *Session) Info() Info { return s.info }

// Dropped returns how many notifications were thrown away because OnNotify
// was too slow for them.
func (s *Session) Dropped() uint64 { return s.notices.droppedSoFar() }

// Done is closed when the connection is lost or the session closed. A
// streamable HTTP session is never lost: it has no connection of its own.
func (s *Session) Done() <-chan struct{} { return s.done }

// Err says why Done is closed, and nil before.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Close ends the session: pending calls get [ErrLost], the server is told
// where the protocol has words for it, and every goroutine has ended when it
// returns without error. ctx bounds the wait. Later calls return nil.
func (s *Session) Close(ctx context.Context) error {
	s.mu.Lock()
	first := !s.closing
	s.closing = true
	s.mu.Unlock()
	if !first {
		return nil
	}
	s.lost(ErrClosed)
	ended := make(chan error, 1)
	go func() {
		var err error
		if s.link != nil {
			err = s.link.close(ctx)
		} else if s.opts.Stdio != nil {
			err = s.opts.Stdio.Close()
		}
		s.wg.Wait()
		ended <- err
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// lost records the end of the session; the first reason stays.
func (s *Session) lost(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return
	}
	s.err = err
	close(s.done)
	s.stop()
}

// run starts fn unless the session is closing, and makes Close wait for it.
func (s *Session) run(fn func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.wg.Go(fn)
	return true
}

// errand runs fn, which nobody waits for, on one of a few goroutines, or not at all.
func (s *Session) errand(fn func()) {
	select {
	case s.errands <- struct{}{}:
		if !s.run(func() { defer func() { <-s.errands }(); fn() }) {
			<-s.errands
		}
	default:
	}
}

// within returns a context that ends with ctx or with the session. After
// letGo it only ends with the session or by cancel.
func (s *Session) within(ctx context.Context) (inner context.Context, letGo, cancel context.CancelFunc) {
	inner, end := context.WithCancelCause(context.WithoutCancel(ctx))
	caller := context.AfterFunc(ctx, func() { end(context.Cause(ctx)) })
	session := context.AfterFunc(s.life, func() { end(ErrClosed) })
	return inner, func() { caller() }, func() { caller(); session(); end(nil) }
}

// see shows a message to who watches.
func (s *Session) see(sent bool, message []byte) {
	if s.opts.OnMessage != nil {
		s.opts.OnMessage(sent, message)
	}
}

func (s *Session) modern() bool { return mcp.IsModernProtocol(s.info.Protocol) }
