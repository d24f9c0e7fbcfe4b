package vault_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"bobbin/internal/durable"
	"bobbin/schemas"
	"bobbin/vault"
)

const canary = "ghp_canary_value_0123456789"

func open(t testing.TB, root string) *vault.Vault {
	t.Helper()
	dir, err := durable.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	v, err := vault.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func key(member, name string) schemas.SecretKey {
	return schemas.SecretKey{Member: schemas.MemberID(member), Thread: "t1", Server: "github", Name: name, Origin: "local"}
}

func put(t testing.TB, v *vault.Vault, k schemas.SecretKey, value string) {
	t.Helper()
	if err := v.Put(t.Context(), k, schemas.NewSecret(value)); err != nil {
		t.Fatal(err)
	}
}

func wantValue(t testing.TB, v *vault.Vault, k schemas.SecretKey, want string) {
	t.Helper()
	got, err := v.Reveal(t.Context(), k)
	if err != nil || got.Reveal() != want {
		t.Errorf("%s of %s: %q, %v", k.Name, k.Member, got.Reveal(), err)
	}
}

func wantCode(t testing.TB, err error, code schemas.Code) {
	t.Helper()
	e, ok := errors.AsType[*schemas.Error](err)
	if !ok || e.Code != code || e.Text == "" || e.Hint == "" {
		t.Errorf("want %s, got %v", code, err)
	}
	if err != nil && strings.Contains(err.Error(), "canary") {
		t.Errorf("a value is in the error: %v", err)
	}
}

// snapshot reads every file of a folder, lock files left out.
func snapshot(t testing.TB, root string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, ".lock") {
			return err
		}
		data, err := os.ReadFile(path)
		files[filepath.Base(path)] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestVault(t *testing.T) {
	root := t.TempDir()
	v := open(t, root)
	if _, err := v.Reveal(t.Context(), key("alice", "TOKEN")); schemas.CodeOf(err) != schemas.CodeNeeds {
		t.Error(err)
	}
	values := map[string]string{"TOKEN": canary, "EMPTY": "", "LONG": strings.Repeat("ü", 32<<10), "ODD": "\x00\xff\n"}
	for name, value := range values {
		put(t, v, key("alice", name), value)
	}
	put(t, v, key("bob", "TOKEN"), "bob's")
	for _, v := range []*vault.Vault{v, open(t, root)} {
		for name, value := range values {
			wantValue(t, v, key("alice", name), value)
		}
		wantValue(t, v, key("bob", "TOKEN"), "bob's")
	}
	put(t, v, key("alice", "TOKEN"), "rotated")
	wantValue(t, v, key("alice", "TOKEN"), "rotated")
	names, err := v.Names(t.Context(), "alice", "t1")
	want := []schemas.SecretKey{key("alice", "EMPTY"), key("alice", "LONG"), key("alice", "ODD"), key("alice", "TOKEN")}
	if d := cmp.Diff(want, names); d != "" || err != nil {
		t.Error(d, err)
	}
	if names, err := v.Names(t.Context(), "alice", "t2"); len(names) != 0 || err != nil {
		t.Error(names, err)
	}
	for range 2 {
		if err := v.Delete(t.Context(), key("alice", "TOKEN")); err != nil {
			t.Error(err)
		}
	}
	_, err = v.Reveal(t.Context(), key("alice", "TOKEN"))
	wantCode(t, err, schemas.CodeNeeds)
	wantValue(t, v, key("alice", "EMPTY"), "")
	if err := v.Delete(t.Context(), key("bob", "TOKEN")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(root, "bob.json")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the empty file is left")
	}
}

func TestNothingReadableOnDisk(t *testing.T) {
	root := t.TempDir()
	v := open(t, root)
	for i := range 5 {
		put(t, v, key("alice", fmt.Sprint("TOKEN", i)), canary)
	}
	put(t, v, key("alice", "TOKEN1"), canary)
	files := snapshot(t, root)
	for name, data := range files {
		for _, form := range []string{canary, base64.StdEncoding.EncodeToString([]byte(canary))[:24], hex.EncodeToString([]byte(canary))} {
			if strings.Contains(data, form) {
				t.Errorf("%s holds the value", name)
			}
		}
		info, err := os.Stat(filepath.Join(root, name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", name, info.Mode(), err)
		}
	}
	if len(files) != 3 {
		t.Errorf("%d files", len(files))
	}
}

func TestMovedValueDoesNotOpen(t *testing.T) {
	base := key("alice", "TOKEN")
	for name, change := range map[string]func(*schemas.SecretKey){
		"thread": func(k *schemas.SecretKey) { k.Thread = "t2" },
		"server": func(k *schemas.SecretKey) { k.Server = "gitlab" },
		"name":   func(k *schemas.SecretKey) { k.Name = "OTHER" },
		"origin": func(k *schemas.SecretKey) { k.Origin = "https://evil.example:443" },
		"member": func(k *schemas.SecretKey) { k.Member = "mallory" },
		"shift":  func(k *schemas.SecretKey) { k.Thread, k.Server = "t1g", "ithub" }, // the same bytes in a row
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			v := open(t, root)
			put(t, v, base, canary)
			moved := base
			change(&moved)
			var file struct {
				Version int              `json:"version"`
				Member  schemas.MemberID `json:"member"`
				Values  []map[string]any `json:"values"`
			}
			data, _ := os.ReadFile(filepath.Join(root, "alice.json"))
			if err := json.Unmarshal(data, &file); err != nil {
				t.Fatal(err)
			}
			file.Member = moved.Member
			e := file.Values[0]
			e["thread"], e["server"], e["name"], e["origin"] = moved.Thread, moved.Server, moved.Name, moved.Origin
			data, _ = json.Marshal(file)
			if err := os.WriteFile(filepath.Join(root, string(moved.Member)+".json"), data, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := open(t, root).Reveal(t.Context(), moved)
			wantCode(t, err, schemas.CodeUnreadable)
		})
	}
}

func TestRenamedFileIsRefused(t *testing.T) {
	root := t.TempDir()
	v := open(t, root)
	put(t, v, key("alice", "TOKEN"), canary)
	if err := os.Rename(filepath.Join(root, "alice.json"), filepath.Join(root, "mallory.json")); err != nil {
		t.Fatal(err)
	}
	_, err := v.Reveal(t.Context(), key("mallory", "TOKEN"))
	wantCode(t, err, schemas.CodeUnreadable)
	wantCode(t, v.Put(t.Context(), key("mallory", "TOKEN"), schemas.NewSecret(canary)), schemas.CodeUnreadable)
}

func TestRotationLeavesTheOthers(t *testing.T) {
	root := t.TempDir()
	v := open(t, root)
	for i := range 4 {
		put(t, v, key("alice", fmt.Sprint("T", i)), canary)
	}
	path := filepath.Join(root, "alice.json")
	data, _ := os.ReadFile(path)
	// Another program's spacing and a key of a later version stay, too.
	data = bytes.Replace(data, []byte(`{"thread":"t1","server":"github","name":"T3"`), []byte(`{ "later": [1,  2], "thread":"t1","server":"github","name":"T3"`), 1)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	before := strings.Split(string(data), "\n")
	put(t, v, key("alice", "T1"), "new")
	data, _ = os.ReadFile(path)
	after := strings.Split(string(data), "\n")
	for i := range before {
		if changed := before[i] != after[i]; changed != (i == 2) {
			t.Errorf("line %d changed: %v", i, changed)
		}
	}
	wantValue(t, v, key("alice", "T3"), canary)
}

func TestDamagedValue(t *testing.T) {
	for name, damage := range map[string]func(e map[string]any){
		"a bit": func(e map[string]any) {
			b, _ := base64.StdEncoding.DecodeString(e["sealed"].(string))
			b[3] ^= 1
			e["sealed"] = b
		},
		"nonce":      func(e map[string]any) { e["nonce"] = "AAAA" },
		"cut":        func(e map[string]any) { e["sealed"] = "AA==" },
		"no base64":  func(e map[string]any) { e["sealed"] = "%%%" },
		"wrong type": func(e map[string]any) { e["sealed"] = 7 },
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			v := open(t, root)
			put(t, v, key("alice", "A"), canary)
			put(t, v, key("alice", "B"), "fine")
			path := filepath.Join(root, "alice.json")
			data, _ := os.ReadFile(path)
			lines := strings.Split(string(data), "\n")
			var e map[string]any
			if err := json.Unmarshal([]byte(strings.TrimSuffix(lines[1], ",")), &e); err != nil {
				t.Fatal(err)
			}
			damage(e)
			bad, _ := json.Marshal(e)
			lines[1] = string(bad) + ","
			if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
				t.Fatal(err)
			}
			if got, err := v.Reveal(t.Context(), key("alice", "A")); err == nil {
				t.Errorf("%q", got.Reveal())
			}
			wantValue(t, v, key("alice", "B"), "fine")
			put(t, v, key("alice", "C"), "more")
			data, _ = os.ReadFile(path)
			if !strings.Contains(string(data), string(bad)) {
				t.Error("the damaged value was dropped")
			}
			put(t, v, key("alice", "A"), "again")
			wantValue(t, v, key("alice", "A"), "again")
		})
	}
}

func TestDamagedFileIsNotOverwritten(t *testing.T) {
	for _, text := range []string{"", "{", "[]", `{"version":2,"member":"alice","values":[]}`, `{"version":1,"member":"alice","values":{}}`} {
		root := t.TempDir()
		v := open(t, root)
		put(t, v, key("alice", "A"), canary)
		put(t, v, key("bob", "A"), "fine")
		if err := os.WriteFile(filepath.Join(root, "alice.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		before := snapshot(t, root)
		wantCode(t, v.Put(t.Context(), key("alice", "A"), schemas.NewSecret(canary)), schemas.CodeUnreadable)
		wantCode(t, v.Delete(t.Context(), key("alice", "A")), schemas.CodeUnreadable)
		_, err := v.Reveal(t.Context(), key("alice", "A"))
		wantCode(t, err, schemas.CodeUnreadable)
		if d := cmp.Diff(before, snapshot(t, root)); d != "" {
			t.Error(d)
		}
		wantCode(t, v.Forget(t.Context(), "t1", "github"), schemas.CodeUnreadable)
		_, err = v.Reveal(t.Context(), key("bob", "A"))
		wantCode(t, err, schemas.CodeNeeds) // it went on with the others
	}
}

func TestLocked(t *testing.T) {
	for name, harm := range map[string]func(root string) error{
		"key lost": func(root string) error { return os.Remove(filepath.Join(root, "key")) },
		"key and note": func(root string) error {
			return errors.Join(os.Remove(filepath.Join(root, "key")), os.Remove(filepath.Join(root, "key.check")))
		},
		"wrong key": func(root string) error {
			return os.WriteFile(filepath.Join(root, "key"), bytes.Repeat([]byte{7}, 32), 0o600)
		},
		"damaged key":  func(root string) error { return os.WriteFile(filepath.Join(root, "key"), []byte("short"), 0o600) },
		"damaged note": func(root string) error { return os.WriteFile(filepath.Join(root, "key.check"), []byte("{"), 0o600) },
		"newer": func(root string) error {
			return os.WriteFile(filepath.Join(root, "key.check"), []byte(`{"version":2,"check":"x"}`), 0o600)
		},
		"wrong, no note": func(root string) error {
			return errors.Join(os.Remove(filepath.Join(root, "key.check")), os.WriteFile(filepath.Join(root, "key"), bytes.Repeat([]byte{7}, 32), 0o600))
		},
		"wrong credential": func(root string) error {
			return os.WriteFile(filepath.Join(os.Getenv("CREDENTIALS_DIRECTORY"), "bobbin-vault-key"), bytes.Repeat([]byte{7}, 32), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("CREDENTIALS_DIRECTORY", t.TempDir())
			root := t.TempDir()
			put(t, open(t, root), key("alice", "A"), canary)
			good := snapshot(t, root)
			if err := harm(root); err != nil {
				t.Fatal(err)
			}
			before := snapshot(t, root)
			v := open(t, root)
			_, err := v.Reveal(t.Context(), key("alice", "A"))
			for _, err := range []error{v.Locked(), err, v.Put(t.Context(), key("alice", "A"), schemas.NewSecret(canary)),
				v.Put(t.Context(), key("bob", "A"), schemas.NewSecret(canary)), v.Delete(t.Context(), key("alice", "A")), v.Forget(t.Context(), "t1", "github")} {
				wantCode(t, err, schemas.CodeUnreadable)
			}
			if names, err := v.Names(t.Context(), "alice", "t1"); len(names) != 1 || err != nil {
				t.Error(names, err)
			}
			if d := cmp.Diff(before, snapshot(t, root)); d != "" {
				t.Error(d)
			}
			for _, file := range []string{"key", "key.check"} {
				if err := os.WriteFile(filepath.Join(root, file), []byte(good[file]), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("CREDENTIALS_DIRECTORY", "")
			wantValue(t, open(t, root), key("alice", "A"), canary)
		})
	}
}

func TestNoteIsWrittenAgain(t *testing.T) {
	root := t.TempDir()
	put(t, open(t, root), key("alice", "A"), canary)
	if err := os.Remove(filepath.Join(root, "key.check")); err != nil {
		t.Fatal(err)
	}
	v := open(t, root)
	wantValue(t, v, key("alice", "A"), canary)
	if _, ok := snapshot(t, root)["key.check"]; !ok {
		t.Error("no note")
	}
}

func TestCredential(t *testing.T) {
	folder, root := t.TempDir(), t.TempDir()
	t.Setenv("CREDENTIALS_DIRECTORY", folder)
	secret := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{9}, 32)) + "\n"
	if err := os.WriteFile(filepath.Join(folder, "bobbin-vault-key"), []byte(secret), 0o400); err != nil {
		t.Fatal(err)
	}
	put(t, open(t, root), key("alice", "A"), canary)
	wantValue(t, open(t, root), key("alice", "A"), canary)
	if _, ok := snapshot(t, root)["key"]; ok {
		t.Error("a key file was made beside the credential")
	}
	t.Setenv("CREDENTIALS_DIRECTORY", "")
	wantCode(t, open(t, root).Locked(), schemas.CodeUnreadable)
}

func TestForget(t *testing.T) {
	v := open(t, t.TempDir())
	other, elsewhere := key("alice", "A"), key("alice", "A")
	other.Server, elsewhere.Thread = "gitlab", "t2"
	for _, k := range []schemas.SecretKey{key("alice", "A"), key("alice", "B"), key("bob", "A"), other, elsewhere} {
		put(t, v, k, canary)
	}
	if err := v.Forget(t.Context(), "t1", "github"); err != nil {
		t.Fatal(err)
	}
	for _, k := range []schemas.SecretKey{key("alice", "A"), key("alice", "B"), key("bob", "A")} {
		_, err := v.Reveal(t.Context(), k)
		wantCode(t, err, schemas.CodeNeeds)
	}
	wantValue(t, v, other, canary)
	wantValue(t, v, elsewhere, canary)
	for range 2 {
		if err := v.Forget(t.Context(), "t1", ""); err != nil {
			t.Fatal(err)
		}
	}
	_, err := v.Reveal(t.Context(), other)
	wantCode(t, err, schemas.CodeNeeds)
	wantValue(t, v, elsewhere, canary)
}

func TestLimits(t *testing.T) {
	v := open(t, t.TempDir())
	wantCode(t, v.Put(t.Context(), key("alice", "A"), schemas.NewSecret(strings.Repeat("canary", 11000))), schemas.CodeTooLarge)
	for i := range 500 {
		put(t, v, key("alice", fmt.Sprint("T", i)), "x")
	}
	wantCode(t, v.Put(t.Context(), key("alice", "ONE_MORE"), schemas.NewSecret(canary)), schemas.CodeTooLarge)
	put(t, v, key("alice", "T7"), "y")
	wantValue(t, v, key("alice", "T7"), "y")
	for _, change := range []func(*schemas.SecretKey){
		func(k *schemas.SecretKey) { k.Member = "../x" }, func(k *schemas.SecretKey) { k.Thread = "" },
		func(k *schemas.SecretKey) { k.Server = "a/b" }, func(k *schemas.SecretKey) { k.Name = "a b" },
		func(k *schemas.SecretKey) { k.Origin = "" }, func(k *schemas.SecretKey) { k.Origin = "a\nb" },
	} {
		k := key("alice", "A")
		change(&k)
		wantCode(t, v.Put(t.Context(), k, schemas.NewSecret(canary)), schemas.CodeInvalid)
		_, err := v.Reveal(t.Context(), k)
		wantCode(t, err, schemas.CodeInvalid)
	}
}

func TestChangesOfOthersAreSeen(t *testing.T) {
	root := t.TempDir()
	a, b := open(t, root), open(t, root) // both before there is a key
	for i := range 20 {
		put(t, a, key("alice", "A"), fmt.Sprint("value ", i%10))
		if i == 10 {
			time.Sleep(150 * time.Millisecond) // long enough for the cache to trust the file
		}
		wantValue(t, b, key("alice", "A"), fmt.Sprint("value ", i%10))
	}
}

func TestConcurrent(t *testing.T) {
	root := t.TempDir()
	var all sync.WaitGroup
	for i := range 8 {
		v := open(t, root)
		all.Go(func() {
			for j := range 10 {
				k := key(fmt.Sprint("m", j%2), fmt.Sprintf("T_%d_%d", i, j))
				put(t, v, k, k.Name)
				wantValue(t, v, k, k.Name)
			}
		})
	}
	all.Wait()
	v := open(t, root)
	for i := range 8 {
		for j := range 10 {
			k := key(fmt.Sprint("m", j%2), fmt.Sprintf("T_%d_%d", i, j))
			wantValue(t, v, k, k.Name)
		}
	}
}

func FuzzFile(f *testing.F) {
	root := f.TempDir()
	put(f, open(f, root), key("alice", "A"), canary)
	data, _ := os.ReadFile(filepath.Join(root, "alice.json"))
	f.Add(data)
	f.Add([]byte(`{"version":1,"member":"alice","values":[null,7,{},{"thread":"t1"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(filepath.Join(root, "alice.json"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		v := open(t, root)
		if got, err := v.Reveal(t.Context(), key("alice", "A")); err == nil && got.Reveal() != canary {
			t.Fatalf("%q", got.Reveal())
		}
		_, _ = v.Names(t.Context(), "alice", "t1")
	})
}

func BenchmarkReveal(b *testing.B) {
	v := open(b, b.TempDir())
	for i := range 20 {
		put(b, v, key("alice", fmt.Sprint("T", i)), canary)
	}
	time.Sleep(150 * time.Millisecond)
	for b.Loop() {
		if _, err := v.Reveal(b.Context(), key("alice", "T7")); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPut(b *testing.B) {
	v := open(b, b.TempDir())
	for b.Loop() {
		put(b, v, key("alice", "T"), canary)
	}
}
