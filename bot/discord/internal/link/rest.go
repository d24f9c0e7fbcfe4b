package link

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/bwmarrin/discordgo"

	"bobbin/bot/discord/internal/wire"
)

// api is where every request goes; a Base in Options changes the host on the way out.
const api = "https://discord.com/api/v10"

// Bounds of a request. An interaction that is not answered within 3 s is dead, so attempts at its callback are short.
const (
	maxAttempts = 4
	attemptWait = 15 * time.Second
	maxPause    = 30 * time.Second // a longer rate limit is told to the caller
)

// Rest makes requests to Discord's API v10. It is safe for concurrent use. Every method obeys 429 answers within ctx, retries what can
// be sent twice without harm, and gives errors without tokens in them; see Error.
type Rest struct {
	session *discordgo.Session
	files   *http.Client // for attachments
	log     *slog.Logger
	rights  rights
}

// Error is what Discord refused, with its JSON error code.
type Error struct {
	Status int    // HTTP status; 0 = no answer
	Code   int    // Discord's JSON error code, such as 10062; 0 = none
	Text   string // Discord's words, without tokens
}

func (e *Error) Error() string {
	return fmt.Sprintf("discord: %s (status %d, code %d)", e.Text, e.Status, e.Code)
}

// CodeOf gives Discord's error code in an error's chain, 0 when there is none.
func CodeOf(err error) int {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return 0
}

var secretPath = regexp.MustCompile(`(/(?:interactions|webhooks)/\d+/)[^/\s"?]+`)

// Redact takes tokens out of a text: the bot's own, and those of interactions in addresses.
func (r *Rest) Redact(text string) string {
	if t := strings.TrimPrefix(r.session.Token, "Bot "); t != "" {
		text = strings.ReplaceAll(text, t, "[token]")
	}
	return secretPath.ReplaceAllString(text, "${1}[token]")
}

// request is one thing to ask of Discord.
type request struct {
	method, path string
	body         any            // JSON; nil = none
	files        []wire.OutFile // makes it multipart
	bucket       string         // of the session's rate limiter; "" = the path
	own          *discordgo.Bucket
	once         bool // sending it twice does harm
}

// do sends a request until it is answered for good.
func (r *Rest) do(ctx context.Context, q request) ([]byte, error) {
	kind, body, err := encode(q)
	if err != nil {
		return nil, err
	}
	var last error
	for attempt := range maxAttempts {
		if attempt > 0 {
			r.log.Debug("asking Discord again", "method", q.method, "path", r.Redact(q.path), "err", last)
		}
		answer, err := r.try(ctx, q, kind, body)
		if err == nil {
			return answer, nil
		}
		pause := time.Duration(0)
		limited, ok := errors.AsType[*discordgo.RateLimitError](err)
		last = r.plain(err)
		refused, _ := errors.AsType[*Error](last)
		switch {
		case ok:
			pause = limited.RetryAfter + 20*time.Millisecond
		case refused != nil && refused.Status > 0 && refused.Status < 500, q.once:
			return nil, last
		default:
			pause = time.Duration(200<<attempt)*time.Millisecond + rand.N(100*time.Millisecond)
		}
		if pause > maxPause || !sleep(ctx, pause) {
			return nil, last
		}
	}
	return nil, last
}

func sleep(ctx context.Context, d time.Duration) bool {
	if end, ok := ctx.Deadline(); ok && time.Until(end) < d {
		return false
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// try sends once. discordgo locks the bucket for the whole request, so each interaction and each message has its own.
func (r *Rest) try(ctx context.Context, q request, kind string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptWait)
	defer cancel()
	bucket := q.own
	if bucket == nil {
		id := q.bucket
		if id == "" {
			id, _, _ = strings.Cut(q.path, "?")
		}
		bucket = r.session.Ratelimiter.GetBucket(id)
	}
	return r.session.RequestWithLockedBucket(q.method, api+q.path, kind, body, r.session.Ratelimiter.LockBucketObject(bucket), maxAttempts,
		discordgo.WithContext(ctx), discordgo.WithRetryOnRatelimit(false), discordgo.WithRestRetries(0))
}

func encode(q request) (kind string, body []byte, err error) {
	if q.body == nil {
		return "", nil, nil
	}
	if len(q.files) == 0 {
		body, err = json.Marshal(q.body)
		return "application/json", body, err
	}
	files := make([]*discordgo.File, len(q.files))
	for i, f := range q.files {
		files[i] = &discordgo.File{Name: f.Name, ContentType: f.MIME, Reader: bytes.NewReader(f.Data)}
	}
	return discordgo.MultipartBodyWithJSON(q.body, files)
}

// plain makes an error of ours out of the library's, which may hold tokens in addresses.
func (r *Rest) plain(err error) error {
	if e, ok := errors.AsType[*discordgo.RESTError](err); ok {
		out := &Error{Status: e.Response.StatusCode, Text: http.StatusText(e.Response.StatusCode)}
		if e.Message != nil {
			out.Code, out.Text = e.Message.Code, r.Redact(e.Message.Message)
		}
		var more struct {
			Errors json.RawMessage `json:"errors"`
		}
		if json.Unmarshal(e.ResponseBody, &more) == nil && len(more.Errors) > 0 {
			out.Text += " " + r.Redact(string(more.Errors[:min(len(more.Errors), 600)]))
		}
		return out
	}
	if e, ok := errors.AsType[*discordgo.RateLimitError](err); ok {
		return &Error{Status: http.StatusTooManyRequests, Text: "rate limited for " + e.RetryAfter.String()}
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("discord did not answer: %w", &Error{Text: r.Redact(e.Err.Error())})
	}
	if strings.HasPrefix(err.Error(), "Exceeded Max retries") {
		return &Error{Status: http.StatusBadGateway, Text: "bad gateway"}
	}
	return &Error{Text: r.Redact(err.Error())}
}

func interaction(i wire.Interaction) *discordgo.Bucket {
	return discordgo.NewRatelimiter().GetBucket(i.ID)
}

// Callback sends the first answer to an interaction.
func (r *Rest) Callback(ctx context.Context, i wire.Interaction, c wire.Callback) error {
	q := request{method: "POST", path: "/interactions/" + i.ID + "/" + i.Token + "/callback", own: interaction(i)}
	body := struct {
		Type int `json:"type"`
		Data any `json:"data,omitempty"`
	}{Type: c.Type}
	switch {
	case c.Message != nil:
		body.Data, q.files = c.Message, c.Message.Files
	case c.Modal != nil:
		body.Data = c.Modal
	case c.Type == wire.CallbackAutocomplete:
		body.Data = map[string][]wire.Choice{"choices": append([]wire.Choice{}, c.Choices...)}
	case c.Flags != 0:
		body.Data = map[string]int{"flags": c.Flags}
	}
	q.body = body
	_, err := r.do(ctx, q)
	return err
}

func (r *Rest) webhook(ctx context.Context, method string, i wire.Interaction, path string, m *wire.Outgoing) (wire.Sent, error) {
	q := request{method: method, path: "/webhooks/" + i.ApplicationID + "/" + i.Token + path, own: interaction(i), once: method == "POST"}
	if m != nil {
		q.body, q.files = m, m.Files
	}
	return sent(r.do(ctx, q))
}

func sent(answer []byte, err error) (wire.Sent, error) {
	var s wire.Sent
	if err == nil && len(answer) > 0 {
		err = json.Unmarshal(answer, &s)
	}
	return s, err
}

// EditOriginal changes the first answer; it fills in a deferred one.
func (r *Rest) EditOriginal(ctx context.Context, i wire.Interaction, m wire.Outgoing) (wire.Sent, error) {
	return r.webhook(ctx, "PATCH", i, "/messages/@original", &m)
}

// DeleteOriginal takes the first answer back.
func (r *Rest) DeleteOriginal(ctx context.Context, i wire.Interaction) error {
	_, err := r.webhook(ctx, "DELETE", i, "/messages/@original", nil)
	return err
}

// Followup sends one more message of an interaction.
func (r *Rest) Followup(ctx context.Context, i wire.Interaction, m wire.Outgoing) (wire.Sent, error) {
	return r.webhook(ctx, "POST", i, "?wait=true", &m)
}

// EditFollowup changes one.
func (r *Rest) EditFollowup(ctx context.Context, i wire.Interaction, id string, m wire.Outgoing) (wire.Sent, error) {
	return r.webhook(ctx, "PATCH", i, "/messages/"+id, &m)
}

// Send posts a message as the bot. It sets a nonce, so that a retry never posts twice.
func (r *Rest) Send(ctx context.Context, channel string, m wire.Outgoing) (wire.Sent, error) {
	m.Nonce, m.Enforce = strconv.FormatUint(rand.Uint64()>>1, 36), true
	return sent(r.do(ctx, request{method: "POST", path: "/channels/" + channel + "/messages", body: m, files: m.Files}))
}

// Edit changes a message of the bot.
func (r *Rest) Edit(ctx context.Context, channel, id string, m wire.Outgoing) error {
	_, err := r.do(ctx, request{method: "PATCH", path: "/channels/" + channel + "/messages/" + id, body: m, files: m.Files})
	return err
}

// Typing shows that the bot is at work, for about ten seconds or until it posts.
func (r *Rest) Typing(ctx context.Context, channel string) error {
	_, err := r.do(ctx, request{method: "POST", path: "/channels/" + channel + "/typing"})
	return err
}

func get[T any](ctx context.Context, r *Rest, path string) (T, error) {
	var out T
	answer, err := r.do(ctx, request{method: "GET", path: path})
	if err == nil {
		err = json.Unmarshal(answer, &out)
	}
	return out, err
}

// Channel asks for a channel or thread.
func (r *Rest) Channel(ctx context.Context, id string) (wire.Channel, error) {
	return get[wire.Channel](ctx, r, "/channels/"+id)
}

// Messages gives up to 100 messages after an id, oldest first.
func (r *Rest) Messages(ctx context.Context, channel, after string) ([]wire.Message, error) {
	found, err := get[[]wire.Message](ctx, r, "/channels/"+channel+"/messages?limit=100&after="+url.QueryEscape(after))
	for a, b := 0, len(found)-1; a < b; a, b = a+1, b-1 {
		found[a], found[b] = found[b], found[a]
	}
	return found, err
}

// Register makes the commands the application's only global ones.
func (r *Rest) Register(ctx context.Context, app string, commands []wire.Command) error {
	_, err := r.do(ctx, request{method: "PUT", path: "/applications/" + app + "/commands", body: commands})
	return err
}

// Upsert adds or replaces one global command and leaves others alone.
func (r *Rest) Upsert(ctx context.Context, app string, command wire.Command) error {
	_, err := r.do(ctx, request{method: "POST", path: "/applications/" + app + "/commands", body: command})
	return err
}

// Application asks who the bot is.
func (r *Rest) Application(ctx context.Context) (wire.Application, error) {
	return get[wire.Application](ctx, r, "/applications/@me")
}

// Download reads an attachment from Discord's CDN, at most limit bytes and one more, so that the caller sees that it is too large.
// Any other host is refused.
func (r *Rest) Download(ctx context.Context, address string, limit int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second+time.Duration(limit>>20)*time.Second)
	defer cancel()
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || (u.Host != "cdn.discordapp.com" && u.Host != "media.discordapp.net") || u.User != nil {
		return nil, &Error{Text: "the file does not lie with Discord"}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, &Error{Text: "the file's address cannot be used"}
	}
	resp, err := r.files.Do(req)
	if err != nil {
		return nil, r.plain(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, &Error{Status: resp.StatusCode, Text: "the file cannot be fetched"}
	}
	return io.ReadAll(io.LimitReader(resp.Body, limit+1))
}
