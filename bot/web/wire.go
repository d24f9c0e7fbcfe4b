package web

import (
	"cmp"
	"time"

	"bobbin/bot"
	"bobbin/schemas"
)

// reply and what follows is bot.Reply as JSON for the page. A file's bytes stay here and are fetched by URL.
type reply struct {
	Private bool         `json:"private,omitempty"`
	Bad     bool         `json:"bad,omitempty"`
	Blocks  []block      `json:"blocks,omitempty"`
	Form    *form        `json:"form,omitempty"`
	ID      string       `json:"id,omitempty"`
	Choices []choice     `json:"choices,omitempty"`
	Expires *time.Time   `json:"expires,omitempty"`
	Replace string       `json:"replace,omitempty"`
	Code    schemas.Code `json:"code,omitempty"`
}

type block struct {
	Text     string            `json:"text,omitempty"`
	Facts    []fact            `json:"facts,omitempty"`
	Diff     string            `json:"diff,omitempty"`
	Code     string            `json:"code,omitempty"`
	Problems []schemas.Problem `json:"problems,omitempty"`
	Table    *table            `json:"table,omitempty"`
	File     *file             `json:"file,omitempty"`
	Warning  string            `json:"warning,omitempty"`
	Open     *page             `json:"open,omitempty"`
	Answer   *answering        `json:"answer,omitempty"`
}

type page struct {
	Label string `json:"label"`
	URL   string `json:"url"`
}

type fact struct {
	Label string `json:"label"`
	Value string `json:"value"`
	Note  string `json:"note,omitempty"`
}

type table struct {
	Columns []string `json:"columns,omitempty"`
	Rows    []row    `json:"rows"`
}

type row struct {
	Head  string        `json:"head"`
	Cells []string      `json:"cells,omitempty"`
	State schemas.State `json:"state,omitempty"`
}

type file struct {
	Name string `json:"name"`
	MIME string `json:"mime,omitempty"`
	Size int    `json:"size"`
	URL  string `json:"url,omitempty"`
}

type choice struct {
	Key   string `json:"key"`
	Label string `json:"label"`
	Style string `json:"style,omitempty"`
}

type form struct {
	Title  string  `json:"title,omitempty"`
	Fields []field `json:"fields"`
	Submit string  `json:"submit,omitempty"`
}

type field struct {
	Name     string   `json:"name"`
	Label    string   `json:"label"`
	Hint     string   `json:"hint,omitempty"`
	Kind     string   `json:"kind,omitempty"`
	Required bool     `json:"required,omitempty"`
	Default  string   `json:"default,omitempty"`
	Options  []string `json:"options,omitempty"`
}

// drawn gives the page's shape of a reply to the member at the page, and the bytes of its files by block number.
func drawn(r bot.Reply, me schemas.MemberID) (*reply, [][]byte) {
	out := &reply{Private: r.Private, Bad: r.Bad, ID: r.ID, Replace: r.Replace, Code: r.Code}
	if !r.Expires.IsZero() {
		out.Expires = &r.Expires
	}
	files := make([][]byte, len(r.Blocks))
	for i, b := range r.Blocks {
		d := block{Text: b.Text, Diff: b.Diff, Code: b.Code, Problems: b.Problems, Warning: b.Warning}
		for _, f := range b.Facts {
			d.Facts = append(d.Facts, fact(f))
		}
		if b.Table != nil {
			d.Table = &table{Columns: b.Table.Columns}
			for _, r := range b.Table.Rows {
				d.Table.Rows = append(d.Table.Rows, row(r))
			}
		}
		if b.Open != nil {
			open := page(*b.Open)
			d.Open = &open
		}
		if b.Answer != nil {
			d.Answer = answered(*b.Answer, me)
		}
		if b.File != nil {
			d.File = &file{Name: b.File.Name, MIME: b.File.MIME, Size: len(b.File.Data)}
			files[i] = b.File.Data
		}
		out.Blocks = append(out.Blocks, d)
	}
	for _, c := range r.Choices {
		out.Choices = append(out.Choices, choice(c))
	}
	if r.Form != nil {
		out.Form = &form{Title: r.Form.Title, Submit: r.Form.Submit}
		for _, f := range r.Form.Fields {
			d := field(f)
			if d.Kind == "secret" {
				d.Default = ""
			}
			out.Form.Fields = append(out.Form.Fields, d)
		}
	}
	return out, files
}

// problem is a refusal of the door itself, as the reply that the page draws.
func problem(code schemas.Code, text, hint string) bot.Reply {
	r := bot.Reply{Bad: true, Code: code, Private: true, Blocks: []bot.Block{{Text: text}}}
	if hint != "" {
		r.Blocks = append(r.Blocks, bot.Block{Text: hint})
	}
	return r
}

// board is a thread's servers with their tools, for the column.
type board struct {
	Thread   schemas.ThreadID `json:"thread"`
	Servers  []server         `json:"servers"`
	Problems schemas.Problems `json:"problems,omitempty"`
}

type server struct {
	Name      string            `json:"name"`
	Title     string            `json:"title,omitempty"`
	Kind      schemas.Kind      `json:"kind"`
	Transport schemas.Transport `json:"transport,omitempty"`
	Owner     string            `json:"owner,omitempty"` // "yours", "@bob", "the operator's"
	State     schemas.State     `json:"state"`
	Why       string            `json:"why,omitempty"`
	Needs     []string          `json:"needs,omitempty"`
	Pending   bool              `json:"pending,omitempty"`
	Held      int               `json:"held,omitempty"` // tools that changed after approval
	Count     int               `json:"count"`
	Writing   int               `json:"writing,omitempty"`
	Blocked   int               `json:"blocked,omitempty"`
	Tokens    int               `json:"tokens,omitempty"`
	Calls     int               `json:"calls,omitempty"`
	Since     *time.Time        `json:"since,omitempty"`
	RunsAs    string            `json:"runsAs,omitempty"`
	PID       int               `json:"pid,omitempty"`
	Mine      bool              `json:"mine,omitempty"`    // may be changed from here
	Connect   bool              `json:"connect,omitempty"` // waits for the viewer's own sign-in
	Tools     []tool            `json:"tools,omitempty"`
}

type tool struct {
	Name        string `json:"name"`
	Full        string `json:"full"`
	Description string `json:"description,omitempty"`
	Mark        string `json:"mark,omitempty"` // what a call meets: "runs", "asks", "denied", …
}

// Bounds of what the column gets; the rest is for /mcp tools.
const (
	maxShownTools   = 300 // of one server
	maxShownServers = 200
	maxShownText    = 400 // characters of a description
)

func boardOf(caller schemas.Caller, in bot.Board) board {
	b := board{Thread: caller.Thread, Servers: []server{}, Problems: in.Problems}
	for _, one := range in.Servers[:min(len(in.Servers), maxShownServers)] {
		s := one.Status
		w := server{
			Name: s.Name, Title: s.Title, Kind: s.Kind, Transport: s.Transport, Owner: ownerOf(caller, s), State: s.State,
			Why: s.Why, Needs: s.Needs, Pending: s.Pending, Held: len(s.HeldTools), Count: s.Tools, Writing: s.Writing, Blocked: s.Blocked,
			Tokens: s.Tokens, Calls: s.Calls, RunsAs: s.RunsAs, PID: s.PID, Mine: one.Mine, Connect: one.Connect,
		}
		if w.RunsAs == "@"+cmp.Or(caller.Name, string(caller.Member)) {
			w.RunsAs = "you"
		}
		if !s.Since.IsZero() {
			w.Since = &s.Since
		}
		for _, t := range one.Tools[:min(len(one.Tools), maxShownTools)] {
			w.Tools = append(w.Tools, tool{
				Name: t.Tool.Name, Full: t.Tool.Full(), Description: cut(t.Tool.Description, maxShownText), Mark: t.Mark,
			})
		}
		b.Servers = append(b.Servers, w)
	}
	return b
}

func ownerOf(caller schemas.Caller, s schemas.Status) string {
	switch {
	case s.Kind == schemas.Admin:
		return "the operator's"
	case s.Owner == caller.Member:
		return "yours"
	case s.OwnerName != "":
		return "@" + s.OwnerName
	case s.Owner != "":
		return "@" + string(s.Owner)
	}
	return ""
}

func cut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}
