package host_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"bobbin/host"
	"bobbin/schemas"
)

// Tokens for clients end with the member's leaving and with the thread.
func TestGateway_TokensEnd(t *testing.T) {
	h, err := host.Open(t.Context(), host.Options{Data: t.TempDir(), Sandbox: "off"})
	if err != nil {
		t.Fatal(err)
	}
	bob := alice
	bob.Member, bob.Name = "bob", "bob"
	err = h.Run(t.Context(), func(ctx context.Context) error {
		if err := h.Gateway.Ready(ctx); err != nil {
			return err
		}
		left := func(c schemas.Caller, want int) {
			if list, err := h.Gateway.List(ctx, c); err != nil || len(list) != want {
				t.Errorf("%d tokens of %s, %v", len(list), c.Member, err)
			}
		}
		for _, c := range []schemas.Caller{alice, bob} {
			if _, _, err := h.Gateway.Make(ctx, c, "x", 0); err != nil {
				return err
			}
		}
		bob.Role = schemas.Member
		left(bob, 1)
		if err := h.Bot.Left(ctx, bob.Thread, bob.Member); err != nil {
			t.Error(err)
		}
		left(bob, 0)
		left(alice, 1)
		if err := h.Bot.Drop(ctx, alice.Thread); err != nil {
			t.Error(err)
		}
		left(alice, 0)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// A token does what its member may do in the thread now, whatever that was when it was made.
func TestGateway_TokenIsWorthWhatItsMemberIs(t *testing.T) {
	const thread = schemas.ThreadID("111111111111111111")
	h, err := host.Open(t.Context(), host.Options{Data: t.TempDir(), Sandbox: "off"})
	if err != nil {
		t.Fatal(err)
	}
	stop := h.Bot.Roster(schemas.ThreadID.IsSnowflake, func(_ context.Context, _ schemas.ThreadID, m schemas.MemberID) (schemas.Role, bool, error) {
		return map[schemas.MemberID]schemas.Role{"member": schemas.Member, "owner": schemas.Owner}[m], m != "gone", nil
	})
	defer stop()
	err = h.Run(t.Context(), func(ctx context.Context) error {
		if err := h.Gateway.Ready(ctx); err != nil {
			return err
		}
		srv := httptest.NewServer(h.Gateway.Handler())
		defer srv.Close()
		for member, want := range map[schemas.MemberID]struct {
			status int
			words  string
		}{
			"member": {200, `"result"`}, "owner": {200, `"result"`},
			"guest": {403, "has become a guest of the thread"}, "gone": {401, "a token is needed"},
		} {
			_, secret, err := h.Gateway.Make(ctx, schemas.Caller{Thread: thread, Member: member, Name: "x", Door: schemas.DoorDiscord, Role: schemas.Member}, "x", 0)
			if err != nil {
				return err
			}
			for _, body := range []string{
				`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`,
				`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
			} {
				req, err := http.NewRequestWithContext(ctx, "POST", srv.URL+"/gateway/"+string(thread)+"/mcp", strings.NewReader(body))
				if err != nil {
					return err
				}
				req.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + secret}}
				if strings.Contains(body, "2026") {
					req.Header["Mcp-Protocol-Version"], req.Header["Mcp-Method"] = []string{"2026-07-28"}, []string{"tools/list"}
				}
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					return err
				}
				said, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if err != nil || resp.StatusCode != want.status || !strings.Contains(string(said), want.words) {
					t.Errorf("%s: %d %s %v", member, resp.StatusCode, said, err)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
