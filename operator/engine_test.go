package operator_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"bobbin/internal/durable"
	"bobbin/operator"
	"bobbin/schemas"
)

const (
	boxImage  = "bobbin-sandbox-test"  // what scripts/sandbox-image builds
	testImage = "bobbin-operator-test" // that with server.py
	canary    = "canary-of-the-operator-4711"
)

func engineOf() string { return os.Getenv("BOBBIN_TEST_ENGINE") }

// binary is the static bobbin for the containers, once it was built.
var binary string

var prepared = sync.OnceValue(func() string {
	host := engineOf()
	if host == "" || exec.Command("docker", "-H", host, "image", "inspect", boxImage).Run() != nil {
		return "a container engine with the image " + boxImage + " (scripts/engine run)"
	}
	if out, err := exec.Command("docker", "-H", host, "build", "-q", "--build-arg", "BASE="+boxImage, "-t", testImage, "testdata/image").CombinedOutput(); err != nil {
		return "the image of the test: " + string(out)
	}
	if binary = os.Getenv("BOBBIN_TEST_BINARY"); binary != "" {
		return ""
	}
	path, err := filepath.Abs("../.tools/bobbin-operator")
	if err != nil {
		return err.Error()
	}
	cmd := exec.Command("go", "build", "-o", path, "../cmd/bobbin")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "bobbin cannot be built: " + string(out)
	}
	binary = path
	return ""
})

// yard is a data folder whose servers run in containers of the engine of the tests.
type yard struct {
	*desk
	prefix string
}

// newYard skips without an engine; in CI there must be one. What it made is removed at the end.
func newYard(t *testing.T, mcps string) *yard {
	t.Helper()
	if why := prepared(); why != "" {
		if os.Getenv("CI") != "" {
			t.Fatal("missing: " + why)
		}
		t.Skip("missing: " + why)
	}
	y := &yard{prefix: "t" + strings.ToLower(rand.Text()[:8])}
	y.desk = open(t, "prefix: "+y.prefix+"\n"+mcps)
	t.Cleanup(func() {
		id, err := os.ReadFile(filepath.Join(y.dir, "operator", "instance"))
		if err != nil {
			t.Error(err)
			return
		}
		label := "label=bobbin.instance=" + durable.Sum(id)[:32]
		for _, c := range strings.Fields(y.docker("ps", "-aq", "--filter", label)) {
			y.docker("rm", "-f", c)
		}
		for _, n := range strings.Fields(y.docker("network", "ls", "-q", "--filter", label)) {
			y.docker("network", "rm", n)
		}
	})
	return y
}

func (y *yard) docker(args ...string) string {
	y.t.Helper()
	var out, errs bytes.Buffer
	c := exec.Command("docker", append([]string{"-H", engineOf()}, args...)...)
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil {
		y.t.Errorf("docker %v: %v\n%s", args, err, errs.String())
	}
	return strings.TrimSpace(out.String())
}

func (y *yard) start(name string) operator.Status {
	y.t.Helper()
	st, err := y.Start(y.t.Context(), name, nil)
	y.must(err)
	return st
}

func (y *yard) status(name string) operator.Status {
	y.t.Helper()
	st, err := y.Status(y.t.Context(), name)
	y.must(err)
	return st
}

// call calls a tool over the way that threads use.
func (y *yard) call(name, tool string, args map[string]any) string {
	y.t.Helper()
	client := y.Client(name)
	text, err := call(client, "http://"+name+":8080/mcp", tool, args)
	if err != nil {
		y.t.Fatalf("%s.%s: %v", name, tool, err)
	}
	return text
}

// call shakes hands over streamable HTTP and calls one tool.
func call(c *http.Client, url, tool string, args map[string]any) (string, error) {
	session := ""
	post := func(body any) (*http.Response, error) {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		r, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(b))
		if err != nil {
			return nil, err
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		if session != "" {
			r.Header.Set("Mcp-Session-Id", session)
		}
		return c.Do(r)
	}
	r, err := post(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": map[string]any{"protocolVersion": "2025-11-25", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "t", "version": "1"}}})
	if err != nil {
		return "", err
	}
	b, _ := io.ReadAll(r.Body)
	_ = r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return "", fmt.Errorf("initialize: %d %s", r.StatusCode, b)
	}
	session = r.Header.Get("Mcp-Session-Id")
	if r, err = post(map[string]any{"jsonrpc": "2.0", "method": "notifications/initialized"}); err != nil {
		return "", err
	}
	_ = r.Body.Close()
	if r, err = post(map[string]any{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": map[string]any{"name": tool, "arguments": args}}); err != nil {
		return "", err
	}
	defer r.Body.Close()
	b, err = io.ReadAll(r.Body)
	if err != nil {
		return "", err
	}
	if _, data, ok := bytes.Cut(b, []byte("data: ")); ok {
		b = bytes.TrimSpace(data)
	}
	var answer struct {
		Result struct{ Content []struct{ Text string } }
		Error  any
	}
	if err := json.Unmarshal(b, &answer); err != nil || len(answer.Result.Content) == 0 {
		return "", fmt.Errorf("%d %s", r.StatusCode, b)
	}
	return answer.Result.Content[0].Text, nil
}

func until(t *testing.T, what string, limit time.Duration, fn func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if fn() {
			return
		}
	}
	t.Fatalf("not within %s: %s", limit, what)
}

const one = `mcps:
  - name: a
    base_image: ` + testImage + `
    env:
      A_TOKEN: ` + canary + `
      PLAIN: words
`

func TestStart_Server(t *testing.T) { // D16, D17, D30, D33, D34, D47, D49, D54
	y := newYard(t, one)
	if st := y.status("a"); st.State != "not_found" {
		t.Errorf("before: %+v", st)
	}
	var steps []string
	st, err := y.Start(t.Context(), "a", func(s string) { steps = append(steps, s) })
	y.must(err)
	if st.State != "running" || st.Tools != 5 || st.Proxy != "bobbin" || st.Configured != "0.0.0.0:8080" || st.Env["A_TOKEN"] != "****" || st.Env["PLAIN"] != "words" || st.Created.IsZero() {
		t.Errorf("%+v", st)
	}
	if strings.Join(steps, " ") != "starting running" {
		t.Errorf("steps %v", steps)
	}
	name := y.prefix + "_mcp_a"
	var c []struct {
		ID              string
		Config          struct{ Env []string }
		NetworkSettings struct {
			Networks map[string]struct{ Aliases []string }
			Ports    map[string][]struct{ HostIp, HostPort string }
		}
		HostConfig struct {
			Binds          []string
			CapDrop        []string
			ReadonlyRootfs bool
		}
		Mounts []struct{ Source string }
	}
	y.must(json.Unmarshal([]byte(y.docker("inspect", name)), &c))
	net := c[0].NetworkSettings.Networks[y.prefix+"-mcp-a-network"]
	if len(c[0].NetworkSettings.Networks) != 1 || !strings.Contains(strings.Join(net.Aliases, " "), "a") {
		t.Errorf("networks %+v", c[0].NetworkSettings.Networks)
	}
	if p := c[0].NetworkSettings.Ports["8080/tcp"]; len(p) != 1 || p[0].HostIp != "127.0.0.1" {
		t.Errorf("ports %+v", c[0].NetworkSettings.Ports)
	}
	for _, m := range c[0].Mounts {
		if strings.Contains(m.Source, "docker.sock") {
			t.Error("the engine's socket is mounted")
		}
	}
	if nets := y.docker("network", "ls", "--format", "{{.Name}} {{.Driver}}"); !strings.Contains(nets, y.prefix+"-mcp-network bridge") {
		t.Errorf("networks:\n%s", nets)
	}
	if got := y.call("a", "env", map[string]any{"name": "A_TOKEN"}); got != canary {
		t.Errorf("the server sees %q", got)
	}
	for what, text := range map[string]string{
		"metadata": y.docker("inspect", name), "history": y.docker("history", "--no-trunc", testImage), "config": y.text(),
		"processes": y.docker("top", name, "-eo", "pid,args"),
	} {
		if strings.Contains(text, canary) {
			t.Errorf("a value stands in the %s", what)
		}
	}
	if again := y.start("a"); again.ID != st.ID {
		t.Error("started twice, it is another container")
	}
	other, err := operator.New(operator.Options{Data: y.data(), Secrets: y.safe, Engine: engineOf(), Binary: binary})
	y.must(err)         // a bobbin after this one
	defer other.Close() //nolint:errcheck // a client of the engine
	if again, err := other.Start(t.Context(), "a", nil); err != nil || again.ID != st.ID {
		t.Errorf("after a restart of bobbin it is another container: %v", err)
	}
	y.write(strings.Replace(y.text(), "PLAIN: words", "PLAIN: other", 1))
	if st := y.status("a"); !st.Stale || st.ID == "" {
		t.Errorf("changed, and not said: %+v", st)
	}
	changed := y.start("a")
	if changed.Stale {
		t.Error("started, and still said to be old")
	}
	if changed.ID == st.ID {
		t.Error("its env changed, and it is the same container")
	}
	if got := y.call("a", "env", map[string]any{"name": "PLAIN"}); got != "other" {
		t.Errorf("env is %q", got)
	}
	y.write(strings.Replace(y.text(), "PLAIN: other", "PLAIN: third", 1))
	if st, err := y.Restart(t.Context(), "a", nil); err != nil || st.State != "running" { // D18
		t.Errorf("%+v %v", st, err)
	}
	if got := y.call("a", "env", map[string]any{"name": "PLAIN"}); got != "third" {
		t.Errorf("env is %q", got)
	}
	y.must(y.Stop(t.Context(), "a"))
	y.must(y.Stop(t.Context(), "a"))
	if st := y.status("a"); st.State != "not_found" || len(y.load().Servers) != 1 {
		t.Errorf("after: %+v", st)
	}
}

func TestStart_Fails(t *testing.T) { // D49: the reason, and no fake
	y := newYard(t, "mcps:\n  - name: gone\n    base_image: 127.0.0.1:1/no-such-image\n  - name: ends\n    base_image: "+testImage+"\n    command: fail\n  - name: nothing\n    base_image: "+boxImage+"\n    command: /no/such/program\n")
	for name, want := range map[string]string{
		"gone": "cannot be pulled", "ends": "exited with 3: Error: I cannot work", "nothing": "no such program",
	} {
		var steps []string
		_, err := y.Start(t.Context(), name, func(s string) { steps = append(steps, s) })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
		if st := y.status(name); st.State != "failed" || !strings.Contains(st.Why, want) || st.Hint == "" {
			t.Errorf("%s: %+v", name, st)
		}
		if name == "gone" && (len(steps) == 0 || steps[0] != "pulling") {
			t.Errorf("steps %v", steps)
		}
	}
	if left := y.docker("ps", "-aq", "--filter", "name="+y.prefix); left != "" {
		t.Errorf("containers stay: %s", left)
	}
}

func TestLogs(t *testing.T) { // D25
	y := newYard(t, one+"  - name: far\n    type: remote\n    url: http://127.0.0.1:1/mcp\n")
	y.start("a")
	var b bytes.Buffer
	until(t, "its words", 5*time.Second, func() bool {
		b.Reset()
		y.must(y.Logs(t.Context(), "a", operator.LogOptions{}, &b))
		return strings.Contains(b.String(), "started as ['plain'] with ***")
	})
	if strings.Contains(b.String(), canary) || !strings.HasPrefix(b.String(), time.Now().UTC().Format("2006-01-02T")) {
		t.Errorf("logs:\n%s", b.String())
	}
	if err := y.Logs(t.Context(), "far", operator.LogOptions{}, &b); err == nil || !strings.Contains(err.Error(), "Remote MCPs don't have local logs") {
		t.Error(err)
	}
}

func TestIsolation(t *testing.T) { // D55
	y := newYard(t, one+"  - name: b\n    base_image: "+testImage+"\n")
	y.start("a")
	y.start("b")
	ip := y.docker("inspect", "-f", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", y.prefix+"_mcp_b")
	if got := y.call("a", "reach", map[string]any{"host": "a", "port": 8080}); got != "reached" {
		t.Fatalf("not even itself: %s", got)
	}
	if got := y.call("a", "reach", map[string]any{"host": "b", "port": 8080}); !strings.HasPrefix(got, "not reached") {
		t.Errorf("by name: %s", got)
	}
	if !y.apart() {
		t.Skip("this engine keeps no networks apart (--iptables=false): not tried by address")
	}
	if got := y.call("a", "reach", map[string]any{"host": ip, "port": 8080}); !strings.HasPrefix(got, "not reached") {
		t.Errorf("by address: %s", got)
	}
}

// apart reports whether the engine's own networks are apart from each other.
func (y *yard) apart() bool {
	y.t.Helper()
	n1, n2 := y.prefix+"-n1", y.prefix+"-n2"
	y.docker("network", "create", n1)
	y.docker("network", "create", n2)
	id := y.docker("run", "-d", "--rm", "--network", n1, "--entrypoint", "python3", boxImage, "-m", "http.server", "8000")
	defer func() {
		y.docker("rm", "-f", id)
		y.docker("network", "rm", n1, n2)
	}()
	ip := y.docker("inspect", "-f", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", id)
	probe := "import socket,time\nfor i in range(20):\n  try: socket.create_connection(('" + ip + "',8000),2); print('reached'); break\n  except ConnectionRefusedError: time.sleep(.1)\n  except OSError: print('apart'); break\n"
	if got := y.docker("run", "--rm", "--network", n1, "--entrypoint", "python3", boxImage, "-c", probe); got != "reached" {
		y.t.Fatalf("the probe does not work: %s", got)
	}
	return y.docker("run", "--rm", "--network", n2, "--entrypoint", "python3", boxImage, "-c", probe) == "apart"
}

func (d *desk) data() *durable.Dir {
	d.t.Helper()
	data, err := durable.Open(d.dir)
	d.must(err)
	return data
}

var _ = schemas.CodeFailed
