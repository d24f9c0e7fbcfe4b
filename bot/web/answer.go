package web

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"bobbin/bot"
	"bobbin/schemas"
)

// maxShownStep bounds what the page gets of a step's arguments, and of its result, in bytes; the audit log and the tool have the rest.
const maxShownStep = 20_000

// answering is schemas.Answering as JSON for the page.
type answering struct {
	Text   []node `json:"text,omitempty"`
	Steps  []step `json:"steps,omitempty"`
	Status string `json:"status,omitempty"`
	Joined bool   `json:"joined,omitempty"` // it goes into the answer that is on its way
	Done   bool   `json:"done,omitempty"`
	Why    string `json:"why,omitempty"`
	Model  string `json:"model,omitempty"`
	Tokens int    `json:"tokens,omitempty"`
}

type step struct {
	Line   string            `json:"line"`
	State  schemas.StepState `json:"state"`
	Args   string            `json:"args,omitempty"`
	Result string            `json:"result,omitempty"`
}

// answered gives the page's shape of an answer. me is who sits at the page.
func answered(a schemas.Answering, me schemas.MemberID) *answering {
	out := &answering{
		Text: markdown(a.Text), Status: schemas.Clean(a.Status, true), Joined: a.Joined, Done: a.Done, Why: schemas.Clean(a.Why, true),
		Model: schemas.Clean(a.Model, true), Tokens: a.Tokens.In + a.Tokens.Out,
	}
	for _, s := range a.Steps {
		out.Steps = append(out.Steps, step{Line: bot.StepLine(s, me), State: s.State, Args: indented(s.Args), Result: clipped(schemas.Clean(s.Result, false))})
	}
	return out
}

func indented(raw json.RawMessage) string {
	var b bytes.Buffer
	if len(raw) == 0 || string(raw) == "{}" || json.Indent(&b, raw, "", "  ") != nil {
		return ""
	}
	return clipped(schemas.Clean(b.String(), false))
}

func clipped(s string) string {
	if len(s) <= maxShownStep {
		return s
	}
	return strings.ToValidUTF8(s[:maxShownStep], "") + "\n… cut: the page shows " + size(maxShownStep) + " of " + size(len(s))
}

// answering shows how far the answer to a request is.
func (r *room) answering(n int, rep bot.Reply) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.find(n); e != nil && e.Pending {
		e.Reply, e.files = drawn(rep, r.member)
		r.grow(e)
	}
}

// overheard shows an answer to somebody at another door: in one entry, from its beginning to its end.
func (r *room) overheard(n bot.Notice) bool {
	if n.Door == "" {
		return false
	}
	id := n.Reply.ID
	if n.Reply.Replace != "" {
		id = n.Reply.Replace
	}
	e := r.card(id)
	if e == nil {
		e = &entry{Kind: "notice", At: time.Now()}
		e.Reply, e.files = drawn(n.Reply, r.member)
		e.Pending = n.Reply.Replace == ""
		r.add(e)
		return true
	}
	e.Reply, e.files = drawn(n.Reply, r.member)
	if e.Pending = n.Reply.Replace == ""; e.Pending {
		r.grow(e)
	} else {
		r.change(e)
	}
	return true
}

// grow tells the pages of an entry that goes on to change. What they did not fetch yet of the states before is left out: each state
// is the whole of it. The caller holds mu.
func (r *room) grow(e *entry) {
	data, ok := r.weigh(e)
	if !ok {
		return
	}
	for i := len(r.events) - 1; i >= 0; i-- {
		if old := &r.events[i]; old.kind == "answer" && old.n == e.N && old.data != nil {
			r.replay -= len(old.data)
			old.data = nil
			break
		}
	}
	r.emit("answer", data)
	r.events[len(r.events)-1].n = e.N
}
