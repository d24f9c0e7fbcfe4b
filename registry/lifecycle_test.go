package registry_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"bobbin/registry"
	"bobbin/schemas"
)

func plainScript(names ...string) script {
	var s script
	for _, n := range names {
		s.Tools = append(s.Tools, toolJSON(n, readOnly))
	}
	return s
}

func TestApply_UnchangedKeepsProcessAndCalls(t *testing.T) {
	h := newHouse(t, map[string]script{"a": plainScript("wait"), "b": plainScript("whoami"), "c": plainScript("whoami")})
	h.set(one, entry("a", "a"), entry("b", "b"))
	h.apply(one)
	pid := h.status(one, "a").PID
	done := make(chan error, 1)
	go func() {
		_, err := h.call(by(one, "a.wait", ""))
		done <- err
	}()
	eventually(t, "call is out", func() bool { return h.servers.saw("tools/call") == 1 })
	h.set(one, entry("a", "a", func(e *schemas.Entry) {
		e.Timeout, e.Title, e.OwnerName = 5000, "A", "Anna"
	}), entry("b", "c"))
	h.apply(one)
	if err := <-done; err != nil {
		t.Errorf("call in flight: %v", err)
	}
	st := h.status(one, "a")
	if st.PID != pid || st.Title != "A" || st.OwnerName != "Anna" {
		t.Errorf("unchanged server: pid %d → %d, %+v", pid, st.PID, st)
	}
	res, err := h.call(by(one, "b.whoami", ""))
	if err != nil || text(t, res) != "T1/b/c/" {
		t.Errorf("changed server: %v %s", err, res.Raw)
	}
}

func TestApply_OldDrainsWhileNewServes(t *testing.T) {
	h := newHouse(t, map[string]script{"a": plainScript("wait", "whoami"), "b": plainScript("whoami")})
	h.set(one, entry("s", "a"))
	h.apply(one)
	done := make(chan error, 1)
	go func() {
		_, err := h.call(by(one, "s.wait", ""))
		done <- err
	}()
	eventually(t, "call is out", func() bool { return h.servers.saw("tools/call") == 1 })
	h.set(one, entry("s", "b"))
	h.apply(one)
	if res, err := h.call(by(one, "s.whoami", "")); err != nil || text(t, res) != "T1/s/b/" {
		t.Errorf("new one: %v %s", err, res.Raw)
	}
	select {
	case err := <-done:
		t.Errorf("the old call ended early: %v", err)
	default:
	}
	if err := <-done; err != nil {
		t.Errorf("call on the old one: %v", err)
	}
	eventually(t, "the old one is gone", func() bool { return h.servers.open.Load() == 1 })
}

func TestApply_LastGoodStays(t *testing.T) {
	h := newHouse(t, map[string]script{"good": plainScript("whoami"), "bad": {Crash: "Error: Cannot find module 'undici'"}})
	h.set(one, entry("s", "good"))
	h.apply(one)
	h.set(one, entry("s", "bad"))
	h.apply(one)
	st := h.status(one, "s")
	if st.State != schemas.Ready || !strings.Contains(st.Why, "Cannot find module 'undici'") || !strings.Contains(st.Why, "the one before runs on") {
		t.Fatalf("status %+v", st)
	}
	if res, err := h.call(by(one, "s.whoami", "")); err != nil || text(t, res) != "T1/s/good/" {
		t.Fatalf("%v", err)
	}
	h.set(one, entry("s", "good")) // put back
	h.apply(one)
	if st := h.status(one, "s"); st.State != schemas.Ready || st.Why != "" {
		t.Fatalf("status %+v", st)
	}
}

func TestApply_HandEditWaitsWhileApprovedRunsOn(t *testing.T) {
	h := newHouse(t, map[string]script{"a": plainScript("whoami")})
	e := entry("s", "a")
	h.set(one, e)
	h.apply(one)
	pid := h.status(one, "s").PID
	e.Command = "evil"
	fresh := e
	fresh.Name, fresh.Approval = "new", nil
	h.set(one, e, fresh)
	h.apply(one)
	if st := h.status(one, "s"); st.State != schemas.Ready || !st.Pending || st.PID != pid {
		t.Errorf("edited: %+v", st)
	}
	if st := h.status(one, "new"); st.State != schemas.PendingState {
		t.Errorf("new: %+v", st)
	}
	_, err := h.call(by(one, "new.whoami", ""))
	wantCode(t, err, schemas.CodePending)
	if n := h.servers.count(); n != 1 {
		t.Errorf("%d launches", n)
	}
}

func TestApply_RemovalStopsAtOnce(t *testing.T) {
	h := newHouse(t, map[string]script{"a": plainScript("hang")})
	h.set(one, entry("s", "a"))
	h.apply(one)
	done := make(chan error, 1)
	go func() {
		_, err := h.call(by(one, "s.hang", ""))
		done <- err
	}()
	eventually(t, "call is out", func() bool { return h.servers.saw("tools/call") == 1 })
	h.set(one)
	h.apply(one)
	wantCode(t, <-done, schemas.CodeUnknown, "whether it ran is unknown")
	eventually(t, "stopped", func() bool { return h.servers.open.Load() == 0 })
	if got := h.tools(one); len(got) != 0 {
		t.Errorf("tools %v", got)
	}
	_, err := h.call(by(one, "s.hang", ""))
	wantCode(t, err, schemas.CodeNotFound)
}

func TestApply_OffAndBack(t *testing.T) {
	h := newHouse(t, map[string]script{"a": plainScript("whoami")})
	on := entry("s", "a")
	off := on
	off.Enabled = false
	h.set(one, on)
	h.apply(one)
	h.set(one, off)
	h.apply(one)
	if st := h.status(one, "s"); st.State != schemas.Off || st.Tools != 0 {
		t.Errorf("%+v", st)
	}
	for _, name := range []string{"s.whoami", "ext_s_whoami"} {
		_, err := h.call(by(one, name, ""))
		wantCode(t, err, schemas.CodeNotReady, "/mcp enable s")
	}
	eventually(t, "stopped", func() bool { return h.servers.open.Load() == 0 })
	h.set(one, on)
	h.apply(one)
	if st := h.status(one, "s"); st.State != schemas.Ready || st.Tools != 1 {
		t.Errorf("%+v", st)
	}
}

func TestApply_Inputs(t *testing.T) {
	h := newHouse(t, map[string]script{"a": plainScript("whoami")})
	e := entry("s", "a", func(e *schemas.Entry) {
		e.Env = map[string]string{"TOKEN": "${input:KEY}", "REGION": "${input:region}"}
		e.Args = []string{"--key=${input:KEY}"}
	})
	h.set(one, e)
	h.wishes.edit(one, func(c *schemas.Config) { c.Inputs = []schemas.Input{{ID: "KEY"}, {ID: "region", Default: "eu"}} })
	h.apply(one)
	if st := h.status(one, "s"); st.State != schemas.Needs || !slices.Equal(st.Needs, []string{"KEY"}) {
		t.Fatalf("%+v", st)
	}
	_, err := h.call(by(one, "s.whoami", ""))
	wantCode(t, err, schemas.CodeNeeds, "s needs KEY")
	if h.servers.count() != 0 {
		t.Fatal("started without its value")
	}
	h.vault.put(one, "s", "KEY", "first-value")
	h.apply(one)
	if res, err := h.call(by(one, "s.whoami", "")); err != nil || text(t, res) != "T1/s/a/first-value" {
		t.Fatalf("%v", err)
	}
	if l := h.servers.launches[0]; l.Env["REGION"].Reveal() != "eu" || l.Args[0] != "--key=first-value" || l.Owner != "ann" {
		t.Errorf("launch %+v", l)
	}
	h.apply(one)
	if h.servers.count() != 1 {
		t.Error("restarted without a change")
	}
	h.vault.put(one, "s", "KEY", "second-value")
	h.apply(one)
	if res, err := h.call(by(one, "s.whoami", "")); err != nil || text(t, res) != "T1/s/a/second-value" {
		t.Fatalf("rotated: %v", err)
	}
}

func TestApply_InputInCommandIsRefused(t *testing.T) {
	h := newHouse(t, nil)
	h.set(one, entry("s", "${input:KEY}"))
	h.apply(one)
	if st := h.status(one, "s"); st.State != schemas.Failed || h.servers.count() != 0 {
		t.Fatalf("%+v", st)
	}
}

func TestApply_UnreadableConfigKeepsLastGood(t *testing.T) {
	h := newHouse(t, map[string]script{"a": plainScript("whoami")})
	h.set(one, entry("s", "a"))
	h.apply(one)
	h.wishes.mu.Lock()
	h.wishes.bad = &schemas.Error{Code: schemas.CodeUnreadable, Text: "mcp.json cannot be read"}
	h.wishes.mu.Unlock()
	wantCode(t, h.Apply(background(), one), schemas.CodeUnreadable)
	if _, err := h.call(by(one, "s.whoami", "")); err != nil {
		t.Fatal(err)
	}
	_, err := h.Status(background(), "T9")
	wantCode(t, err, schemas.CodeUnreadable)
	_, err = h.Status(background(), "../x")
	wantCode(t, err, schemas.CodeInvalid)
}

func TestStatus_StartsNothing(t *testing.T) {
	h := newHouse(t, map[string]script{"a": plainScript("whoami")})
	h.set(one, entry("s", "a"), entry("s", "b", func(e *schemas.Entry) { e.Shadowed, e.Kind = true, schemas.Admin }))
	list, err := h.Status(background(), one)
	if err != nil || len(list) != 2 || list[0].State != schemas.Idle || list[1].State != schemas.ShadowedState {
		t.Fatalf("%+v, %v", list, err)
	}
	if h.servers.count() != 0 {
		t.Fatal("Status started a server")
	}
	if res, err := h.call(by(one, "ext_s_whoami", "")); err != nil || text(t, res) != "T1/s/a/" {
		t.Fatalf("a call did not start it: %v", err)
	}
}

func TestTools_ManyCallersOneListing(t *testing.T) {
	h := newHouse(t, map[string]script{"a": {Tools: tools(echoTool()), Slow: 50 * time.Millisecond}})
	h.set(one, entry("s", "a"))
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			if got := h.tools(one); !slices.Equal(got, []string{"s.echo"}) {
				t.Errorf("%v", got)
			}
		})
	}
	wg.Wait()
	if n := h.servers.saw("tools/list"); n != 1 || h.servers.count() != 1 {
		t.Fatalf("%d listings, %d starts", n, h.servers.count())
	}
}

func TestTools_FromCacheWithoutStart(t *testing.T) {
	h := newHouse(t, map[string]script{"a": plainScript("whoami", "echo")})
	h.set(one, entry("s", "a"))
	h.apply(one)
	h.stop()
	h.boot()
	if got := h.tools(one); !slices.Equal(got, []string{"s.whoami", "s.echo"}) || h.servers.count() != 1 {
		t.Fatalf("tools %v, %d starts", got, h.servers.count())
	}
	if st := h.status(one, "s"); st.State != schemas.Idle || st.Tools != 2 {
		t.Fatalf("%+v", st)
	}
	if _, err := h.call(by(one, "s.whoami", "")); err != nil || h.servers.count() != 2 {
		t.Fatalf("%v, %d starts", err, h.servers.count())
	}
	h.stop()
	h.wishes.edit(one, func(c *schemas.Config) { // another definition, even with pins: the cache is not its own
		pins := c.Entries[0].Pins
		c.Entries[0] = entry("s", "b")
		c.Entries[0].Pins = pins
	})
	h.boot()
	if st := h.status(one, "s"); st.Tools != 0 {
		t.Fatalf("cache of another definition served: %+v", st)
	}
}

func TestTools_HangingServerDelaysNobody(t *testing.T) {
	h := newHouse(t, map[string]script{"a": plainScript("whoami"), "mute": {Mute: true}}, func(o *registry.Options) { o.Patience = 50 * time.Millisecond })
	h.set(one, entry("m", "mute"), entry("s", "a"))
	began := time.Now()
	if got := h.tools(one); !slices.Equal(got, []string{"s.whoami"}) {
		t.Errorf("%v", got)
	}
	if _, err := h.call(by(one, "s.whoami", "")); err != nil {
		t.Error(err)
	}
	h.tools(one) // it has been starting for long, nobody waits again
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("took %v", took)
	}
	ctx, cancel := context.WithTimeout(background(), 30*time.Millisecond)
	defer cancel()
	h.set(one, entry("m", "mute", func(e *schemas.Entry) { e.Args = []string{"x"} }), entry("s", "a"))
	if err := h.Apply(ctx, one); schemas.CodeOf(err) != schemas.CodeNotReady {
		t.Errorf("Apply with a short context: %v", err)
	}
	_, err := h.Call(ctx, by(one, "m.x", ""))
	wantCode(t, err, schemas.CodeNotReady)
}

func TestApply_TwentySlowServersAtOnce(t *testing.T) {
	h := newHouse(t, map[string]script{"slow": {Tools: tools(echoTool()), Slow: 200 * time.Millisecond}})
	var entries []schemas.Entry
	for i := range 20 {
		entries = append(entries, entry(fmt.Sprintf("s%02d", i), "slow"))
	}
	h.set(one, entries...)
	began := time.Now()
	h.apply(one)
	took := time.Since(began)
	if n := len(h.tools(one)); n != 20 {
		t.Errorf("%d tools", n)
	}
	if took > 2*time.Second { // 4 s one after the other; the benchmark holds the tight number
		t.Errorf("took %v", took)
	}
	t.Logf("20 servers of 200 ms: %v", took)
}

// A poke may have begun the start that somebody then asks for: they wait for it all the same.
func TestApply_WaitsForWhatAPokeStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := plainScript("whoami")
		slow.Slow = 5 * time.Second
		h := newHouse(t, map[string]script{"a": plainScript("echo"), "slow": slow})
		h.set(one, entry("s", "a"))
		h.apply(one)
		h.set(one, entry("s", "a"), entry("n", "slow"))
		h.Poke(one)
		time.Sleep(time.Second)
		h.apply(one)
		if st := h.status(one, "n"); st.State != schemas.Ready {
			t.Errorf("Apply came back while it was %s", st.State)
		}
	})
}

func TestPoke_BurstIsOneReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, map[string]script{"a": plainScript("whoami"), "b": plainScript("echo")})
		h.Poke(one) // not live: nothing
		h.set(one, entry("s", "a"))
		h.apply(one)
		before := h.wishes.loads.Load()
		h.set(one, entry("s", "a"), entry("n", "b"))
		for range 10 {
			h.Poke(one)
		}
		time.Sleep(time.Second)
		if n := h.wishes.loads.Load() - before; n != 1 {
			t.Errorf("%d reloads", n)
		}
		if st := h.status(one, "n"); st.State != schemas.Ready {
			t.Errorf("%+v", st)
		}
	})
}

func TestIdle_StopsAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, map[string]script{"a": plainScript("whoami", "hang")})
		h.set(one, entry("s", "a"))
		h.apply(one)
		time.Sleep(9 * time.Minute)
		if _, err := h.call(by(one, "s.whoami", "")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(9 * time.Minute)
		if st := h.status(one, "s"); st.State != schemas.Ready {
			t.Fatalf("used 9 min ago: %+v", st)
		}
		time.Sleep(2 * time.Minute)
		if st := h.status(one, "s"); st.State != schemas.Idle || st.Tools != 2 || h.servers.open.Load() != 0 {
			t.Fatalf("%+v, %d open", st, h.servers.open.Load())
		}
		if got := h.tools(one); len(got) != 2 || h.servers.count() != 1 {
			t.Fatalf("tools %v, %d starts", got, h.servers.count())
		}
		long := by(one, "s.hang", "")
		long.Timeout = 25 * time.Minute
		done := make(chan error, 1)
		go func() {
			_, err := h.call(long)
			done <- err
		}()
		time.Sleep(21 * time.Minute)
		if st := h.status(one, "s"); st.State != schemas.Ready {
			t.Fatalf("stopped under a call: %+v", st)
		}
		wantCode(t, <-done, schemas.CodeUnknown, "25 min")
		if h.servers.count() != 2 {
			t.Fatalf("%d starts", h.servers.count())
		}
	})
}

func TestThread_ForgottenWhenIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, map[string]script{"a": plainScript("whoami")})
		h.set(one, entry("s", "a"))
		h.apply(one)
		before := h.wishes.loads.Load()
		time.Sleep(time.Hour)
		if st := h.status(one, "s"); st.State != schemas.Idle || st.Tools != 1 {
			t.Fatalf("%+v", st)
		}
		if h.wishes.loads.Load() == before {
			t.Fatal("the thread stayed live for an hour")
		}
	})
}

func TestWatch_TicksAreCoalesced(t *testing.T) {
	h := newHouse(t, map[string]script{"a": plainScript("whoami")})
	changes, stop := h.Watch(one)
	h.set(one, entry("s", "a"))
	h.apply(one)
	select {
	case <-changes:
	case <-time.After(5 * time.Second):
		t.Fatal("no tick")
	}
	stop()
	select {
	case <-changes:
	default:
	}
	h.set(one)
	h.apply(one)
	select {
	case <-changes:
		t.Fatal("tick after stop")
	default:
	}
}

func TestRun_DrainsCallsAndRefusesNewOnes(t *testing.T) {
	h := newHouse(t, map[string]script{"a": plainScript("wait", "whoami")})
	h.set(one, entry("s", "a"))
	h.apply(one)
	done := make(chan error, 1)
	go func() {
		_, err := h.call(by(one, "s.wait", ""))
		done <- err
	}()
	eventually(t, "call is out", func() bool { return h.servers.saw("tools/call") == 1 })
	h.stop()
	if err := <-done; err != nil {
		t.Errorf("call in flight: %v", err)
	}
	if h.servers.open.Load() != 0 {
		t.Error("a server is left")
	}
	_, err := h.call(by(one, "s.whoami", ""))
	wantCode(t, err, schemas.CodeNotReady)
	if h.servers.saw("tools/call") != 1 {
		t.Error("a call got through")
	}
	if _, err := registry.New(registry.Options{}); err == nil {
		t.Error("New without dependencies")
	}
}

func TestApply_ToolsOfAGoneDefinitionAreForgotten(t *testing.T) {
	h := newHouse(t, map[string]script{"a": plainScript("old"), "mute": {Mute: true}})
	h.set(one, entry("s", "a"))
	h.apply(one)
	h.stop()
	h.boot()
	if got := h.tools(one); !slices.Equal(got, []string{"s.old"}) { // idle, from the cache
		t.Fatalf("%v", got)
	}
	h.set(one, entry("s", "mute"))
	ctx, cancel := context.WithTimeout(background(), 50*time.Millisecond)
	defer cancel()
	_ = h.Apply(ctx, one)
	if st := h.status(one, "s"); st.State != schemas.Starting || st.Tools != 0 {
		t.Fatalf("%+v", st)
	}
	short, stop := context.WithTimeout(background(), 50*time.Millisecond)
	defer stop()
	_, err := h.Call(short, by(one, "s.old", ""))
	wantCode(t, err, schemas.CodeNotReady)
}
