package sandbox

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"bobbin/internal/socket"
	"bobbin/schemas"
)

const (
	insideTime  = 10 * time.Second // one request to the program inside
	maxReply    = 1 << 20
	maxServers  = 1000
	upgradeName = "mcp-stdio"
)

// inside talks to the bobbin that runs in a sandbox, over its socket. It is safe for concurrent use.
type inside struct {
	socket, token string
	http          *http.Client
}

// running is what it says of one server.
type running struct {
	Name     string `json:"name"`
	State    string `json:"state"`
	PID      int    `json:"pid"`
	Exit     string `json:"exit"` // how it ended, in words
	Restarts int    `json:"restarts"`
	Stderr   string `json:"stderr"`
}

// program is what it is told of one. Env holds values.
type definition struct {
	Command string            `json:"command"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	Cwd     string            `json:"cwd,omitempty"`
}

// refused is an answer that is not 2xx.
type refused struct {
	status int
	words  string
}

func (r *refused) Error() string {
	return fmt.Sprintf("the sandbox answered %d: %s", r.status, r.words)
}

func newInside(path, token string) *inside {
	i := &inside{socket: path, token: token}
	i.http = &http.Client{
		Transport: &http.Transport{
			DialContext:            func(ctx context.Context, _, _ string) (net.Conn, error) { return socket.Dial(ctx, path) },
			DisableCompression:     true,
			MaxIdleConns:           4,
			IdleConnTimeout:        30 * time.Second,
			MaxResponseHeaderBytes: 16 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return i
}

func (i *inside) close() { i.http.CloseIdleConnections() }

// held refuses a sandbox that its engine did not close as it was told, by the word of the kernel inside: not every engine does all that
// Docker does, nor says what it left out. Only before anything else runs there is it to be believed.
func (i *inside) held(ctx context.Context) error {
	var loose []string
	if err := i.ask(ctx, insideTime, http.MethodGet, "/loose", nil, &loose); err != nil || len(loose) == 0 {
		return err
	}
	return refusal(schemas.CodeDenied, "the container engine does not hold the sandbox in: "+schemas.Clean(strings.Join(loose, ", "), true),
		"the operator uses Docker, or Podman as root or with all cgroup controllers delegated; until then connectors work")
}

func (i *inside) request(ctx context.Context, method, path string, body any) (*http.Request, error) {
	var r io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		r = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://sandbox"+path, r)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+i.token)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, nil
}

// ask makes a request and decodes its answer into out, if that is not nil.
func (i *inside) ask(ctx context.Context, limit time.Duration, method, path string, body, out any) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	req, err := i.request(ctx, method, path, body)
	if err != nil {
		return err
	}
	resp, err := i.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	switch {
	case err != nil:
		return err
	case resp.StatusCode/100 != 2:
		return refusedWith(resp.StatusCode, text)
	case out == nil:
		return nil
	}
	return json.Unmarshal(text, out)
}

// refusedWith takes the words of a refusal, JSON or plain.
func refusedWith(status int, text []byte) error {
	var reply struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(text, &reply) != nil || reply.Error == "" {
		reply.Error = string(text)
	}
	return &refused{status, shorten(schemas.Clean(reply.Error, true), maxWords)}
}

func (i *inside) ping(ctx context.Context, limit time.Duration) error {
	return i.ask(ctx, limit, http.MethodGet, "/healthz", nil, nil)
}

func (i *inside) put(ctx context.Context, name string, def definition) error {
	return i.ask(ctx, insideTime, http.MethodPut, "/servers/"+name, def, nil)
}

func (i *inside) server(ctx context.Context, limit time.Duration, name string) (running, error) {
	var r running
	err := i.ask(ctx, limit, http.MethodGet, "/servers/"+name, nil, &r)
	return r, err
}

func (i *inside) servers(ctx context.Context) ([]running, error) {
	var all []running
	err := i.ask(ctx, insideTime, http.MethodGet, "/servers", nil, &all)
	return all, err
}

// drop ends a server and forgets it.
func (i *inside) drop(ctx context.Context, name string) error {
	err := i.ask(ctx, insideTime, http.MethodDelete, "/servers/"+name, nil, nil)
	if r, ok := errors.AsType[*refused](err); ok && r.status == http.StatusNotFound {
		return nil
	}
	return err
}

// clear drops every server.
func (i *inside) clear(ctx context.Context) error {
	all, err := i.servers(ctx)
	if err != nil {
		return err
	}
	for _, s := range all[:min(len(all), maxServers)] {
		if !plainName(s.Name) {
			return fmt.Errorf("sandbox: a server has the name %.40q", s.Name)
		}
		if err := i.drop(ctx, s.Name); err != nil {
			return err
		}
	}
	return nil
}

// plainName reports whether a name from inside may stand in a path.
func plainName(name string) bool { return schemas.MemberID(name).Valid() }

// stdio takes the one stream of a server.
func (i *inside) stdio(ctx context.Context, name string) (net.Conn, io.Reader, error) {
	ctx, cancel := context.WithTimeout(ctx, insideTime)
	defer cancel()
	req, err := i.request(ctx, http.MethodGet, "/servers/"+name+"/stdio", nil)
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", upgradeName)
	conn, err := socket.Dial(ctx, i.socket)
	if err != nil {
		return nil, nil, err
	}
	in, err := upgrade(ctx, conn, req)
	if err != nil {
		_ = conn.Close()
		return nil, nil, err
	}
	return conn, in, nil
}

// upgrade speaks HTTP until the stream begins. The reader may hold the beginning of it.
func upgrade(ctx context.Context, conn net.Conn, req *http.Request) (io.Reader, error) {
	if limit, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(limit); err != nil {
			return nil, err
		}
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	if err := req.Write(conn); err != nil {
		return nil, err
	}
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusSwitchingProtocols || resp.Header.Get("Upgrade") != upgradeName {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
		return nil, refusedWith(resp.StatusCode, text)
	}
	if !stop() {
		return nil, ctx.Err()
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	if in.Buffered() == 0 {
		return conn, nil
	}
	return io.MultiReader(io.LimitReader(in, int64(in.Buffered())), conn), nil
}
