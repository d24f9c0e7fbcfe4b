package host_test

import (
	"context"
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
