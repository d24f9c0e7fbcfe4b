package gateway

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"

	"bobbin/schemas"
)

// abilities are what a client declared that matters here.
type abilities byte

const (
	canForm abilities = 1 << iota
	canURL
	canSample
	canRoots
)

// declared reads a client's capabilities (MCP specification, Lifecycle). Elicitation without a mode is by form.
func declared(raw json.RawMessage) abilities {
	var in struct {
		Elicitation     *struct{ Form, URL *struct{} }
		Sampling, Roots *struct{}
	}
	if json.Unmarshal(raw, &in) != nil {
		return 0
	}
	var a abilities
	if e := in.Elicitation; e != nil {
		if e.URL != nil {
			a |= canURL
		}
		if e.Form != nil || e.URL == nil {
			a |= canForm
		}
	}
	if in.Sampling != nil {
		a |= canSample
	}
	if in.Roots != nil {
		a |= canRoots
	}
	return a
}

// exchange is one request of a client on its way.
type exchange struct {
	identity
	g       *Gateway
	m       *message
	n       *session // of the versions that have one
	version string
	able    abilities
	level   *atomic.Int32 // of log messages; nil = none
	cancel  context.CancelFunc
	// hears says that the client can be told of this request while it is under way; note does it, nil while nobody listens.
	hears bool
	note  func([]byte)
	// ask puts a request to the client and waits for the result; nil where it cannot. key is the server's own, "" if it gave none.
	ask func(ctx context.Context, key, method string, params []byte) (json.RawMessage, error)

	mu sync.Mutex // of note
}

func (x *exchange) modern() bool { return x.version == modern }

// tell brings a notification to the client.
func (x *exchange) tell(method string, params []byte) {
	x.send(notification(method, params))
}

// begin counts an exchange among those under way; false when there are too many. Its context ends with the gateway, or by
// cancel.
func (g *Gateway) begin(x *exchange) (context.Context, func(), bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.claim("call", x.token, len(g.under), g.opt.Calls) {
		return nil, nil, false
	}
	g.under[x] = struct{}{}
	ctx, cancel := context.WithCancel(g.life)
	x.cancel = cancel
	return ctx, func() {
		g.mu.Lock()
		g.unclaim("call", x.token)
		delete(g.under, x)
		g.mu.Unlock()
		cancel()
		g.wg.Done()
	}, true
}

// answer does what a request asks. Handshakes and streams are the transports' own.
func (x *exchange) answer(ctx context.Context) outcome {
	switch x.m.Method {
	case "tools/call":
		return x.call(ctx)
	case "tools/list":
		return x.listTools(ctx)
	case "resources/list":
		return x.listResources(ctx, false)
	case "resources/templates/list":
		return x.listResources(ctx, true)
	case "resources/read":
		return x.readResource(ctx)
	case "prompts/list":
		return x.listPrompts(ctx)
	case "prompts/get":
		return x.getPrompt(ctx)
	case "completion/complete":
		return x.complete(ctx)
	case "server/discover":
		if x.modern() {
			return outcome{result: x.g.discovered(x.identity)}
		}
	case "ping":
		if !x.modern() {
			return outcome{result: []byte("{}")}
		}
	case "resources/subscribe":
		if !x.modern() {
			return x.subscribe(ctx)
		}
	case "resources/unsubscribe":
		if !x.modern() {
			x.n.unfollow(x.m.params.URI)
			return outcome{result: []byte("{}")}
		}
	case "logging/setLevel":
		if !x.modern() {
			return x.setLevel()
		}
	}
	return wrong(codeNoMethod, "there is no such method here")
}

// levels of log messages (RFC 5424, 6.2.1), the least important first.
func levels() []string {
	return []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}
}

func (x *exchange) setLevel() outcome {
	var in struct{ Level string }
	_ = json.Unmarshal(x.m.Params, &in)
	n := slices.Index(levels(), in.Level)
	if n < 0 {
		return wrong(codeParams, "level is one of debug, info, notice, warning, error, critical, alert and emergency")
	}
	if x.level != nil {
		x.level.Store(int32(n))
	}
	return outcome{result: []byte("{}")}
}

// said is how we present ourselves.
type said struct {
	Versions     []string        `json:"supportedVersions,omitempty"`
	Version      string          `json:"protocolVersion,omitempty"`
	Capabilities json.RawMessage `json:"capabilities"`
	Server       *implementation `json:"serverInfo,omitempty"`
	Meta         json.RawMessage `json:"_meta,omitempty"`
	Instructions string          `json:"instructions"`
	ResultType   string          `json:"resultType,omitempty"`
	TTL          *int            `json:"ttlMs,omitempty"`
	Scope        string          `json:"cacheScope,omitempty"`
}

type implementation struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Version string `json:"version"`
}

func (g *Gateway) said(who identity) said {
	title := "bobbin, thread " + string(who.caller.Thread)
	about := "Tools of the MCP servers of a chat thread. Names are ext_SERVER_TOOL. Calls run as the member whose token this is, and a call that writes may wait for that member's yes in the chat."
	if who.server != "" {
		title, about = schemas.Clean(who.server, true)+" in "+title, "Calls run as the member whose token this is, and a call that writes may wait for that member's yes in the chat."
	}
	return said{
		Capabilities: json.RawMessage(`{"tools":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"prompts":{"listChanged":true},"completions":{},"logging":{}}`),
		Server:       &implementation{"bobbin", title, g.opt.Version}, Instructions: about,
	}
}

// discovered answers server/discover.
func (g *Gateway) discovered(who identity) []byte {
	s, now := g.said(who), 0
	s.Versions, s.ResultType, s.TTL, s.Scope = append([]string{modern}, handshaken()[:3]...), "complete", &now, "private"
	s.Meta, s.Server = encode(map[string]any{"io.modelcontextprotocol/serverInfo": s.Server}), nil
	return encode(s)
}

// welcome answers initialize: the version that the client asked for where it is spoken here.
func (g *Gateway) welcome(who identity, m *message) (answer []byte, version string, able abilities, level *fault) {
	var in struct {
		Version      string          `json:"protocolVersion"`
		Capabilities json.RawMessage `json:"capabilities"`
	}
	if json.Unmarshal(m.Params, &in) != nil || in.Version == "" {
		return nil, "", 0, &fault{code: codeParams, text: "protocolVersion is missing"}
	}
	s := g.said(who)
	if s.Version = in.Version; !slices.Contains(handshaken(), in.Version) {
		s.Version = latest
	}
	return encode(s), s.Version, declared(in.Capabilities), nil
}
