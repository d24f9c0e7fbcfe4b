package web

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"bobbin/bot"
	"bobbin/schemas"
)

// Bounds of what a room remembers.
const (
	maxEntries  = 200     // of the conversation
	maxMemory   = 8 << 20 // bytes of the conversation, files included
	maxEvents   = 256     // for a stream that resumes
	maxReplay   = 2 << 20 // bytes of those events
	maxProgress = 20      // lines of one request
)

// room is one thread as its pages see it: the conversation so far and the stream of what changes. All pages of a thread
// see the same; nothing is queued per page, a page that falls behind gets the conversation anew.
type room struct {
	thread  schemas.ThreadID
	member  schemas.MemberID // who sits at its pages
	epoch   string           // tells a resumed stream from one of an earlier room
	turn    chan struct{}
	quit    chan struct{}
	notices <-chan bot.Notice
	changes <-chan struct{} // of servers' states; nil: not watched
	stop    func()          // of both

	mu      sync.Mutex
	entries []*entry
	memory  int
	lastN   int
	events  []event // seq is consecutive, the last is r.seq
	replay  int
	seq     uint64
	wake    chan struct{} // closed at the next event
	clients int
	running map[int]context.CancelFunc
	used    time.Time
	closed  bool
}

type event struct {
	seq  uint64
	kind string
	data []byte // nil: a later one holds it, too
	n    int    // of "answer": the entry's
}

// entry is one line of the conversation, as the page gets it.
type entry struct {
	N        int       `json:"n"`
	Kind     string    `json:"kind"` // "you", "reply" or "notice"
	At       time.Time `json:"at"`
	Tag      string    `json:"tag,omitempty"` // of the request, chosen by the page that sent it
	Text     string    `json:"text,omitempty"`
	Pending  bool      `json:"pending,omitempty"`
	Progress []string  `json:"progress,omitempty"`
	Reply    *reply    `json:"reply,omitempty"`
	Settled  string    `json:"settled,omitempty"` // what was chosen
	Gone     bool      `json:"gone,omitempty"`    // there is nothing to show of it

	files [][]byte
	size  int
}

func newRoom(thread schemas.ThreadID, member schemas.MemberID) *room {
	return &room{
		thread: thread, member: member, epoch: rand.Text()[:8], turn: make(chan struct{}, 1), quit: make(chan struct{}),
		wake: make(chan struct{}), running: map[int]context.CancelFunc{}, used: time.Now(),
	}
}

// pump carries notices until the room is closed.
func (r *room) pump() {
	defer r.stop()
	for {
		select {
		case <-r.quit:
			return
		case n, ok := <-r.notices:
			if !ok {
				return
			}
			r.notice(n)
		case _, ok := <-r.changes:
			if !ok {
				r.changes = nil
				continue
			}
			r.changed()
		}
	}
}

func (r *room) changed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.emit("board", []byte("{}"))
}

func (r *room) notice(n bot.Notice) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n.Changed {
		r.emit("board", []byte("{}"))
	}
	if n.Door == schemas.DoorWeb || r.overheard(n) {
		return
	}
	if len(n.Reply.Blocks) == 0 && n.Reply.Form == nil && len(n.Reply.Choices) == 0 {
		r.settle(n.Reply.Replace, "Settled")
		return
	}
	r.settle(n.Reply.Replace, "Settled, see below")
	e := &entry{Kind: "notice", At: time.Now()}
	e.Reply, e.files = drawn(n.Reply, r.member)
	r.add(e)
}

// close ends the pump, the streams and the requests of the room.
func (r *room) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.closed = true
	close(r.quit)
	for _, cancel := range r.running {
		cancel()
	}
}

func (r *room) touch() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used = time.Now()
}

func (r *room) lastUse() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.used
}

func (r *room) busy() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.clients > 0 || len(r.running) > 0
}

// begin notes a request and its pending reply; ok is false when too many run. cancel ends it early.
func (r *room) begin(said, tag string, cancel context.CancelFunc) (n int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || len(r.running) >= maxRunning {
		return 0, false
	}
	if said != "" {
		r.add(&entry{Kind: "you", At: time.Now(), Text: said})
	}
	e := &entry{Kind: "reply", At: time.Now(), Tag: tag, Pending: true}
	r.add(e)
	r.running[e.N] = cancel
	return e.N, true
}

func (r *room) progress(n int, line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.find(n)
	if e == nil || !e.Pending {
		return
	}
	if len(e.Progress) == maxProgress {
		e.Progress = e.Progress[1:]
	}
	e.Progress = append(e.Progress[:len(e.Progress):len(e.Progress)], line)
	data, err := json.Marshal(struct {
		N        int      `json:"n"`
		Progress []string `json:"progress"`
	}{n, e.Progress})
	if err == nil {
		r.emit("progress", data)
	}
}

// finish puts the reply in its place. chosen is what a card that the reply settles shall say.
func (r *room) finish(n int, rep bot.Reply, chosen string) entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.running, n)
	r.used = time.Now()
	defer r.emit("board", []byte("{}"))
	if chosen == "" {
		chosen = "Settled, see below"
	}
	e := r.find(n)
	if e == nil || e.Reply == nil || e.Reply.ID != rep.Replace { // an answer takes the place of what came of it
		r.settle(rep.Replace, chosen)
	}
	if e == nil { // pushed out of memory meanwhile
		e = &entry{N: n, Kind: "reply", At: time.Now()}
		e.Reply, e.files = drawn(rep, r.member)
		return *e
	}
	if len(rep.Blocks) == 0 && rep.Form == nil && len(rep.Choices) == 0 {
		return r.remove(n)
	}
	e.Pending, e.Progress = false, nil
	e.Reply, e.files = drawn(rep, r.member)
	r.change(e)
	return *e
}

// remove takes an entry back. The caller holds mu.
func (r *room) remove(n int) entry {
	i := slices.IndexFunc(r.entries, func(e *entry) bool { return e.N == n })
	r.memory -= r.entries[i].size
	r.entries = slices.Delete(r.entries, i, i+1)
	gone := entry{N: n, Kind: "reply", Gone: true}
	if data, err := json.Marshal(gone); err == nil {
		r.emit("entry", data)
	}
	return gone
}

// chosen says what an action chose on its card, "" when the card is not known.
func (r *room) chosen(a bot.Action) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.card(a.ID)
	switch {
	case e == nil:
		return ""
	case a.Choice == "" && e.Reply.Form != nil:
		return "Sent"
	}
	for _, c := range e.Reply.Choices {
		if c.Key == a.Choice {
			return "You chose " + c.Label
		}
	}
	return ""
}

func (r *room) cancel(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if cancel := r.running[n]; cancel != nil {
		cancel()
	}
}

func (r *room) fileOf(n, block int) (*file, []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.find(n)
	if e == nil || e.Reply == nil || block < 0 || block >= len(e.Reply.Blocks) || e.Reply.Blocks[block].File == nil {
		return nil, nil
	}
	return e.Reply.Blocks[block].File, e.files[block]
}

// add, change, weigh, settle, find, card, emit: the caller holds mu.

func (r *room) add(e *entry) {
	r.lastN++
	e.N = r.lastN
	r.entries = append(r.entries, e)
	r.change(e)
}

func (r *room) change(e *entry) {
	if e.Reply != nil {
		for i, b := range e.Reply.Blocks {
			if b.File != nil {
				b.File.URL = fmt.Sprintf("/api/threads/%s/files/%d/%d", r.thread, e.N, i)
			}
		}
	}
	if data, ok := r.weigh(e); ok {
		r.emit("entry", data)
	}
}

// weigh gives an entry as JSON, and lets the oldest go when there is too much.
func (r *room) weigh(e *entry) (data []byte, ok bool) {
	data, err := json.Marshal(e)
	if err != nil { // no shape of ours fails to marshal
		return nil, false
	}
	r.memory -= e.size
	e.size = len(data)
	for _, f := range e.files {
		e.size += len(f)
	}
	r.memory += e.size
	for len(r.entries) > maxEntries || r.memory > maxMemory && len(r.entries) > 1 {
		r.memory -= r.entries[0].size
		r.entries = r.entries[1:]
	}
	return data, true
}

func (r *room) settle(id, how string) {
	if id == "" {
		return
	}
	for _, e := range r.entries { // a card that was shown again has the same id
		if e.Reply != nil && e.Reply.ID == id && e.Settled == "" {
			e.Settled = how
			r.change(e)
		}
	}
}

func (r *room) find(n int) *entry {
	for i := len(r.entries) - 1; i >= 0; i-- {
		if r.entries[i].N == n {
			return r.entries[i]
		}
	}
	return nil
}

func (r *room) card(id string) *entry {
	if id == "" {
		return nil
	}
	for i := len(r.entries) - 1; i >= 0; i-- {
		if e := r.entries[i]; e.Reply != nil && e.Reply.ID == id {
			return e
		}
	}
	return nil
}

func (r *room) emit(kind string, data []byte) {
	r.seq++
	r.events = append(r.events, event{seq: r.seq, kind: kind, data: data})
	r.replay += len(data)
	for len(r.events) > maxEvents || r.replay > maxReplay && len(r.events) > 1 {
		r.replay -= len(r.events[0].data)
		r.events = r.events[1:]
	}
	close(r.wake)
	r.wake = make(chan struct{})
}

// join counts a stream in; false when there are too many.
func (r *room) join() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.clients >= maxClients {
		return false
	}
	r.clients++
	return true
}

func (r *room) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clients--
	r.used = time.Now()
}

// since gives the events after an id ("epoch-seq"), and the channel that closes when there are more. When the id is
// unknown or too old, it gives one "history" event with the whole conversation.
func (r *room) since(id string) (events []event, more <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if seq, ok := r.position(id); ok {
		missed := int(r.seq - seq)
		return slices.Clone(r.events[len(r.events)-missed:]), r.wake
	}
	data, err := json.Marshal(struct {
		Entries []*entry `json:"entries"`
	}{append([]*entry{}, r.entries...)})
	if err != nil {
		return nil, r.wake
	}
	return []event{{seq: r.seq, kind: "history", data: data}}, r.wake
}

func (r *room) position(id string) (seq uint64, ok bool) {
	epoch, number, found := strings.Cut(id, "-")
	seq, err := strconv.ParseUint(number, 10, 64)
	if !found || err != nil || epoch != r.epoch || seq > r.seq || r.seq-seq > uint64(len(r.events)) {
		return 0, false
	}
	return seq, true
}
