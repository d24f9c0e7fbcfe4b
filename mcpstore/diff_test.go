package mcpstore_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"bobbin/mcpstore"
	"bobbin/schemas"
)

// Every field of a definition has a key under which a card names it; a new one must be seen here.
func TestDiff_EveryField(t *testing.T) {
	full := schemas.Server{
		Name: "x", Type: schemas.SSE, Command: "c", Args: []string{"a"}, Env: map[string]string{"A": "b"}, Cwd: "d", URL: "https://u.example",
		Headers: map[string]string{"H": "v"}, Auth: &schemas.Auth{Type: "none"}, Timeout: 1000, Tools: &schemas.ToolFilter{Include: []string{"t"}},
	}
	_, got := mcpstore.DiffOf(schemas.Server{Name: "x"}, full)
	want := []string{"type", "command", "args", "env", "cwd", "url", "headers", "auth", "timeout", "tools"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if v := reflect.ValueOf(full); v.NumField() != len(want)+1 {
		t.Errorf("%d fields: decide for the new one", v.NumField())
	}
	for i, v := 0, reflect.ValueOf(full); i < v.NumField(); i++ {
		if v.Field(i).IsZero() {
			t.Errorf("%s is not set here", v.Type().Field(i).Name)
		}
	}
}

func TestDiff_Lines(t *testing.T) {
	r := open(t, mcpstore.Options{})
	r.commit(alice, put(draft("a", "npx", "-y", "one", "two", "three", "four")))
	p := r.propose(alice, put(draft("a", "npx", "-y", "one", "TWO", "three", "four")))
	var changed []string
	for line := range strings.Lines(p.Diff) {
		if line[0] == '+' || line[0] == '-' {
			changed = append(changed, strings.TrimSpace(line[1:]))
		}
	}
	if !strings.HasPrefix(p.Diff, "@@ ") || strings.Contains(p.Diff, "mcp.json") || len(changed) != 2 {
		t.Errorf("%q\n%s", changed, p.Diff)
	}
}

func TestDiff_Masked(t *testing.T) {
	env := func(v string) schemas.Server {
		return schemas.Server{Name: "x", Command: "c", Env: map[string]string{
			"API_TOKEN": v, "MODE": "fast-" + v, "DB_PASSWORD": "${input:PW}", "AUTH": "Bearer ${input:T}", "PRIVATE_KEY": "a ${input:T} canary",
		}}
	}
	diff, _ := mcpstore.DiffOf(schemas.Server{Name: "x"}, env("12345"))
	for _, want := range []string{"<secret ", "fast-12345", `"${input:PW}"`, `"Bearer ${input:T}"`} {
		if !strings.Contains(diff, want) {
			t.Errorf("no %s in\n%s", want, diff)
		}
	}
	if strings.Contains(diff, "canary") || strings.Contains(diff, `"12345"`) {
		t.Error(diff)
	}
	if diff, _ = mcpstore.DiffOf(env("12345"), env("12346")); strings.Count(diff, "<secret ") < 2 {
		t.Errorf("a changed secret is not seen:\n%s", diff)
	}
}

func FuzzDiff(f *testing.F) {
	f.Add("npx", "-y", "TOKEN", "MODE", "v", "w", uint8(0))
	f.Add("", "", "api-key", "K", "${input:X}", "${input:", uint8(7))
	f.Add("a", "b", "Authorization", "X-Api-Key", "Bearer ${input:X}", "\n", uint8(255))
	f.Fuzz(func(t *testing.T, command, arg, key1, key2, v1, v2 string, bits uint8) {
		const canary = "CANARYcanary0123456789"
		make := func(bits uint8) schemas.Server {
			s := schemas.Server{Name: "x", Command: command, Env: map[string]string{}, Headers: map[string]string{}}
			if bits&1 != 0 {
				s.Args = []string{arg}
			}
			if bits&2 != 0 {
				s.Env[key1] = v1
			}
			if bits&4 != 0 {
				s.Headers[key2] = v2
			}
			if bits&8 != 0 {
				s.Env["API_TOKEN"], s.Headers["Authorization"] = canary+v1, v2+canary
			}
			return s
		}
		before, after := make(bits&15), make(bits>>4)
		diff, fields := mcpstore.DiffOf(before, after)
		if strings.Contains(diff, canary) {
			t.Errorf("%s", diff)
		}
		same := maps.Equal(before.Env, after.Env) && maps.Equal(before.Headers, after.Headers) && slices.Equal(before.Args, after.Args)
		if same != (len(fields) == 0) {
			t.Errorf("fields %q, same %v", fields, same)
		}
		if same && diff != "" {
			t.Errorf("nothing changed:\n%s", diff)
		}
	})
}

func many(n int, arg string) []schemas.Draft {
	drafts := make([]schemas.Draft, n)
	for i := range drafts {
		drafts[i] = draft(fmt.Sprintf("s%04d", i), "npx", fmt.Sprintf("@scope/server-%d", i), "fast")
		drafts[i].Server.Env = map[string]string{"KEY": "${input:KEY}"}
	}
	drafts[n/2].Server.Args[1] = arg
	return drafts
}

// BenchmarkPropose_Fresh is goal G11: read, validate and diff a file that the process has not seen, with one server changed.
func BenchmarkPropose_Fresh(b *testing.B) {
	for _, n := range []int{10, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := open(b, mcpstore.Lifted(mcpstore.Options{}, 1000))
			r.commit(alice, put(many(n, "fast")...))
			edit := put(many(n, "slow")...)
			for b.Loop() {
				b.StopTimer()
				fresh := openAt(b, r.path, mcpstore.Lifted(mcpstore.Options{}, 1000))
				b.StartTimer()
				if p := fresh.propose(alice, edit); p.Empty() {
					b.Fatal("no change")
				}
			}
		})
	}
}

// BenchmarkLoad_OneServerEdited is the watcher's work after a hand changed one server.
func BenchmarkLoad_OneServerEdited(b *testing.B) {
	for _, n := range []int{10, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := open(b, mcpstore.Lifted(mcpstore.Options{}, 1000))
			r.commit(alice, put(many(n, "fast")...))
			texts := []string{r.text("mcp.json"), strings.Replace(r.text("mcp.json"), fmt.Sprintf("server-%d", n/2), "other", 1)}
			for i := 0; b.Loop(); i++ {
				b.StopTimer()
				r.hand("mcp.json", texts[(i+1)%2])
				b.StartTimer()
				if len(r.load().Entries) != n {
					b.Fatal("lost")
				}
			}
		})
	}
}

func BenchmarkLoad_Hot(b *testing.B) {
	r := open(b, mcpstore.Options{})
	r.commit(alice, put(many(10, "fast")...))
	for !r.Settled(tid) {
		r.load()
	}
	r.load()
	b.ReportAllocs()
	for b.Loop() {
		r.load()
	}
}

// BenchmarkPropose_OneOfMany changes one server of a thread that the process knows.
func BenchmarkPropose_OneOfMany(b *testing.B) {
	for _, n := range []int{10, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := open(b, mcpstore.Lifted(mcpstore.Options{}, 1000))
			drafts := many(n, "fast")
			r.commit(alice, put(drafts...))
			edit := put(many(n, "slow")[n/2])
			for b.Loop() {
				if p := r.propose(alice, edit); len(p.Changes) != 1 {
					b.Fatal("no change")
				}
			}
		})
	}
}
