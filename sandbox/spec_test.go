//go:build linux

package sandbox_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"bobbin/sandbox"
	"bobbin/schemas"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestSpec_Golden shows what a sandbox is, whole. Whoever changes it sees it here.
func TestSpec_Golden(t *testing.T) {
	for file, perServer := range map[string]bool{"testdata/spec.member.json": false, "testdata/spec.server.json": true} {
		e, d, opt := openFake(t, func(o *sandbox.DockerOptions) { o.PerServer = perServer })
		c, err := d.Launch(t.Context(), schemas.Launch{Thread: "t1", Owner: "alice", Server: "notes", Command: "node"})
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
		text := strings.NewReplacer(opt.Boxes.Path(), "BOXES", opt.Binary, "BINARY").Replace(e.created[0])
		text = regexp.MustCompile(`[0-9a-f]{32}`).ReplaceAllString(text, "HASH")
		var out bytes.Buffer
		if err := json.Indent(&out, []byte(text), "", "\t"); err != nil {
			t.Fatal(err)
		}
		if *update {
			if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, _ := os.ReadFile(file); !bytes.Equal(bytes.TrimSpace(want), bytes.TrimSpace(out.Bytes())) {
			t.Errorf("%s: the container is another one now; if that is meant, run the test with -update\n%s", file, out.String())
		}
	}
}

// TestSpec_NothingOfMembers: whatever a launch or a command says, the container and its volume stay the same, byte for byte.
func TestSpec_NothingOfMembers(t *testing.T) {
	e, d, opt := openFake(t, nil)
	binary := opt.Binary
	rapid.Check(t, func(r *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"/", "..", "--privileged", "/var/run/docker.sock:/x", "\x00", "host", "root", binary}))
		env := map[string]schemas.Secret{}
		for name, v := range rapid.MapOfN(text, text, 0, 4).Draw(r, "env") {
			env[name] = schemas.NewSecret(v)
		}
		args := rapid.SliceOfN(text, 0, 4).Draw(r, "args")
		cwd, thread, server := text.Draw(r, "cwd"), text.Draw(r, "thread"), text.Draw(r, "server")
		if rapid.Bool().Draw(r, "exec") {
			_, _ = d.Exec(t.Context(), schemas.Exec{Thread: schemas.ThreadID(thread), Member: "alice", Args: args, Dir: cwd, Env: env})
		} else if c, err := d.Launch(t.Context(), schemas.Launch{Thread: schemas.ThreadID(thread), Owner: "alice", Server: server, Command: text.Draw(r, "command"), Args: args, Env: env, Cwd: cwd}); err == nil {
			_ = c.Close()
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		for i := range e.created {
			if e.created[i] != e.created[0] || e.volumes[i] != e.volumes[0] {
				r.Fatalf("another container:\n%s\n%s", e.created[i], e.created[0])
			}
		}
		e.running, e.labels = false, nil // so that the next one is made anew
		if e.in != nil {
			e.in.stop()
		}
	})
	if len(e.created) < 5 {
		t.Errorf("only %d containers were made", len(e.created))
	}
	if !strings.Contains(e.volumes[0], `"bobbin-sandbox-vol-alice"`) {
		t.Error(e.volumes[0])
	}
}

// TestSpec_Members: a member's id reaches the engine only in the form that ids have.
func TestSpec_Members(t *testing.T) {
	e, d, _ := openFake(t, nil)
	for _, m := range []schemas.MemberID{"", "..", "a/b", "a b", "a\n", "-x", "a:b", "é", schemas.MemberID(strings.Repeat("a", 65))} {
		if _, err := d.Launch(t.Context(), schemas.Launch{Owner: m, Command: "x"}); err == nil {
			t.Errorf("%q may launch", m)
		}
		if _, err := d.Exec(t.Context(), schemas.Exec{Member: m, Args: []string{"x"}}); err == nil {
			t.Errorf("%q may run commands", m)
		}
	}
	if len(e.created)+len(e.volumes) > 0 {
		t.Error(e.calls)
	}
}

func TestDocker_FakeLaunch(t *testing.T) {
	e, d, _ := openFake(t, nil)
	l := schemas.Launch{Thread: "t1", Owner: "alice", Server: "notes", Command: "node", Args: []string{"a b"}, Env: map[string]schemas.Secret{"KEY": schemas.NewSecret("hunter2-hunter2")}, Cwd: "sub"}
	c, err := d.Launch(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(c)
	if line, err := in.ReadString('\n'); err != nil || line != "{\"early\":true}\n" {
		t.Errorf("%q, %v", line, err)
	}
	if _, err := io.WriteString(c, "ping\n"); err != nil {
		t.Error(err)
	}
	if line, err := in.ReadString('\n'); err != nil || line != "ping\n" {
		t.Errorf("%q, %v", line, err)
	}
	def := e.in.only(t)
	env, _ := def["env"].(map[string]string)
	if def["cwd"] != "/workspace/sub" || env["KEY"] != "hunter2-hunter2" || !strings.HasSuffix(env["HTTPS_PROXY"], ":x@127.0.0.1:3128") {
		t.Errorf("%v", def)
	}
	if c.(interface{ PID() int }).PID() != 7 || c.(interface{ Stderr() string }).Stderr() != "warming up" || c.(interface{ Diagnose() string }).Diagnose() != "" {
		t.Error("the server's status is another one")
	}
	for _, made := range append(e.created, e.volumes...) {
		if strings.Contains(made, "hunter2") {
			t.Error("the engine knows a secret")
		}
	}
	_ = c.Close()
	if _, err := c.Read(make([]byte, 1)); err != io.EOF {
		t.Error(err)
	}
	if _, err := c.Write([]byte("x")); err != io.ErrClosedPipe {
		t.Error(err)
	}
	if len(e.in.gone) != 1 || c.(interface{ Diagnose() string }).Diagnose() != "stopped by bobbin" {
		t.Error(e.in.gone)
	}
	l.Command = "absent"
	if _, err = d.Launch(t.Context(), l); schemas.CodeOf(err) != schemas.CodeMissing || !strings.Contains(err.Error(), "was not found") {
		t.Error(err)
	}
	for _, cwd := range []string{"..", "/etc", "/workspace/../etc", "/workspacex"} {
		l.Cwd = cwd
		if _, err := d.Launch(t.Context(), l); schemas.CodeOf(err) != schemas.CodeInvalid {
			t.Errorf("%q: %v", cwd, err)
		}
	}
}

func TestDocker_FakeExec(t *testing.T) {
	_, d, _ := openFake(t, nil)
	var lines []string
	x := schemas.Exec{Thread: "t1", Member: "alice", Args: []string{"talk"}, Env: map[string]schemas.Secret{"KEY": schemas.NewSecret("hunter2-hunter2")}, Output: func(l string) { lines = append(lines, l) }}
	got, err := d.Exec(t.Context(), x)
	if err != nil || got.Code != 3 || got.Stdout != "one\ntwo ***\n" || got.Stderr != "red\n" || got.Cut {
		t.Errorf("%+v, %v", got, err)
	}
	if strings.Join(lines, "|") != "one|red|two ***" {
		t.Error(lines)
	}
	x.Args = []string{"flood"}
	if got, err = d.Exec(t.Context(), x); err != nil || !got.Cut || len(got.Stdout) != 1<<20 {
		t.Errorf("%d bytes, %v", len(got.Stdout), err)
	}
	x.Args = []string{"torn"}
	if _, err = d.Exec(t.Context(), x); schemas.CodeOf(err) != schemas.CodeUnknown {
		t.Error(err)
	}
}
