package discord

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"bobbin/bot/discord/internal/wire"
	"bobbin/internal/durable"
	"bobbin/schemas"
)

func TestLanes_OrderWithinAndNoneWaitsForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var g group
		if !g.begin(ctx, 3) || g.begin(ctx, 3) {
			t.Fatal("a group begins once")
		}
		var l lanes
		var mu sync.Mutex
		done := map[string][]int{}
		for n := range 5 {
			for key, took := range map[string]time.Duration{"slow": time.Hour, "quick": time.Millisecond} {
				if !l.add(&g, key, 10, func(ctx context.Context) {
					pause(ctx, took)
					mu.Lock()
					defer mu.Unlock()
					done[key] = append(done[key], n)
				}) {
					t.Fatal("refused", key, n)
				}
			}
		}
		time.Sleep(time.Second)
		mu.Lock()
		if !slices.Equal(done["quick"], []int{0, 1, 2, 3, 4}) || len(done["slow"]) != 0 {
			t.Errorf("after a second: %v", done)
		}
		mu.Unlock()
		time.Sleep(3 * time.Hour)
		cancel()
		g.end()
		if !slices.Equal(done["slow"], []int{0, 1, 2, 3}) { // the one under way saw the end, the last never began
			t.Errorf("slow: %v", done["slow"])
		}
		if l.add(&g, "late", 10, func(context.Context) {}) {
			t.Error("something started after the end")
		}
	})
}

func TestLanes_Bounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var g group
		g.begin(ctx, 1)
		var l lanes
		wait := func(ctx context.Context) { <-ctx.Done() }
		for n, want := range []bool{true, true, true, false} {
			if got := l.add(&g, "a", 2, wait); got != want {
				t.Errorf("work %d: %v", n, got)
			}
			synctest.Wait()
		}
		if l.add(&g, "b", 2, wait) {
			t.Error("a second lane in a group of one")
		}
		cancel()
		g.end()
	})
}

const (
	threadA = "100000000000000001"
	threadB = "100000000000000002"
	parent  = "100000000000000009"
	guildA  = "200000000000000000"
)

func openGrave(t *testing.T, path string) *grave {
	t.Helper()
	dir, err := durable.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	var g grave
	g.load(dir, slog.New(slog.DiscardHandler))
	return &g
}

func TestGrave_DeletionSurvivesAndIsTakenBack(t *testing.T) {
	path, now := t.TempDir(), time.Now()
	g := openGrave(t, path)
	g.alive(threadA, place{Guild: guildA, Parent: parent})
	g.alive(threadB, place{Guild: guildA})
	g.alive("web-default", place{})
	g.deleted(threadA, now)
	g.deleted("100000000000000077", now) // nobody used it
	g.save()

	g = openGrave(t, path)
	if due := g.due(now.Add(time.Second)); !slices.Equal(due, []string{threadA}) {
		t.Fatalf("after a restart: %v", due)
	}
	if due := g.due(now.Add(-time.Second)); due != nil {
		t.Fatalf("before the grace is over: %v", due)
	}
	if p := g.find(threadB); p.Guild != guildA {
		t.Errorf("where a thread lies is lost: %+v", p)
	}
	g.joined(guildA) // listed again at every reconnect, which says nothing of one thread
	if due := g.due(now.Add(time.Second)); !slices.Equal(due, []string{threadA}) {
		t.Errorf("a guild's return brought a deleted thread back: %v", due)
	}
	g.exists(threadA, place{})
	g.save()
	if due := openGrave(t, path).due(now.Add(time.Second)); due != nil {
		t.Errorf("seen again, still %v", due)
	}
}

func TestGrave_Guild(t *testing.T) {
	g, now := openGrave(t, t.TempDir()), time.Now()
	then := now.Add(time.Minute)
	g.alive(threadA, place{Guild: guildA, Parent: parent})
	g.alive(threadB, place{Guild: guildA})
	g.alive("100000000000000003", place{Guild: "300000000000000000"})
	g.alive("100000000000000004", place{}) // a direct message
	g.left(guildA, now)
	g.left("", now)
	if due := g.due(then); !slices.Equal(due, []string{threadA, threadB}) {
		t.Fatalf("after removal: %v", due)
	}
	g.deleted(parent, now) // threads go with their channel, even where the bot was removed before
	g.joined(guildA)
	if due := g.due(then); !slices.Equal(due, []string{threadA}) {
		t.Errorf("added again: %v", due)
	}
	g.exists(threadA, place{})

	here := roll{Shard: [2]uint64{0, 1}}
	here.Guilds = append(here.Guilds, struct{ ID string }{guildA})
	g.rollCall(here, now)
	if due := g.due(then); !slices.Equal(due, []string{"100000000000000003"}) {
		t.Errorf("removed while away: %v", due)
	}
	g.dropped("100000000000000003")
	g.dropped(threadA) // came back meanwhile
	if g.due(then) != nil || g.find(threadA).Guild != guildA {
		t.Error("dropped what is there, or kept what is not")
	}
}

func TestGrave_RollCallOfOneShardSaysNothingOfOthers(t *testing.T) {
	g := openGrave(t, t.TempDir())
	g.alive(threadA, place{Guild: fmt.Sprint(1 << 22 * 5)})
	g.rollCall(roll{Shard: [2]uint64{0, 2}}, time.Now())
	if g.due(time.Now().Add(time.Hour)) != nil {
		t.Error("a guild of shard 1 was missed on shard 0")
	}
	g.rollCall(roll{Shard: [2]uint64{1, 2}}, time.Now())
	if g.due(time.Now().Add(time.Hour)) == nil {
		t.Error("a guild of shard 1 was not missed on shard 1")
	}
}

func TestGrave_BrokenFile(t *testing.T) {
	path := t.TempDir()
	if err := os.WriteFile(path+"/"+graveFile, []byte(`{"threads":`), 0o600); err != nil {
		t.Fatal(err)
	}
	g := openGrave(t, path)
	g.alive(threadA, place{})
	g.deleted(threadA, time.Now())
	g.save()
	if openGrave(t, path).due(time.Now().Add(time.Hour)) == nil {
		t.Error("nothing is kept after a broken file")
	}
}

func channelAt(id, last string) wire.Channel { return wire.Channel{ID: id, LastMessageID: last} }

func TestHeard_Gap(t *testing.T) {
	var h heard
	now := time.Now()
	id := func(ago time.Duration) string { return fmt.Sprint(wire.Snowflake(now.Add(-ago))) }
	h.visit(0, "g", "active", id(time.Hour))
	h.visit(0, "g", "quiet", id(2*time.Hour))
	h.visit(1, "other", "elsewhere", id(time.Hour))
	h.listed(0, "g", []wire.Channel{channelAt("new", id(0))}, now)
	if len(h.gaps) != 0 {
		t.Fatalf("without a gap: %v", h.gaps)
	}
	h.gap(0, now.Add(-time.Minute), now)
	h.listed(0, "g", []wire.Channel{channelAt("active", id(time.Second)), channelAt("quiet", id(2*time.Hour)), channelAt("new", id(time.Second)),
		channelAt("old", id(time.Hour)), channelAt("empty", "")}, now)
	var order []string
	for {
		c, _, ok := h.next()
		if !ok {
			break
		}
		order = append(order, c)
	}
	if !slices.Equal(order, []string{"new", "active"}) {
		t.Errorf("to be looked through: %v", order)
	}
	if got := h.gaps["active"].after; got != number(id(time.Hour)) {
		t.Errorf("from %d", got)
	}
	h.gap(0, now, now)
	if g := h.gaps["active"]; !g.again || g.after != number(id(time.Hour)) {
		t.Errorf("cut off again while it was looked through: %+v", g)
	}
	h.listed(0, "g2", []wire.Channel{channelAt("joined-later", id(0))}, now.Add(listing+time.Second))
	if h.gaps["joined-later"] != nil {
		t.Error("a guild that came much later was taken for one that was missed")
	}
}

func TestHeard_OwedIsLookedThroughFromItsBeginning(t *testing.T) {
	var h heard
	now := time.Now()
	h.visit(0, "g", "c", "500")
	h.owed["c"] = 7
	h.gap(0, now, now)
	if h.gaps["c"].after != 7 || len(h.owed) != 0 {
		t.Errorf("%+v", h.gaps["c"])
	}
}

func TestHeard_Bounds(t *testing.T) {
	var h heard
	for n := range maxHeard + 10 {
		h.visit(0, "g", fmt.Sprint(n), fmt.Sprint(n+1))
	}
	if len(h.last) > maxHeard || h.last[fmt.Sprint(maxHeard+9)].id == 0 {
		t.Errorf("%d channels", len(h.last))
	}
	for n := range maxTaken + 10 {
		if !h.take(fmt.Sprint(n)) {
			t.Fatal("taken twice", n)
		}
	}
	if h.take(fmt.Sprint(maxTaken+9)) || len(h.taken) != maxTaken || len(h.order) != maxTaken {
		t.Errorf("%d, %d", len(h.taken), len(h.order))
	}
}

func TestForUs(t *testing.T) {
	d := &Door{}
	d.self.User = "42"
	me, ann := wire.User{ID: "42", Bot: true}, wire.User{ID: "7"}
	reply := &struct {
		Author wire.User `json:"author"`
	}{me}
	for name, c := range map[string]struct {
		m    wire.Message
		want bool
	}{
		"plain":         {wire.Message{GuildID: "g", Author: ann, Content: "hello /mcp"}, false},
		"dm":            {wire.Message{Author: ann, Content: "hello"}, true},
		"mention":       {wire.Message{GuildID: "g", Author: ann, Mentions: []wire.User{me}}, true},
		"other mention": {wire.Message{GuildID: "g", Author: ann, Mentions: []wire.User{ann}}, false},
		"reply":         {wire.Message{GuildID: "g", Author: ann, Type: 19, Referenced: reply}, true},
		"command":       {wire.Message{GuildID: "g", Author: ann, Content: " /mcp\nlist"}, true},
		"chat":          {wire.Message{GuildID: "g", Author: ann, Content: "/chat mode"}, true},
		"alike":         {wire.Message{GuildID: "g", Author: ann, Content: "/mcpx list"}, false},
		"own":           {wire.Message{Author: me, Content: "/mcp list"}, false},
		"webhook":       {wire.Message{Author: ann, WebhookID: "1", Content: "/mcp list"}, false},
		"joined":        {wire.Message{Author: ann, Type: 7}, false},
	} {
		if got := d.forUs(c.m); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestWithoutMention(t *testing.T) {
	for in, want := range map[string]string{
		"<@42> /mcp list": "/mcp list", "<@!42>/mcp list": "/mcp list", "list <@42>": "list", "<@7> hi": "<@7> hi",
		"<@42> {\n  \"a\": 1\n}": "{\n  \"a\": 1\n}", "<@42>": "",
	} {
		if got := withoutMention(in, "42"); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
}

func TestSnowflake(t *testing.T) {
	for id, want := range map[schemas.ThreadID]bool{threadA: true, "web-default": false, "terminal-1": false, "123": false, "10000000000000000x": false, schemas.ThreadID(strings.Repeat("1", 21)): false} {
		if id.IsSnowflake() != want {
			t.Errorf("%s: %v", id, !want)
		}
	}
}
