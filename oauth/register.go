package oauth

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"bobbin/schemas"
)

// Ours among the sealed values: registrations belong to no member and no thread.
const (
	ourselves    = "bobbin"
	documentPath = "/oauth/client.json"
)

// registration is a client that was registered dynamically, as it is sealed.
type registration struct {
	Client
	Issuer  string `json:"issuer"`
	Expires int64  `json:"client_secret_expires_at,omitempty"` // Unix seconds; 0 = never
}

// client gives what an issuer knows us by, and registers where nothing is known: registered beforehand, by metadata document,
// dynamically, in this order (MCP specification, client registration). Registrations are kept by issuer and redirect address and
// never shown to another issuer.
func (s *SignIns) client(ctx context.Context, thread schemas.ThreadID, m metadata, server schemas.Server, redirect string) (Client, error) {
	if a := server.Auth; a != nil && a.ClientID != "" {
		if c, ok := s.beforehand(m.Issuer); ok && c.ID == a.ClientID {
			return c.with(m), nil
		}
		return Client{ID: a.ClientID, Method: "none"}, nil
	}
	if c, ok := s.beforehand(m.Issuer); ok {
		return c.with(m), nil
	}
	if m.Documents && s.describes(redirect) {
		return Client{ID: s.opt.Document, Method: "none"}, nil
	}
	if m.Register == "" {
		return Client{}, &schemas.Error{Code: schemas.CodeMissing, Text: hostOf(m.Issuer) + " knows only applications that were registered there beforehand",
			Hint: "the operator can register bobbin there (docs/operators.md), or use an API key"}
	}
	if len(m.AuthMethods) > 0 && !slices.ContainsFunc(m.AuthMethods, func(s string) bool { return slices.Contains(methods(), s) }) {
		return Client{}, &schemas.Error{Code: schemas.CodeMissing, Text: hostOf(m.Issuer) + " wants applications to prove themselves in a way that I do not know", Hint: "an API key may work"}
	}
	k, lock := registered(m.Issuer, redirect)
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	unlock, err := s.opt.Locks.Lock(ctx, lock)
	if err != nil {
		return Client{}, &schemas.Error{Code: schemas.CodeNotReady, Text: "somebody else registers at " + hostOf(m.Issuer) + " and takes too long", Hint: "try again in a while", Err: err}
	}
	defer unlock()
	if v, err := s.opt.Vault.Reveal(ctx, k); err == nil {
		var r registration
		good := json.Unmarshal([]byte(v.Reveal()), &r) == nil && r.ID != "" && r.Issuer == m.Issuer
		if good && (r.Expires == 0 || s.opt.Now().Add(time.Hour).Unix() < r.Expires) {
			return r.Client, nil
		}
	} else if schemas.CodeOf(err) != schemas.CodeNeeds && schemas.CodeOf(err) != schemas.CodeUnreadable {
		return Client{}, err
	}
	r, err := s.register(ctx, thread, m, redirect)
	if err != nil {
		return Client{}, err
	}
	b, err := json.Marshal(r)
	if err != nil {
		return Client{}, err
	}
	return r.Client, s.opt.Vault.Put(ctx, k, schemas.NewSecret(string(b)))
}

// registered is where a registration is sealed.
func registered(issuer, redirect string) (k schemas.SecretKey, lock string) {
	sum := sha256.Sum256([]byte(issuer + "\n" + redirect))
	return schemas.SecretKey{Member: ourselves, Thread: ourselves, Server: "oauth", Name: "oauth_client", Origin: "client " + hex.EncodeToString(sum[:])}, "client-" + hex.EncodeToString(sum[:16])
}

// forgetClient drops a registration that its server may no longer know, unless another took its place: the next sign-in registers anew.
func (s *SignIns) forgetClient(ctx context.Context, issuer, redirect, id string) {
	k, lock := registered(issuer, redirect)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lockWait)
	defer cancel()
	unlock, err := s.opt.Locks.Lock(ctx, lock)
	if err != nil {
		return
	}
	defer unlock()
	var r registration
	if v, err := s.opt.Vault.Reveal(ctx, k); err != nil || json.Unmarshal([]byte(v.Reveal()), &r) != nil || r.ID != id {
		return
	}
	if err := s.opt.Vault.Delete(ctx, k); err != nil {
		s.opt.Log.Error("a registration that its server refuses stays in the vault", "host", hostOf(issuer), "err", err)
	}
}

// beforehand gives the client that the operator registered at an issuer. People write issuers with and without a slash at the end.
func (s *SignIns) beforehand(issuer string) (Client, bool) {
	for _, one := range []string{issuer, strings.TrimSuffix(issuer, "/"), issuer + "/"} {
		if c, ok := s.opt.Clients[one]; ok {
			return c, true
		}
	}
	return Client{}, false
}

// describes reports whether the metadata document is one for this redirect address. Our own names the public one only: with an
// address on loopback in it, every program on a person's machine could pass for us.
func (s *SignIns) describes(redirect string) bool {
	if s.opt.Public != "" && s.opt.Document == s.opt.Public+documentPath {
		return redirect == s.opt.Public+callbackPath
	}
	return s.opt.Document != ""
}

// with completes a client that was registered beforehand by what the server accepts.
func (c Client) with(m metadata) Client {
	if c.Method == "" {
		c.Method = method(m, c.Secret != "")
	}
	return c
}

// methods by which we can prove at a token endpoint who we are, the plainest first.
func methods() []string { return []string{"none", "client_secret_basic", "client_secret_post"} }

// method picks how we prove at the token endpoint who we are. RFC 8414, section 2: a server that says nothing takes
// client_secret_basic.
func method(m metadata, secret bool) string {
	order := methods()
	if secret {
		order = order[1:]
	}
	for _, one := range order {
		if slices.Contains(m.AuthMethods, one) {
			return one
		}
	}
	return "client_secret_basic"
}

// describe is how we present ourselves, to register and in the document (RFC 7591, section 2).
func describe(redirects []string, how string) map[string]any {
	kind := "web"
	if u, err := url.Parse(redirects[0]); err == nil && u.Scheme == "http" {
		kind = "native"
	}
	return map[string]any{
		"client_name": "bobbin", "redirect_uris": redirects, "application_type": kind,
		"grant_types": []string{"authorization_code", "refresh_token"}, "response_types": []string{"code"}, "token_endpoint_auth_method": how,
	}
}

// register makes us known to an authorization server (RFC 7591, section 3). It names no scope: the registration serves everybody
// and every step-up, and some servers refuse later what was not named at first.
func (s *SignIns) register(ctx context.Context, thread schemas.ThreadID, m metadata, redirect string) (registration, error) {
	how := method(m, false)
	about := describe([]string{redirect}, how)
	if m.offersDevice {
		about["grant_types"] = []string{"authorization_code", "refresh_token", deviceGrant}
	}
	body, err := json.Marshal(about)
	if err != nil {
		return registration{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.Register, bytes.NewReader(body))
	if err != nil {
		return registration{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	resp, err := s.opt.HTTP(thread).Do(req)
	if err != nil {
		return registration{}, unreachable(hostOf(m.Register), plain(err))
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxFetched))
	if err != nil {
		return registration{}, unreachable(hostOf(m.Register), err)
	}
	if resp.StatusCode != http.StatusCreated && resp.StatusCode != http.StatusOK {
		var said struct {
			Error string `json:"error"`
		}
		_ = json.Unmarshal(answer, &said)
		return registration{}, &schemas.Error{Code: schemas.CodeFailed, Text: hostOf(m.Register) + " does not let bobbin register itself" + because(said.Error),
			Hint: "the operator can register bobbin there by hand (docs/operators.md)", Err: fmt.Errorf("status %d", resp.StatusCode)}
	}
	r := registration{}
	if err := json.Unmarshal(answer, &r); err != nil || r.ID == "" {
		return registration{}, wrongMetadata(hostOf(m.Register)+" answered the registration with something that cannot be read", cmp.Or(err, errors.New("no client_id")))
	}
	r.Issuer = m.Issuer
	if r.Method = cmp.Or(r.Method, how); r.Secret == "" {
		r.Method = "none"
	}
	if !slices.Contains(methods(), r.Method) {
		return registration{}, wrongMetadata(hostOf(m.Register)+" wants a way to prove who I am that I do not know", nil)
	}
	return r, nil
}

// because adds an error code of a server to a sentence; anything but a code is left out.
func because(code string) string {
	if code == "" || len(code) > 60 || strings.Trim(code, "abcdefghijklmnopqrstuvwxyz_") != "" {
		return ""
	}
	return " (" + code + ")"
}
