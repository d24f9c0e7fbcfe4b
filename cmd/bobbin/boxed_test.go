//go:build linux

package main

import (
	"crypto/rand"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// boxImage is what scripts/sandbox-image builds.
const boxImage = "bobbin-sandbox-test"

// static is bobbin as it runs in sandboxes, whose image has no C library of ours.
var static = sync.OnceValues(func() (string, error) {
	path, err := filepath.Abs("../../.tools/bobbin-boxed")
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-o", path, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), err
	}
	return path, nil
})

// boxed is a data folder whose servers run in containers of the engine of the tests.
type boxed struct {
	t    testing.TB
	data string
	host string   // of the engine
	env  []string // for bobbin
}

// newBoxed skips without an engine; in CI there must be one. What its sandboxes are made of is removed at the end.
func newBoxed(t testing.TB, flags ...string) *boxed {
	t.Helper()
	b := &boxed{t: t, data: t.TempDir(), host: os.Getenv("BOBBIN_TEST_ENGINE")}
	if b.host == "" || exec.Command("docker", "-H", b.host, "image", "inspect", boxImage).Run() != nil {
		missing(t, "a container engine with the image "+boxImage+" (scripts/engine run)")
	}
	binary, err := static()
	if err != nil {
		t.Fatalf("%v\n%s", err, binary)
	}
	b.env = append(flags, "DOCKER_HOST="+b.host, "BOBBIN_SANDBOX_IMAGE="+boxImage, "BOBBIN_SANDBOX_BINARY="+binary)
	t.Cleanup(func() {
		id, _ := os.ReadFile(filepath.Join(b.data, "boxes", "instance"))
		for _, left := range b.list("ps", string(id)) {
			b.docker("rm", "-f", left)
		}
		for _, left := range b.list("volume", string(id)) {
			b.docker("volume", "rm", left)
		}
	})
	return b
}

// registry lets sandboxes reach the registry that npm uses on this machine, as it is reached from here.
func (b *boxed) registry() {
	b.t.Helper()
	out, err := exec.Command("npm", "config", "get", "registry").Output()
	u, _ := url.Parse(strings.TrimSpace(string(out)))
	if err != nil || u == nil || u.Hostname() == "" {
		missing(b.t, "npm")
	}
	b.env = append(b.env, "BOBBIN_ALLOW_INTERNAL="+u.Hostname())
	if ca := os.Getenv("SSL_CERT_FILE"); ca != "" {
		b.env = append(b.env, "BOBBIN_SANDBOX_CA="+ca)
	}
}

// chat is a conversation of a member who sits at the machine.
func (b *boxed) chat(user string) *process {
	b.t.Helper()
	p := bobbinWith(b.t, b.env, b.data, "--sandbox", "docker", "chat", "--thread", "t1", "--user", user)
	p.hear(`thread t1`)
	return p
}

func (b *boxed) docker(args ...string) string {
	b.t.Helper()
	out, err := exec.Command("docker", append([]string{"-H", b.host}, args...)...).CombinedOutput()
	if err != nil {
		b.t.Errorf("docker %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// list names the containers ("ps") or volumes of a data folder.
func (b *boxed) list(what, instance string) []string {
	b.t.Helper()
	args := []string{"ps", "-aq"}
	if what == "volume" {
		args = []string{"volume", "ls", "-q"}
	}
	return strings.Fields(b.docker(append(args, "--filter", "label=bobbin.instance="+instance)...))
}

// someone is a member that no other test has, as volumes are named after them.
func someone(name string) string { return name + strings.ToLower(rand.Text()[:8]) }

// within is hear for what takes long.
func (p *process) within(d time.Duration, pattern string) string {
	p.t.Helper()
	p.patience = d
	defer func() { p.patience = 0 }()
	return p.hear(pattern)[0]
}
