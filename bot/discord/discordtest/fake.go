// Package discordtest is a strict Discord on loopback for tests: REST API v10, gateway, and files. It refuses what Discord refuses and
// notes every breach of its rules, which fails the test. It knows nothing of bobbin's own shapes: what it reads, it reads as JSON.
package discordtest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Options of a Fake.
type Options struct {
	Latency      time.Duration // of every REST answer
	AllowContent bool          // the message-content intent is switched on in the portal
	Heartbeat    time.Duration // 0 = 41.25 s
	TokenLife    time.Duration // of an interaction; 0 = 15 min
	AckWait      time.Duration // for the first answer; 0 = 3 s
	NoRateLimits bool
	Tolerant     bool // the test breaks rules on purpose: violations do not fail it
}

// Fake is one Discord with one application.
type Fake struct {
	URL, Token, AppID, BotID string

	t   testing.TB
	opt Options
	mu  sync.Mutex

	serial     uint64
	users      map[string]*User
	guilds     map[string]*Guild
	channels   map[string]*Channel
	messages   []*message
	turns      map[string]*ix // by token
	files      map[string]File
	commands   []map[string]any
	sockets    map[*socket]bool
	violations []string
	requests   []Request
	change     int
	changed    chan struct{}
	dark       time.Time // an outage ends then
	muted      bool
	identified int
	onIdentify func(int) (int, int)
	faults     []*fault
	buckets    map[string]*bucket
	nonces     map[string]*message
}

// User is an account.
type User struct {
	ID, Name string
}

// Guild is a server.
type Guild struct {
	ID, Name, Owner string
	f               *Fake
	members         map[string]uint64 // permissions
}

// Channel is a channel, thread, forum or direct message.
type Channel struct {
	ID, Name string

	f                *Fake
	kind             int
	guild            *Guild
	parent           *Channel
	owner            string
	archived, locked bool
	deleted          bool
	last             string
	peer             *User
}

// File is an attachment.
type File struct {
	Name        string
	Data        []byte
	Description string
}

// Request is one REST request that the bot made. Tokens are cut out of Path.
type Request struct {
	Method, Path string
	Body         string
	Status       int
	At           time.Time
}

// Default is what members of a new guild may do: view, send, send in threads, attach, read the history.
const Default uint64 = 1<<10 | 1<<11 | 1<<15 | 1<<16 | 1<<38

type fault struct {
	path   string
	n      int
	status int
	after  time.Duration
}

type bucket struct {
	left  int
	reset time.Time
}

// New starts a Discord. At the end of the test it stops, and fails the test with all violations.
func New(t testing.TB, opt Options) *Fake {
	t.Helper()
	if opt.Heartbeat == 0 {
		opt.Heartbeat = 41250 * time.Millisecond
	}
	if opt.TokenLife == 0 {
		opt.TokenLife = 15 * time.Minute
	}
	if opt.AckWait == 0 {
		opt.AckWait = 3 * time.Second
	}
	f := &Fake{
		t: t, opt: opt, users: map[string]*User{}, guilds: map[string]*Guild{}, channels: map[string]*Channel{}, turns: map[string]*ix{},
		files: map[string]File{}, sockets: map[*socket]bool{}, changed: make(chan struct{}), buckets: map[string]*bucket{}, nonces: map[string]*message{},
	}
	f.AppID = f.id()
	f.BotID = f.AppID
	f.Token = "MTIzNDU2Nzg5MDEyMzQ1Njc4.GfAkE0." + f.AppID + "aBcDeFgHiJkLmNoPqRsT"
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.URL = "http://" + l.Addr().String()
	f.description() // loaded before the clock of an interaction runs
	srv := &http.Server{Handler: f.handler(), ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(l) }()
	t.Cleanup(func() {
		f.cut(0)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Second)
		defer cancel()
		if srv.Shutdown(ctx) != nil {
			_ = srv.Close()
		}
		<-done
		if bad := f.Violations(); len(bad) > 0 && !opt.Tolerant {
			t.Errorf("Discord's rules were broken %d times:\n%s", len(bad), strings.Join(bad[:min(len(bad), 20)], "\n"))
		}
	})
	return f
}

// id makes a snowflake of now. The caller holds mu, or nobody else knows the Fake yet.
func (f *Fake) id() string {
	f.serial++
	return strconv.FormatUint(uint64(time.Now().UnixMilli()-1420070400000)<<22|f.serial&0x3fffff, 10)
}

// violate notes a breach. The caller holds mu.
func (f *Fake) violate(format string, a ...any) string {
	text := fmt.Sprintf(format, a...)
	f.violations = append(f.violations, text)
	return text
}

// Violations are all breaches of Discord's rules so far.
func (f *Fake) Violations() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.violations)
}

// Requests are all requests so far.
func (f *Fake) Requests() []Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.requests)
}

// Sent gives the JSON of every message, modal and suggestion that the bot ever sent.
func (f *Fake) Sent() []string {
	var all []string
	for _, r := range f.Requests() {
		if r.Body != "" && r.Method != http.MethodPut && !strings.Contains(r.Path, "/commands") {
			all = append(all, r.Body)
		}
	}
	return all
}

// touch wakes who waits for a change. The caller holds mu.
func (f *Fake) touch() int {
	f.change++
	close(f.changed)
	f.changed = make(chan struct{})
	return f.change
}

// User makes an account, a member of every guild that there is.
func (f *Fake) User(name string) *User {
	f.mu.Lock()
	defer f.mu.Unlock()
	u := &User{ID: f.id(), Name: name}
	f.users[u.ID] = u
	for _, g := range f.guilds {
		g.members[u.ID] = Default
	}
	return u
}

// Guild makes a server that the bot is in.
func (f *Fake) Guild(name string) *Guild {
	f.mu.Lock()
	defer f.mu.Unlock()
	g := &Guild{ID: f.id(), Name: name, Owner: f.id(), f: f, members: map[string]uint64{}}
	for id := range f.users {
		g.members[id] = Default
	}
	f.guilds[g.ID] = g
	f.dispatch(g, "GUILD_CREATE", f.guildJSON(g))
	return g
}

// Allow sets what a member may do in the whole guild.
func (g *Guild) Allow(u *User, permissions uint64) {
	g.f.mu.Lock()
	defer g.f.mu.Unlock()
	g.members[u.ID] = permissions
}

// Leave takes a member out of the guild. Without the privileged intent nobody is told.
func (g *Guild) Leave(u *User) {
	g.f.mu.Lock()
	defer g.f.mu.Unlock()
	delete(g.members, u.ID)
}

// Delete throws the bot out.
func (g *Guild) Delete() {
	g.f.mu.Lock()
	defer g.f.mu.Unlock()
	g.f.dispatch(g, "GUILD_DELETE", map[string]any{"id": g.ID})
	delete(g.f.guilds, g.ID)
}

// Return lets the bot in again.
func (g *Guild) Return() {
	g.f.mu.Lock()
	defer g.f.mu.Unlock()
	g.f.guilds[g.ID] = g
	g.f.dispatch(g, "GUILD_CREATE", g.f.guildJSON(g))
}

// Unavailable is an outage of the guild.
func (g *Guild) Unavailable() {
	g.f.mu.Lock()
	defer g.f.mu.Unlock()
	g.f.dispatch(g, "GUILD_DELETE", map[string]any{"id": g.ID, "unavailable": true})
}

func (f *Fake) channel(g *Guild, parent *Channel, kind int, name, owner string) *Channel {
	c := &Channel{ID: f.id(), Name: name, f: f, kind: kind, guild: g, parent: parent, owner: owner}
	f.channels[c.ID] = c
	return c
}

// Channel makes a text channel.
func (g *Guild) Channel(name string) *Channel {
	g.f.mu.Lock()
	defer g.f.mu.Unlock()
	c := g.f.channel(g, nil, 0, name, "")
	g.f.dispatch(g, "CHANNEL_CREATE", c.json())
	return c
}

// Forum makes a forum.
func (g *Guild) Forum(name string) *Channel {
	g.f.mu.Lock()
	defer g.f.mu.Unlock()
	return g.f.channel(g, nil, 15, name, "")
}

// Thread makes a public thread.
func (c *Channel) Thread(owner *User, name string) *Channel {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	th := c.f.channel(c.guild, c, 11, name, owner.ID)
	c.f.dispatch(c.guild, "THREAD_CREATE", th.json())
	return th
}

// Post makes a post of a forum with its first message, which has the thread's id.
func (c *Channel) Post(owner *User, name, text string) *Channel {
	th := c.Thread(owner, name)
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	c.f.messages = append(c.f.messages, &message{id: th.ID, channel: th, author: owner.ID, content: text, at: time.Now(), seq: c.f.touch()})
	return th
}

// DM gives the direct messages between a user and the bot.
func (f *Fake) DM(u *User) *Channel {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.channels {
		if c.peer == u {
			return c
		}
	}
	c := f.channel(nil, nil, 1, "", "")
	c.peer = u
	return c
}

// Archive closes a thread; a locked one cannot be opened again by writing.
func (c *Channel) Archive(locked bool) {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	c.archived, c.locked = true, locked
	c.f.dispatch(c.guild, "THREAD_UPDATE", c.json())
}

// Delete removes a channel or thread.
func (c *Channel) Delete() {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	c.deleted = true
	kind := "CHANNEL_DELETE"
	if c.kind == 11 {
		kind = "THREAD_DELETE"
	}
	c.f.dispatch(c.guild, kind, map[string]any{"id": c.ID, "guild_id": c.guild.ID, "type": c.kind})
}

func (c *Channel) json() map[string]any {
	m := map[string]any{"id": c.ID, "type": c.kind, "name": c.Name, "flags": 0}
	if c.guild != nil {
		m["guild_id"] = c.guild.ID
		m["permission_overwrites"] = []any{}
	}
	if c.last != "" {
		m["last_message_id"] = c.last
	}
	if c.parent != nil {
		m["parent_id"], m["owner_id"] = c.parent.ID, c.owner
		m["thread_metadata"] = map[string]any{"archived": c.archived, "locked": c.locked, "auto_archive_duration": 1440, "archive_timestamp": stamp(time.Now())}
	}
	if c.peer != nil {
		m["recipients"] = []any{c.f.userJSON(c.peer.ID)}
	}
	return m
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000+00:00") }

func (f *Fake) userJSON(id string) map[string]any {
	u := f.users[id]
	if u == nil {
		return map[string]any{"id": id, "username": "bobbin", "global_name": nil, "bot": id == f.BotID, "discriminator": "0", "avatar": nil, "public_flags": 0}
	}
	return map[string]any{"id": id, "username": strings.ToLower(u.Name), "global_name": u.Name, "discriminator": "0", "avatar": nil, "public_flags": 0}
}

func (f *Fake) memberJSON(g *Guild, id string, permissions bool) map[string]any {
	m := map[string]any{"user": f.userJSON(id), "nick": nil, "roles": []string{"1" + id}, "joined_at": stamp(time.Now()), "deaf": false, "mute": false, "flags": 0}
	if permissions {
		m["permissions"] = strconv.FormatUint(g.members[id], 10)
	}
	return m
}

func (f *Fake) guildJSON(g *Guild) map[string]any {
	roles := []any{map[string]any{"id": g.ID, "name": "@everyone", "permissions": "0"}}
	for id, p := range g.members {
		roles = append(roles, map[string]any{"id": "1" + id, "name": "of " + id, "permissions": strconv.FormatUint(p, 10)})
	}
	channels, threads := []any{}, []any{}
	for _, c := range f.channels {
		switch {
		case c.guild != g || c.deleted:
		case c.parent == nil:
			channels = append(channels, c.json())
		case !c.archived:
			threads = append(threads, c.json())
		}
	}
	return map[string]any{"id": g.ID, "name": g.Name, "owner_id": g.Owner, "roles": roles, "channels": channels, "threads": threads, "members": []any{}, "unavailable": false}
}

// Outage cuts every connection and refuses new ones for a time.
func (f *Fake) Outage(d time.Duration) {
	f.mu.Lock()
	f.dark = time.Now().Add(d)
	f.mu.Unlock()
	f.cut(0)
}

// Limit answers the next n requests whose path holds the text with 429.
func (f *Fake) Limit(path string, n int, after time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = append(f.faults, &fault{path, n, http.StatusTooManyRequests, after})
}

// Fail answers the next n requests whose path holds the text with a status.
func (f *Fake) Fail(path string, n, status int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = append(f.faults, &fault{path, n, status, 0})
}
