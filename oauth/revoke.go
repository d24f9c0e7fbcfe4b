package oauth

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"bobbin/schemas"
)

const (
	revokeTime = 5 * time.Second
	sweepEvery = 30 * time.Second
)

// Run gives back to their servers the tokens of sign-ins that nobody finished, until ctx ends; then those that are left.
func (s *SignIns) Run(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.sweep(ctx, false)
		case <-ctx.Done():
			s.sweep(ctx, true)
			return ctx.Err()
		}
	}
}

func (s *SignIns) sweep(ctx context.Context, all bool) {
	s.mu.Lock()
	now := s.opt.Now()
	for id, f := range s.flows {
		if all || now.After(f.expires) {
			s.drop(id, f)
		}
	}
	orphans := s.orphans
	s.orphans = nil
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), revokeTime)
	defer cancel()
	for _, o := range orphans {
		s.revoke(ctx, o.thread, o.grant)
	}
}

// SignOut ends the member's sign-ins to every definition that has the server's name: they are forgotten first, then revoked where
// the authorization server offers it, as far as that works within some seconds.
func (s *SignIns) SignOut(ctx context.Context, thread schemas.ThreadID, member schemas.MemberID, server schemas.Server) error {
	s.cancel(func(f *flow) bool {
		return f.Caller.Thread == thread && f.Caller.Member == member && f.Server.Name == server.Name && binding(f.Server) == binding(server)
	})
	keys, err := s.opt.Names.Names(ctx, member, thread)
	if err != nil {
		return err
	}
	return s.end(ctx, keys, func(k schemas.SecretKey) (bool, bool) { return k.Server == server.Name, true })
}

// Leave ends all sign-ins of a member in a thread.
func (s *SignIns) Leave(ctx context.Context, thread schemas.ThreadID, member schemas.MemberID) error {
	s.cancel(func(f *flow) bool { return f.Caller.Thread == thread && f.Caller.Member == member })
	keys, err := s.opt.Names.Names(ctx, member, thread)
	if err != nil {
		return err
	}
	return s.end(ctx, keys, func(schemas.SecretKey) (bool, bool) { return true, true })
}

// SignOutAll ends all members' sign-ins to a server of a thread; with an empty name, to all of its servers.
func (s *SignIns) SignOutAll(ctx context.Context, thread schemas.ThreadID, server string) error {
	s.cancel(func(f *flow) bool { return f.Caller.Thread == thread && (server == "" || f.Server.Name == server) })
	keys, err := s.opt.Names.Holders(ctx, thread, server)
	if err != nil {
		return err
	}
	return s.end(ctx, keys, func(schemas.SecretKey) (bool, bool) { return true, true })
}

// SignOutOld ends all members' sign-ins to definitions that a server had before this one. They could not be used for it anyway.
func (s *SignIns) SignOutOld(ctx context.Context, thread schemas.ThreadID, now schemas.Server) error {
	s.cancel(func(f *flow) bool {
		return f.Caller.Thread == thread && f.Server.Name == now.Name && binding(f.Server) != binding(now)
	})
	keys, err := s.opt.Names.Holders(ctx, thread, now.Name)
	if err != nil {
		return err
	}
	current := func(k schemas.SecretKey) bool { return strings.HasPrefix(k.Origin, binding(now)) }
	again := map[schemas.MemberID]bool{} // revoking what they had before could end what they have now: some servers keep one grant
	for _, k := range keys {
		again[k.Member] = again[k.Member] || current(k)
	}
	return s.end(ctx, keys, func(k schemas.SecretKey) (bool, bool) { return !current(k), !again[k.Member] })
}

// Members lists who has a sign-in in a thread.
func (s *SignIns) Members(ctx context.Context, thread schemas.ThreadID) ([]schemas.MemberID, error) {
	keys, err := s.opt.Names.Holders(ctx, thread, "")
	var all []schemas.MemberID
	for _, k := range keys {
		if k.Name == tokenName && !slices.Contains(all, k.Member) {
			all = append(all, k.Member)
		}
	}
	return all, err
}

// end forgets the grants under keys, as which says, and gives those back to their servers that it says.
func (s *SignIns) end(ctx context.Context, keys []schemas.SecretKey, which func(schemas.SecretKey) (forget, revoke bool)) error {
	var grants []orphan
	var first error
	for _, k := range keys {
		forget, revoke := which(k)
		if k.Name != tokenName || !strings.HasPrefix(k.Origin, "oauth ") || !forget {
			continue
		}
		g, err := s.forget(ctx, k)
		if err != nil {
			first = errors.Join(first, err)
			continue
		}
		s.noted(ctx, schemas.Record{Thread: k.Thread, Member: k.Member, Server: k.Server, Detail: "ended"})
		if g != nil && revoke {
			grants = append(grants, orphan{k.Thread, g})
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), revokeTime)
	defer cancel()
	for _, g := range grants {
		s.revoke(ctx, g.thread, g.grant)
	}
	return first
}

// forget deletes one grant while nobody renews it, and gives it for the last time.
func (s *SignIns) forget(ctx context.Context, k schemas.SecretKey) (*grant, error) {
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	unlock, err := s.opt.Locks.Lock(ctx, lockName(k))
	if err != nil {
		return nil, &schemas.Error{Code: schemas.CodeNotReady, Text: "a call renews this sign-in and takes too long", Hint: "try again in a while", Err: err}
	}
	defer unlock()
	g, err := s.open(ctx, k)
	if err != nil && schemas.CodeOf(err) != schemas.CodeUnreadable {
		return nil, err
	}
	return g, s.opt.Vault.Delete(ctx, k)
}

// revoke gives a grant back (RFC 7009, section 2.1): the refresh token, with which its access tokens should end, then the access
// token for servers that keep it alive.
func (s *SignIns) revoke(ctx context.Context, thread schemas.ThreadID, g *grant) {
	if g.Revoke == "" {
		return
	}
	for _, t := range [][2]string{{g.Refresh, "refresh_token"}, {g.Access, "access_token"}} {
		if t[0] == "" {
			continue
		}
		err := s.giveBack(ctx, thread, g, t[0], t[1])
		if errors.Is(err, errKept) && g.Refresh != "" && t[0] != g.Refresh {
			continue // signed access tokens cannot be taken back (RFC 7009, section 2.2.1); they end soon
		}
		if err != nil {
			s.opt.Log.Warn("a token could not be revoked; it ends by itself", "thread", thread, "host", hostOf(g.Revoke), "err", plain(err))
		}
	}
}

func (s *SignIns) giveBack(ctx context.Context, thread schemas.ThreadID, g *grant, token, kind string) error {
	v := url.Values{"token": {token}, "token_type_hint": {kind}}
	basic := g.Client.Secret != "" && g.Client.Method != "client_secret_post"
	if !basic {
		v.Set("client_id", g.Client.ID)
		if g.Client.Secret != "" {
			v.Set("client_secret", g.Client.Secret)
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.Revoke, bytes.NewReader([]byte(v.Encode())))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if basic {
		req.SetBasicAuth(url.QueryEscape(g.Client.ID), url.QueryEscape(g.Client.Secret))
	}
	resp, err := s.opt.HTTP(thread).Do(req)
	if err != nil {
		return err
	}
	defer drain(resp)
	switch resp.StatusCode {
	case http.StatusOK, http.StatusNoContent:
		return nil
	case http.StatusBadRequest:
		return errKept
	}
	return fmt.Errorf("status %d", resp.StatusCode)
}

var errKept = errors.New("status 400: the server does not revoke such a token")
