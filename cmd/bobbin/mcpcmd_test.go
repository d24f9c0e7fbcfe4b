//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"bobbin/internal/durable"
)

const opCanary = "canary-of-the-command-0815"

// desk runs commands of the operator in a data folder.
type opDesk struct {
	t    *testing.T
	data string
	all  bytes.Buffer // everything that was shown
}

func newDesk(t *testing.T) *opDesk {
	t.Helper()
	t.Setenv("DOCKER_HOST", "unix://"+filepath.Join(t.TempDir(), "none.sock"))
	return &opDesk{t: t, data: t.TempDir()}
}

// run gives what a command says, its errors too, and its exit code.
func (d *opDesk) run(args ...string) (said string, code int) {
	d.t.Helper()
	return d.with("", args...)
}

func (d *opDesk) with(in string, args ...string) (said string, code int) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), 2*time.Minute)
	defer cancel()
	var b bytes.Buffer
	code = NewMain(strings.NewReader(in), &b, &b).Run(ctx, append([]string{"--data", d.data}, args...))
	d.all.Write(b.Bytes())
	return b.String(), code
}

// want runs a command that must end with a code and say what the patterns say.
func (d *opDesk) want(code int, args string, patterns ...string) string {
	d.t.Helper()
	said, got := d.run(strings.Fields(args)...)
	if got != code {
		d.t.Errorf("bobbin %s: exit %d, not %d\n%s", args, got, code, said)
	}
	for _, p := range patterns {
		if !regexp.MustCompile(`(?m)` + p).MatchString(said) {
			d.t.Errorf("bobbin %s does not say %q:\n%s", args, p, said)
		}
	}
	return said
}

func (d *opDesk) file() string {
	d.t.Helper()
	b, err := os.ReadFile(filepath.Join(d.data, "mcps.yaml"))
	if err != nil {
		d.t.Fatal(err)
	}
	return string(b)
}

// canaries fails if the value stands anywhere in the data folder, or was shown.
func (d *opDesk) canaries() {
	d.t.Helper()
	if strings.Contains(d.all.String(), opCanary) {
		d.t.Error("a secret was shown")
	}
	err := filepath.WalkDir(d.data, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if err == nil && bytes.Contains(b, []byte(opCanary)) {
			d.t.Errorf("a secret stands in %s", path)
		}
		return err
	})
	if err != nil {
		d.t.Error(err)
	}
}

func TestMCP_WithoutEngine(t *testing.T) { // D02, D08 to D15, D26 to D28, D30
	d := newDesk(t)
	d.want(0, "mcp list", `^No MCP servers configured$`)
	d.want(0, "mcp add github mcp/github --command github-mcp --sse-port 9000 --sse-host 127.0.0.1 --allow-origin https://app.example.com --env GITHUB_TOKEN="+opCanary+"=x --env LEVEL=a=b --env bad",
		`^added github · start it with: bobbin mcp start github$`, `^Warning: env "bad" is not KEY=VALUE`)
	d.want(0, "mcp add plain mcp/plain")
	d.want(0, "mcp add-remote far https://mcp.example.com/sse --header Authorization="+opCanary)
	if said, code := d.run("mcp", "add-remote", "colon", "https://mcp.example.com/mcp", "--header", "Authorization: Bearer "+opCanary+"==", "--header", opCanary); code != 0 || !strings.Contains(said, "a header is not KEY=VALUE") {
		t.Errorf("%d %s", code, said)
	}
	if !strings.Contains(d.file(), "Authorization: Bearer ${input:Authorization}") {
		t.Error(d.file())
	}
	d.want(0, "mcp remove colon")
	for _, want := range []string{
		"name: github", "type: proxy", "base_image: mcp/github", "command: github-mcp", "sse_port: 9000", "sse_host: 127.0.0.1", "allow_origin: https://app.example.com",
		"GITHUB_TOKEN: ${input:GITHUB_TOKEN}", "LEVEL: a=b", "name: far", "type: remote", "url: https://mcp.example.com/sse", "Authorization: ${input:Authorization}",
	} {
		if !strings.Contains(d.file(), want) {
			t.Errorf("mcps.yaml lacks %q:\n%s", want, d.file())
		}
	}
	d.want(0, "mcp list", `^Name +Type +Status +Ports +Details$`, `^github +proxy +unknown +- +no container engine answers`, `^far +remote +remote +- +https://mcp.example.com/sse$`)
	d.want(1, "mcp status nope", `MCP server 'nope' not found`)
	if said := d.want(0, "mcp status far"); strings.Contains(said, "Bind") {
		t.Error(said)
	}
	d.want(0, "mcp status far", `^Type +remote$`, `^Header +Authorization=\*\*\*\*$`)
	d.want(1, "mcp start github", `no container engine answers at`, `hint: start Docker`)
	d.want(0, "mcp start far", `^far is remote: no action needed$`)
	d.want(1, "mcp logs far", `Remote MCPs don't have local logs`)
	d.want(2, "mcp add onlyname", `mcp add NAME BASE_IMAGE`)
	d.want(2, "mcp add x y --sse-port 0", `1 to 65535`)
	d.want(2, "mcp add x y --sse-port 70000", `1 to 65535`)
	d.want(1, "mcp add -- -x y", `a name has letters`)
	d.want(1, "mcp add-remote x ftp://h/", `url must be an http or https address`)
	d.want(2, "mcp start", `NAME, or --all`)
	d.want(2, "mcp start x --all", `NAME, or --all`)
	d.want(0, "__complete mcp start gi", `^github$`)
	d.want(0, "__complete session create --mcp f", `^far$`)
	var all []struct{ Name, Type, State string }
	said := d.want(0, "mcp list --json")
	if err := json.Unmarshal([]byte(said), &all); err != nil || len(all) != 3 || all[2].State != "remote" {
		t.Errorf("%v\n%s", err, said)
	}
	d.want(0, "session list", `^No sessions$`)
	d.want(0, "session create --name S1 --mcp far --mcp nobody --mcp far", `^Warning: MCP server 'nobody' not found, skipped$`, `^session S1 is a thread · MCP servers: far$`, `^bobbin chat --thread S1$`) // D29
	d.want(0, "session create --name S2 --mcp plain", `^Warning: MCP server 'plain' does not start, skipped: no container engine answers`, `MCP servers: none$`)
	d.want(0, "session list", `^S1 +thread +- +far `)
	d.want(1, "session env S1", `session S1 is a thread, which has no container`, `hint: bobbin chat --thread S1`)
	d.want(1, "session logs S1", `session S1 is a thread`)
	if said := d.chat("S1", "/mcp list"); !regexp.MustCompile(`(?m)^ *far +\w+.*the operator's`).MatchString(said) {
		t.Errorf("the thread lacks its server:\n%s", said)
	}
	d.want(2, "session create --mcp far -- goose", `name its image with --image`)
	d.want(0, "session stop S1", `^session S1 has no MCP servers any more; the thread stays$`)
	d.want(1, "session stop S1")
	d.want(0, "mcp remove github", `^removed github$`)
	d.want(1, "mcp remove github", `MCP server 'github' not found`)
	if strings.Contains(d.file(), "github") {
		t.Error(d.file())
	}
	if err := os.WriteFile(filepath.Join(d.data, "mcps.yaml"), []byte("mcps:\n  - name: a\n    base_image: b\n    comand: x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.want(0, "mcp list", `^Warning: mcps.yaml:4:5: a: unknown key "comand" \(did you mean "command"\?\)$`)
	if err := os.WriteFile(filepath.Join(d.data, "mcps.yaml"), []byte("mcps: [\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.want(1, "mcp list", `mcps.yaml:\d+:\d+: is not valid YAML`)
	d.want(0, "mcp inspector --help", `--client-port int +port of the page \(default 5173\)`, `--server-port int .*\(default 3000\)`) // D21, D22
	d.canaries()
}

func TestMCP_Change(t *testing.T) { // K20: an entry that is there is changed after a look and a yes
	d := newDesk(t)
	d.want(0, "mcp add github mcp/github --env GITHUB_TOKEN="+opCanary, `^added github`)
	other := []string{"mcp", "add", "github", "mcp/other", "--env", "GITHUB_TOKEN=" + opCanary + "-2"}
	before := d.file()
	for in, code := range map[string]int{"n\n": 0, "": 1, "perhaps\n": 0} {
		said, got := d.with(in, other...)
		if got != code || !strings.Contains(said, "-    base_image: mcp/github\n+    base_image: mcp/other\n") || !strings.Contains(said, "! the vault gets another value of GITHUB_TOKEN\nchange github? [y/N] ") || !strings.Contains(said, "nothing was changed") || d.file() != before {
			t.Errorf("%q: %d %s", in, got, said)
		}
	}
	said, code := d.run(append(other, "--json")...)
	var c struct {
		Server, Change, Diff string
		Sealed               []string
		Error                struct{ Code, Text, Hint string }
	}
	if err := json.Unmarshal([]byte(said), &c); err != nil || code != 1 || c.Change != "changed" || c.Error.Code != "ask" || !strings.Contains(c.Error.Hint, "--yes") || !strings.Contains(c.Diff, "+    base_image: mcp/other") || d.file() != before {
		t.Errorf("%v %d %s", err, code, said)
	}
	if said, code := d.with("y\n", other...); code != 0 || !strings.Contains(said, "changed github · what runs stays as it is until: bobbin mcp restart github") || !strings.Contains(d.file(), "mcp/other") {
		t.Errorf("%d %s", code, said)
	}
	if said, code := d.run(other...); code != 0 || !strings.Contains(said, "github stays as it is") {
		t.Errorf("%d %s", code, said)
	}
	d.want(0, "mcp add-remote github https://mcp.example.com/mcp --yes", `^-    type: proxy$`, `^\+    type: remote$`, `^changed github`)
	d.canaries()
}

// TestMCP_JSON: with --json each command prints one document, and a failure has "error" in it.
func TestMCP_JSON(t *testing.T) {
	d := newDesk(t)
	for _, c := range []struct {
		code       int
		args, want string
	}{
		{0, "mcp list", `^\[\]$`},
		{0, "mcp add a mcp/a --env A_TOKEN=" + opCanary, `"change":"added".*"sealed":\["A_TOKEN"\]`},
		{0, "mcp add a mcp/a", `"change":"changed"`},
		{0, "mcp add a mcp/a", `"change":"none"`},
		{0, "mcp add-remote far https://mcp.example.com/mcp", `"change":"added"`},
		{0, "mcp status far", `"type":"remote"`},
		{0, "mcp start far", `"state":"remote"`},
		{0, "mcp stop far", `"state":"remote"`},
		{0, "mcp restart far", `"state":"remote"`},
		{0, "session create --name S --mcp far", `"name":"S"`},
		{0, "session list", `"name":"S"`},
		{0, "session stop S", `"mcps":\[\]`},
		{0, "mcp inspector --stop", `"stopped":false`},
		{0, "mcp remove far", `"change":"removed"`},
		{1, "mcp status far", `^{"error":{"code":"not_found","hint":"bobbin mcp list shows all","text":"MCP server 'far' not found"}}$`},
		{1, "mcp start a", `"error":{"code":"missing","hint":"start Docker.*"text":"no container engine answers`},
		{1, "mcp start --all", `^\[{"done":"failed","error":{"code":"missing".*"name":"a"}\]$`},
		{1, "mcp logs a", `"error":{"code":"missing"`},
		{1, "mcp upgrade a", `"error":{"code":"missing"`},
		{1, "session env S", `"error":{"code":"missing"`},
		{2, "mcp add a", `"error":{"code":"invalid".*"text":"bobbin mcp add NAME BASE_IMAGE"`},
		{2, "mcp list --nope", `"error":{"code":"invalid".*unknown flag: --nope`},
	} {
		var out, errs bytes.Buffer
		args := append([]string{"--data", d.data}, strings.Fields(c.args)...)
		if strings.Contains(c.args, "add a mcp/a") {
			args = append(args, "--yes")
		}
		code := NewMain(strings.NewReader(""), &out, &errs).Run(t.Context(), append(args, "--json"))
		d.all.Write(out.Bytes())
		d.all.Write(errs.Bytes())
		var doc any
		if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
			t.Errorf("%s: %v\n%s", c.args, err, out.String())
		}
		flat, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		if code != c.code || !regexp.MustCompile(c.want).Match(flat) || strings.Contains(errs.String(), "bobbin:") {
			t.Errorf("%s: %d\n%s\n%s", c.args, code, flat, errs.String())
		}
	}
	d.canaries()
}

func portOf(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func TestInspector_Detached(t *testing.T) { // D20 to D24, D41 to D43
	d := newDesk(t)
	binary, err := static()
	if err != nil {
		t.Fatalf("%v\n%s", err, binary)
	}
	run := func(args ...string) (string, int) {
		c := exec.Command(binary, append([]string{"--data", d.data, "mcp", "inspector"}, args...)...)
		out, err := c.CombinedOutput()
		if err != nil && c.ProcessState == nil {
			t.Fatal(err)
		}
		return string(out), c.ProcessState.ExitCode()
	}
	d.want(0, "mcp add github mcp/github")
	d.want(0, "mcp inspector --stop", `^No running MCP Inspector instances found$`)
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	page, api := portOf(t), portOf(t)
	taken := busy.Addr().(*net.TCPAddr).Port
	if said, code := run("--client-port", fmt.Sprint(taken), "--server-port", fmt.Sprint(api)); code != 1 || !strings.Contains(said, fmt.Sprintf("port %d of this machine is already in use", taken)) || !strings.Contains(said, "--client-port") {
		t.Errorf("%d %s", code, said)
	}
	began := time.Now()
	said, code := run("--client-port", fmt.Sprint(page), "--server-port", fmt.Sprint(api), "--detach")
	if code != 0 || time.Since(began) > 20*time.Second {
		t.Fatalf("%d after %s: %s", code, time.Since(began), said)
	}
	t.Cleanup(func() { _, _ = run("--stop") })
	for _, want := range []string{fmt.Sprintf("MCP Inspector: http://127.0.0.1:%d", page), fmt.Sprintf("Backend: http://127.0.0.1:%d", api), "- github: http://github:8080/sse"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in\n%s", want, said)
		}
	}
	get := func(port int, path, token string) (int, string) {
		r, err := http.NewRequest(http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", port, path), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b)
	}
	if status, text := get(page, "/", ""); status != http.StatusOK {
		t.Errorf("the page: %d %s", status, text)
	}
	if status, _ := get(api, "/api/servers", "wrong"); status != http.StatusUnauthorized {
		t.Errorf("the API without the token: %d", status)
	}
	if said, code := run("--client-port", fmt.Sprint(page), "--server-port", fmt.Sprint(api)); code != 1 || !strings.Contains(said, "runs already") {
		t.Errorf("a second one: %d %s", code, said)
	}
	if said, code := run("--stop"); code != 0 || strings.TrimSpace(said) != "MCP Inspector stopped" {
		t.Errorf("%d %s", code, said)
	}
	if said, code := run("--stop"); code != 0 || strings.TrimSpace(said) != "No running MCP Inspector instances found" {
		t.Errorf("%d %s", code, said)
	}
	if status, _ := get(page, "/", ""); status != 0 {
		t.Error("it serves on")
	}
}

// engined gives a desk whose servers run in containers of the engine of the tests, with a prefix of its own.
func engined(t *testing.T) (d *opDesk, prefix string) {
	t.Helper()
	host := os.Getenv("BOBBIN_TEST_ENGINE")
	if host == "" || exec.Command("docker", "-H", host, "image", "inspect", boxImage).Run() != nil {
		missing(t, "a container engine with the image "+boxImage+" (scripts/engine run)")
	}
	if out, err := exec.Command("docker", "-H", host, "build", "-q", "--build-arg", "BASE="+boxImage, "-t", "bobbin-operator-test", "../../operator/testdata/image").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	binary, err := static()
	if err != nil {
		t.Fatalf("%v\n%s", err, binary)
	}
	d = &opDesk{t: t, data: t.TempDir()}
	t.Setenv("DOCKER_HOST", host)
	t.Setenv("BOBBIN_SANDBOX_BINARY", binary)
	prefix = "c" + strings.ToLower(someone(""))
	t.Cleanup(func() {
		id, err := os.ReadFile(filepath.Join(d.data, "operator", "instance"))
		if err != nil {
			return
		}
		label := "label=bobbin.instance=" + durable.Sum(id)[:32]
		for _, c := range strings.Fields(d.docker("ps", "-aq", "--filter", label)) {
			d.docker("rm", "-f", c)
		}
		for _, n := range strings.Fields(d.docker("network", "ls", "-q", "--filter", label)) {
			d.docker("network", "rm", n)
		}
	})
	return d, prefix
}

func (d *opDesk) docker(args ...string) string {
	d.t.Helper()
	out, err := exec.Command("docker", args...).CombinedOutput()
	if err != nil {
		d.t.Errorf("docker %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// chat has a conversation of one member with the lines, and gives all that was said.
func (d *opDesk) chat(thread string, lines ...string) string {
	d.t.Helper()
	said, code := d.with(strings.Join(lines, "\n")+"\n", "chat", "--sandbox", "off", "--thread", thread, "--user", "U1")
	if code != 0 {
		d.t.Errorf("chat: exit %d\n%s", code, said)
	}
	return said
}

func TestMCP_Story(t *testing.T) { // D01, D04, D05, D14 to D19, D25, D28, D29, D32, D53, D54, D56
	d, prefix := engined(t)
	mcps := "prefix: " + prefix + "\nmcps:\n  - name: a\n    base_image: bobbin-operator-test\n    env:\n      A_TOKEN: " + opCanary + "\n" +
		"  - name: b\n    base_image: bobbin-operator-test\n    allow: [T1]\n  - name: broken\n    base_image: 127.0.0.1:1/none\n  - name: far\n    type: remote\n    url: http://127.0.0.1:9/mcp\n"
	if err := os.WriteFile(filepath.Join(d.data, "mcps.yaml"), []byte(mcps), 0o600); err != nil {
		t.Fatal(err)
	}
	d.want(1, "mcp start --all", `^a: starting…$`, `^a is running · 5 tools · 127\.0\.0\.1:\d+$`, `^bobbin: broken: the image 127.0.0.1:1/none is not here and cannot be pulled: `, `^2 started, 1 failed, 1 remote: no action needed$`)
	d.want(0, "mcp list", `^a +proxy +running +127\.0\.0\.1:\d+->8080 +bobbin-operator-test$`, `^broken +proxy +failed +- +the image`, `^far +remote +remote`)
	d.want(0, "mcp status a", `^Bind +0\.0\.0\.0:8080 in the container; 127\.0\.0\.1:\d+ on this machine$`, `^Proxy +bobbin's own$`, `^Digest +sha256:`, `^Env +A_TOKEN=\*\*\*\*$`)
	d.want(0, "mcp logs a --tail 50", `^20\d\d-.*Z started as \['plain'\] with \*\*\*$`)
	id := d.docker("ps", "-q", "--filter", "name="+prefix+"_mcp_a")
	for _, thread := range []string{"T1", "T2"} {
		said := d.chat(thread, "/mcp admin attach a", "/mcp call a.pid {}", "/mcp list", `/mcp call a.env {"name":"A_TOKEN"}`)
		for _, want := range []string{"a is attached", "a is ready", `(?m)^\d+ · .*receipt`, `(?m)^\*\*\* · .*receipt`, `a +ready +5 tools +the operator's`} {
			if !regexp.MustCompile(want).MatchString(said) {
				t.Errorf("%s: no %q in\n%s", thread, want, said)
			}
		}
	}
	if now := d.docker("ps", "-q", "--filter", "name="+prefix+"_mcp_a"); now != id {
		t.Error("two threads, and another container")
	}
	if said := d.chat("T2", "/mcp admin attach b", "/mcp admin"); !strings.Contains(said, "there is no server b of the operator for this thread") || regexp.MustCompile(`(?m)^ *b +proxy`).MatchString(said) {
		t.Errorf("T2 may not have b:\n%s", said)
	}
	if said := d.chat("T1", "/mcp attach b", "/mcp detach b", "/mcp list"); !strings.Contains(said, "b is attached") || !strings.Contains(said, "b is detached") || regexp.MustCompile(`(?m)^ *b +ready`).MatchString(said) {
		t.Errorf("T1 may:\n%s", said)
	}
	d.want(0, "session create --name s1 --image "+boxImage+" --mcp a --mcp nobody -- sleep 600", `^Ensuring MCP server 'a' is running\.\.\.$`, `^Warning: MCP server 'nobody' not found, skipped$`, `^session s1 is running · MCP servers: a$`)
	d.want(0, "session list", `^s1 +running +`+boxImage+` +a `)
	d.want(0, "session env s1", `^MCP_COUNT=1$`, `^MCP_NAMES=\["a"\]$`, `^MCP_0_URL=http://a:8080/sse$`, `^MCP_0_HTTP_URL=http://a:8080/mcp$`, `^MCP_0_HEADERS=\*\*\*\*$`)
	d.want(0, "session logs s1")
	d.want(0, "session stop s1", `^session s1 is stopped$`)
	d.want(1, "session stop s1", `session 's1' not found`)
	d.want(0, "session list", `^T1 +thread +- +a `, `^T2 +thread +- +a `)
	if now := d.docker("ps", "-q", "--filter", "name="+prefix+"_mcp_a"); now != id {
		t.Error("the server ended with its session")
	}
	d.want(0, "mcp restart a", `^a is running`)
	d.want(0, "mcp stop b", `^b is stopped; its entry stays$`)
	d.want(0, "mcp list", `^b +proxy +not_found`)
	d.want(0, "mcp remove a", `^Warning: a is in use by T1, T2$`, `^removed a$`)
	if left := d.docker("ps", "-aq", "--filter", "name="+prefix+"_mcp_a"); left != "" {
		t.Error("its container stays")
	}
	if said := d.chat("T1", "/mcp list"); strings.Contains(said, "ready") {
		t.Errorf("removed, and still there:\n%s", said)
	}
	d.want(0, "mcp stop --all", `^2 stopped, 1 remote: no action needed$`)
	d.canaries()
}
