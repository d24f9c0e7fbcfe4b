package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bobbin/host"
	"bobbin/internal/durable"
	"bobbin/mcpstore"
	"bobbin/schemas"
)

// BenchmarkStart10000Threads measures how long a bobbin with 10,000 configured threads needs until its page answers, and what
// memory it then has. No server may have been started.
func BenchmarkStart10000Threads(b *testing.B) {
	linuxOnly(b)
	data := b.TempDir()
	approved(b, data, 10_000, `{"command":"fakemcp"}`, "demo")
	var ready []time.Duration
	most := 0
	for b.Loop() {
		begin := time.Now()
		p := serve(b, data)
		ready = append(ready, time.Since(begin))
		most = max(most, peak(b, p.cmd.Process.Pid))
		if n := len(children(b, p.cmd.Process.Pid)); n != 0 {
			b.Fatalf("%d servers were started", n)
		}
		p.signal(os.Interrupt)
		p.wait()
	}
	report(b, "p50-ms-to-ready", ready)
	b.ReportMetric(float64(most), "MiB")
}

// approved makes threads with approved servers: one is made by bobbin itself, the others are copies of it.
func approved(b *testing.B, data string, n int, def, name string) {
	b.Helper()
	lent(b, data, "t1", def, name)
	users, files := filepath.Join(data, "users"), map[string][]byte{}
	for _, name := range []string{"mcp.json", "state.json"} {
		text, err := os.ReadFile(filepath.Join(users, "t1", name))
		if err != nil {
			b.Fatal(err)
		}
		files[name] = text
	}
	for i := range n - 1 {
		dir := filepath.Join(users, fmt.Sprintf("thread-%05d", i))
		if err := os.Mkdir(dir, 0o700); err != nil {
			b.Fatal(err)
		}
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkLiveThreads is what a thread with ten servers takes once somebody looked at it: 500 of them, and no server was started.
func BenchmarkLiveThreads(b *testing.B) {
	linuxOnly(b)
	data, def := b.TempDir(), map[string]any{}
	for i := range 10 {
		def[fmt.Sprintf("s%d", i)] = map[string]any{"command": "fakemcp"}
	}
	const threads = 500
	approved(b, data, threads, config(b, def), "")
	f := &fleet{metrics: "127.0.0.1:" + freePort(b)}
	p := serveWith(b, nil, data, "--metrics", f.metrics)
	f.cmd = p.cmd
	anon, routines := f.memory(b, "RssAnon"), f.goroutines(b)
	for b.Loop() {
		for i := range threads - 1 {
			if code := p.status(fmt.Sprintf("%s/api/threads/thread-%05d/board", p.base, i)); code != http.StatusOK {
				b.Fatal(code)
			}
		}
	}
	b.ReportMetric((f.memory(b, "RssAnon")-anon)*1024/threads, "KiB/thread")
	b.ReportMetric((f.goroutines(b)-routines)/threads, "goroutines/thread")
	if n := len(children(b, f.cmd.Process.Pid)); n != 0 {
		b.Fatalf("%d servers were started", n)
	}
}

// BenchmarkRenameToLive measures from the rename of a changed mcp.json and its approval until the whole app
// (watcher, store, registry) has the changed server ready: with its start, and what is left without it.
func BenchmarkRenameToLive(b *testing.B) {
	m := NewMain(strings.NewReader(""), os.Stdout, os.Stderr)
	m.Data, m.Sandbox = b.TempDir(), "process"
	ctx := b.Context()
	h, err := m.open(ctx, slog.New(slog.DiscardHandler), host.Connect{})
	if err != nil {
		b.Fatal(err)
	}
	run(b, h)
	versions := versionsOf(b, h, filepath.Join(m.Data, "users", "t1"))
	folder := filepath.Join(m.Data, "users", "t1")
	dir, err := durable.Open(folder)
	if err != nil {
		b.Fatal(err)
	}
	changes, stop := h.Registry.Watch("t1")
	defer stop()
	var whole, start []time.Duration
	for i := 0; b.Loop(); i++ {
		unlock, err := dir.Lock(ctx, "mcp.json") // as another bobbin commits: under the lock, the approval first
		if err != nil {
			b.Fatal(err)
		}
		begin := time.Now()
		for _, name := range []string{"state.json", "mcp.json"} {
			rename(b, filepath.Join(folder, name), versions[i%len(versions)][name])
		}
		unlock()
		now := begin
		for deadline := time.After(patience); now == begin; {
			select {
			case <-changes:
			case <-deadline:
				b.Fatal("the change is not live")
			}
			ss, err := h.Registry.Status(ctx, "t1")
			if err != nil {
				b.Fatal(err)
			}
			if len(ss) == 1 && ss[0].Since.After(begin) {
				now = time.Now()
				whole, start = append(whole, now.Sub(begin)), append(start, ss[0].Took)
			}
		}
	}
	report(b, "p50-ms", whole)
	report(b, "p50-start-ms", start)
	for i := range whole {
		whole[i] -= start[i]
	}
	report(b, "p50-without-start-ms", whole)
}

func report(b *testing.B, name string, all []time.Duration) {
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, name)
}

// run runs all of the app but a door until the end of the benchmark.
func run(b testing.TB, h *host.Host) {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx, func(ctx context.Context) error { <-ctx.Done(); return nil }) }()
	b.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
}

// versionsOf approves two definitions of a server, one after the other, and gives the files that hold each with its approval.
func versionsOf(b *testing.B, h *host.Host, folder string) []map[string]string {
	b.Helper()
	ctx := b.Context()
	caller := schemas.Caller{Thread: "t1", Member: "operator", Name: "operator", Door: schemas.DoorTerminal, Role: schemas.Owner, Operator: true}
	var versions []map[string]string
	for _, ms := range []string{"0", "1"} {
		in := mcpstore.Import("", []byte(config(b, map[string]any{"demo": map[string]any{"command": "fakemcp", "args": []string{"slow", ms}}})), "")
		p, err := h.Store.Propose(ctx, caller, schemas.Edit{Put: in.Servers, Source: "add"})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := h.Store.Commit(ctx, caller, p); err != nil {
			b.Fatal(err)
		}
		if err := h.Registry.Apply(ctx, "t1"); err != nil {
			b.Fatal(err)
		}
		version := map[string]string{}
		for _, name := range []string{"state.json", "mcp.json"} {
			data, err := os.ReadFile(filepath.Join(folder, name))
			if err != nil {
				b.Fatal(err)
			}
			version[name] = string(data)
		}
		versions = append(versions, version)
	}
	return versions
}
