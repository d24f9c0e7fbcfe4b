package discordtest

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// socket is one connection of the gateway. Events go out in order, from one goroutine.
type socket struct {
	f       *Fake
	conn    *websocket.Conn
	out     chan any
	quit    chan struct{}
	once    sync.Once
	ready   bool
	content bool
	shard   int
	shards  int
	seq     int
}

func (s *socket) close(code int) {
	s.once.Do(func() {
		if code != 0 {
			_ = s.conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, "told to"), time.Now().Add(time.Second))
		}
		close(s.quit)
		_ = s.conn.Close()
	})
}

func (f *Fake) gateway(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	if q := r.URL.Query(); q.Get("v") != "10" || q.Get("encoding") != "json" {
		f.violate("gateway: connected with ?%s, not v=10&encoding=json", r.URL.RawQuery)
	}
	beat := f.opt.Heartbeat
	f.mu.Unlock()
	up := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}
	conn, err := up.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	s := &socket{f: f, conn: conn, out: make(chan any, 1024), quit: make(chan struct{})}
	f.mu.Lock()
	f.sockets[s] = true
	f.mu.Unlock()
	var writing sync.WaitGroup
	writing.Go(s.write)
	s.send(map[string]any{"op": 10, "d": map[string]any{"heartbeat_interval": beat.Milliseconds()}})
	s.read()
	s.close(0)
	writing.Wait()
	f.mu.Lock()
	delete(f.sockets, s)
	f.mu.Unlock()
}

func (s *socket) send(v any) {
	select {
	case s.out <- v:
	case <-s.quit:
	default: // nobody reads: that link is dead
	}
}

func (s *socket) write() {
	for {
		select {
		case <-s.quit:
			return
		case v := <-s.out:
			s.f.mu.Lock()
			muted := s.f.muted
			s.f.mu.Unlock()
			if muted {
				continue
			}
			if s.conn.WriteJSON(v) != nil {
				s.close(0)
				return
			}
		}
	}
}

func (s *socket) read() {
	for {
		var p struct {
			Op int             `json:"op"`
			D  json.RawMessage `json:"d"`
		}
		if s.conn.ReadJSON(&p) != nil {
			return
		}
		switch p.Op {
		case 1:
			s.send(map[string]any{"op": 11})
		case 2:
			s.identify(p.D)
		case 6:
			s.f.mu.Lock()
			s.f.violate("gateway: RESUME, which discordgo cannot be trusted with")
			s.f.mu.Unlock()
			s.send(map[string]any{"op": 9, "d": false})
		}
	}
}

func (s *socket) identify(raw json.RawMessage) {
	var d struct {
		Token      string
		Intents    int
		Shard      []int
		Properties map[string]string
	}
	f := s.f
	f.mu.Lock()
	defer f.mu.Unlock()
	f.identified++
	if f.onIdentify != nil {
		code, op := f.onIdentify(f.identified)
		switch {
		case code != 0:
			go s.close(code)
			return
		case op == 9:
			s.send(map[string]any{"op": 9, "d": false})
			return
		case op != 0:
			s.send(map[string]any{"op": op})
			return
		}
	}
	switch err := json.Unmarshal(raw, &d); {
	case err != nil:
		f.violate("gateway: IDENTIFY cannot be read: %v", err)
		go s.close(4002)
		return
	case strings.TrimPrefix(d.Token, "Bot ") != f.Token:
		go s.close(4004)
		return
	case d.Intents&(1<<15) != 0 && !f.opt.AllowContent, d.Intents&(1<<1|1<<8) != 0:
		go s.close(4014)
		return
	case d.Intents < 0 || d.Intents >= 1<<27:
		go s.close(4013)
		return
	}
	s.shards = 1
	if len(d.Shard) == 2 {
		s.shard, s.shards = d.Shard[0], d.Shard[1]
	}
	if s.shards < 1 || s.shard < 0 || s.shard >= s.shards {
		go s.close(4010)
		return
	}
	s.content, s.ready = d.Intents&(1<<15) != 0, true
	guilds := []any{}
	for id := range f.guilds {
		guilds = append(guilds, map[string]any{"id": id, "unavailable": true})
	}
	s.event("READY", map[string]any{"v": 10, "user": f.userJSON(f.BotID), "guilds": guilds, "session_id": f.id(), "resume_gateway_url": "ws" + strings.TrimPrefix(f.URL, "http") + "/gw",
		"shard": []int{s.shard, s.shards}, "application": map[string]any{"id": f.AppID, "flags": 0}})
	for _, g := range f.guilds {
		if s.of(g) {
			s.event("GUILD_CREATE", f.guildJSON(g))
		}
	}
	f.touch()
}

// of reports whether a guild is this shard's (Discord, Sharding Formula).
func (s *socket) of(g *Guild) bool {
	if g == nil {
		return s.shard == 0
	}
	n, err := strconv.ParseUint(g.ID, 10, 64)
	return err == nil && int(n>>22)%s.shards == s.shard
}

// event sends one dispatch. The caller holds the Fake's mu.
func (s *socket) event(kind string, d any) {
	s.seq++
	s.send(map[string]any{"op": 0, "t": kind, "s": s.seq, "d": d})
}

// dispatch tells all connections that are ready. The caller holds mu.
func (f *Fake) dispatch(g *Guild, kind string, d map[string]any) {
	for s := range f.sockets {
		if s.ready && s.of(g) {
			s.event(kind, d)
		}
	}
}

func (f *Fake) live() []*socket {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []*socket
	for s := range f.sockets {
		all = append(all, s)
	}
	return all
}

func (f *Fake) cut(code int) {
	for _, s := range f.live() {
		s.close(code)
	}
}

// Drop closes every connection with a close code; 0 resets them.
func (f *Fake) Drop(code int) { f.cut(code) }

// Reconnect sends op 7.
func (f *Fake) Reconnect() {
	for _, s := range f.live() {
		s.send(map[string]any{"op": 7, "d": nil})
	}
}

// InvalidSession sends op 9.
func (f *Fake) InvalidSession(resumable bool) {
	for _, s := range f.live() {
		s.send(map[string]any{"op": 9, "d": resumable})
	}
}

// Mute keeps connections open and sends nothing on them, not even an answer to a heartbeat.
func (f *Fake) Mute(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.muted = on
}

// OnIdentify answers the n-th IDENTIFY with a close code or an op in place of READY; 0, 0 is READY.
func (f *Fake) OnIdentify(answer func(n int) (closeCode, op int)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.onIdentify = answer
}

// Connected waits until a connection is ready.
func (f *Fake) Connected(d time.Duration) {
	f.t.Helper()
	f.until(d, "a connection of the bot", func() bool {
		for s := range f.sockets {
			if s.ready && !f.muted {
				select {
				case <-s.quit:
				default:
					return true
				}
			}
		}
		return false
	})
}

// until waits for something that is looked at with mu held.
func (f *Fake) until(d time.Duration, what string, ok func() bool) {
	f.t.Helper()
	end := time.NewTimer(d)
	defer end.Stop()
	for {
		f.mu.Lock()
		done, wake := ok(), f.changed
		f.mu.Unlock()
		if done {
			return
		}
		select {
		case <-wake:
		case <-time.After(50 * time.Millisecond):
		case <-end.C:
			f.t.Fatalf("discordtest: waited %s for %s", d, what)
		}
	}
}
