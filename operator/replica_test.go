package operator_test

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bobbin/operator"
	"bobbin/schemas"
)

const pair = `mcps:
  - name: a
    base_image: ` + testImage + `
    replicas: 2
`

// host says which container serves a connection.
func (y *yard) host(c *http.Client) string {
	y.t.Helper()
	text, err := call(c, "http://a:8080/mcp", "env", map[string]any{"name": "HOSTNAME"})
	y.must(err)
	return text
}

// hosts counts which containers serve new connections.
func (y *yard) hosts(n int) map[string]int {
	y.t.Helper()
	count := map[string]int{}
	for range n {
		count[y.host(y.Client("a"))]++
	}
	return count
}

// resolved is the container that a session finds under the server's name.
func (y *yard) resolved(session string, containers ...string) string {
	y.t.Helper()
	ip := y.docker("exec", session, "python3", "-c", "import socket; print(*{i[4][0] for i in socket.getaddrinfo('a', 8080)})")
	for _, c := range containers {
		if y.docker("inspect", "-f", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", c) == ip {
			return c
		}
	}
	y.t.Errorf("%s finds a at %s", session, ip)
	return ""
}

func TestReplicas(t *testing.T) { // D59
	y := newYard(t, pair)
	first, second, net := y.prefix+"_mcp_a", y.prefix+"_mcp_a_2", y.prefix+"-mcp-a-network"
	st := y.start("a")
	if st.State != "running" || len(st.Replicas) != 2 || st.Replicas[0].Container != first || st.Replicas[1].Container != second || len(st.Ports) != 2 || st.Tools != 5 {
		t.Fatalf("%+v", st)
	}
	if one, two := st.Replicas[0], st.Replicas[1]; one.PID == 0 || two.PID == 0 || one.PID == two.PID || one.State != "running" || two.State != "running" {
		t.Errorf("%+v", st.Replicas)
	}
	if again := y.start("a"); again.Replicas[0].ID != st.Replicas[0].ID || again.Replicas[1].ID != st.Replicas[1].ID {
		t.Error("started twice, they are others")
	}

	if got := slices.Sorted(maps.Values(y.hosts(6))); !slices.Equal(got, []int{3, 3}) {
		t.Errorf("connections %v", got)
	}
	c := y.Client("a")
	for was, i := y.host(c), 0; i < 4; i++ {
		if now := y.host(c); now != was {
			t.Errorf("one connection is served by %s, then by %s", was, now)
		}
	}

	var sessions [2]string
	for i := range sessions {
		sessions[i] = y.session(operator.Wanted{Name: fmt.Sprint("s", i), Image: boxImage, Servers: []string{"a"}, Command: []string{"sleep", "600"}}).Container
	}
	led := map[string]string{}
	for _, s := range sessions {
		led[y.resolved(s, first, second)] = s
	}
	if len(led) != 2 {
		t.Errorf("sessions do not get one each: %v", led)
	}

	y.docker("kill", second)
	if st := y.status("a"); st.State != "running" || st.Why != "1 of 2 replicas run" || st.Replicas[1].State != "stopped" {
		t.Errorf("%+v", st)
	}
	if got := y.hosts(3); len(got) != 1 || got[st.Replicas[0].ID] != 3 {
		t.Errorf("one is down, and connections go to %v", got)
	}
	y.running()
	until(t, "it is back", 10*time.Second, func() bool { st, err := y.Status(t.Context(), "a"); return err == nil && st.Why == "" })
	if y.resolved(led[second], second) != second || len(y.hosts(2)) != 2 {
		t.Error("it is back, and not used")
	}

	y.write(strings.Replace(y.text(), "    replicas: 2\n", "", 1))
	if st := y.status("a"); !st.Stale {
		t.Errorf("%+v", st)
	}
	if now := y.start("a"); now.ID != st.ID || len(now.Replicas) != 0 || now.Stale {
		t.Errorf("%+v", now)
	}
	if left := y.docker("ps", "-aq", "--filter", "name="+second); left != "" {
		t.Error("one too many stays")
	}
	if y.resolved(sessions[0], first) != first || y.resolved(sessions[1], first) != first {
		t.Error("a session was left behind")
	}

	y.write(strings.Replace(y.text(), "base_image: "+testImage, "base_image: "+testImage+"\n    replicas: 2", 1))
	y.start("a")
	y.write(strings.Replace(y.text(), "    replicas: 2\n", "", 1))
	y.must(y.Stop(t.Context(), "a")) // one too many ends, too, and is not remembered
	if _, err := os.Stat(filepath.Join(y.dir, "operator", "servers", "a_2")); err == nil {
		t.Error("what was kept of one too many stays")
	}

	change, err := y.Propose(t.Context(), operator.Server{Name: "a", BaseImage: testImage, Replicas: 3})
	y.must(err)
	if !strings.Contains(change.Diff, "+    replicas: 3\n") {
		t.Error(change.Diff)
	}
	y.must(y.Commit(t.Context(), change))
	before := y.start("a")
	after, err := y.Restart(t.Context(), "a", nil)
	y.must(err)
	if len(after.Replicas) != 3 || len(before.Replicas) != 3 {
		t.Fatalf("%+v %+v", before, after)
	}
	for i := range after.Replicas {
		if before.Replicas[i].ID == after.Replicas[i].ID || after.Replicas[i].State != "running" {
			t.Errorf("replica %d: %+v", i, after.Replicas[i])
		}
	}
	y.must(y.StopSession(t.Context(), "s0"))
	y.must(y.StopSession(t.Context(), "s1"))
	y.must(y.Stop(t.Context(), "a"))
	if left := y.docker("ps", "-aq", "--filter", "name="+first); left != "" || len(y.networks(net)) > 0 {
		t.Error("stopped, and something stays: " + left)
	}
	if st := y.status("a"); st.State != "not_found" || len(st.Replicas) != 3 {
		t.Errorf("%+v", st)
	}
}

func TestReplicas_Fails(t *testing.T) { // which one it is, and the others run on
	y := newYard(t, pair)
	y.docker("create", "--name", y.prefix+"_mcp_a_2", boxImage, "true")
	defer y.docker("rm", y.prefix+"_mcp_a_2")
	_, err := y.Start(t.Context(), "a", nil)
	if schemas.CodeOf(err) != schemas.CodeConflict || !strings.Contains(err.Error(), "(replica a_2)") {
		t.Error(err)
	}
	if st := y.status("a"); st.State != "running" || st.Why != "1 of 2 replicas run" || st.Replicas[1].State != "failed" || !strings.Contains(st.Replicas[1].Why, "not of this data folder") {
		t.Errorf("%+v", st)
	}
	if got := y.hosts(2); len(got) != 1 {
		t.Errorf("connections %v", got)
	}
}

func TestReplicas_Wrong(t *testing.T) {
	for text, want := range map[string]string{
		"replicas: 0": "replicas must be a number from 1 to 8", "replicas: 9": "replicas must be a number from 1 to 8", "replicas: two": "replicas must be a number from 1 to 8",
		"replicas: 1000000000": "replicas must be a number from 1 to 8", "replicas: [1]": "replicas must be a number from 1 to 8", "replicas: 2\n    proxy_image: p": "replicas need bobbin's own proxy",
		"replicas: 1": "", "replicas: 8": "", "replicas: 1\n    proxy_image: p": "",
		"replicas: 2\n  - name: a_2\n    base_image: b": "a_2 and a would have replicas of the same name", "replicas: 2\n  - name: a_3\n    base_image: b": "",
	} {
		f := open(t, "mcps:\n  - name: a\n    base_image: b\n    "+text+"\n").load()
		wrong := f.Servers[len(f.Servers)-1].Wrong
		if f.Servers[0].Replicas > 8 || wrong != want || want != "" && !strings.Contains(fmt.Sprint(f.Problems), want) {
			t.Errorf("%s: %q %v", text, wrong, f.Problems)
		}
	}
	d := open(t, "mcps:\n  - name: a\n    base_image: b\n    replicas: 3\n  - name: c_2\n    base_image: b\n")
	for _, s := range []operator.Server{{Name: "a_3", BaseImage: "b"}, {Name: "c", BaseImage: "b", Replicas: 2}} {
		if err := put(t.Context(), d.Operator, s); schemas.CodeOf(err) != schemas.CodeConflict || !strings.Contains(err.Error(), "would have replicas of the same name") {
			t.Error(err)
		}
	}
	if err := put(t.Context(), d.Operator, operator.Server{Name: "e", BaseImage: "b", Replicas: 9}); err == nil || !strings.Contains(err.Error(), "from 1 to 8") {
		t.Error(err)
	}
	d.must(put(t.Context(), d.Operator, operator.Server{Name: "a", BaseImage: "b", Replicas: 1}))
	if text := d.text(); strings.Contains(text, "replicas") {
		t.Error(text)
	}
}
