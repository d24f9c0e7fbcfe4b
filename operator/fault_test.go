package operator_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"bobbin/operator"
	"bobbin/schemas"
)

// running looks after the servers until the test ends.
func (y *yard) running() {
	y.t.Helper()
	y.Hasten(50*time.Millisecond, time.Millisecond)
	ctx, cancel := context.WithCancel(y.t.Context())
	done := make(chan error, 1)
	go func() { done <- y.Run(ctx, func() {}) }()
	y.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			y.t.Error(err)
		}
	})
}

func TestLost_Container(t *testing.T) { // docker rm -f: who calls it, or bobbin serve, brings it back; after bobbin mcp stop nobody does
	y := newYard(t, one)
	name := y.prefix + "_mcp_a"
	y.start("a")
	y.docker("rm", "-f", name)
	if pid := y.call("a", "pid", nil); pid == "" {
		t.Error("no answer")
	}
	y.running()
	y.docker("rm", "-f", name)
	until(t, "it is back", 10*time.Second, func() bool { st, err := y.Status(t.Context(), "a"); return err == nil && st.State == "running" })
	y.must(y.Stop(t.Context(), "a"))
	time.Sleep(500 * time.Millisecond) // ten looks
	if st := y.status("a"); st.State != "not_found" {
		t.Errorf("stopped, and it came back: %+v", st)
	}
}

func TestLost_Network(t *testing.T) { // a start puts the container on its network again, and its sessions
	y := newYard(t, one)
	st := y.start("a")
	s := y.session(operator.Wanted{Name: "s1", Image: boxImage, Servers: []string{"a"}, Command: []string{"sleep", "600"}})
	net := y.prefix + "-mcp-a-network"
	y.docker("network", "disconnect", "-f", net, st.Container)
	y.docker("network", "disconnect", "-f", net, s.Container)
	y.docker("network", "rm", net)
	if pid := y.call("a", "pid", nil); pid == "" {
		t.Error("threads do not need it, and there is no answer")
	}
	if again := y.start("a"); again.ID != st.ID {
		t.Error("another container")
	}
	if got := y.docker("exec", s.Container, "python3", "-c", "import socket; socket.create_connection(('a', 8080), 3); print('reached')"); got != "reached" {
		t.Error(got)
	}
	y.must(y.Remove(t.Context(), "a"))
	y.must(y.StopSession(t.Context(), "s1"))
	if nets := y.docker("network", "ls", "--format", "{{.Name}}"); strings.Contains(nets, net) {
		t.Error("the network of a removed server stays")
	}
}

func TestForeignContainer(t *testing.T) { // one of the same name that bobbin did not make is said, and left alone
	y := newYard(t, one)
	name := y.prefix + "_mcp_a"
	y.docker("create", "--name", name, boxImage, "true")
	defer y.docker("rm", name)
	_, err := y.Start(t.Context(), "a", nil)
	if schemas.CodeOf(err) != schemas.CodeConflict || !strings.Contains(err.Error(), name+" that is not of this data folder") {
		t.Error(err)
	}
	y.must(y.Stop(t.Context(), "a"))
	session := y.prefix + "_session_s1"
	y.docker("create", "--name", session, "--label", "bobbin.role=session", "--label", "bobbin.instance="+y.ours()["bobbin.instance"], boxImage, "true")
	_, err = y.Create(t.Context(), operator.Wanted{Name: "s1", Image: boxImage, Command: []string{"true"}}, nil)
	if schemas.CodeOf(err) != schemas.CodeConflict || !strings.Contains(err.Error(), "another bobbin has just made the container "+session) {
		t.Error(err)
	}
	for _, c := range []string{name, session} {
		if y.docker("inspect", "-f", "{{.State.Status}}", c) != "created" {
			t.Error(c + " was touched")
		}
	}
}

func TestStart_WrongKeepsTheOld(t *testing.T) { // what runs goes on when its new definition cannot be started
	y := newYard(t, one)
	st := y.start("a")
	good := y.text()
	y.write(strings.Replace(good, "base_image: "+testImage, "base_image: 127.0.0.1:1/none", 1))
	for range 2 {
		if _, err := y.Start(t.Context(), "a", nil); err == nil || !strings.Contains(err.Error(), "cannot be pulled") || !strings.Contains(err.Error(), "; what ran before runs on") {
			t.Error(err)
		}
	}
	if now := y.status("a"); now.State != "running" || now.ID != st.ID || !now.Stale {
		t.Errorf("%+v", now)
	}
	if pid := y.call("a", "pid", nil); pid == "" {
		t.Error("no answer")
	}
	y.write(good)
	if now := y.start("a"); now.ID != st.ID || now.Stale {
		t.Errorf("%+v", now)
	}
}

func TestUpgrade_Wrong(t *testing.T) { // a version that does not work: the one before runs again
	y := newYard(t, "mcps:\n")
	image := y.prefix + "-image"
	build := func(text string) {
		c := exec.Command("docker", "-H", engineOf(), "build", "-q", "-t", image, "-")
		c.Stdin = strings.NewReader("FROM " + testImage + "\n" + text)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	build("LABEL v=1\n")
	t.Cleanup(func() { y.docker("rmi", "-f", image) })
	y.must(put(t.Context(), y.Operator, operator.Server{Name: "a", BaseImage: image}))
	st := y.start("a")
	build("CMD [\"fail\"]\n")
	u, err := y.Newer(t.Context(), "a", func(string) {})
	y.must(err)
	_, err = y.Apply(t.Context(), u, nil)
	if err == nil || !strings.Contains(err.Error(), "I cannot work; the version before runs again") {
		t.Error(err)
	}
	if now := y.status("a"); now.State != "running" || now.Digest != st.Digest || now.Stale {
		t.Errorf("%+v", now)
	}
	if _, err := y.Rollback(t.Context(), "a", nil); schemas.CodeOf(err) != schemas.CodeNotFound {
		t.Errorf("there is nothing to go back to: %v", err)
	}
}

// TestKilled: bobbin mcp is killed at any moment; the next start makes one server of what it left.
func TestKilled(t *testing.T) {
	y := newYard(t, one+"  - name: b\n    base_image: "+testImage+"\n")
	y.must(y.Seal(t.Context())) // the processes have another vault
	y.write(strings.Replace(y.text(), `"${input:A_TOKEN}"`, "none", 1))
	for i, command := range []string{"start", "restart", "restart", "stop", "start", "restart", "restart", "stop", "restart", "restart"} {
		c := exec.Command(binary, "--data", y.dir, "mcp", command, "a")
		c.Env = append(os.Environ(), "DOCKER_HOST="+engineOf())
		y.must(c.Start())
		wait := time.Duration(rand.IntN(900)) * time.Millisecond
		time.Sleep(wait)
		_ = c.Process.Kill()
		_ = c.Wait()
		if i%3 != 0 {
			continue // several in a row
		}
		if st := y.start("a"); st.State != "running" {
			t.Fatalf("%s, killed after %s: %+v", command, wait, st)
		}
		if pid := y.call("a", "pid", nil); pid == "" {
			t.Error("no answer")
		}
		if n := len(strings.Fields(y.docker("ps", "-aq", "--filter", "name="+y.prefix+"_mcp_a"))); n != 1 {
			t.Errorf("%d containers", n)
		}
		folder := filepath.Join(y.dir, "operator", "servers", "a", "run")
		info, err := os.Stat(folder)
		y.must(err)
		if _, err := os.Stat(filepath.Join(folder, "token")); err == nil || info.Mode().Perm() != 0o755 {
			t.Errorf("the folder is open to what runs inside: %v", info.Mode())
		}
	}
	y.start("a")
	y.only("at last", y.prefix+"-mcp-a-network")
	y.only("at last", y.prefix+"-mcp-network")
}

func TestStart_Twice(t *testing.T) { // two processes at once: one container, both say that it runs
	y := newYard(t, "mcps:\n  - name: a\n    base_image: "+testImage+"\n")
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			c := exec.Command(binary, "--data", y.dir, "mcp", "start", "a")
			c.Env = append(os.Environ(), "DOCKER_HOST="+engineOf())
			if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "a is running · 5 tools") {
				t.Errorf("%v %s", err, out)
			}
		})
	}
	all.Wait()
	if n := len(strings.Fields(y.docker("ps", "-aq", "--filter", "name="+y.prefix+"_mcp_a"))); n != 1 {
		t.Errorf("%d containers", n)
	}
}

// gate is a way to the engine that can be shut.
type gate struct {
	t    *testing.T
	path string
	l    net.Listener
	mu   sync.Mutex
	open []net.Conn
}

func (g *gate) up() {
	g.t.Helper()
	l, err := net.Listen("unix", g.path)
	if err != nil {
		g.t.Fatal(err)
	}
	g.l = l
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("unix", strings.TrimPrefix(engineOf(), "unix://"))
			if err != nil {
				_ = in.Close()
				continue
			}
			g.mu.Lock()
			g.open = append(g.open, in, out)
			g.mu.Unlock()
			go func() { _, _ = io.Copy(out, in); _ = out.Close() }()
			go func() { _, _ = io.Copy(in, out); _ = in.Close() }()
		}
	}()
}

func (g *gate) down() {
	_ = g.l.Close()
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.open {
		_ = c.Close()
	}
	g.open = nil
}

func TestEngine_Restarts(t *testing.T) { // it goes away, and comes back with its containers ended
	y := newYard(t, one)
	g := &gate{t: t, path: filepath.Join(t.TempDir(), "engine.sock")}
	g.up()
	defer g.down()
	o, err := operator.New(operator.Options{Data: y.data(), Secrets: y.safe, Engine: "unix://" + g.path, Binary: binary})
	y.must(err)
	defer o.Close() //nolint:errcheck // a client of the engine
	_, err = o.Start(t.Context(), "a", nil)
	y.must(err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	o.Hasten(50*time.Millisecond, time.Millisecond)
	go func() { done <- o.Run(ctx, func() {}) }()
	defer func() { cancel(); y.must(<-done) }()

	g.down()
	y.docker("kill", y.prefix+"_mcp_a")
	list, err := o.List(t.Context())
	if err != nil || list[0].State != "unknown" || !strings.Contains(list[0].Why, "the container engine does not answer") {
		t.Errorf("%+v %v", list, err)
	}
	if _, err := o.Start(t.Context(), "a", nil); schemas.CodeOf(err) != schemas.CodeMissing || !strings.Contains(err.Error(), "the container engine does not answer") {
		t.Error(err)
	}
	g.up()
	until(t, "it is back", 15*time.Second, func() bool { st, err := y.Status(t.Context(), "a"); return err == nil && st.State == "running" })
	if pid := y.call("a", "pid", nil); pid == "" {
		t.Error("no answer")
	}
}

func TestFlood(t *testing.T) { // a server that prints without an end is held off, and others are not
	y := newYard(t, one+"  - name: loud\n    base_image: "+testImage+"\n    command: flood\n  - name: rubbish\n    base_image: "+testImage+"\n    command: rubbish\n")
	y.start("a")
	for _, name := range []string{"loud", "rubbish"} {
		began := time.Now()
		_, err := y.Start(t.Context(), name, nil)
		t.Logf("%s: %v after %s", name, err, time.Since(began).Round(time.Millisecond))
		if name == "rubbish" && err == nil {
			t.Error("it speaks no MCP, and was started")
		}
	}
	if pid := y.call("a", "pid", nil); pid == "" {
		t.Error("no answer")
	}
	var b bytes.Buffer
	y.must(y.Logs(t.Context(), "loud", operator.LogOptions{Tail: 50}, &b))
	if n := strings.Count(b.String(), "\n"); n != 50 {
		t.Errorf("%d lines", n)
	}
}

func TestMany(t *testing.T) { // twenty servers at once, on as many networks
	var text strings.Builder
	text.WriteString("mcps:\n")
	const n = 20
	for i := range n {
		fmt.Fprintf(&text, "  - name: s%d\n    base_image: %s\n", i, testImage)
	}
	y := newYard(t, text.String())
	began := time.Now()
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if _, err := y.Start(t.Context(), fmt.Sprint("s", i), nil); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	t.Logf("%d started in %s", n, time.Since(began).Round(time.Millisecond))
	began = time.Now()
	list, err := y.List(t.Context())
	y.must(err)
	t.Logf("listed in %s", time.Since(began).Round(time.Millisecond))
	for _, st := range list {
		if st.State != "running" {
			t.Errorf("%s is %s: %s", st.Name, st.State, st.Why)
		}
	}
}
