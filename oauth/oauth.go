package oauth

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"bobbin/internal/durable"
	"bobbin/schemas"
)

// vault keeps tokens and the client registrations. Called concurrently; errors are *schemas.Error, CodeNeeds for a value that is
// not there.
type vault interface {
	Put(context.Context, schemas.SecretKey, schemas.Secret) error
	Reveal(context.Context, schemas.SecretKey) (schemas.Secret, error)
	Delete(context.Context, schemas.SecretKey) error
}

// directory says which sealed values there are: of a member in a thread, and of all members for a server of it.
type directory interface {
	Names(context.Context, schemas.MemberID, schemas.ThreadID) ([]schemas.SecretKey, error)
	Holders(ctx context.Context, thread schemas.ThreadID, server string) ([]schemas.SecretKey, error)
}

// journal keeps the audit record. A sign-in that cannot be written down does not happen.
type journal interface {
	Append(context.Context, schemas.Record) (schemas.Record, error)
}

// Options of New. The first six are required.
type Options struct {
	Vault   vault
	Names   directory
	Journal journal
	Locks   *durable.Dir // for refreshes and registrations: one at a time among all processes
	// HTTP gives the guarded client for a thread, and Check the rules for addresses by which it goes.
	HTTP  func(schemas.ThreadID) *http.Client
	Check func(thread schemas.ThreadID, raw string) (*url.URL, error)

	// Public is the origin under which browsers anywhere reach Handler, such as https://bot.example.com; "" for none.
	Public string
	// Local gives the origin under which a browser on this machine reaches Handler, and makes it reachable. nil: none.
	Local func() (string, error)
	// Login, if set, makes members of Discord prove in the browser who they are.
	Login *Login
	// Clients are registered beforehand, by issuer.
	Clients map[string]Client
	// Document is the URL of the client metadata document; "" = Public + "/oauth/client.json".
	Document string
	// Done hears that a browser ended a sign-in and its token is in the vault. It must not block.
	Done func(ctx context.Context, thread schemas.ThreadID, member schemas.MemberID, link string)

	Life time.Duration // of a link; 0 = 10 min
	Now  func() time.Time
	Log  *slog.Logger
}

// Client is what an authorization server knows us by.
type Client struct {
	ID     string `json:"client_id"`
	Secret string `json:"client_secret,omitempty"`
	Method string `json:"token_endpoint_auth_method,omitempty"` // "none", "client_secret_basic" or "client_secret_post"; "" = by Secret
}

// SignIns is every member's sign-in to every connector. It is safe for concurrent use; tokens may be used by several processes
// on one data folder.
type SignIns struct {
	opt   Options
	local sync.Mutex

	mu         sync.Mutex
	flows      map[string]*flow // by link id
	challenges map[who]challenge
	refused    map[who]stepUps
	orphans    []orphan
}

// orphan is a grant that its member did not take.
type orphan struct {
	thread schemas.ThreadID
	grant  *grant
}

// who is a member at a connector.
type who struct {
	thread  schemas.ThreadID
	member  schemas.MemberID
	address string
}

// New checks the options.
func New(o Options) (*SignIns, error) {
	if o.Vault == nil || o.Names == nil || o.Journal == nil || o.Locks == nil || o.HTTP == nil || o.Check == nil {
		return nil, errors.New("oauth: Vault, Names, Journal, Locks, HTTP and Check are required")
	}
	if o.Public != "" {
		u, err := url.Parse(o.Public)
		if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
			return nil, &schemas.Error{Code: schemas.CodeInvalid, Text: "the public address is not like https://bot.example.com", Hint: "https, a host, no path"}
		}
		o.Public = "https://" + strings.ToLower(u.Host)
		if o.Document == "" {
			o.Document = o.Public + documentPath
		}
	}
	if o.Done == nil {
		o.Done = func(context.Context, schemas.ThreadID, schemas.MemberID, string) {}
	}
	if o.Life <= 0 {
		o.Life = 10 * time.Minute
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	return &SignIns{opt: o, flows: map[string]*flow{}, challenges: map[who]challenge{}, refused: map[who]stepUps{}}, nil
}

// base is the origin of our pages for a thread. Members on Discord sit anywhere; the others sit at this machine.
func (s *SignIns) base(thread schemas.ThreadID) (string, error) {
	if s.opt.Local != nil && !thread.IsSnowflake() {
		s.local.Lock()
		defer s.local.Unlock()
		at, err := s.opt.Local()
		if err != nil {
			return "", &schemas.Error{Code: schemas.CodeMissing, Text: "no page for signing in could be opened on this machine", Hint: "look whether another program uses its port", Err: err}
		}
		return at, nil
	}
	if s.opt.Public == "" {
		return "", &schemas.Error{Code: schemas.CodeMissing, Text: "signing in needs an address of mine that your browser can reach, and there is none",
			Hint: "the operator starts bobbin with --public-url https://…; an API key works without it"}
	}
	return s.opt.Public, nil
}

// check judges an address that a server named. What RFC 3986 has no place for is refused, since it is put into pages and headers.
func (s *SignIns) check(thread schemas.ThreadID, raw string) (*url.URL, error) {
	if strings.ContainsAny(raw, "\"<>^`{|}") {
		return nil, errors.New("a character that no address has")
	}
	return s.opt.Check(thread, raw)
}

// remember keeps what a server said when it refused a member.
func (s *SignIns) remember(w who, c challenge) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.challenges) >= maxKept {
		clear(s.challenges) // they are a help only: discovery works without
	}
	s.challenges[w] = c
}

const maxKept = 10_000

func (s *SignIns) note(ctx context.Context, r schemas.Record) error {
	r.Event, r.At = schemas.EventSignIn, s.opt.Now()
	if _, err := s.opt.Journal.Append(ctx, r); err != nil {
		return &schemas.Error{Code: schemas.CodeInternal, Text: "the audit log cannot be written, so nothing was done", Err: err}
	}
	return nil
}

// noted writes down what happened already.
func (s *SignIns) noted(ctx context.Context, r schemas.Record) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := s.note(ctx, r); err != nil {
		s.opt.Log.Error("a sign-in is not in the audit log", "thread", r.Thread, "server", r.Server, "err", err)
	}
}
