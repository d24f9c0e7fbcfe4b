package host_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bobbin/bot"
	"bobbin/host"
	"bobbin/schemas"
)

// Everything that all rooms keep of a dropped thread is gone, but for its audit log; another thread with a server of the same name,
// of the same member, keeps all.
func TestDrop(t *testing.T) {
	const gone, stays = schemas.ThreadID("111111111111111111"), schemas.ThreadID("222222222222222222")
	data := t.TempDir()
	h, err := host.Open(t.Context(), host.Options{Data: data, Sandbox: "process", Assistant: model(&script{})})
	if err != nil {
		t.Fatal(err)
	}
	names := func(id schemas.ThreadID) string {
		r := h.Bot.Handle(t.Context(), bot.Request{Caller: schemas.Caller{Thread: id, Member: "ann", Name: "ann", Door: schemas.DoorDiscord, Role: schemas.Owner}, Text: "/mcp secrets list"})
		var b strings.Builder
		for _, x := range r.Blocks {
			b.WriteString(x.Text)
			if x.Table != nil {
				for _, row := range x.Table.Rows {
					b.WriteString(strings.Join(row.Cells, " "))
				}
			}
		}
		return b.String()
	}
	err = h.Run(t.Context(), func(ctx context.Context) error {
		for _, id := range []schemas.ThreadID{gone, stays} {
			ann := schemas.Caller{Thread: id, Member: "ann", Name: "ann", Door: schemas.DoorDiscord, Role: schemas.Owner}
			card := h.Bot.Handle(ctx, bot.Request{Caller: ann, Text: `/mcp add-json demo {"command":"false","env":{"API_TOKEN":"ghp_canary0123456789abcdefghijklmnop"}}`})
			r := h.Bot.Handle(ctx, bot.Request{Caller: ann, Action: &bot.Action{ID: card.ID, Choice: "confirm"}})
			if r.Code != schemas.CodeNotReady { // it is saved and started, and no MCP server
				return fmt.Errorf("%+v\n%+v", card, r)
			}
			h.Bot.Handle(ctx, bot.Request{Caller: ann, Text: "hello", Mentioned: true})
			if _, err := os.Stat(filepath.Join(data, "chat", string(id), "transcript.jsonl")); err != nil {
				return err
			}
		}
		if got := names(gone); !strings.Contains(got, "API_TOKEN") {
			t.Errorf("before: %s", got)
		}
		notices, stop := h.Bot.Listen(schemas.ThreadID.IsSnowflake)
		defer stop()
		for range 2 {
			if err := h.Bot.Drop(ctx, gone); err != nil {
				return err
			}
		}
		time.Sleep(200 * time.Millisecond) // a watcher that took it for an edit would have told by then
		stop()
		for n := range notices {
			if len(n.Reply.Blocks) > 0 {
				t.Errorf("told %+v", n)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := names(gone); strings.Contains(got, "API_TOKEN") {
		t.Errorf("values are left: %s", got)
	}
	if got := names(stays); !strings.Contains(got, "API_TOKEN") {
		t.Errorf("the other thread's values are gone: %s", got)
	}
	for _, left := range []struct {
		name string
		want bool
	}{{"users/" + string(gone) + "/mcp.json", false}, {"users/" + string(gone) + "/state.json", false}, {"users/" + string(gone) + "/history", false},
		{"cache/" + string(gone), false}, {"chat/" + string(gone), false}, {"chat/" + string(stays) + "/transcript.jsonl", true}, {"users/" + string(gone) + "/audit.jsonl", true}, {"users/" + string(stays) + "/mcp.json", true}} {
		if _, err := os.Stat(filepath.Join(data, left.name)); (err == nil) != left.want {
			t.Errorf("%s: %v", left.name, err)
		}
	}
	log, err := os.ReadFile(filepath.Join(data, "users", string(gone), "audit.jsonl"))
	if err != nil || strings.Count(string(log), `"dropped"`) != 1 {
		t.Errorf("%v:\n%s", err, log)
	}
}
