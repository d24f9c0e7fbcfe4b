//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// fetch makes one request and gives status and body.
func fetch(t *testing.T, c *http.Client, method, address, token, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// watched follows a stream of the inspector and gives a function that waits for messages until one matches.
func watched(t *testing.T, c *http.Client, address, token string) func(pattern string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = res.Body.Close() })
	lines := bufio.NewReader(res.Body)
	stop := time.AfterFunc(time.Minute, cancel)
	t.Cleanup(func() { stop.Stop() })
	all := ""
	until := func(pattern string) string {
		t.Helper()
		re := regexp.MustCompile(pattern)
		for !re.MatchString(all) {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatalf("no %s in\n%s\n%v", pattern, all, err)
			}
			all += line
		}
		return all
	}
	until("event: watching")
	return until
}

// TestInspect_Thread: beside the page, behind its link, the thread's servers, a call by form and both of its messages, without a secret.
func TestInspect_Thread(t *testing.T) {
	linuxOnly(t)
	page := serve(t, t.TempDir())
	room := page.open(t, "web-inspected")
	const secret = "ghp_1234567890abcdefghij1234567890abcdef"
	demo := fake(filepath.Join(t.TempDir(), "pids"))
	demo["env"] = map[string]string{"GITHUB_TOKEN": secret}
	room.say("/mcp add-json " + config(t, map[string]any{"demo": demo}))
	room.choose("Confirm")
	if status, _ := fetch(t, http.DefaultClient, "GET", page.base+"/inspect?thread=web-inspected", "", ""); status != http.StatusUnauthorized {
		t.Errorf("without the link: %d", status)
	}
	for path, want := range map[string]string{
		"/inspect?thread=web-inspected":             `data-thread="web-inspected"`,
		"/inspect/api/servers?thread=web-inspected": `"name":"demo"[^}]*"state":"ready"`,
		"/inspect/api/tools?thread=web-inspected":   `"full":"demo.echo"`,
	} {
		if status, text := fetch(t, page.client, "GET", page.base+path, "", ""); status != 200 || !matches(want, text) {
			t.Errorf("%s: %d %s", path, status, clip(text))
		}
	}
	until := watched(t, page.client, page.base+"/inspect/api/events?thread=web-inspected&server=demo", "")
	status, text := fetch(t, page.client, "POST", page.base+"/inspect/api/call?thread=web-inspected", "", `{"server":"demo","tool":"echo","args":{"message":"`+secret+`"}}`)
	if status != 200 || !strings.Contains(text, `Echo: ***`) {
		t.Errorf("%d %s", status, text)
	}
	all := until(`"kind":"answer","method":"tools/call"[^\n]*"ms":[0-9.]+`)
	if strings.Contains(all, secret) || !matches(`"sent":true,"kind":"request","method":"tools/call"`, all) {
		t.Errorf("messages: %s", all)
	}
	shows(t, "the audit log", room.say("/mcp audit 20"), "watches its messages|inspect")
}

// TestInspect_Operator: D20 to D24, D36 to D38, D41 to D43 with a remote server, so that no engine is needed.
func TestInspect_Operator(t *testing.T) {
	linuxOnly(t)
	at, _ := startProxy(t, "--", "fakemcp")
	data := t.TempDir()
	yaml := "mcps:\n  - name: far\n    type: remote\n    url: " + at + "/mcp\n  - name: github\n    type: proxy\n    base_image: no/image\n"
	if err := os.WriteFile(filepath.Join(data, "mcps.yaml"), []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	client, server := freePort(t), freePort(t)
	run := func(args ...string) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, "bobbin", append([]string{"--data", data, "mcp", "inspector"}, args...)...)
		cmd.Env = append(os.Environ(), "DOCKER_HOST=unix:///no/engine", "GORACE=atexit_sleep_ms=0")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	ports := []string{"--client-port", client, "--server-port", server}
	if out, err := run("--stop"); err != nil || out != "No running MCP Inspector instances found\n" {
		t.Fatalf("%q %v", out, err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:"+server)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := run(ports...); err == nil || !strings.Contains(out, "port "+server) || !strings.Contains(out, "in use") {
		t.Errorf("busy: %q %v", out, err)
	}
	_ = l.Close()

	out, err := run(append(ports, "--detach")...)
	if err != nil {
		t.Fatal(out, err)
	}
	t.Cleanup(func() { _, _ = run("--stop") })
	shows(t, "what it says", out, "http://127.0.0.1:"+client, "http://127.0.0.1:"+server, "- github: http://github:8080/sse", "- far: "+at+"/mcp")
	token := regexp.MustCompile(`token=(\S+)`).FindStringSubmatch(out)[1]
	page, api := "http://127.0.0.1:"+client, "http://127.0.0.1:"+server

	if status, text := fetch(t, http.DefaultClient, "GET", page, "", ""); status != 200 || strings.Contains(text, "github") {
		t.Errorf("the page without its link: %d %s", status, text)
	}
	for _, path := range []string{"/", "/api/servers", "/api/tools", "/healthz"} {
		if status, _ := fetch(t, http.DefaultClient, "GET", api+path, "", ""); status != 401 {
			t.Errorf("%s without the token: %d", path, status)
		}
	}
	status, text := fetch(t, http.DefaultClient, "GET", api+"/api/tools", token, "")
	if status != 200 || !strings.Contains(text, `"full":"far.echo"`) {
		t.Fatalf("%d %s", status, clip(text))
	}
	if _, text = fetch(t, http.DefaultClient, "GET", api+"/api/servers", token, ""); !matches(`"name":"far"[^}]*"state":"ready".*"name":"github"[^}]*"state":"failed"`, text) {
		t.Error(text)
	}
	until := watched(t, http.DefaultClient, api+"/api/events?server=far", token)
	status, text = fetch(t, http.DefaultClient, "POST", api+"/api/call", token, `{"server":"far","tool":"execute_command","args":{"command":"ls"}}`)
	if status != 200 || !strings.Contains(text, "done") {
		t.Errorf("what is the operator's own is not denied to them: %d %s", status, text)
	}
	until(`"kind":"answer","method":"tools/call"`)
	log, err := os.ReadFile(filepath.Join(data, "inspector", "operator", "audit.jsonl"))
	if err != nil || !strings.Contains(string(log), `"tool":"execute_command"`) {
		t.Errorf("no record: %v", err)
	}

	if out, err := run(append(ports, "--json")...); err == nil {
		t.Errorf("a second one: %s", out)
	}
	if out, err := run("--stop"); err != nil || out != "MCP Inspector stopped\n" {
		t.Errorf("%q %v", out, err)
	}
	if out, err := run("--stop"); err != nil || out != "No running MCP Inspector instances found\n" {
		t.Errorf("%q %v", out, err)
	}
	out, err = run("--stop", "--json")
	var said struct{ Stopped bool }
	if err != nil || json.Unmarshal([]byte(out), &said) != nil || said.Stopped {
		t.Errorf("%q %v", out, err)
	}
}

// TestInspect_Engine: a server in a container is started by looking at it; what it prints is shown, its secret is not, and Restart is of
// the container.
func TestInspect_Engine(t *testing.T) {
	d, prefix := engined(t)
	mcps := "prefix: " + prefix + "\nmcps:\n  - name: a\n    base_image: bobbin-operator-test\n    env:\n      A_TOKEN: " + opCanary + "\n"
	if err := os.WriteFile(filepath.Join(d.data, "mcps.yaml"), []byte(mcps), 0o600); err != nil {
		t.Fatal(err)
	}
	binary, err := static()
	if err != nil {
		t.Fatal(err)
	}
	client, server := freePort(t), freePort(t)
	run := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), binary, append([]string{"--data", d.data, "mcp", "inspector"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v", out, err)
		}
		return string(out)
	}
	out := run("--client-port", client, "--server-port", server, "--detach", "--json")
	t.Cleanup(func() {
		_ = exec.Command(binary, "--data", d.data, "mcp", "inspector", "--stop").Run() // its own context is over
	})
	var said struct {
		Token, API string
		Servers    []string
	}
	if err := json.Unmarshal([]byte(out), &said); err != nil || len(said.Servers) != 1 || said.Servers[0] != "a: http://a:8080/sse" {
		t.Fatalf("%s %v", out, err)
	}
	ask := func(method, path, body string) string {
		t.Helper()
		status, text := fetch(t, http.DefaultClient, method, said.API+path, said.Token, body)
		if status != 200 || strings.Contains(text, opCanary) {
			t.Fatalf("%s: %d %s", path, status, text)
		}
		return text
	}
	if !eventually(2*time.Minute, func() bool { return strings.Contains(ask("GET", "/api/tools", ""), `"full":"a.pid"`) }) { // its container starts
		t.Error("no tools")
	}
	until := watched(t, http.DefaultClient, said.API+"/api/events?server=a", said.Token)
	first := ask("POST", "/api/call", `{"server":"a","tool":"pid","args":{}}`)
	until(`"kind":"answer","method":"tools/call"`)
	shows(t, "a secret that a tool tells", ask("POST", "/api/call", `{"server":"a","tool":"env","args":{"name":"A_TOKEN"}}`), `"text":"\*\*\*"`)
	if !eventually(patience, func() bool { return strings.Contains(ask("GET", "/api/servers", ""), "started as") }) {
		t.Error("what it printed is not shown")
	}
	id := d.docker("ps", "-q", "--filter", "name="+prefix+"_mcp_a")
	ask("POST", "/api/restart", `{"server":"a"}`)
	if now := d.docker("ps", "-q", "--filter", "name="+prefix+"_mcp_a"); now == id {
		t.Errorf("the container is the same: %s", first)
	}
	shows(t, "a call to the new one", ask("POST", "/api/call", `{"server":"a","tool":"pid","args":{}}`), `"type":"text"`)
	if out := run("--stop"); out != "MCP Inspector stopped\n" {
		t.Error(out)
	}
}

// TestInspect_Image: D39, D40 and D42, with an image that serves both ports as mcp/inspector does.
func TestInspect_Image(t *testing.T) {
	d, prefix := engined(t)
	const image = "bobbin-inspector-test"
	build := exec.CommandContext(t.Context(), "docker", "build", "-q", "-t", image, "-")
	build.Stdin = strings.NewReader("FROM " + boxImage + "\nUSER 1000\nCMD [\"node\", \"-e\", \"const h = require('http'); for (const p of [process.env.CLIENT_PORT, process.env.SERVER_PORT]) " +
		"h.createServer((q, s) => s.end(p + ' ' + process.env.HOST)).listen(p, process.env.HOST)\"]\n")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s %v", out, err)
	}
	mcps := "prefix: " + prefix + "\nmcps:\n  - name: a\n    base_image: bobbin-operator-test\n  - name: b\n    base_image: bobbin-operator-test\n"
	if err := os.WriteFile(filepath.Join(d.data, "mcps.yaml"), []byte(mcps), 0o600); err != nil {
		t.Fatal(err)
	}
	client, server := freePort(t), freePort(t)
	d.want(0, "mcp inspector --image "+image+" --detach --client-port "+client+" --server-port "+server, `http://127\.0\.0\.1:`+client, `^- a: http://a:8080/sse$`, `^- b: http://b:8080/sse$`)
	id := d.docker("ps", "-q", "--filter", "name="+prefix+"_mcp_inspector")
	networks := d.docker("inspect", "-f", "{{range $k, $v := .NetworkSettings.Networks}}{{$k}} {{end}}", id)
	for _, want := range []string{prefix + "-mcp-network", prefix + "-mcp-a-network", prefix + "-mcp-b-network"} {
		if !strings.Contains(networks, want) {
			t.Errorf("it is not on %s: %s", want, networks)
		}
	}
	if ports := d.docker("port", id); strings.Contains(ports, "0.0.0.0") || strings.Count(ports, "127.0.0.1") != 2 {
		t.Errorf("published: %s", ports)
	}
	// What the engine of the tests publishes is on a network of its own, so the ports are asked inside.
	for port, want := range map[string]string{"5173": "5173 0.0.0.0", "3000": "3000 0.0.0.0"} {
		text := ""
		if !eventually(patience, func() bool {
			out, _ := exec.CommandContext(t.Context(), "docker", "exec", id, "node", "-e", "fetch('http://127.0.0.1:"+port+"').then(r => r.text()).then(t => process.stdout.write(t))").Output()
			text = string(out)
			return text == want
		}) {
			t.Errorf("port %s answers %q", port, text)
		}
	}
	d.want(0, "mcp inspector --stop", `^MCP Inspector stopped$`)
	if left := d.docker("ps", "-aq", "--filter", "name="+prefix+"_mcp_inspector"); left != "" {
		t.Error("its container stays")
	}
	d.want(0, "mcp inspector --stop", `^No running MCP Inspector instances found$`)
}
