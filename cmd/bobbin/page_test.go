package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// page is `bobbin serve` with somebody who opened its link.
type page struct {
	*process
	base   string
	client *http.Client
}

// entry is one line of a conversation as the page gets it.
type entry struct {
	N       int      `json:"n"`
	Kind    string   `json:"kind"`
	Reply   *drawing `json:"reply"`
	Settled string   `json:"settled"`
}

type drawing struct {
	Bad    bool `json:"bad"`
	Blocks []struct {
		Text, Diff, Code, Warning string
		Facts                     []struct{ Label, Value, Note string }
		Problems                  []struct {
			Line, Col                   int
			Server, Text, Hint, Excerpt string
		}
		Table *struct {
			Columns []string
			Rows    []struct {
				Head  string
				Cells []string
			}
		}
		File   *struct{ Name, URL string }
		Answer *struct {
			Text json.RawMessage
			Why  string
		}
	} `json:"blocks"`
	Form *struct {
		Title  string
		Fields []struct{ Name, Label, Kind, Default string }
	} `json:"form"`
	ID      string `json:"id"`
	Choices []struct{ Key, Label string }
}

// serve starts the local page on a free port and opens its link.
func serve(t testing.TB, data string) *page {
	t.Helper()
	return serveWith(t, nil, data)
}

// serveWith is serve with more in its environment and on its command line.
func serveWith(t testing.TB, env []string, data string, args ...string) *page {
	t.Helper()
	p := &page{process: bobbinWith(t, env, data, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)}
	link := p.hear(`(http://127\.0\.0\.1:\d+)(/\?token=\S+)`)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	p.base, p.client = link[1], &http.Client{Jar: jar, Timeout: 2 * time.Minute}
	if code := p.status(link[1] + "/api/threads/t1/board"); code == http.StatusOK {
		t.Fatal("the page answers without its link")
	}
	if code := p.status(link[1] + link[2]); code != http.StatusOK {
		t.Fatalf("the link gives %d", code)
	}
	return p
}

func (p *page) status(address string) int {
	p.t.Helper()
	res, err := p.client.Get(address)
	if err != nil {
		p.t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode
}

// room is one thread as somebody at the page sees it.
type room struct {
	t      testing.TB
	p      *page
	thread string

	mu    sync.Mutex
	seen  map[int]entry // what the stream brought, by number
	order []int
	last  drawing // the newest reply with a form or choices
}

// open follows a thread's stream until the test ends.
func (p *page) open(t testing.TB, thread string) *room {
	t.Helper()
	r := &room{t: t, p: p, thread: thread, seen: map[int]entry{}}
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base+"/api/threads/"+thread+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := (&http.Client{Jar: p.client.Jar}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != http.StatusOK {
		t.Fatalf("events: %s", res.Status)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = res.Body.Close() }()
		r.follow(res.Body)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return r
}

func (r *room) follow(stream io.Reader) {
	s := bufio.NewScanner(stream)
	s.Buffer(nil, 16<<20)
	kind := ""
	for s.Scan() {
		line := s.Text()
		if k, ok := strings.CutPrefix(line, "event: "); ok {
			kind = k
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		var all []entry
		var one entry
		switch {
		case kind == "entry" && json.Unmarshal([]byte(data), &one) == nil:
			all = []entry{one}
		case kind == "history":
			_ = json.Unmarshal([]byte(data), &all)
		}
		r.mu.Lock()
		for _, e := range all {
			if _, known := r.seen[e.N]; !known {
				r.order = append(r.order, e.N)
			}
			r.seen[e.N] = e
		}
		r.mu.Unlock()
	}
}

// notice waits for something that the thread was told without having asked.
func (r *room) notice(pattern string) string {
	r.t.Helper()
	re := regexp.MustCompile(`(?s)` + pattern)
	var all string
	var found *drawing
	eventually(patience, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		all = ""
		for _, n := range r.order {
			e := r.seen[n]
			if e.Kind != "notice" || e.Reply == nil {
				continue
			}
			text := e.Reply.text()
			all += text + "\n"
			if re.MatchString(text) {
				found = e.Reply
			}
		}
		return found != nil
	})
	if found == nil {
		r.t.Fatalf("no notice %q in\n%s", pattern, clip(all))
	}
	r.keep(*found)
	return found.text()
}

func (r *room) keep(d drawing) {
	if d.Form != nil || len(d.Choices) > 0 {
		r.last = d
	}
}

// post sends one request and gives the reply.
func (r *room) post(body map[string]any) string {
	r.t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.send("application/json", bytes.NewReader(b))
}

func (r *room) send(kind string, body io.Reader) string {
	r.t.Helper()
	res, err := r.p.client.Post(r.p.base+"/api/threads/"+r.thread+"/requests", kind, body)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	var e entry
	if err := json.Unmarshal(data, &e); err != nil || res.StatusCode != http.StatusOK || e.Reply == nil {
		r.t.Fatalf("%s %v\n%s", res.Status, err, clip(string(data)))
	}
	r.keep(*e.Reply)
	return e.Reply.text()
}

func (r *room) say(line string) string { r.t.Helper(); return r.post(map[string]any{"text": line}) }

func (r *room) form(line string) string { r.t.Helper(); return r.say(line) }

// choose presses the button of that label on the newest card.
func (r *room) choose(label string) string {
	r.t.Helper()
	for _, c := range r.last.Choices {
		if c.Label == label {
			return r.post(map[string]any{"action": map[string]any{"id": r.last.ID, "choice": c.Key}})
		}
	}
	r.t.Fatalf("no choice %q on the newest card: %+v", label, r.last.Choices)
	return ""
}

// fill answers the newest form, field by field; "" keeps what stands in it.
func (r *room) fill(answers ...string) string {
	r.t.Helper()
	if r.last.Form == nil || len(r.last.Form.Fields) != len(answers) {
		r.t.Fatalf("no form of %d fields: %+v", len(answers), r.last.Form)
	}
	values := map[string]string{}
	for i, f := range r.last.Form.Fields {
		values[f.Name] = answers[i]
		if answers[i] == "" {
			values[f.Name] = f.Default
		}
		if f.Kind == "multiline" {
			values[f.Name] = strings.ReplaceAll(values[f.Name], `\n`, "\n")
		}
	}
	return r.post(map[string]any{"action": map[string]any{"id": r.last.ID, "values": values}})
}

func (r *room) upload(name, content string) string {
	r.t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	part, err := w.CreateFormFile("file", name)
	if err != nil {
		r.t.Fatal(err)
	}
	_, _ = io.WriteString(part, content)
	if err := w.Close(); err != nil {
		r.t.Fatal(err)
	}
	return r.send(w.FormDataContentType(), &b)
}

// server is one row of the page's column.
type server struct {
	Name, State, Why string
	PID              int `json:"pid"`
	Count            int
	Tools            []struct{ Full, Mark string }
}

func (r *room) board() map[string]server {
	r.t.Helper()
	res, err := r.p.client.Get(r.p.base + "/api/threads/" + url.PathEscape(r.thread) + "/board")
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var b struct{ Servers []server }
	if err := json.NewDecoder(res.Body).Decode(&b); err != nil {
		r.t.Fatal(err)
	}
	all := map[string]server{}
	for _, s := range b.Servers {
		all[s.Name] = s
	}
	return all
}

// text is a reply as somebody would read it aloud.
func (d drawing) text() string {
	var parts []string
	add := func(s ...string) { parts = append(parts, strings.Join(s, " ")) }
	for _, b := range d.Blocks {
		add(b.Text, b.Diff, b.Code, b.Warning)
		for _, f := range b.Facts {
			add(f.Label, f.Value, f.Note)
		}
		for _, p := range b.Problems {
			add(p.Server, p.Text, p.Hint, p.Excerpt)
		}
		if b.Table != nil {
			add(b.Table.Columns...)
			for _, row := range b.Table.Rows {
				add(append([]string{row.Head}, row.Cells...)...)
			}
		}
		if b.File != nil {
			add(b.File.Name)
		}
		if b.Answer != nil {
			add(string(b.Answer.Text), b.Answer.Why)
		}
	}
	if d.Form != nil {
		add(d.Form.Title)
	}
	for _, c := range d.Choices {
		add(c.Label)
	}
	return strings.Join(parts, "\n")
}
