//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestMCP_Replicas(t *testing.T) { // D59
	d, prefix := engined(t)
	if err := os.WriteFile(filepath.Join(d.data, "mcps.yaml"), []byte("prefix: "+prefix+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.want(2, "mcp add a bobbin-operator-test --replicas 0", `--replicas is a number from 1 to 8, not 0`)
	d.want(0, "mcp add a bobbin-operator-test --replicas 2", `^added a`)
	d.want(0, "mcp start a", `^a is running · 5 tools · 2 replicas · 127\.0\.0\.1:\d+$`)
	status := d.want(0, "mcp status a", `^Replica +`+prefix+`_mcp_a · running · pid \d+ · `, `^Replica +`+prefix+`_mcp_a_2 · running · pid \d+ · `)
	seen := map[string]bool{}
	for _, pid := range regexp.MustCompile(`pid \d+`).FindAllString(status, -1) {
		seen[pid] = true
	}
	for _, thread := range []string{"T1", "T2"} {
		said := d.chat(thread, "/mcp admin attach a", `/mcp call a.env {"name":"HOSTNAME"}`, `/mcp call a.env {"name":"HOSTNAME"}`)
		hosts := regexp.MustCompile(`(?m)^([0-9a-f]{12}) · .*receipt`).FindAllStringSubmatch(said, -1)
		if len(hosts) != 2 || hosts[0][1] != hosts[1][1] {
			t.Errorf("%s: its connection is served by %v\n%s", thread, hosts, said)
			continue
		}
		seen[hosts[0][1]] = true
	}
	if len(seen) != 4 {
		t.Errorf("two replicas: %v", seen)
	}
	d.want(0, "mcp logs a --replica 2", `started as`)
	d.want(1, "mcp logs a --replica 3", `MCP server 'a' has no replica 3: the last is 2`)
	d.want(0, "mcp remove a --json", `"removed"`)
	if left := d.docker("ps", "-aq", "--filter", "name="+prefix+"_mcp_a"); left != "" {
		t.Error("containers stay")
	}
}

func TestMCP_Upgrade(t *testing.T) { // D57
	d, prefix := engined(t)
	image := prefix + "-image"
	build := func(version string) string {
		c := exec.Command("docker", "build", "-q", "-t", image, "-")
		c.Stdin = strings.NewReader("FROM bobbin-operator-test\nLABEL org.opencontainers.image.version=" + version + "\n")
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return d.docker("image", "inspect", "-f", "{{.Id}}", image)
	}
	one := build("1.0")
	t.Cleanup(func() { d.docker("rmi", "-f", image, one) })
	if err := os.WriteFile(filepath.Join(d.data, "mcps.yaml"), []byte("prefix: "+prefix+"\nmcps:\n  - name: a\n    base_image: "+image+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	digest := func() string {
		return strings.TrimSpace(strings.TrimPrefix(regexp.MustCompile(`(?m)^Digest .*$`).FindString(d.want(0, "mcp status a")), "Digest"))
	}
	d.want(0, "mcp start a")
	two := build("2.0")
	d.want(0, "mcp restart a")
	if digest() != one {
		t.Error("a restart is an upgrade")
	}
	said, code := d.with("n\n", "mcp", "upgrade", "a")
	if code != 0 || !strings.Contains(said, "- "+one+"  1.0") || !strings.Contains(said, "+ "+two+"  2.0") || !strings.Contains(said, "nothing was changed") || digest() != one {
		t.Errorf("%d %s", code, said)
	}
	if said, code := d.with("y\n", "mcp", "upgrade", "a"); code != 0 || digest() != two {
		t.Errorf("%d %s", code, said)
	}
	d.want(0, "mcp upgrade a --yes", `^a keeps the version of .* that is here$`)
	d.want(0, "mcp upgrade a --rollback", `^a is running`)
	if digest() != one {
		t.Error("not rolled back")
	}
	d.want(0, "mcp stop a")
}
