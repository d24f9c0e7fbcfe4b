package oauth

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"

	"bobbin/internal/safehttp"
	"bobbin/schemas"
)

// Client gives the HTTP client by which a member reaches a connector. It adds the member's token to requests to the server's own
// origin, renews it, and remembers what the server asks for. Where a sign-in is missing or too narrow the request fails with a
// *schemas.Error of CodeNeeds, and the server has not carried it out. It never waits for a person.
func (s *SignIns) Client(thread schemas.ThreadID, member schemas.MemberID, server schemas.Server) *http.Client {
	c := *s.opt.HTTP(thread)
	t := &transport{s: s, base: c.Transport, thread: thread, member: member, server: server}
	if u, err := url.Parse(server.URL); err == nil {
		t.origin = safehttp.Origin(u)
	}
	c.Transport = t
	return &c
}

type transport struct {
	s      *SignIns
	base   http.RoundTripper
	thread schemas.ThreadID
	member schemas.MemberID
	server schemas.Server
	origin string // of the server
}

// who the transport speaks for.
func (t *transport) who() who { return who{t.thread, t.member, t.server.URL} }

func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	own := t.signs() && t.home(req.URL)
	if !own {
		resp, err := t.base.RoundTrip(req)
		if err == nil && resp.StatusCode == http.StatusUnauthorized && t.home(req.URL) {
			if ch, ok := readChallenge(resp.Header); ok {
				t.s.remember(t.who(), ch)
			}
		}
		return resp, err
	}
	g, err := t.s.current(req.Context(), t.thread, t.member, t.server, "")
	if err != nil {
		closeBody(req)
		return nil, err
	}
	resp, err := t.send(req, g)
	if err != nil || resp.StatusCode != http.StatusUnauthorized || g == nil {
		return t.judge(req.Context(), resp, err, g)
	}
	// The token may have been revoked, or the server may have moved to another authorization server: then it must not be renewed
	// at the old one.
	ch, _ := readChallenge(resp.Header)
	again, err := t.renewed(req.Context(), g, ch)
	if err != nil {
		drain(resp)
		return nil, err
	}
	if again == nil || req.Body != nil && req.GetBody == nil {
		return t.judge(req.Context(), resp, nil, g)
	}
	drain(resp)
	second := req.Clone(req.Context())
	if req.GetBody != nil {
		if second.Body, err = req.GetBody(); err != nil {
			return nil, err
		}
	}
	resp, err = t.send(second, again)
	return t.judge(req.Context(), resp, err, again)
}

// signs reports whether the connector signs in by OAuth.
func (t *transport) signs() bool { return t.server.Auth != nil && t.server.Auth.Type == "oauth" }

// home reports whether a request goes to the server itself.
func (t *transport) home(u *url.URL) bool { return t.origin != "" && safehttp.Origin(u) == t.origin }

func (t *transport) send(req *http.Request, g *grant) (*http.Response, error) {
	if g != nil {
		req = req.Clone(req.Context())
		req.Header.Set("Authorization", "Bearer "+g.Access)
	}
	return t.base.RoundTrip(req)
}

// renewed gives a grant in place of one that the server refused, nil when there is none.
func (t *transport) renewed(ctx context.Context, g *grant, ch challenge) (*grant, error) {
	if g.Refresh != "" {
		p, err := t.s.discover(ctx, t.thread, t.server.URL, ch)
		if schemas.CodeOf(err) == schemas.CodeNotReady {
			return nil, err
		}
		if err != nil || p.meta.Issuer != g.Issuer {
			return nil, nil
		}
	}
	next, err := t.s.current(ctx, t.thread, t.member, t.server, g.Access)
	if err != nil || next == nil || next.Access == g.Access {
		return nil, err
	}
	return next, nil
}

// judge turns the server's refusal into one that the member understands; any other answer goes on as it is.
func (t *transport) judge(ctx context.Context, resp *http.Response, err error, g *grant) (*http.Response, error) {
	if err != nil {
		return nil, err
	}
	ch, said := readChallenge(resp.Header)
	switch {
	case resp.StatusCode == http.StatusUnauthorized:
	case resp.StatusCode == http.StatusForbidden && said && ch.code == "insufficient_scope":
	default:
		return resp, nil
	}
	drain(resp)
	if resp.StatusCode == http.StatusForbidden {
		return nil, t.more(ch, g)
	}
	t.s.remember(t.who(), ch)
	if g != nil {
		t.s.reject(ctx, t.thread, t.member, t.server, g, "refused by the server")
		return nil, needs(t.server.Name, "no longer takes the sign-in; sign in again")
	}
	return nil, needs(t.server.Name, "needs you to sign in")
}

// maxStepUps in a row that changed nothing end the asking (MCP specification, step-up authorization: retry limits).
const maxStepUps = 3

// stepUps counts how often a server asked for more after the member had signed in for it and nothing was added to what they have. A
// member who did not sign in is asked as often as they call.
type stepUps struct {
	had, wanted string
	tries       int
	signed      bool // since it was asked for last
}

// more answers a server that wants scopes which the sign-in lacks. The next one asks for all that was granted, too.
func (t *transport) more(ch challenge, g *grant) error {
	var had []string
	if g != nil {
		had = g.Scopes
	}
	now := stepUps{had: strings.Join(had, " "), wanted: strings.Join(ch.scopes, " "), tries: 1}
	t.s.mu.Lock()
	if last, ok := t.s.refused[t.who()]; ok && last.had == now.had && last.wanted == now.wanted {
		now.tries = last.tries
		if last.signed {
			now.tries++
		}
	}
	if len(t.s.refused) >= maxKept {
		clear(t.s.refused)
	}
	t.s.refused[t.who()] = now
	t.s.mu.Unlock()
	if g != nil && len(ch.scopes) > 0 && !beyond(ch.scopes, had) || now.tries > maxStepUps {
		return &schemas.Error{Code: schemas.CodeDenied, Text: t.server.Name + " refuses this although your sign-in has what it asks for",
			Hint: "your account there may lack the right; ask whoever runs it"}
	}
	ch.scopes = scopes(had, ch.scopes)
	t.s.remember(t.who(), ch)
	return needs(t.server.Name, "needs more rights for this than you gave it")
}

// reject forgets an access token for which no use is left, such as one that its server refused, so that it is not sent again. One
// that took its place stays.
func (s *SignIns) reject(ctx context.Context, thread schemas.ThreadID, member schemas.MemberID, server schemas.Server, g *grant, why string) {
	k := g.key(thread, member, server)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lockWait)
	defer cancel()
	unlock, err := s.opt.Locks.Lock(ctx, lockName(k))
	if err != nil {
		return
	}
	defer unlock()
	now, err := s.open(ctx, k)
	if err != nil || now == nil || now.Access != g.Access {
		return // somebody renewed it meanwhile
	}
	if err := s.opt.Vault.Delete(ctx, k); err != nil {
		s.opt.Log.Error("a refused token stays in the vault", "thread", thread, "server", server.Name, "err", err)
	}
	s.noted(ctx, schemas.Record{Thread: thread, Member: member, Server: server.Name, Outcome: schemas.OutcomeRefused, Detail: why})
}

func drain(resp *http.Response) {
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	_ = resp.Body.Close()
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}
