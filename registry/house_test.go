package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"bobbin/internal/durable"
	"bobbin/registry"
	"bobbin/schemas"
)

// house is a registry with fakes all around.
type house struct {
	*registry.Registry
	t       testing.TB
	wishes  *wishes
	servers *launcher
	vault   *vault
	journal *journal
	opt     registry.Options
	stop    func()
}

const one schemas.ThreadID = "T1"

func newHouse(t testing.TB, scripts map[string]script, change ...func(*registry.Options)) *house {
	t.Helper()
	h := &house{
		t: t, wishes: &wishes{cfg: map[schemas.ThreadID]schemas.Config{}}, servers: &launcher{scripts: scripts},
		vault: &vault{values: map[schemas.SecretKey]string{}}, journal: &journal{},
	}
	dir, err := durable.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	h.opt = registry.Options{Wishes: h.wishes, Launcher: h.servers, Secrets: h.vault, Journal: h.journal, Cache: dir, Settle: time.Nanosecond}
	if os.Getenv("BOBBIN_LOG") != "" {
		h.opt.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	for _, c := range change {
		c(&h.opt)
	}
	h.boot()
	return h
}

// boot starts a registry over the house's fakes, like a new process would.
func (h *house) boot() {
	h.t.Helper()
	r, err := registry.New(h.opt)
	if err != nil {
		h.t.Fatal(err)
	}
	h.Registry = r
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	var once sync.Once
	h.stop = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil {
				h.t.Error(err)
			}
		})
	}
	h.t.Cleanup(h.stop)
}

func (h *house) set(id schemas.ThreadID, entries ...schemas.Entry) {
	h.wishes.edit(id, func(c *schemas.Config) { c.Entries = entries })
}

func (h *house) policy(id schemas.ThreadID, p schemas.Policy) {
	h.wishes.edit(id, func(c *schemas.Config) { c.Policy = p })
}

// apply brings the thread up to date and fails the test if that takes long.
func (h *house) apply(id schemas.ThreadID) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := h.Apply(ctx, id); err != nil {
		h.t.Fatalf("Apply: %v", err)
	}
}

func (h *house) status(id schemas.ThreadID, name string) schemas.Status {
	h.t.Helper()
	list, err := h.Status(context.Background(), id)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, s := range list {
		if s.Name == name {
			return s
		}
	}
	return schemas.Status{}
}

func (h *house) tools(id schemas.ThreadID) []string {
	h.t.Helper()
	list, err := h.Tools(context.Background(), ann(id))
	if err != nil {
		h.t.Fatal(err)
	}
	var names []string
	for _, t := range list {
		names = append(names, t.Full())
	}
	return names
}

// shown is what a card about the held tools of a server shows: their names and pins.
func (h *house) shown(server string) map[string]string {
	h.t.Helper()
	held, err := h.Held(context.Background(), one, server)
	if err != nil {
		h.t.Fatal(err)
	}
	seen := map[string]string{}
	for _, x := range held {
		seen[x.Tool.Name] = x.Tool.Pin
	}
	return seen
}

func ann(id schemas.ThreadID) schemas.Caller {
	return schemas.Caller{Thread: id, Member: "ann", Name: "Ann", Door: schemas.DoorTerminal, Role: schemas.Member}
}

// by makes a person's call.
func by(id schemas.ThreadID, tool, args string) schemas.Call {
	return schemas.Call{Caller: ann(id), Origin: schemas.ByPerson, Tool: tool, Args: json.RawMessage(args)}
}

func (h *house) call(c schemas.Call) (schemas.Result, error) {
	return h.Call(context.Background(), c)
}

// text of a result's first block.
func text(t testing.TB, r schemas.Result) string {
	t.Helper()
	var res struct{ Content []struct{ Text string } }
	if err := json.Unmarshal(r.Raw, &res); err != nil || len(res.Content) == 0 {
		t.Fatalf("result %s: %v", r.Raw, err)
	}
	return res.Content[0].Text
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("waited in vain: %s", what)
}

func wantCode(t testing.TB, err error, code schemas.Code, words ...string) {
	t.Helper()
	if schemas.CodeOf(err) != code {
		t.Fatalf("got %v, want code %s", err, code)
	}
	for _, w := range words {
		if !strings.Contains(describe(err), w) {
			t.Fatalf("%q does not say %q", describe(err), w)
		}
	}
}

func describe(err error) string {
	var e *schemas.Error
	if errors.As(err, &e) {
		return e.Text + " | " + e.Hint
	}
	return err.Error()
}
