package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"bobbin/internal/safehttp"
	"bobbin/schemas"
)

const (
	fetchTime  = 10 * time.Second // for one document
	maxFetched = 256 << 10        // bytes of one document
	maxServers = 5                // authorization servers that a resource may name
)

// protected is a server's protected resource metadata (RFC 9728, section 2).
type protected struct {
	Resource string   `json:"resource"`
	Servers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported"`
}

// metadata of an authorization server (RFC 8414, section 2; OpenID Connect Discovery, section 3).
type metadata struct {
	Issuer       string   `json:"issuer"`
	Authorize    string   `json:"authorization_endpoint"`
	Token        string   `json:"token_endpoint"`
	Register     string   `json:"registration_endpoint"`
	Revoke       string   `json:"revocation_endpoint"`
	Device       string   `json:"device_authorization_endpoint"`
	Scopes       []string `json:"scopes_supported"`
	Challenges   []string `json:"code_challenge_methods_supported"`
	AuthMethods  []string `json:"token_endpoint_auth_methods_supported"`
	Grants       []string `json:"grant_types_supported"`
	Iss          bool     `json:"authorization_response_iss_parameter_supported"`
	Documents    bool     `json:"client_id_metadata_document_supported"`
	offersDevice bool
}

// place is where a member can sign in: a resource and its authorization server.
type place struct {
	resource string // RFC 8707, section 2
	scopes   []string
	meta     metadata
}

// errAbsent says that a document does not exist, which is no fault.
var errAbsent = errors.New("no such document")

// discover finds the authorization server of a resource: first by the metadata that its challenge names, then at the
// well-known places of RFC 9728, then, for servers older than that, at the resource's own origin.
func (s *SignIns) discover(ctx context.Context, thread schemas.ThreadID, address string, ch challenge) (place, error) {
	server, err := url.Parse(address)
	if err != nil {
		return place{}, wrongMetadata("the server's address cannot be read", err)
	}
	pr, err := s.protected(ctx, thread, server, ch)
	if errors.Is(err, errAbsent) {
		return s.old(ctx, thread, server)
	}
	if err != nil {
		return place{}, err
	}
	p := place{resource: pr.Resource, scopes: scopes(pr.Scopes)}
	if len(pr.Servers) == 0 {
		return place{}, wrongMetadata("the server names no authorization server", nil)
	}
	for _, issuer := range pr.Servers[:min(len(pr.Servers), maxServers)] {
		m, one := s.metadata(ctx, thread, issuer)
		if one == nil {
			p.meta = m
			return p, nil
		}
		if err == nil || errors.Is(err, errAbsent) {
			err = one
		}
	}
	if errors.Is(err, errAbsent) {
		err = wrongMetadata("the authorization server "+hostOf(pr.Servers[0])+" does not say how to sign in", err)
	}
	return place{}, err
}

// protected reads the protected resource metadata; errAbsent when there is none.
func (s *SignIns) protected(ctx context.Context, thread schemas.ThreadID, server *url.URL, ch challenge) (protected, error) {
	var tries []string
	if ch.metadata != "" {
		tries = append(tries, ch.metadata)
	} else {
		tries = wellKnown(server, "oauth-protected-resource")
	}
	for _, at := range tries {
		var pr protected
		err := s.fetch(ctx, thread, at, &pr)
		if errors.Is(err, errAbsent) {
			continue
		}
		if err != nil {
			return protected{}, err
		}
		if !covers(pr.Resource, server) {
			return protected{}, wrongMetadata("the server says it is "+shown(pr.Resource)+", which is not the address that was given", nil)
		}
		return pr, nil
	}
	if ch.metadata != "" {
		return protected{}, wrongMetadata("the description of how to sign in that the server names does not exist", errAbsent)
	}
	return protected{}, errAbsent
}

// covers reports whether resource means the server: the same origin, and its path or one above it.
func covers(resource string, server *url.URL) bool {
	r, err := url.Parse(resource)
	if err != nil || r.Host == "" || r.Fragment != "" || r.User != nil || safehttp.Origin(r) != safehttp.Origin(server) {
		return false
	}
	above, path := strings.TrimSuffix(r.EscapedPath(), "/"), strings.TrimSuffix(server.EscapedPath(), "/")
	return (r.RawQuery == "" || r.RawQuery == server.RawQuery) && (path == above || strings.HasPrefix(path, above+"/"))
}

// wellKnown gives the places of a well-known document of a URL: with its path behind the suffix, then at the root.
func wellKnown(u *url.URL, suffix string) []string {
	root := u.Scheme + "://" + u.Host + "/.well-known/" + suffix
	if path := strings.Trim(u.EscapedPath(), "/"); path != "" {
		return []string{root + "/" + path, root}
	}
	return []string{root}
}

// issuerPlaces gives where an issuer may publish its metadata, in the order of the MCP specification: RFC 8414 and OpenID Connect
// Discovery with the path inserted, then OpenID Connect Discovery with it appended.
func issuerPlaces(u *url.URL) []string {
	root := u.Scheme + "://" + u.Host
	path := strings.Trim(u.EscapedPath(), "/")
	if path == "" {
		return []string{root + "/.well-known/oauth-authorization-server", root + "/.well-known/openid-configuration"}
	}
	return []string{
		root + "/.well-known/oauth-authorization-server/" + path,
		root + "/.well-known/openid-configuration/" + path,
		root + "/" + path + "/.well-known/openid-configuration",
	}
}

// metadata reads what an issuer publishes. It is believed only when it names the very issuer that was asked for (RFC 8414, 3.3).
func (s *SignIns) metadata(ctx context.Context, thread schemas.ThreadID, issuer string) (metadata, error) {
	u, err := s.check(thread, issuer)
	if err != nil {
		return metadata{}, wrongMetadata("the address of the authorization server is not one that may be used", err)
	}
	if u.RawQuery != "" {
		return metadata{}, wrongMetadata("the address of the authorization server has a query", nil)
	}
	for _, at := range issuerPlaces(u) {
		var m metadata
		err := s.fetch(ctx, thread, at, &m)
		if errors.Is(err, errAbsent) {
			continue
		}
		if err != nil {
			return metadata{}, err
		}
		if m.Issuer != issuer {
			return metadata{}, wrongMetadata("the authorization server at "+u.Host+" calls itself "+shown(m.Issuer)+"; somebody may stand between", nil)
		}
		return m, s.usable(thread, &m)
	}
	return metadata{}, errAbsent
}

// old finds the authorization server of a server of 2025-03-26, which is its own: by its metadata, or at the paths of that
// revision.
func (s *SignIns) old(ctx context.Context, thread schemas.ThreadID, server *url.URL) (place, error) {
	origin := server.Scheme + "://" + server.Host
	p := place{resource: canonical(server)}
	for _, at := range issuerPlaces(&url.URL{Scheme: server.Scheme, Host: server.Host}) {
		err := s.fetch(ctx, thread, at, &p.meta)
		if errors.Is(err, errAbsent) {
			continue
		}
		if err != nil {
			return place{}, err
		}
		if p.meta.Issuer != origin && p.meta.Issuer != origin+"/" {
			return place{}, wrongMetadata("the server calls itself "+shown(p.meta.Issuer)+"; somebody may stand between", nil)
		}
		return p, s.usable(thread, &p.meta)
	}
	return place{}, errAbsent
}

// usable checks every address that a person's browser or we would be sent to, and that the server can protect the code.
func (s *SignIns) usable(thread schemas.ThreadID, m *metadata) error {
	for name, at := range map[string]string{"authorization": m.Authorize, "token": m.Token, "registration": m.Register, "revocation": m.Revoke, "device": m.Device} {
		if at == "" && name != "authorization" && name != "token" {
			continue
		}
		if _, err := s.check(thread, at); err != nil {
			return wrongMetadata("the authorization server's "+name+" endpoint is not an address that may be used", err)
		}
	}
	if !slices.Contains(m.Challenges, "S256") {
		return wrongMetadata("the authorization server does not protect sign-ins (it offers no PKCE with S256)", nil)
	}
	m.offersDevice = m.Device != "" && (len(m.Grants) == 0 || slices.Contains(m.Grants, deviceGrant))
	return nil
}

const deviceGrant = "urn:ietf:params:oauth:grant-type:device_code"

// fetch reads one JSON document. Anything in the range of 400 is errAbsent: it says that nothing is there for us, unless it says to come
// again later.
func (s *SignIns) fetch(ctx context.Context, thread schemas.ThreadID, address string, into any) error {
	if _, err := s.check(thread, address); err != nil {
		return wrongMetadata("the server sends me to an address that may not be used", err)
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return wrongMetadata("the server sends me to an address that cannot be read", err)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Mcp-Protocol-Version", protocol)
	resp, err := s.opt.HTTP(thread).Do(req)
	if err != nil {
		return unreachable(hostOf(address), err)
	}
	defer resp.Body.Close()
	later := []int{http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests}
	switch {
	case resp.StatusCode >= 400 && resp.StatusCode < 500 && !slices.Contains(later, resp.StatusCode):
		return errAbsent
	case resp.StatusCode != http.StatusOK:
		return unreachable(hostOf(address), fmt.Errorf("status %d", resp.StatusCode))
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxFetched+1))
	switch {
	case err != nil:
		return unreachable(hostOf(address), err)
	case len(body) > maxFetched:
		return wrongMetadata(hostOf(address)+" describes itself at too great a length", nil)
	}
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind == "text/html" {
		return errAbsent // a single-page site answers every path
	}
	if err := json.Unmarshal(body, into); err != nil {
		return wrongMetadata(hostOf(address)+" describes itself in a way that cannot be read", err)
	}
	return nil
}

// protocol is the revision that discovery names; servers need it for nothing but statistics.
const protocol = "2025-11-25"

// canonical is the resource that stands for a server which names none (MCP specification, canonical server URI).
func canonical(u *url.URL) string {
	c := url.URL{Scheme: strings.ToLower(u.Scheme), Host: strings.ToLower(u.Host), Path: u.Path, RawPath: u.RawPath, RawQuery: u.RawQuery}
	if c.Path == "/" {
		c.Path, c.RawPath = "", ""
	}
	return c.String()
}
