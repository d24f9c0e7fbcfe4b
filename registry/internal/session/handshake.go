package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"bobbin/schemas"
)

// connect opens the transport and agrees on a version.
//
// A stdio server gets initialize first unless it is known to be modern: many
// servers leave an unknown first request unanswered or exit on it, and one
// process cannot be asked twice. Over HTTP server/discover comes first, as
// 2026-07-28 asks, unless the server is known to be older.
func (s *Session) connect(ctx context.Context) error {
	o := &s.opts
	modernFirst := mcp.IsModernProtocol(o.Era)
	switch {
	case o.Stdio != nil:
		s.info.Transport = "stdio"
		s.link = newPipe(s, o.Stdio, o.MaxLine, o.WriteTimeout)
		return s.agree(ctx, modernFirst)
	case !o.SSE:
		s.info.Transport = "http"
		w, err := newWeb(s)
		if err != nil {
			return err
		}
		s.link = w
		err = s.agree(ctx, modernFirst || o.Era == "")
		if !legacySSE(err) {
			return err
		}
	}
	s.info.Transport = "sse"
	l, err := newEvents(ctx, s)
	if err != nil {
		return err
	}
	s.link = l
	return s.legacy(ctx)
}

// legacySSE reports whether a refused initialize looks like a server of the
// legacy transport (2025-11-25, basic/transports, backwards compatibility).
func legacySSE(err error) bool {
	var status *StatusError
	return errors.As(err, &status) && (status.Status == 400 || status.Status == 404 || status.Status == 405)
}

func (s *Session) agree(ctx context.Context, modernFirst bool) error {
	if !modernFirst {
		err := s.legacy(ctx)
		var rpc *RPCError
		if err == nil || !errors.As(err, &rpc) && !legacySSE(err) {
			return err
		}
	}
	hand, got, err := s.shake(ctx)
	if err == nil {
		s.adopt(hand, got)
	}
	return err
}

// legacy agrees by initialize alone.
func (s *Session) legacy(ctx context.Context) error {
	hand, got, err := s.shake(ctx, client.WithProtocolVersion(mcp.LATEST_LEGACY_PROTOCOL_VERSION))
	if err == nil {
		s.adopt(hand, got)
	}
	return err
}

// shake lets mcp-go's client agree on a version; nothing of the session changes.
func (s *Session) shake(ctx context.Context, opts ...client.ClientOption) (*handshake, *mcp.InitializeResult, error) {
	p := &peer{link: s.link}
	request := mcp.InitializeRequest{}
	request.Params.ClientInfo, request.Params.Capabilities = s.clientInfo(), s.clientCapabilities()
	got, err := client.NewClient(p, append(opts, client.WithDiscoverTimeout(probeTime(ctx)))...).Initialize(ctx, request)
	if err != nil {
		if p.refused != nil {
			err = p.refused
		}
		if p.over != nil {
			err = p.over
		}
		return nil, nil, fmt.Errorf("agreeing on a protocol version: %w", err)
	}
	return &p.hand, got, nil
}

// probeTime is how long server/discover may take: half of what is left for connecting. mcp-go's own 5 s take a server that wakes up
// slowly for an old one; a silent old one still has the other half for initialize.
func probeTime(ctx context.Context) time.Duration {
	end, limited := ctx.Deadline()
	if !limited {
		return 0 // mcp-go's own
	}
	return max(time.Until(end)/2, time.Nanosecond) // zero would be mcp-go's own again
}

func (s *Session) clientInfo() mcp.Implementation {
	return mcp.Implementation{Name: s.opts.Name, Version: s.opts.Version}
}

// clientCapabilities declares what the session can do. Sampling and roots are
// deprecated (2026-07-28); the first is offered only where it was allowed.
func (s *Session) clientCapabilities() mcp.ClientCapabilities {
	var caps mcp.ClientCapabilities
	if s.opts.OnElicit != nil {
		caps.Elicitation = &mcp.ElicitationCapability{Form: &struct{}{}, URL: &struct{}{}}
	}
	if s.opts.OnSample != nil {
		caps.Sampling = &mcp.SamplingCapability{}
	}
	return caps
}

func (s *Session) adopt(hand *handshake, got *mcp.InitializeResult) {
	i, c := &s.info, got.Capabilities
	i.Name, i.Title, i.Version = got.ServerInfo.Name, got.ServerInfo.Title, got.ServerInfo.Version
	i.Instructions, i.Protocol = got.Instructions, got.ProtocolVersion
	i.Tools, i.ToolsChange = c.Tools != nil, c.Tools != nil && c.Tools.ListChanged
	i.Resources, i.ResourcesChange = c.Resources != nil, c.Resources != nil && c.Resources.ListChanged
	i.Prompts, i.PromptsChange = c.Prompts != nil, c.Prompts != nil && c.Prompts.ListChanged
	i.Completions = c.Completions != nil
	i.Subscribe = c.Resources != nil && c.Resources.Subscribe && !mcp.IsModernProtocol(i.Protocol)
	if s.modern() {
		s.meta, s.metas = openMeta(i.Protocol, s.clientInfo(), s.clientCapabilities()), s.openMetas()
	}
	if w, ok := s.link.(*web); ok {
		w.agreed.Store(hand)
	}
}

// openMeta writes the members that 2026-07-28 wants in the _meta of every request.
func openMeta(version string, info mcp.Implementation, caps mcp.ClientCapabilities) string {
	b, err := json.Marshal(map[string]any{
		mcp.MetaKeyProtocolVersion: version, mcp.MetaKeyClientInfo: info, mcp.MetaKeyClientCapabilities: caps,
	})
	if err != nil {
		return "" // plain structs always marshal
	}
	return string(b[1 : len(b)-1])
}

// peer shows a link to mcp-go's client as its transport for the handshake. It
// checks what that client takes on trust.
type peer struct {
	link    link
	hand    handshake
	refused *RPCError // the last error answer, which mcp-go reduces to text
	over    error     // the client's own refusal, such as a missing sign-in: no other version changes it
}

var _ transport.HTTPConnection = (*peer)(nil)

func (p *peer) SendRequest(ctx context.Context, r transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	if p.over != nil {
		return nil, p.over
	}
	params, err := json.Marshal(r.Params)
	if err != nil {
		return nil, err
	}
	if string(params) == "null" {
		params = nil
	}
	out := &request{method: r.Method, params: params, hand: &p.hand}
	result, err := p.link.roundTrip(ctx, out)
	if _, own := errors.AsType[*schemas.Error](err); own {
		p.over = err
		return nil, err
	}
	discover := r.Method == string(mcp.MethodServerDiscover)
	if discover && offersSame(err, p.hand.version) {
		result, err = p.link.roundTrip(ctx, out)
	}
	if err == nil && discover {
		err = checkDiscover(result)
	}
	response := &transport.JSONRPCResponse{JSONRPC: mcp.JSONRPC_VERSION, ID: r.ID, Result: result}
	p.refused = nil
	if errors.As(err, &p.refused) {
		response.Result = nil
		response.Error = &mcp.JSONRPCErrorDetails{Code: p.refused.Code, Message: p.refused.Message}
		if p.refused.Data != nil {
			response.Error.Data = p.refused.Data
		}
		return response, nil
	}
	if err != nil {
		return nil, err
	}
	return response, nil
}

// offersSame reports an "unsupported version" that names the very version
// asked for: a server in the middle of a change, worth one more try.
func offersSame(err error, version string) bool {
	var rpc *RPCError
	if !errors.As(err, &rpc) || rpc.Code != mcp.UNSUPPORTED_PROTOCOL_VERSION {
		return false
	}
	var data mcp.UnsupportedProtocolVersionData
	return json.Unmarshal(rpc.Data, &data) == nil && slices.Contains(data.Supported, version)
}

// checkDiscover refuses the answer of a server that answers {} to every method it does not know.
func checkDiscover(result json.RawMessage) error {
	var d struct {
		SupportedVersions []string         `json:"supportedVersions"`
		Capabilities      *json.RawMessage `json:"capabilities"`
	}
	if json.Unmarshal(result, &d) != nil || d.Capabilities == nil || !slices.ContainsFunc(d.SupportedVersions, mcp.IsModernProtocol) {
		return &RPCError{Code: mcp.METHOD_NOT_FOUND, Message: "the answer to server/discover names no supported version"}
	}
	return nil
}

func (p *peer) SendNotification(ctx context.Context, n mcp.JSONRPCNotification) error {
	b, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return p.link.notify(ctx, append(b, '\n'), &p.hand)
}

func (p *peer) Start(context.Context) error                                       { return nil }
func (p *peer) Close() error                                                      { return nil }
func (p *peer) GetSessionId() string                                              { return p.hand.session }
func (p *peer) SetProtocolVersion(version string)                                 { p.hand.version = version }
func (p *peer) SetNotificationHandler(func(notification mcp.JSONRPCNotification)) {}
