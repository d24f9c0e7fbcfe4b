package oauth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"bobbin/schemas"
)

const (
	tokenName = "oauth_token"    // SecretKey.Name of every grant
	tokenTime = 25 * time.Second // for one exchange of a token
	lockWait  = 35 * time.Second // covers one exchange of whoever holds the lock
	skew      = 30 * time.Second // a token that ends sooner is renewed first
	maxToken  = 16 << 10         // bytes
	maxLife   = 90 * 24 * time.Hour
)

// grant is what a member got from an authorization server, as it is sealed. It names the endpoints it was made with: a later
// answer of the server cannot send it elsewhere.
type grant struct {
	Issuer   string    `json:"issuer"`
	Resource string    `json:"resource"`
	Client   Client    `json:"client"`
	TokenURL string    `json:"token_endpoint"`
	Revoke   string    `json:"revocation_endpoint,omitempty"`
	Redirect string    `json:"redirect_uri,omitempty"` // with which the client is registered
	Access   string    `json:"access_token"`
	Refresh  string    `json:"refresh_token,omitempty"`
	Expiry   time.Time `json:"expiry,omitzero"`
	Lifetime int       `json:"expires_in,omitempty"` // seconds, as it was given
	Scopes   []string  `json:"scopes,omitempty"`
}

// fresh reports whether the access token will outlive a request, as far as is known.
func (g *grant) fresh(now time.Time) bool {
	early := min(skew, time.Duration(g.Lifetime)*time.Second/10)
	return g.Expiry.IsZero() || now.Add(early).Before(g.Expiry)
}

// binding is the start of the Origin of a definition's grants; the rest binds them to issuer and resource.
func binding(server schemas.Server) string { return "oauth " + server.Fingerprint() + " " }

func (g *grant) key(thread schemas.ThreadID, member schemas.MemberID, server schemas.Server) schemas.SecretKey {
	sum := sha256.Sum256([]byte(g.Issuer + "\n" + g.Resource))
	return schemas.SecretKey{Member: member, Thread: thread, Server: server.Name, Name: tokenName, Origin: binding(server) + hex.EncodeToString(sum[:])}
}

// find gives a member's grant for exactly this definition, nil when there is none.
func (s *SignIns) find(ctx context.Context, thread schemas.ThreadID, member schemas.MemberID, server schemas.Server) (*grant, schemas.SecretKey, error) {
	keys, err := s.opt.Names.Names(ctx, member, thread)
	if err != nil {
		return nil, schemas.SecretKey{}, err
	}
	for _, k := range keys {
		if k.Server != server.Name || k.Name != tokenName || !strings.HasPrefix(k.Origin, binding(server)) {
			continue
		}
		g, err := s.open(ctx, k)
		if err != nil {
			return nil, k, err
		}
		if g == nil || g.key(thread, member, server) != k {
			continue
		}
		return g, k, nil
	}
	return nil, schemas.SecretKey{}, nil
}

// open reveals one grant; nil when it is gone or makes no sense.
func (s *SignIns) open(ctx context.Context, k schemas.SecretKey) (*grant, error) {
	v, err := s.opt.Vault.Reveal(ctx, k)
	if schemas.CodeOf(err) == schemas.CodeNeeds {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	g := &grant{}
	if err := json.Unmarshal([]byte(v.Reveal()), g); err != nil {
		return nil, &schemas.Error{Code: schemas.CodeUnreadable, Text: "a sign-in in the vault cannot be read", Hint: "sign in again with `/mcp connect " + k.Server + "`"}
	}
	return g, nil
}

// keep seals a grant in place of all that the member had for the server's name.
func (s *SignIns) keep(ctx context.Context, k schemas.SecretKey, g *grant) error {
	b, err := json.Marshal(g)
	if err != nil {
		return err
	}
	return s.opt.Vault.Put(ctx, k, schemas.NewSecret(string(b)))
}

// Signed reports whether the member has a sign-in for exactly this definition.
func (s *SignIns) Signed(ctx context.Context, thread schemas.ThreadID, member schemas.MemberID, server schemas.Server) bool {
	g, _, err := s.find(ctx, thread, member, server)
	return err == nil && g != nil && (g.Refresh != "" || g.fresh(s.opt.Now()))
}

// current gives a grant whose access token is worth sending; nil when the member has none. stale is an access token that the
// server refused just now: it is renewed however long it claims to live. Among all processes one renews at a time, and the
// others take what it got.
func (s *SignIns) current(ctx context.Context, thread schemas.ThreadID, member schemas.MemberID, server schemas.Server, stale string) (*grant, error) {
	g, k, err := s.find(ctx, thread, member, server)
	if err != nil || g == nil {
		return nil, err
	}
	if g.Access != stale && g.fresh(s.opt.Now()) {
		return g, nil
	}
	if g.Refresh == "" {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	unlock, err := s.opt.Locks.Lock(ctx, lockName(k))
	if err != nil {
		return nil, &schemas.Error{Code: schemas.CodeNotReady, Text: "another call renews the sign-in to " + server.Name + " and takes too long", Hint: "try again in a while", Err: err}
	}
	defer unlock()
	if g, err = s.open(ctx, k); err != nil || g == nil {
		return nil, err
	}
	if g.Access != stale && g.fresh(s.opt.Now()) {
		return g, nil
	}
	return s.renew(ctx, k, g)
}

func lockName(k schemas.SecretKey) string {
	sum := sha256.Sum256([]byte(fmt.Sprintf("%q", k)))
	return "token-" + hex.EncodeToString(sum[:16])
}

// renew exchanges the refresh token. A server that cannot be reached, or is out of order, leaves the sign-in as it is; one that
// says that the grant has ended (RFC 6749, section 5.2) ends it.
func (s *SignIns) renew(ctx context.Context, k schemas.SecretKey, g *grant) (*grant, error) {
	// Whoever called may stop waiting, but an answer that is lost may take the sign-in with it: the old refresh token is spent by then.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lockWait)
	defer cancel()
	v := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {g.Refresh}, "resource": {g.Resource}}
	tok, err := s.token(ctx, k.Thread, g.Client, g.TokenURL, v)
	ended := false
	if said, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		if said.ErrorCode == "invalid_client" {
			s.forgetClient(ctx, g.Issuer, g.Redirect, g.Client.ID)
		}
		ended = slices.Contains([]string{"invalid_grant", "invalid_client", "unauthorized_client"}, said.ErrorCode)
	}
	if err == nil && !plainToken(tok) {
		err = errors.New("the answer holds no bearer token")
	}
	switch {
	case ended:
		if err := s.opt.Vault.Delete(ctx, k); err != nil {
			return nil, err
		}
		s.noted(ctx, schemas.Record{Thread: k.Thread, Member: k.Member, Server: k.Server, Outcome: schemas.OutcomeRefused, Detail: "ended by " + hostOf(g.Issuer)})
		return nil, nil
	case err != nil:
		s.opt.Log.Warn("a sign-in could not be renewed", "thread", k.Thread, "server", k.Server, "err", plain(err))
		return nil, unreachable("the authorization server of "+k.Server+" ("+hostOf(g.TokenURL)+")", plain(err))
	}
	next := *g
	next.take(tok, s.opt.Now())
	if err := s.keep(ctx, k, &next); err != nil {
		return nil, err
	}
	return &next, nil
}

// take fills in what a token endpoint gave.
func (g *grant) take(tok *oauth2.Token, now time.Time) {
	g.Access, g.Expiry, g.Lifetime = tok.AccessToken, time.Time{}, 0
	if tok.RefreshToken != "" {
		g.Refresh = tok.RefreshToken
	}
	// The library counts by its own clock. A life of nothing is none that was given.
	if left := min(time.Until(tok.Expiry), maxLife); !tok.Expiry.IsZero() && left > 0 {
		g.Expiry, g.Lifetime = now.Add(left).UTC().Truncate(time.Millisecond), int(left/time.Second)+1
	}
	if said, ok := tok.Extra("scope").(string); ok && said != "" {
		g.Scopes = scopeList(said)
	}
}

// plainToken reports whether a token can stand in a header as it is (RFC 6750, section 2.1).
func plainToken(tok *oauth2.Token) bool {
	odd := func(r rune) bool { return r <= ' ' || r >= 0x7f }
	return tok.AccessToken != "" && len(tok.AccessToken) <= maxToken && len(tok.RefreshToken) <= maxToken &&
		!strings.ContainsFunc(tok.AccessToken, odd) && strings.EqualFold(tok.Type(), "Bearer")
}

// token asks a token endpoint with any grant. The library's client for client credentials is the one that lets the grant be
// named, sends nothing that was not asked for, and takes a resource.
func (s *SignIns) token(ctx context.Context, thread schemas.ThreadID, c Client, endpoint string, v url.Values) (*oauth2.Token, error) {
	conf := clientcredentials.Config{ClientID: c.ID, ClientSecret: c.Secret, TokenURL: endpoint, EndpointParams: v, AuthStyle: c.style()}
	return conf.Token(s.through(ctx, thread))
}

// through lets the library use the guarded client, with an end to every exchange.
func (s *SignIns) through(ctx context.Context, thread schemas.ThreadID) context.Context {
	own := *s.opt.HTTP(thread)
	own.Timeout = tokenTime
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return errMoved }
	return context.WithValue(ctx, oauth2.HTTPClient, &own)
}

var errMoved = errors.New("the endpoint redirects, which may not be followed with a credential")

func (c Client) style() oauth2.AuthStyle {
	if c.Method == "client_secret_basic" || c.Method == "" && c.Secret != "" {
		return oauth2.AuthStyleInHeader
	}
	return oauth2.AuthStyleInParams
}

// plain drops from an error what a server wrote and where a request went: both may hold a code or a token.
func plain(err error) error {
	if said, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		return fmt.Errorf("status %d, error %q", said.Response.StatusCode, short(schemas.Clean(said.ErrorCode, true), 60))
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}
