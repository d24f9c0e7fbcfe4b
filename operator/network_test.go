package operator_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/moby/moby/client"

	"bobbin/internal/durable"
	"bobbin/operator"
	"bobbin/schemas"
)

// twin makes one more network of a name, as an engine does for a bobbin that was killed meanwhile.
func (y *yard) twin(name string, labels map[string]string) (id string) {
	y.t.Helper()
	engine, err := client.New(client.WithHost(engineOf()))
	y.must(err)
	defer engine.Close()
	r, err := engine.NetworkCreate(y.t.Context(), name, client.NetworkCreateOptions{Driver: "bridge", Labels: labels})
	if err != nil && strings.Contains(err.Error(), "already exists") {
		y.t.Skip("this engine makes no two networks of one name")
	}
	y.must(err)
	return r.ID
}

// ours is the label of what this yard's data folder made.
func (y *yard) ours() map[string]string {
	y.t.Helper()
	id, err := os.ReadFile(filepath.Join(y.dir, "operator", "instance"))
	y.must(err)
	return map[string]string{"bobbin.instance": durable.Sum(id)[:32], "bobbin.role": "mcp"}
}

func (y *yard) networks(name string) []string {
	y.t.Helper()
	return strings.Fields(y.docker("network", "ls", "-q", "--no-trunc", "--filter", "name=^"+name+"$"))
}

// only fails unless there is one network of a name; it gives that one's id.
func (y *yard) only(what, name string) string {
	y.t.Helper()
	all := y.networks(name)
	if len(all) != 1 {
		y.t.Fatalf("%s: %d networks %s", what, len(all), name)
	}
	return all[0]
}

func TestTwins(t *testing.T) { // two networks of one name, of a bobbin that was killed, become one
	y := newYard(t, one)
	network, common := y.prefix+"-mcp-a-network", y.prefix+"-mcp-network"
	for range 2 {
		y.twin(network, y.ours())
		y.twin(common, y.ours())
	}
	oldest := y.networks(network)
	st := y.start("a")
	y.only("start", common)
	if kept := y.only("start", network); kept != oldest[0] && kept != oldest[1] {
		t.Error("start made a third one")
	}

	used := y.only("start", network)
	y.twin(network, y.ours())
	y.twin(network, y.ours())
	if again := y.start("a"); again.ID != st.ID || y.only("start again", network) != used {
		t.Error("the one in use has gone")
	}

	y.twin(network, y.ours())
	y.twin(y.prefix+"-session-s1-network", y.ours())
	y.twin(y.prefix+"-session-s1-network", y.ours())
	s := y.session(operator.Wanted{Name: "s1", Image: boxImage, Servers: []string{"a"}, Command: []string{"sleep", "600"}})
	if y.only("session", network) != used || len(s.Networks) != 2 {
		t.Errorf("%+v", s)
	}
	y.only("session", y.prefix+"-session-s1-network")
	if got := y.docker("exec", s.Container, "python3", "-c", "import socket; socket.create_connection(('a', 8080), 3); print('reached')"); got != "reached" {
		t.Error(got)
	}

	y.twin(network, y.ours())
	if _, err := y.Restart(t.Context(), "a", nil); err != nil || y.only("restart", network) != used {
		t.Error(err)
	}
	y.twin(network, y.ours())
	y.twin(y.prefix+"-session-s1-network", y.ours())
	y.must(y.StopSession(t.Context(), "s1"))
	y.must(y.Stop(t.Context(), "a"))
	for _, name := range []string{network, y.prefix + "-session-s1-network"} {
		if left := y.networks(name); len(left) > 0 {
			t.Errorf("%s stays: %v", name, left)
		}
	}
}

func TestTwins_Late(t *testing.T) { // the engine makes the killed one's network after bobbin's own, and before the container starts
	y := newYard(t, one)
	name, labels := y.prefix+"-mcp-a-network", y.ours()
	y.twin(name, labels)
	y.twin(name, labels) // an engine that makes no second one skips here
	y.must(y.Stop(t.Context(), "a"))
	host := strings.TrimPrefix(engineOf(), "unix://")
	pass := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", "engine" },
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", host)
		}},
	}
	var starts atomic.Int32
	path := filepath.Join(t.TempDir(), "engine.sock")
	l, err := net.Listen("unix", path)
	y.must(err)
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/start") && starts.Add(1) == 1 {
			y.twin(name, labels)
		}
		pass.ServeHTTP(w, r)
	})}
	go srv.Serve(l)   //nolint:errcheck // until its end
	defer srv.Close() //nolint:errcheck // its listener
	o, err := operator.New(operator.Options{Data: y.data(), Secrets: y.safe, Engine: "unix://" + path, Binary: binary})
	y.must(err)
	defer o.Close() //nolint:errcheck // a client of the engine
	if _, err := o.Start(t.Context(), "a", nil); err != nil || starts.Load() != 2 {
		t.Errorf("%d starts: %v", starts.Load(), err)
	}
	y.only("start", name)
}

func TestTwins_Foreign(t *testing.T) { // one of the same name that is not of bobbin is said, and both are left alone
	y := newYard(t, one)
	network := y.prefix + "-mcp-a-network"
	foreign := y.twin(network, nil)
	defer y.docker("network", "rm", foreign)
	y.twin(network, y.ours())
	_, err := y.Start(t.Context(), "a", nil)
	if schemas.CodeOf(err) != schemas.CodeConflict || !strings.Contains(err.Error(), network+" that is not of this data folder") {
		t.Error(err)
	}
	if e, ok := errors.AsType[*schemas.Error](err); !ok || !strings.Contains(e.Hint, "docker network rm "+foreign[:12]) { // its name would be ambiguous
		t.Error(e)
	}
	if all := y.networks(network); len(all) != 2 {
		t.Errorf("networks %v", all)
	}
	y.must(y.Stop(t.Context(), "a"))
	if y.only("stop", network) != foreign {
		t.Error("the foreign one has gone, not bobbin's own")
	}
}
