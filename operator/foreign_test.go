package operator_test

import (
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bobbin/schemas"
)

// proxyImage has a client of the engine and a small mcp-proxy.
func (y *yard) proxyImage() string {
	y.t.Helper()
	dir := y.t.TempDir()
	docker, err := exec.LookPath("docker")
	y.must(err)
	for to, from := range map[string]string{"docker": docker, "Dockerfile": "testdata/proxyimage/Dockerfile", "mcp-proxy": "testdata/proxyimage/mcp-proxy"} {
		b, err := os.ReadFile(from)
		y.must(err)
		y.must(os.WriteFile(filepath.Join(dir, to), b, 0o755))
	}
	name := "bobbin-operator-test-proxy"
	y.docker("build", "-q", "--build-arg", "BASE="+boxImage, "-t", name, dir)
	return name
}

func TestProxyImage(t *testing.T) { // D09, D44 to D48
	y := newYard(t, one)
	image := y.proxyImage()
	y.write(y.text() + "    proxy_image: " + image + "\n")
	_, err := y.Start(t.Context(), "a", nil)
	if schemas.CodeOf(err) != schemas.CodeDenied || !strings.Contains(err.Error(), "the engine's socket") {
		t.Fatalf("without an opt-in: %v", err)
	}
	if left := y.docker("ps", "-aq", "--filter", "name="+y.prefix); left != "" {
		t.Errorf("a container was made: %s", left)
	}
	y.write(y.text() + "    allow_docker_socket: true\n")
	st := y.start("a")
	if st.State != "running" || st.Proxy != image || !st.Socket {
		t.Errorf("%+v", st)
	}
	built := y.prefix + "_mcp_proxy_a"
	t.Cleanup(func() { y.docker("rmi", "-f", built) })
	read := "import urllib.request; r = urllib.request.urlopen('http://127.0.0.1:8080/sse', timeout=3); print(r.headers['content-type'], r.headers['access-control-allow-origin'], r.read().decode())"
	want := "text/event-stream * data: " + canary
	got := ""
	until(t, "the base image's server answers", 20*time.Second, func() bool {
		out, err := exec.Command("docker", "-H", engineOf(), "exec", y.prefix+"_mcp_a", "python3", "-c", read).CombinedOutput()
		got = strings.TrimSpace(string(out))
		return err == nil
	})
	if got != want {
		t.Errorf("%q, not %q", got, want)
	}
	for what, text := range map[string]string{"image": y.docker("image", "inspect", built), "history": y.docker("history", "--no-trunc", built), "container": y.docker("inspect", y.prefix+"_mcp_a"), "file": y.text()} {
		if strings.Contains(text, canary) {
			t.Errorf("a value stands in the %s", what)
		}
	}
	inner := y.docker("ps", "-q", "--filter", "ancestor="+testImage)
	y.must(y.Stop(t.Context(), "a"))
	until(t, "the server ends with its proxy", 15*time.Second, func() bool { return y.docker("ps", "-q", "--filter", "id="+inner) == "" })
}

func TestProxyImage_BuildFails(t *testing.T) { // D45: the end of the build's log
	y := newYard(t, one)
	name := "bobbin-operator-test-bare:" + strings.ToLower(rand.Text()[:6])
	y.docker("tag", boxImage, name)
	t.Cleanup(func() { y.docker("rmi", name) })
	y.write(y.text() + "    proxy_image: " + name + "\n    allow_docker_socket: true\n")
	_, err := y.Start(t.Context(), "a", nil)
	if err == nil || !strings.Contains(err.Error(), "was not built; the end of its log:\n") || strings.Count(err.Error(), "\n") > 21 {
		t.Errorf("%v", err)
	}
	if st := y.status("a"); st.State != "failed" {
		t.Errorf("%+v", st)
	}
}
