package vault_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"bobbin/schemas"
)

func TestHold_NeverOnDisk(t *testing.T) {
	root := t.TempDir()
	v := open(t, root)
	k := key("alice", "TOKEN")
	if err := v.Hold(t.Context(), k, schemas.NewSecret(canary)); err != nil {
		t.Fatal(err)
	}
	if n := len(snapshot(t, root)); n != 0 {
		t.Errorf("%d files", n)
	}
	wantValue(t, v, k, canary)
	put(t, v, key("alice", "OTHER"), "sealed")
	for name, text := range snapshot(t, root) {
		if strings.Contains(text, "TOKEN") || strings.Contains(text, canary) {
			t.Errorf("%s tells of it", name)
		}
	}
	names, err := v.Names(t.Context(), "alice", "t1")
	if diff := cmp.Diff([]schemas.SecretKey{key("alice", "OTHER"), k}, names); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if !v.Holds(k) || v.Holds(key("alice", "OTHER")) {
		t.Error("what is held and what is sealed are taken for each other")
	}
	_, err = v.Reveal(t.Context(), key("bob", "TOKEN"))
	wantCode(t, err, schemas.CodeNeeds)
	again := open(t, root)
	_, err = again.Reveal(t.Context(), k)
	wantCode(t, err, schemas.CodeNeeds)
}

func TestHold_InFrontOfASealedOne(t *testing.T) {
	v := open(t, t.TempDir())
	k := key("alice", "TOKEN")
	put(t, v, k, "sealed")
	hold := func(value string) {
		t.Helper()
		if err := v.Hold(t.Context(), k, schemas.NewSecret(value)); err != nil {
			t.Fatal(err)
		}
	}
	hold("held")
	wantValue(t, v, k, "held")
	if names, err := v.Names(t.Context(), "alice", "t1"); len(names) != 1 || err != nil {
		t.Error(names, err)
	}
	put(t, v, k, "new")
	wantValue(t, v, k, "new")
	hold("held")
	if err := v.Delete(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	_, err := v.Reveal(t.Context(), k)
	wantCode(t, err, schemas.CodeNeeds)
}

func TestHold_Forgotten(t *testing.T) {
	v := open(t, t.TempDir())
	k, other := key("alice", "TOKEN"), key("bob", "TOKEN")
	other.Server = "weather"
	for _, one := range []schemas.SecretKey{k, other} {
		if err := v.Hold(t.Context(), one, schemas.NewSecret(canary)); err != nil {
			t.Fatal(err)
		}
	}
	holders, err := v.Holders(t.Context(), "t1", "")
	if len(holders) != 2 || err != nil {
		t.Error(holders, err)
	}
	if err := v.Forget(t.Context(), "t1", "github"); err != nil {
		t.Fatal(err)
	}
	_, err = v.Reveal(t.Context(), k)
	wantCode(t, err, schemas.CodeNeeds)
	wantValue(t, v, other, canary)
	if err := v.Forget(t.Context(), "t1", ""); err != nil || v.Holds(other) {
		t.Error(err)
	}
}

// Without a key nothing can be sealed, but held.
func TestHold_Locked(t *testing.T) {
	root := t.TempDir()
	put(t, open(t, root), key("alice", "A"), "x")
	if err := os.Remove(filepath.Join(root, "key")); err != nil {
		t.Fatal(err)
	}
	v := open(t, root)
	if v.Locked() == nil {
		t.Fatal("not locked")
	}
	k := key("alice", "TOKEN")
	if err := v.Hold(t.Context(), k, schemas.NewSecret(canary)); err != nil {
		t.Fatal(err)
	}
	wantValue(t, v, k, canary)
	if err := v.Delete(t.Context(), k); err != nil || v.Holds(k) {
		t.Error(err)
	}
}

func TestHold_Limits(t *testing.T) {
	v := open(t, t.TempDir())
	bad := key("alice", "a/b")
	wantCode(t, v.Hold(t.Context(), bad, schemas.NewSecret("x")), schemas.CodeInvalid)
	wantCode(t, v.Hold(t.Context(), key("alice", "BIG"), schemas.NewSecret(strings.Repeat("x", 64<<10+1))), schemas.CodeTooLarge)
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			if err := v.Hold(t.Context(), key("alice", fmt.Sprint("N", i)), schemas.NewSecret("x")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	wantCode(t, v.Hold(t.Context(), key("alice", "MORE"), schemas.NewSecret("x")), schemas.CodeTooLarge)
	if err := v.Hold(t.Context(), key("alice", "N0"), schemas.NewSecret("y")); err != nil {
		t.Error("a new value for a held one:", err)
	}
	big, n := schemas.NewSecret(strings.Repeat("x", 64<<10)), 0
	for i := range 400 {
		if v.Hold(t.Context(), key(fmt.Sprint("m", i), "BIG"), big) == nil {
			n++
		}
	}
	if n != 255 {
		t.Errorf("%d values of 64 KiB", n)
	}
}
