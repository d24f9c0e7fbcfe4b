package discordtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// message is one message with its history's end.
type message struct {
	id         string
	channel    *Channel
	author     string
	content    string
	flags      int
	components []any
	files      []File
	raw        map[string]any // as the bot sent it last
	for_       string         // whose eyes alone; "" = all
	thinking   bool           // a deferred answer
	gone       bool
	at         time.Time
	seq        int
	mentions   []string
	reply      string
}

// ix is one interaction.
type ix struct {
	id, token string
	kind      int
	user      *User
	channel   *Channel
	on        *message // whose component was used
	born      time.Time
	first     int // callback type; 0 = none yet
	acked     time.Time
	original  *message
	modal     map[string]any
	choices   []string
	from      int // change at the start
}

// call is one request under way.
type call struct {
	w     http.ResponseWriter
	r     *http.Request
	body  map[string]any
	list  []any // of a body that is one
	files []File
	raw   string
}

type refusal struct {
	status, code int
	text         string
}

func (f *Fake) refuse(status, code int, format string, a ...any) *refusal {
	return &refusal{status, code, fmt.Sprintf(format, a...)}
}

// broken is a refusal of what the bot should never have sent.
func (f *Fake) broken(status, code int, format string, a ...any) *refusal {
	return &refusal{status, code, f.violate(format, a...)}
}

func (f *Fake) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /gw", f.dimmed(f.gateway))
	mux.HandleFunc("GET /gw/", f.dimmed(f.gateway))
	mux.HandleFunc("GET /attachments/", f.dimmed(f.file))
	type answer func(*call) (any, *refusal)
	for pattern, a := range map[string]answer{
		"GET /gateway/bot": func(*call) (any, *refusal) {
			return map[string]any{"url": "ws" + strings.TrimPrefix(f.URL, "http") + "/gw", "shards": 1,
				"session_start_limit": map[string]any{"total": 1000, "remaining": 1000, "reset_after": 14400000, "max_concurrency": 1}}, nil
		},
		"GET /applications/@me":                             func(*call) (any, *refusal) { return map[string]any{"id": f.AppID, "name": "bobbin"}, nil },
		"GET /users/@me":                                    func(*call) (any, *refusal) { return f.userJSON(f.BotID), nil },
		"PUT /applications/{app}/commands":                  f.putCommands,
		"POST /applications/{app}/commands":                 f.postCommand,
		"GET /guilds/{id}":                                  f.getGuild,
		"GET /guilds/{id}/members/{user}":                   f.getMember,
		"GET /channels/{id}":                                f.getChannel,
		"GET /channels/{id}/messages":                       f.getMessages,
		"POST /channels/{id}/messages":                      f.postMessage,
		"PATCH /channels/{id}/messages/{message}":           f.patchMessage,
		"POST /channels/{id}/typing":                        f.typing,
		"POST /interactions/{id}/{token}/callback":          f.callback,
		"PATCH /webhooks/{app}/{token}/messages/{message}":  f.patchWebhook,
		"DELETE /webhooks/{app}/{token}/messages/{message}": f.deleteWebhook,
		"POST /webhooks/{app}/{token}":                      f.followup,
	} {
		method, path, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" /api/v10"+path, func(w http.ResponseWriter, r *http.Request) { f.serve(w, r, a) })
	}
	mux.HandleFunc("/", f.dimmed(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		f.violate("%s %s: no such route of API v10", r.Method, r.URL.Path)
		f.mu.Unlock()
		http.Error(w, `{"message": "404: Not Found", "code": 0}`, http.StatusNotFound)
	}))
	return mux
}

// dimmed refuses everything during an outage, by cutting the connection.
func (f *Fake) dimmed(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		dark := time.Now().Before(f.dark)
		f.mu.Unlock()
		if dark {
			panic(http.ErrAbortHandler)
		}
		next(w, r)
	}
}

var tokenPath = regexp.MustCompile(`(/(?:interactions|webhooks)/\d+/)[^/]+`)

func (f *Fake) serve(w http.ResponseWriter, r *http.Request, answer func(*call) (any, *refusal)) {
	f.dimmed(func(w http.ResponseWriter, r *http.Request) {
		c := &call{w: w, r: r}
		bad := c.read()
		if f.opt.Latency > 0 {
			time.Sleep(f.opt.Latency)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		path := strings.TrimPrefix(r.URL.Path, "/api/v10")
		var v any
		no := f.limited(w, r.Method, path)
		switch hooked := strings.HasPrefix(path, "/webhooks/") || strings.HasPrefix(path, "/interactions/"); {
		case no != nil:
		case bad != "":
			no = f.broken(400, 50109, "%s %s: %s", r.Method, path, bad)
		case !hooked && r.Header.Get("Authorization") != "Bot "+f.Token:
			no = f.refuse(401, 0, "401: Unauthorized")
		case r.Header.Get("User-Agent") == "":
			no = f.broken(403, 40333, "%s %s: no User-Agent", r.Method, path)
		default:
			v, no = answer(c)
		}
		status := http.StatusOK
		if v == nil {
			status = http.StatusNoContent
		}
		if no != nil {
			status = no.status
			v = map[string]any{"code": no.code, "message": no.text}
			if no.status == http.StatusTooManyRequests {
				after, _ := strconv.ParseFloat(no.text, 64)
				v = map[string]any{"message": "You are being rate limited.", "retry_after": after, "global": false}
			}
		}
		f.requests = append(f.requests, Request{Method: r.Method, Path: tokenPath.ReplaceAllString(path, "${1}…"), Body: c.raw, Status: status, At: time.Now()})
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		if v != nil {
			_ = json.NewEncoder(w).Encode(v)
		}
	})(w, r)
}

// read takes the body in, JSON or multipart with payload_json. It gives what is wrong with it.
func (c *call) read() string {
	kind := c.r.Header.Get("Content-Type")
	if strings.HasPrefix(kind, "multipart/form-data") {
		if err := c.r.ParseMultipartForm(64 << 20); err != nil {
			return "multipart body: " + err.Error()
		}
		c.raw = c.r.FormValue("payload_json")
		for n := range 11 {
			heads := c.r.MultipartForm.File["files["+strconv.Itoa(n)+"]"]
			if len(heads) == 0 {
				break
			}
			part, err := heads[0].Open()
			if err != nil {
				return err.Error()
			}
			data, err := io.ReadAll(part)
			_ = part.Close()
			if err != nil {
				return err.Error()
			}
			c.files = append(c.files, File{Name: heads[0].Filename, Data: data})
		}
		if len(c.r.MultipartForm.File) != len(c.files) {
			return "files are not named files[0], files[1] …"
		}
	} else {
		data, err := io.ReadAll(io.LimitReader(c.r.Body, 32<<20))
		if err != nil {
			return err.Error()
		}
		c.raw = string(data)
		if c.raw == "" {
			return ""
		}
		if !strings.HasPrefix(kind, "application/json") {
			return "a body of type " + kind
		}
	}
	if strings.HasPrefix(strings.TrimSpace(c.raw), "[") {
		d := json.NewDecoder(strings.NewReader(c.raw))
		d.UseNumber()
		if err := d.Decode(&c.list); err != nil {
			return "the JSON is broken: " + err.Error()
		}
		return ""
	}
	d := json.NewDecoder(bytes.NewReader([]byte(c.raw)))
	d.UseNumber()
	if err := d.Decode(&c.body); err != nil {
		return "the JSON is broken: " + err.Error()
	}
	return ""
}

// limited gives the faults that the test asked for, and Discord's own limit on writing into a channel.
func (f *Fake) limited(w http.ResponseWriter, method, path string) *refusal {
	for _, x := range f.faults {
		if x.n > 0 && strings.Contains(method+" "+path, x.path) {
			x.n--
			if x.status == http.StatusTooManyRequests {
				w.Header().Set("X-RateLimit-Scope", "user")
				w.Header().Set("Retry-After", fmt.Sprintf("%.3f", x.after.Seconds()))
				return f.refuse(429, 0, "%.3f", x.after.Seconds())
			}
			return f.refuse(x.status, 0, "told to fail")
		}
	}
	if f.opt.NoRateLimits || !strings.HasPrefix(path, "/channels/") || !strings.Contains(path, "/messages") || method == http.MethodGet {
		return nil
	}
	key := method + strings.Join(strings.Split(path, "/")[:3], "/")
	b := f.buckets[key]
	if b == nil || time.Now().After(b.reset) {
		b = &bucket{5, time.Now().Add(5 * time.Second)}
		f.buckets[key] = b
	}
	b.left--
	after := time.Until(b.reset).Seconds()
	w.Header().Set("X-RateLimit-Limit", "5")
	w.Header().Set("X-RateLimit-Remaining", strconv.Itoa(max(b.left, 0)))
	w.Header().Set("X-RateLimit-Reset-After", fmt.Sprintf("%.3f", after))
	if b.left < 0 {
		return f.refuse(429, 0, "%.3f", after)
	}
	return nil
}

func (f *Fake) file(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	x, ok := f.files[r.URL.Path]
	signed := r.URL.Query().Get("ex") != "" && r.URL.Query().Get("hm") != ""
	f.mu.Unlock()
	if !ok || !signed {
		http.NotFound(w, r)
		return
	}
	_, _ = w.Write(x.Data)
}

// host puts a file where members' files lie, and gives its JSON.
func (f *Fake) host(c *Channel, x File) map[string]any {
	id := f.id()
	path := "/attachments/" + c.ID + "/" + id + "/" + url.PathEscape(x.Name)
	f.files["/attachments/"+c.ID+"/"+id+"/"+x.Name] = x
	return map[string]any{"id": id, "filename": x.Name, "size": len(x.Data), "content_type": "application/json", "ephemeral": true,
		"url": "https://cdn.discordapp.com" + path + "?ex=1&is=2&hm=3", "proxy_url": "https://media.discordapp.net" + path + "?ex=1&is=2&hm=3"}
}

func (f *Fake) getGuild(c *call) (any, *refusal) {
	g := f.guilds[c.r.PathValue("id")]
	if g == nil {
		return nil, f.refuse(404, 10004, "Unknown Guild")
	}
	return f.guildJSON(g), nil
}

func (f *Fake) getMember(c *call) (any, *refusal) {
	g := f.guilds[c.r.PathValue("id")]
	if g == nil {
		return nil, f.refuse(404, 10004, "Unknown Guild")
	}
	if _, ok := g.members[c.r.PathValue("user")]; !ok {
		return nil, f.refuse(404, 10007, "Unknown Member")
	}
	return f.memberJSON(g, c.r.PathValue("user"), false), nil
}

func (f *Fake) at(c *call) (*Channel, *refusal) {
	ch := f.channels[c.r.PathValue("id")]
	switch {
	case ch == nil || ch.deleted:
		return nil, f.refuse(404, 10003, "Unknown Channel")
	case ch.guild != nil && f.guilds[ch.guild.ID] == nil:
		return nil, f.refuse(403, 50001, "Missing Access")
	}
	return ch, nil
}

func (f *Fake) getChannel(c *call) (any, *refusal) {
	ch, no := f.at(c)
	if no != nil {
		return nil, no
	}
	return ch.json(), nil
}

func (f *Fake) getMessages(c *call) (any, *refusal) {
	ch, no := f.at(c)
	if no != nil {
		return nil, no
	}
	after, _ := strconv.ParseUint(c.r.URL.Query().Get("after"), 10, 64)
	limit, err := strconv.Atoi(c.r.URL.Query().Get("limit"))
	if err != nil || limit < 1 || limit > 100 {
		limit = 50
	}
	all := []any{}
	for _, m := range f.messages { // the oldest after that id, newest first
		if n, _ := strconv.ParseUint(m.id, 10, 64); m.channel == ch && n > after && m.for_ == "" && !m.gone && len(all) < limit {
			one := f.messageJSON(m, true)
			delete(one, "guild_id") // only events say these (Discord, Message Create)
			delete(one, "member")
			all = append(all, one)
		}
	}
	slices.Reverse(all)
	return all, nil
}

func (f *Fake) messageJSON(m *message, content bool) map[string]any {
	out := map[string]any{"id": m.id, "channel_id": m.channel.ID, "author": f.userJSON(m.author), "timestamp": stamp(m.at), "type": 0, "flags": m.flags, "tts": false,
		"mention_everyone": false, "mention_roles": []any{}, "embeds": []any{}, "pinned": false, "edited_timestamp": nil}
	mentions, files := []any{}, []any{}
	for _, id := range m.mentions {
		mentions = append(mentions, f.userJSON(id))
	}
	for _, x := range m.files {
		files = append(files, f.host(m.channel, x))
	}
	out["mentions"], out["attachments"], out["content"], out["components"] = mentions, files, m.content, m.components
	if m.components == nil {
		out["components"] = []any{}
	}
	if g := m.channel.guild; g != nil {
		out["guild_id"] = g.ID
		if _, ok := f.users[m.author]; ok {
			member := f.memberJSON(g, m.author, false)
			delete(member, "user")
			out["member"] = member
		}
	}
	if m.reply != "" {
		out["type"] = 19
		out["message_reference"] = map[string]any{"message_id": m.reply, "channel_id": m.channel.ID}
		for _, x := range f.messages {
			if x.id == m.reply {
				out["referenced_message"] = f.messageJSON(x, false)
			}
		}
	}
	if !content {
		out["content"], out["attachments"], out["components"] = "", []any{}, []any{}
	}
	return out
}

func (f *Fake) postMessage(c *call) (any, *refusal) {
	ch, no := f.at(c)
	if no != nil {
		return nil, no
	}
	if ch.archived && ch.locked {
		return nil, f.refuse(400, 50083, "Thread is archived")
	}
	if nonce, _ := c.body["nonce"].(string); nonce != "" && c.body["enforce_nonce"] == true {
		if m := f.nonces[ch.ID+nonce]; m != nil {
			return f.messageJSON(m, true), nil
		}
	}
	if no := f.judge(c, "MessageCreateRequest", c.body, nil); no != nil {
		return nil, no
	}
	ch.archived = false
	m := f.put(&message{channel: ch, author: f.BotID}, c)
	if nonce, _ := c.body["nonce"].(string); nonce != "" {
		f.nonces[ch.ID+nonce] = m
	}
	f.dispatch(ch.guild, "MESSAGE_CREATE", f.messageJSON(m, true))
	return f.messageJSON(m, true), nil
}

// put writes a body into a message, which is new when it has no id.
func (f *Fake) put(m *message, c *call) *message {
	body := c.body
	if data, ok := body["data"].(map[string]any); ok {
		body = data
	}
	if m.id == "" {
		m.id, m.at = f.id(), time.Now()
		m.channel.last = m.id
		f.messages = append(f.messages, m)
	}
	m.content, _ = body["content"].(string)
	m.components, _ = body["components"].([]any)
	flags := 0
	if n, ok := body["flags"].(json.Number); ok {
		v, _ := n.Int64()
		flags = int(v)
	}
	m.flags = m.flags&(1<<6|1<<15) | flags
	m.raw, m.thinking, m.seq = body, false, f.touch()
	m.files = nil
	for _, x := range c.files {
		for _, a := range list(body["attachments"]) {
			if a["filename"] == x.Name {
				x.Description, _ = a["description"].(string)
			}
		}
		m.files = append(m.files, x)
	}
	return m
}

func list(v any) []map[string]any {
	var out []map[string]any
	items, _ := v.([]any)
	for _, x := range items {
		if m, ok := x.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

func (f *Fake) patchMessage(c *call) (any, *refusal) {
	ch, no := f.at(c)
	if no != nil {
		return nil, no
	}
	for _, m := range f.messages {
		if m.id != c.r.PathValue("message") || m.channel != ch || m.gone || m.for_ != "" {
			continue
		}
		if m.author != f.BotID {
			return nil, f.broken(403, 50005, "edited the message of somebody else")
		}
		if no := f.judge(c, "MessageEditRequestPartial", c.body, m); no != nil {
			return nil, no
		}
		f.put(m, c)
		return f.messageJSON(m, true), nil
	}
	return nil, f.refuse(404, 10008, "Unknown Message")
}

func (f *Fake) typing(c *call) (any, *refusal) {
	_, no := f.at(c)
	return nil, no
}
