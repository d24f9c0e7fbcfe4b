package link

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/bwmarrin/discordgo"
	"github.com/gorilla/websocket"

	"bobbin/internal/safehttp"
	"bobbin/schemas"
)

// maxBody bounds an answer of Discord's, which discordgo reads whole.
const maxBody = 8 << 20

var errHost = errors.New("only Discord's own hosts are reached from here")

// hosts sends requests to Discord, or to what stands in its place, and to nobody else.
type hosts struct {
	base *url.URL // nil: Discord
	via  http.RoundTripper
}

func (h hosts) RoundTrip(req *http.Request) (*http.Response, error) {
	u := *req.URL
	switch u.Host {
	case "discord.com":
		if strings.HasSuffix(u.Path, "/gateway") { // discordgo asks for it under the version that it was built with
			u.Path = "/api/v10/gateway/bot"
		}
	case "cdn.discordapp.com", "media.discordapp.net":
	default:
		return nil, errHost
	}
	if u.Scheme != "https" {
		return nil, errHost
	}
	out := req.Clone(req.Context())
	if h.base != nil {
		u.Scheme, u.Host = h.base.Scheme, h.base.Host
		out.Host = ""
	}
	out.URL = &u
	resp, err := h.via.RoundTrip(out)
	if err != nil {
		return nil, err
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(resp.Body, maxBody), resp.Body}
	return resp, nil
}

// base reads Options.Base: http://127.0.0.1:4000, with or without /api or /api/v10.
func base(raw string) (*url.URL, error) {
	if raw == "" {
		return nil, nil
	}
	u, err := url.Parse(strings.TrimRight(raw, "/"))
	path := ""
	if err == nil {
		path = strings.TrimPrefix(u.Path, "/api")
	}
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || (path != "" && path != "/v10") {
		return nil, &schemas.Error{Code: schemas.CodeInvalid, Text: "the address in place of https://discord.com is no address like http://127.0.0.1:4000", Hint: "leave it out to talk to Discord"}
	}
	return u, nil
}

// session makes a discordgo session that logs nothing and reaches only Discord.
func (opt Options) session(via http.RoundTripper) (*discordgo.Session, error) {
	b, err := base(opt.Base)
	if err != nil {
		return nil, err
	}
	s, err := discordgo.New("Bot " + opt.Token)
	if err != nil {
		return nil, err
	}
	s.LogLevel = -1 // its messages may hold tokens
	s.UserAgent = "DiscordBot (bobbin, " + opt.Version + ")"
	s.StateEnabled, s.SyncEvents, s.ShouldReconnectOnError, s.ShouldReconnectVoiceOnSessionError = false, true, false, false
	s.Client = &http.Client{Transport: hosts{b, via}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	s.Dialer = &websocket.Dialer{HandshakeTimeout: openWait, NetDialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(addr)
		if err != nil || (b == nil && host != "gateway.discord.gg" && !strings.HasSuffix(host, ".discord.gg")) {
			return nil, errHost
		}
		return (&net.Dialer{Timeout: openWait}).DialContext(ctx, network, addr)
	}}
	return s, nil
}

// New returns both halves of a connection. Nothing is sent yet.
func New(opt Options) (*Rest, *Gateway, error) {
	if opt.Token == "" {
		return nil, nil, &schemas.Error{Code: schemas.CodeInvalid, Text: "there is no token for Discord", Hint: "set DISCORD_TOKEN"}
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	via := &http.Transport{
		MaxIdleConns: 256, MaxIdleConnsPerHost: 256, IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: openWait,
		ForceAttemptHTTP2: true, Proxy: http.ProxyFromEnvironment,
	}
	s, err := opt.session(via)
	if err != nil {
		return nil, nil, err
	}
	rest := &Rest{session: s, files: files(opt.Base, via), log: opt.Log}
	return rest, &Gateway{opt: opt, rest: rest, via: via}, nil
}

// maxFile bounds an attachment, in bytes, whatever limit the one who asks for it has.
const maxFile = 65 << 20

// files gives the client for attachments, whose addresses members bring: guarded, or, with a base, the one that stands for Discord.
// Neither goes where an answer points.
func files(instead string, via http.RoundTripper) *http.Client {
	c := safehttp.New(safehttp.Options{MaxBody: maxFile})
	if b, err := base(instead); err == nil && b != nil {
		c = &http.Client{Transport: hosts{b, via}}
	}
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c
}
