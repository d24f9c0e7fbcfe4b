package mcpstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"bobbin/mcpstore"
	"bobbin/schemas"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/goleak"
)

// lookout is a running watcher and what it told.
type lookout struct {
	*room
	told chan schemas.Edited
}

// noLeak checks after everything that the test cleans up later.
func noLeak(t *testing.T) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
}

// start runs the watcher until the test ends.
func start(t testing.TB, r *room) *lookout {
	t.Helper()
	l := &lookout{room: r, told: make(chan schemas.Edited, 1000)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx, func(_ context.Context, e schemas.Edited) { l.told <- e }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l
}

// watch runs the watcher until the test ends and returns once it sees changes: when it tells of a commit in a thread of its own.
func watch(t testing.TB, r *room) *lookout {
	t.Helper()
	l := start(t, r)
	by := chief
	by.Thread = "ready"
	for {
		p, err := r.Propose(t.Context(), by, put(draft("ready", "echo", fmt.Sprint(time.Now().UnixNano()))))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Commit(t.Context(), by, p); err != nil {
			t.Fatal(err)
		}
		select {
		case <-l.told:
			l.silent(50 * time.Millisecond)
			return l
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (l *lookout) next() schemas.Edited {
	l.t.Helper()
	for {
		select {
		case e := <-l.told:
			if e.Thread == "ready" {
				continue
			}
			return e
		case <-time.After(5 * time.Second):
			l.t.Fatal("nothing told within 5 s")
		}
	}
}

// silent fails when something is told within d. Silence can be seen only by waiting.
func (l *lookout) silent(d time.Duration) {
	l.t.Helper()
	end := time.After(d)
	for {
		select {
		case e := <-l.told:
			if e.Thread != "ready" {
				l.t.Fatalf("told: %+v", e)
			}
		case <-end:
			return
		}
	}
}

// replace puts a file in place as durable writers and good editors do.
func (r *room) replace(name, text string) {
	r.t.Helper()
	temp := r.file(".new")
	if err := os.WriteFile(temp, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Rename(temp, r.file(name)); err != nil {
		r.t.Fatal(err)
	}
}

const quiet = 120 * time.Millisecond

func TestRun_OwnCommits(t *testing.T) {
	noLeak(t)
	r := open(t, mcpstore.Options{})
	l := watch(t, r)
	r.commit(alice, put(draft("a", "echo"), draft("b", "echo")))
	if e := l.next(); e.Outside || e.Thread != tid || len(e.Removed) != 0 {
		t.Errorf("%+v", e)
	}
	l.silent(quiet)
	r.commit(alice, schemas.Edit{Remove: []string{"a"}})
	if e := l.next(); e.Outside || !slices.Equal(e.Removed, []string{"a"}) {
		t.Errorf("%+v", e)
	}
	if err := r.Rule(t.Context(), tid, func(p *schemas.Policy) error { p.Thread.Deny = []string{"*"}; return nil }); err != nil {
		t.Fatal(err)
	}
	if e := l.next(); e.Outside || !e.Policy {
		t.Errorf("%+v", e)
	}
	if err := r.Pin(t.Context(), tid, "b", map[string]string{"t": "1"}); err != nil {
		t.Fatal(err)
	}
	l.silent(quiet)
	if err := r.Run(t.Context(), func(context.Context, schemas.Edited) {}); err == nil {
		t.Error("two watchers")
	}
}

// A commit that dies half-way is told of, because its part holds.
func TestRun_HalfCommit(t *testing.T) {
	r := open(t, mcpstore.Options{})
	r.commit(alice, put(draft("a", "echo"), draft("b", "echo")))
	l := watch(t, r)
	if err := errors.Join(os.RemoveAll(r.file("history")), os.WriteFile(r.file("history"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	_, err := r.Commit(t.Context(), alice, r.propose(alice, schemas.Edit{Remove: []string{"a"}}))
	if schemas.CodeOf(err) != schemas.CodeFailed {
		t.Fatal(err)
	}
	if e := l.next(); !slices.Equal(e.Removed, []string{"a"}) {
		t.Errorf("%+v", e)
	}
	l.silent(quiet)
}

func TestRun_HandEdit(t *testing.T) {
	r := open(t, mcpstore.Options{})
	r.commit(alice, put(draft("a", "echo", "1"), draft("gone", "echo")))
	l := watch(t, r)
	r.replace("mcp.json", `{"mcpServers": {"a": {"command": "echo", "args": ["2"]}, "new": {"command": "n"}}}`)
	e := l.next()
	if !e.Outside || !slices.Equal(e.Removed, []string{"gone"}) || len(e.Waiting) != 2 || len(e.Problems) != 0 || e.Policy {
		t.Fatalf("%+v", e)
	}
	a, n := e.Waiting[0], e.Waiting[1]
	if a.Kind != schemas.Changed || !slices.Equal(a.Fields, []string{"args"}) || a.Owner != "u1" || n.Kind != schemas.Added || n.Before != nil {
		t.Errorf("%+v\n%+v", a, n)
	}
	l.silent(quiet)
	r.replace("policy.json", `{"thread": {"deny": ["*"]}}`)
	if e = l.next(); !e.Outside || !e.Policy || len(e.Waiting) != 0 {
		t.Errorf("%+v", e)
	}
	r.replace("policy.json", `{"thread": {"deny": ["*"]}}`) // other file, same bytes
	l.silent(quiet)
	other := openAt(t, r.path, mcpstore.Options{})
	other.commit(chief, schemas.Edit{Approve: []string{"a", "new"}})
	if e = l.next(); !e.Outside || len(e.Waiting) != 0 {
		t.Errorf("%+v", e)
	}
}

// A change by hand that an own commit meets before the watcher does is told all the same.
func TestRun_HandEditJustBeforePin(t *testing.T) {
	r := open(t, mcpstore.Options{})
	r.commit(alice, put(draft("a", "echo", "1")))
	l := watch(t, r)
	for i := range 10 {
		r.replace("mcp.json", local("a", fmt.Sprintf(`"hand %d"`, i)))
		if err := r.Pin(t.Context(), tid, "a", map[string]string{"t": fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
		if e := l.next(); !e.Outside || len(e.Waiting) != 1 {
			t.Fatalf("%d: %+v", i, e)
		}
	}
	l.silent(quiet)
}

func TestRun_Burst(t *testing.T) {
	r := open(t, mcpstore.Options{})
	r.commit(alice, put(draft("a", "echo")))
	l := watch(t, r)
	for try := range 10 {
		last, gap := time.Now(), time.Duration(0)
		for i := range 10 {
			r.replace("mcp.json", local("a", fmt.Sprint(`"`, try, i, `"`)))
			gap = max(gap, time.Since(last))
			last = time.Now()
		}
		e := l.next()
		if gap > 5*time.Millisecond { // the machine was busy elsewhere: this was no burst
			time.Sleep(quiet)
			for len(l.told) > 0 {
				<-l.told
			}
			continue
		}
		if len(e.Waiting) != 1 || e.Waiting[0].After.Args[0] != fmt.Sprint(try, 9) {
			t.Errorf("%+v", e)
		}
		l.silent(quiet)
		return
	}
	t.Skip("the machine is too busy for a burst")
}

func TestRun_BusyWriter(t *testing.T) {
	r := open(t, mcpstore.Options{})
	r.commit(alice, put(draft("a", "echo")))
	l := watch(t, r)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			_ = os.WriteFile(r.file("policy.json"), fmt.Appendf(nil, `{"thread": {"deny": ["d%d"]}}`, i), 0o600)
			time.Sleep(5 * time.Millisecond)
		}
	})
	start := time.Now()
	l.next()
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("starved for %v", took)
	}
	cancel()
	wg.Wait()
}

func TestRun_BrokenFile(t *testing.T) {
	r := open(t, mcpstore.Options{})
	r.commit(alice, put(draft("a", "echo")))
	l := watch(t, r)
	for range 3 {
		r.hand("mcp.json", `{"mcpServers": {`)
		time.Sleep(10 * time.Millisecond)
	}
	if e := l.next(); !e.Outside || len(e.Problems) != 1 || len(e.Removed) != 0 {
		t.Errorf("%+v", e)
	}
	l.silent(quiet)
	r.hand("mcp.json", `{"mcpServers": {`)
	r.hand("mcp.json", "") // other content
	if e := l.next(); len(e.Problems) != 1 {
		t.Errorf("%+v", e)
	}
	r.replace("mcp.json", local("a", ""))
	if e := l.next(); len(e.Problems) != 0 || len(e.Removed) != 0 || len(e.Waiting) != 0 {
		t.Errorf("%+v", e)
	}
	if e := r.entry("a"); e.Pending() {
		t.Errorf("%+v", e)
	}
}

// Every editor's way of saving is one notice with the final content, and never half a file.
func TestRun_Editors(t *testing.T) {
	must := func(errs ...error) {
		t.Helper()
		for _, err := range errs {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	ways := map[string]func(r *room, text string){
		"vim": func(r *room, text string) {
			must(os.WriteFile(r.file(".mcp.json.swp"), []byte("x"), 0o600))
			must(os.WriteFile(r.file("4913"), nil, 0o600), os.Remove(r.file("4913")))
			must(os.Rename(r.file("mcp.json"), r.file("mcp.json~")))
			must(os.WriteFile(r.file("mcp.json"), []byte(text), 0o600))
			must(os.Remove(r.file("mcp.json~")), os.Remove(r.file(".mcp.json.swp")))
		},
		"sed -i": func(r *room, text string) {
			must(os.WriteFile(r.file("sedA1b2"), []byte(text), 0o600), os.Rename(r.file("sedA1b2"), r.file("mcp.json")))
		},
		"cp": func(r *room, text string) { r.hand("mcp.json", text) },
		"slow": func(r *room, text string) {
			f, err := os.OpenFile(r.file("mcp.json"), os.O_WRONLY|os.O_TRUNC, 0)
			must(err)
			for i := 0; i < len(text); i += 20 {
				_, err := f.WriteString(text[i:min(i+20, len(text))])
				must(err)
				time.Sleep(40 * time.Millisecond)
			}
			must(f.Close())
		},
		"delete and write": func(r *room, text string) {
			must(os.Remove(r.file("mcp.json")))
			r.hand("mcp.json", text)
		},
		"chmod": func(r *room, text string) {
			must(os.WriteFile(r.file("mcp.json"), []byte(text), 0o600), os.Chmod(r.file("mcp.json"), 0o644))
		},
		"new folder": func(r *room, text string) {
			state := r.text("state.json")
			must(os.RemoveAll(filepath.Dir(r.file("x"))))
			r.hand("state.json", state)
			r.hand("mcp.json", text)
		},
	}
	for name, save := range ways {
		t.Run(name, func(t *testing.T) {
			r := open(t, mcpstore.Options{})
			r.commit(alice, put(draft("a", "echo"), draft("b", "echo")))
			l := watch(t, r)
			for round := range 2 { // the second shows that the watch outlives the first
				final := fmt.Sprintf("final %d", round)
				save(r, `{"mcpServers": {"a": {"command": "echo", "args": ["`+final+`"]}, "b": {"command": "echo"}}}`)
				e := l.next()
				if len(e.Problems) != 0 || len(e.Removed) != 0 || len(e.Waiting) != 1 || e.Waiting[0].After.Args[0] != final {
					t.Fatalf("%+v", e)
				}
				l.silent(quiet)
			}
		})
	}
}

func TestRun_Folders(t *testing.T) {
	r := open(t, mcpstore.Options{})
	r.commit(alice, put(draft("a", "echo")))
	l := watch(t, r)
	fresh := filepath.Join(r.path, "T2")
	if err := os.Mkdir(fresh, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(fresh, "mcp.json"), []byte(local("n", "")), 0o600); err != nil {
		t.Fatal(err)
	}
	if e := l.next(); e.Thread != "T2" || !e.Outside || len(e.Waiting) != 1 {
		t.Errorf("%+v", e)
	}
	by := alice
	by.Thread = "T3"
	p, err := r.Propose(t.Context(), by, put(draft("own", "echo")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Commit(t.Context(), by, p); err != nil {
		t.Fatal(err)
	}
	if e := l.next(); e.Thread != "T3" || e.Outside {
		t.Errorf("%+v", e)
	}
	l.silent(quiet)
	if err := os.RemoveAll(filepath.Dir(r.file("x"))); err != nil {
		t.Fatal(err)
	}
	if e := l.next(); e.Thread != tid || !slices.Equal(e.Removed, []string{"a"}) {
		t.Errorf("%+v", e)
	}
	if err := os.Mkdir(filepath.Join(r.path, "not a thread"), 0o700); err != nil {
		t.Fatal(err)
	}
	l.silent(quiet)
}

func TestRun_ChangedWhileNobodyWatched(t *testing.T) {
	r := open(t, mcpstore.Options{})
	r.commit(alice, put(draft("a", "echo")))
	r.replace("mcp.json", local("a", `"2"`))
	l := start(t, r)
	if e := l.next(); !e.Outside || len(e.Waiting) != 1 {
		t.Errorf("%+v", e)
	}
}

func TestRun_WithoutEvents(t *testing.T) {
	for name, cripple := range map[string]func(mcpstore.Options) mcpstore.Options{
		"no watcher": mcpstore.Eventless, "no watches": mcpstore.Unwatchable,
	} {
		t.Run(name, func(t *testing.T) {
			noLeak(t)
			var log lines
			r := open(t, cripple(mcpstore.Options{Rescan: 20 * time.Millisecond, Log: slog.New(slog.NewTextHandler(&log, nil))}))
			r.commit(alice, put(draft("a", "echo")))
			l := watch(t, r)
			r.replace("mcp.json", local("a", `"2"`))
			if e := l.next(); !e.Outside || len(e.Waiting) != 1 {
				t.Errorf("%+v", e)
			}
			by := filepath.Join(r.path, "T9")
			if err := os.Mkdir(by, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(by, "mcp.json"), []byte(local("n", "")), 0o600); err != nil {
				t.Fatal(err)
			}
			if e := l.next(); e.Thread != "T9" || len(e.Waiting) != 1 {
				t.Errorf("%+v", e)
			}
			r.commit(alice, schemas.Edit{PutBack: []string{"a"}})
			if e := l.next(); e.Outside {
				t.Errorf("%+v", e)
			}
			l.silent(quiet)
			if n := strings.Count(log.text(), "\n"); n != 1 {
				t.Errorf("%d log lines:\n%s", n, log.text())
			}
		})
	}
}

func TestRun_Overflow(t *testing.T) {
	lost := make(chan error)
	r := open(t, mcpstore.Overflowing(mcpstore.Options{Rescan: time.Hour}, lost))
	r.commit(alice, put(draft("a", "echo")))
	l := watch(t, r)
	r.replace("mcp.json", local("a", `"2"`))
	l.silent(quiet)
	lost <- fsnotify.ErrEventOverflow
	if e := l.next(); len(e.Waiting) != 1 {
		t.Errorf("%+v", e)
	}
}

type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
