package operator_test

import (
	"os/exec"
	"strings"
	"testing"

	"bobbin/operator"
)

func TestInspectorContainer(t *testing.T) { // D24, D39, D40, D42, D43
	y := newYard(t, two)
	image := y.prefix + "-inspector"
	c := exec.Command("docker", "-H", engineOf(), "build", "-q", "-t", image, "-")
	c.Stdin = strings.NewReader("FROM " + boxImage + "\nENTRYPOINT [\"sleep\", \"600\"]\n")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Cleanup(func() { y.docker("rmi", "-f", image) })
	y.start("a")
	y.docker("create", "--name", y.prefix+"_mcp_inspector", "--label", "bobbin.role=inspector", "--label", "bobbin.instance="+y.ours()["bobbin.instance"], boxImage, "true") // of one that was killed
	i, err := y.InspectorContainer(t.Context(), image, operator.Inspector{Client: 45173, Server: 43000}, func(string) {})
	y.must(err)
	name := y.prefix + "_mcp_inspector"
	nets := y.docker("inspect", "-f", "{{range $n, $x := .NetworkSettings.Networks}}{{$n}} {{end}}", name)
	for _, want := range []string{"-mcp-network", "-mcp-a-network", "-mcp-b-network", "-mcp-c-network"} {
		if !strings.Contains(nets, y.prefix+want) {
			t.Errorf("it is not on %s: %s", want, nets)
		}
	}
	if got := y.docker("inspect", "-f", "{{json .HostConfig.PortBindings}}", name); !strings.Contains(got, `"5173/tcp":[{"HostIp":"127.0.0.1","HostPort":"45173"}]`) || !strings.Contains(got, `"3000/tcp":[{"HostIp":"127.0.0.1","HostPort":"43000"}]`) {
		t.Errorf("ports %s", got)
	}
	if got := y.docker("exec", name, "python3", "-c", "import socket; socket.create_connection(('a', 8080), 3); print('reached')"); got != "reached" {
		t.Error(got)
	}
	if now, running, err := y.InspectorRunning(t.Context()); err != nil || !running || now.Container != i.Container {
		t.Errorf("%+v %v %v", now, running, err)
	}
	urls, err := y.InspectorURLs(t.Context())
	if want := "a: http://a:8080/sse b: http://b:8080/sse c: http://c:8080/sse far: https://mcp.example.com/sse"; err != nil || strings.Join(urls, " ") != want {
		t.Errorf("%v %v", urls, err)
	}
	was, err := y.StopInspector(t.Context())
	if err != nil || !was {
		t.Errorf("%v %v", was, err)
	}
	if was, err := y.StopInspector(t.Context()); err != nil || was {
		t.Errorf("again: %v %v", was, err)
	}
	if left := y.docker("ps", "-aq", "--filter", "name="+name); left != "" {
		t.Error("its container stays")
	}
	if st := y.status("a"); st.State != "running" {
		t.Errorf("and the server is %s", st.State)
	}
}
