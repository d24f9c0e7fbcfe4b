package operator_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"bobbin/operator"
	"bobbin/schemas"
)

const two = one + `  - name: b
    base_image: ` + testImage + `
    allow: ["session:other"]
  - name: c
    base_image: ` + testImage + `
  - name: far
    type: remote
    url: https://mcp.example.com/sse
    headers:
      Authorization: Bearer ` + canary + `
`

func (y *yard) session(w operator.Wanted) operator.Session {
	y.t.Helper()
	s, err := y.Create(y.t.Context(), w, nil)
	y.must(err)
	return s
}

func TestSession(t *testing.T) { // D04, D06, D29, D31, D35, D50 to D54, D56
	y := newYard(t, two)
	var steps []string
	s, err := y.Create(t.Context(), operator.Wanted{Name: "s1", Image: boxImage, Servers: []string{"a", "far", "nobody", "b", "a"}, Command: []string{"sleep", "600"}}, func(step string) { steps = append(steps, step) })
	y.must(err)
	if !slices.Equal(s.Servers, []string{"a", "far"}) || s.State != "running" || s.Container != y.prefix+"_session_s1" {
		t.Errorf("%+v", s)
	}
	if got := strings.Join(s.Notes, "\n"); got != "MCP server 'nobody' not found, skipped\nMCP server 'b' does not allow this session, skipped" {
		t.Errorf("notes %q", got)
	}
	if !slices.Contains(steps, "Ensuring MCP server 'a' is running...") || y.status("a").State != "running" {
		t.Errorf("steps %v", steps)
	}
	if want := []string{y.prefix + "-mcp-a-network", y.prefix + "-session-s1-network"}; !slices.Equal(s.Networks, want) {
		t.Errorf("networks %v", s.Networks)
	}
	if got := y.status("a").Sessions; !slices.Equal(got, []string{"s1"}) {
		t.Errorf("sessions of a: %v", got)
	}
	env := map[string]string{}
	vars, err := y.SessionEnv(t.Context(), "s1")
	y.must(err)
	seen := ""
	until(t, "the driver runs", 10*time.Second, func() bool {
		seen = y.docker("exec", s.Container, "python3", "-c", `
import glob
for p in glob.glob("/proc/[0-9]*/cmdline"):
    if open(p, "rb").read() == b"sleep\x00600\x00": print(open(p.replace("cmdline", "environ"), "rb").read().decode().replace("\0", "\n"))`)
		return seen != ""
	})
	for _, v := range vars {
		env[v.Name] = v.Value.Reveal()
		if !strings.Contains(seen, v.Name+"="+v.Value.Reveal()) {
			t.Errorf("the driver does not have %s=%s:\n%s", v.Name, v.Value.Reveal(), seen)
		}
		if strings.Contains(v.Value.Reveal(), canary) && !v.Secret {
			t.Errorf("%s is not secret", v.Name)
		}
	}
	token := strings.TrimPrefix(env["MCP_0_HEADER_AUTHORIZATION"], "Bearer ")
	for name, want := range map[string]string{
		"MCP_COUNT": "2", "MCP_NAMES": `["a","far"]`,
		"MCP_0_NAME": "a", "MCP_0_TYPE": "proxy", "MCP_0_HOST": "a", "MCP_0_PORT": "8080", "MCP_0_URL": "http://a:8080/sse", "MCP_0_HTTP_URL": "http://a:8080/mcp",
		"MCP_0_HEADERS": `{"Authorization":"Bearer ` + token + `"}`,
		"MCP_1_NAME":    "far", "MCP_1_TYPE": "remote", "MCP_1_HOST": "mcp.example.com", "MCP_1_PORT": "443", "MCP_1_URL": "https://mcp.example.com/sse", "MCP_1_HTTP_URL": "",
		"MCP_1_HEADERS": `{"Authorization":"Bearer ` + canary + `"}`,
	} {
		if env[name] != want {
			t.Errorf("%s is %q, not %q", name, env[name], want)
		}
	}
	reach := func(path, token string) string {
		return y.docker("exec", s.Container, "python3", "-c", `
import urllib.request, sys
r = urllib.request.Request("http://a:8080`+path+`", headers={"Authorization": "Bearer `+token+`", "Accept": "text/event-stream"})
try: a = urllib.request.urlopen(r, timeout=5); print(a.status, a.headers["content-type"])
except urllib.error.HTTPError as e: print(e.code)`)
	}
	if got := reach("/sse", token); got != "200 text/event-stream" { // D48
		t.Errorf("/sse by name: %s", got)
	}
	if got := reach("/sse", "other"); got != "401" {
		t.Errorf("without the token: %s", got)
	}
	for _, path := range []string{"/servers", "/servers/main", "/exec"} { // a session uses a server, and does not get at what it runs with
		if got := reach(path, token); got != "404" {
			t.Errorf("%s: %s", path, got)
		}
	}
	file := y.docker("exec", s.Container, "cat", "/run/bobbin/mcp.json")
	var config struct {
		Servers map[string]struct {
			Type, URL string
			Headers   map[string]string
		} `json:"mcpServers"`
	}
	y.must(json.Unmarshal([]byte(file), &config))
	if c := config.Servers["a"]; c.Type != "http" || c.URL != "http://a:8080/mcp" || c.Headers["Authorization"] != "${MCP_0_HEADER_AUTHORIZATION}" {
		t.Errorf("client file %s", file)
	}
	if c := config.Servers["far"]; c.Type != "sse" || c.Headers["Authorization"] != "${MCP_1_HEADER_AUTHORIZATION}" {
		t.Errorf("client file %s", file)
	}
	if meta := y.docker("inspect", s.Container); strings.Contains(meta, canary) || strings.Contains(meta, token) {
		t.Error("a credential stands in the engine's metadata")
	}
	other := y.session(operator.Wanted{Name: "other", Image: boxImage, Servers: []string{"b"}, Command: []string{"sleep", "600"}})
	if len(other.Notes) > 0 || slices.Contains(other.Networks, y.prefix+"-mcp-a-network") {
		t.Errorf("%+v", other)
	}
	before := y.status("a").ID
	if _, err := y.Restart(t.Context(), "a", nil); err != nil {
		t.Error(err)
	}
	if y.status("a").ID == before || reach("/sse", token) != "200 text/event-stream" {
		t.Error("after a restart of the server its session has lost it")
	}
	y.must(y.StopSession(t.Context(), "s1"))
	if st := y.status("a"); st.State != "running" {
		t.Errorf("with the session ended %+v", st)
	}
	if err := y.StopSession(t.Context(), "s1"); err == nil || !strings.Contains(err.Error(), "session 's1' not found") {
		t.Error(err)
	}
	if all, err := y.Sessions(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("%+v %v", all, err)
	}
	if nets := y.docker("network", "ls", "--format", "{{.Name}}"); strings.Contains(nets, y.prefix+"-session-s1-network") {
		t.Error("its network stays")
	}
}

func TestSession_Ends(t *testing.T) {
	y := newYard(t, "mcps:\n")
	s := y.session(operator.Wanted{Name: "x", Image: boxImage, Command: []string{"sh", "-c", "echo count $MCP_COUNT; exit 4"}})
	until(t, "its end", 10*time.Second, func() bool {
		all, err := y.Sessions(t.Context())
		return err == nil && all[0].State == "ended"
	})
	var b strings.Builder
	y.must(y.SessionLogs(t.Context(), "x", operator.LogOptions{}, &b))
	if !strings.Contains(b.String(), "count 0") || s.Name != "x" {
		t.Errorf("logs %q", b.String())
	}
	if _, err := y.Create(t.Context(), operator.Wanted{Name: "y", Image: boxImage, Command: []string{"/no/such"}}, nil); err != nil && !strings.Contains(err.Error(), "container ended") {
		t.Error(err)
	}
}

func TestClient_SharedAndWoken(t *testing.T) { // D05, D06: one container for all; the first request starts it
	y := newYard(t, one)
	pids := make([]string, 2)
	var all sync.WaitGroup
	for i := range pids {
		all.Go(func() { pids[i] = y.call("a", "pid", nil) })
	}
	all.Wait()
	if pids[0] != pids[1] || pids[0] == "" {
		t.Errorf("pids %v", pids)
	}
	if n := len(strings.Fields(y.docker("ps", "-q", "--filter", "name="+y.prefix+"_mcp_a"))); n != 1 {
		t.Errorf("%d containers", n)
	}
}

func TestClient_Remote(t *testing.T) { // D03, D13, D27: the headers are sent, to that origin alone
	var mu sync.Mutex
	var got []string
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, r.URL.Path+" "+r.Header.Get("Authorization"))
	}))
	defer srv.Close()
	d := open(t, "mcps:\n  - name: far\n    type: remote\n    url: "+srv.URL+"/mcp\n    headers:\n      Authorization: Bearer "+canary+"\n")
	d.must(d.Seal(t.Context()))
	if strings.Contains(d.text(), canary) {
		t.Error("not sealed")
	}
	for _, path := range []string{"/mcp", "/sse"} {
		r, err := d.Client("far").Get(srv.URL + path)
		d.must(err)
		_ = r.Body.Close()
	}
	if want := []string{"/mcp Bearer " + canary, "/sse Bearer " + canary}; !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	f := d.load()
	far, _ := f.Find("far")
	d.must(d.Probe(t.Context(), "far"))
	if e := d.Endpoint(far); e.Type != schemas.HTTP || e.URL != srv.URL+"/mcp" {
		t.Errorf("%+v", e)
	}
	if _, err := d.Client("far").Get("http://127.0.0.2:1/mcp"); err == nil || !strings.Contains(err.Error(), "leads to another host") {
		t.Error(err)
	}
}

func TestProbe(t *testing.T) { // a server for older clients alone, whose path does not say so
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.Header.Get("Authorization") != canary {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
	}))
	defer srv.Close()
	d := open(t, "mcps:\n  - name: far\n    type: remote\n    url: "+srv.URL+"/events\n    headers: {Authorization: "+canary+"}\n  - name: plain\n    type: remote\n    url: https://mcp.example.com/v1/sse?x=/y\n")
	f := d.load()
	far, _ := f.Find("far")
	if e := d.Endpoint(far); e.Type != schemas.HTTP {
		t.Errorf("before: %+v", e)
	}
	d.must(d.Probe(t.Context(), "far"))
	if e := d.Endpoint(far); e.Type != schemas.SSE {
		t.Errorf("%+v", e)
	}
	far.URL += "/other" // another URL is not known
	if e := d.Endpoint(far); e.Type != schemas.HTTP {
		t.Errorf("%+v", e)
	}
	plain, _ := f.Find("plain")
	if e := d.Endpoint(plain); e.Type != schemas.SSE {
		t.Errorf("%+v", e)
	}
}

func TestRun_StartsAgain(t *testing.T) { // D58
	y := newYard(t, one)
	st := y.start("a")
	ctx, cancel := context.WithCancel(t.Context())
	changes := make(chan struct{}, 100)
	done := make(chan error, 1)
	go func() { done <- y.Run(ctx, func() { changes <- struct{}{} }) }()
	defer func() {
		cancel()
		y.must(<-done)
	}()
	name := y.prefix + "_mcp_a"
	began := time.Now()
	y.docker("kill", name)
	until(t, "it is back", 10*time.Second, func() bool {
		now, err := y.Status(t.Context(), "a")
		return err == nil && now.State == "running"
	})
	t.Logf("back after %s", time.Since(began).Round(time.Millisecond))
	if y.status("a").ID == st.ID {
		t.Log("the same container")
	}
	_, _ = call(y.Client("a"), "http://a:8080/mcp", "crash", nil)
	until(t, "the program is back", 10*time.Second, func() bool {
		pid, err := call(y.Client("a"), "http://a:8080/mcp", "pid", nil)
		return err == nil && pid != ""
	})
	y.must(put(t.Context(), y.Operator, operator.Server{Name: "z", BaseImage: "z"}))
	select {
	case <-changes:
	case <-time.After(10 * time.Second):
		t.Error("nobody heard of the change")
	}
	y.must(y.Stop(t.Context(), "a"))
	time.Sleep(5 * time.Second) // two looks
	if st := y.status("a"); st.State != "not_found" {
		t.Errorf("stopped, and it came back: %+v", st)
	}
}

func TestRun_GivesUp(t *testing.T) { // D58: five times, and not for ever
	y := newYard(t, one)
	y.start("a")
	y.Hasten(50*time.Millisecond, time.Millisecond)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- y.Run(ctx, func() {}) }()
	defer func() {
		cancel()
		y.must(<-done)
	}()
	name, kills := y.prefix+"_mcp_a", 0
	until(t, "it is left alone", time.Minute, func() bool {
		st, err := y.Status(t.Context(), "a")
		if err == nil && st.State == "running" {
			kills++
			_ = exec.Command("docker", "-H", engineOf(), "kill", name).Run()
		}
		return err == nil && st.State == "failed"
	})
	if st := y.status("a"); !strings.Contains(st.Why, "it ended 6 times in a row") || st.Hint == "" || kills < 6 {
		t.Errorf("after %d: %+v", kills, st)
	}
	if st := y.start("a"); st.State != "running" { // a person's start begins anew
		t.Errorf("%+v", st)
	}
}

func TestRun_KilledStart(t *testing.T) { // a bobbin was killed before it had told the proxy what to run
	y := newYard(t, one)
	st := y.start("a")
	r, err := http.NewRequest(http.MethodDelete, "http://a/servers/main", nil)
	y.must(err)
	resp, err := y.Client("a").Do(r)
	y.must(err)
	_ = resp.Body.Close()
	file := filepath.Join(y.dir, "operator", "servers", "a", "state.json")
	b, err := os.ReadFile(file)
	y.must(err)
	y.must(os.WriteFile(file, []byte(strings.Replace(string(b), `"running"`, `"starting"`, 1)), 0o600))
	if st := y.status("a"); st.State != "failed" || !strings.Contains(st.Hint, "bobbin mcp start a") {
		t.Errorf("%+v", st)
	}
	y.Hasten(50*time.Millisecond, time.Millisecond)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- y.Run(ctx, func() {}) }()
	until(t, "it works again", 10*time.Second, func() bool { now, err := y.Status(t.Context(), "a"); return err == nil && now.State == "running" })
	cancel()
	y.must(<-done)
	if now := y.status("a"); now.ID != st.ID {
		t.Error("it is another container")
	}
}
