package registry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"time"

	"bobbin/internal/safehttp"
	"bobbin/registry/internal/session"
	"bobbin/schemas"
)

// A probe takes 20 s at most.
const (
	probeTime = 18 * time.Second // for the questions
	probeEnd  = 2 * time.Second  // to end the session
)

// Probe contacts a server that is not configured yet, as the caller, and reads what it says about itself and its tools. It keeps
// no session and writes nothing but the audit record without which it contacts nobody. values are of the definition's inputs.
// Errors are *schemas.Error: CodeNeeds when the server wants a sign-in or a key.
func (r *Registry) Probe(ctx context.Context, by schemas.Caller, s schemas.Server, values map[string]schemas.Secret) (schemas.Probe, error) {
	if !s.Remote() {
		return schemas.Probe{}, &schemas.Error{Code: schemas.CodeInvalid, Text: "only a remote server can be asked before it is added"}
	}
	if by.Role < schemas.Member || !by.Member.Valid() {
		return schemas.Probe{}, &schemas.Error{Code: schemas.CodeDenied, Text: "guests may look, not connect servers"}
	}
	opt := session.Options{Name: "bobbin", Version: r.opt.Version, ConnectTimeout: probeTime}
	if err := r.remote(&opt, by.Thread, by.Member, s, values); err != nil {
		return schemas.Probe{}, err
	}
	rec := schemas.Record{At: r.opt.Now(), Thread: by.Thread, Member: by.Member, Name: by.Name, Door: by.Door, Event: schemas.EventServer, Server: s.Name, RunsAs: by.Member, Detail: "contacted before it is added"}
	if _, err := r.opt.Journal.Append(ctx, rec); err != nil {
		return schemas.Probe{}, &schemas.Error{Code: schemas.CodeInternal, Text: "the audit log cannot be written, so the server was not contacted", Err: err}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, probeTime, errSilent)
	defer cancel()
	sess, err := session.Open(ctx, opt)
	if err != nil {
		return schemas.Probe{}, probeError(s, silence(ctx, err))
	}
	defer func() {
		rest, end := context.WithTimeout(context.WithoutCancel(ctx), probeEnd)
		defer end()
		_ = sess.Close(rest)
	}()
	info := sess.Info()
	p := schemas.Probe{
		Transport: schemas.HTTP, Name: short(schemas.Clean(info.Name, true), 128), Title: short(schemas.Clean(info.Title, true), 128), Version: short(schemas.Clean(info.Version, true), 64),
		Protocol: info.Protocol, Instructions: cut(schemas.Clean(info.Instructions, false), maxDescription), Resources: info.Resources, Prompts: info.Prompts,
	}
	if info.Transport == "sse" {
		p.Transport = schemas.SSE
	}
	if !info.Tools {
		return p, nil
	}
	l, err := sess.ListTools(ctx)
	if err != nil {
		return schemas.Probe{}, probeError(s, silence(ctx, err))
	}
	for _, d := range newToolset(s.Name, l.Items, l.Refused, nil).list {
		t := d.Tool
		t.Kind = schemas.Connector
		p.Tools = append(p.Tools, t)
		p.Tokens += t.Tokens
		if t.Writes {
			p.Writing++
		}
	}
	return p, nil
}

// remote fills in where a connector is and the way to it, as a member.
func (r *Registry) remote(opt *session.Options, id schemas.ThreadID, m schemas.MemberID, s schemas.Server, values map[string]schemas.Secret) error {
	opt.URL, opt.SSE = substitute(s.URL, values), s.Type == schemas.SSE
	if (schemas.Server{Type: s.Type, URL: opt.URL}).Origin() != s.Origin() {
		return &schemas.Error{Code: schemas.CodeInvalid, Text: "an input must not change the host of the URL"}
	}
	switch {
	case r.opt.Credentials != nil:
		opt.Client = r.opt.Credentials(id, m, s)
	case r.opt.HTTP != nil:
		opt.Client = r.opt.HTTP(id, s)
	default:
		return &schemas.Error{Code: schemas.CodeMissing, Text: "this build has no connectors"}
	}
	opt.Headers = make(map[string]string, len(s.Headers))
	for k, v := range s.Headers {
		opt.Headers[k] = substitute(v, values)
	}
	return nil
}

// probeError says why a server could not be asked.
func probeError(s schemas.Server, err error) error {
	if known, ok := errors.AsType[*schemas.Error](err); ok {
		return known
	}
	e := &schemas.Error{Code: schemas.CodeFailed, Text: s.Name + " " + remoteWhy(err), Hint: "look at the address, or ask whoever runs it", Err: err}
	if status, ok := errors.AsType[*session.StatusError](err); ok && status.Status == http.StatusUnauthorized {
		e.Code, e.Hint = schemas.CodeNeeds, ""
	}
	if _, ok := errors.AsType[*safehttp.UnreachableError](err); ok {
		e.Code, e.Hint = schemas.CodeNotReady, "look at the address, or try again in a while"
	}
	return e
}

// remoteWhy words why a connector does not serve; nothing of what it sent but its own JSON-RPC error is in it.
func remoteWhy(err error) string {
	var status *session.StatusError
	var rpc *session.RPCError
	var blocked *safehttp.BlockedError
	var moved *safehttp.RedirectError
	var unreachable *safehttp.UnreachableError
	var large *safehttp.TooLargeError
	var cert *tls.CertificateVerificationError
	var host x509.HostnameError
	switch {
	case errors.Is(err, errSilent):
		return "did not answer in time"
	case errors.As(err, &blocked):
		return "is at an address of a private network, which I do not contact"
	case errors.As(err, &moved), errors.Is(err, session.ErrRedirect):
		return "sends me on to another address, which I do not follow; give that address if you trust it"
	case errors.As(err, &host), errors.As(err, &cert):
		return "has no valid certificate for its name"
	case errors.As(err, &unreachable):
		return "cannot be reached"
	case errors.Is(err, context.DeadlineExceeded):
		return "did not answer in time"
	case errors.As(err, &large), errors.Is(err, session.ErrTooLarge):
		return "sent more than I read"
	case errors.As(err, &rpc):
		return "answered with an error: " + short(schemas.Clean(rpc.Message, true), whyLimit)
	case errors.Is(err, session.ErrGarbage):
		return "answered, but not in MCP"
	case errors.As(err, &status):
		switch {
		case status.Status == http.StatusUnauthorized:
			return "wants a sign-in or a key"
		case status.Status == http.StatusForbidden:
			return "refuses (HTTP 403); the key may be wrong or lack the right"
		case status.Status == http.StatusNotFound || status.Status == http.StatusMethodNotAllowed:
			return fmt.Sprintf("has no MCP server at this address (HTTP %d)", status.Status)
		case status.Status == http.StatusTooManyRequests:
			return "is asked too often (HTTP 429); try again in a while"
		case status.Status >= 500:
			return fmt.Sprintf("is out of order (HTTP %d)", status.Status)
		}
		return fmt.Sprintf("answered with HTTP status %d", status.Status)
	}
	return "cannot be reached"
}
