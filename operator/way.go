package operator

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/moby/moby/api/types/container"

	"bobbin/internal/durable"
	"bobbin/internal/socket"
	"bobbin/schemas"
)

const (
	maxReply     = 8 << 20
	registerTime = 70 * time.Second // the proxy itself gives a server a minute to list its tools
)

// way leads to a server's proxy: over the socket in its folder, where alone it can be told what to run; to another proxy than
// bobbin's own over the port that is published.
type way struct {
	name, token, port string // port is "127.0.0.1:32768", "" if there is none
	socket            string // "" for another proxy than bobbin's own
	http              *http.Client
}

func newWay(name, token, socket, port string) *way {
	w := &way{name: name, token: token, socket: socket, port: port}
	w.http = &http.Client{
		Transport:     &http.Transport{DialContext: w.dial, DisableCompression: true, MaxIdleConns: 16, MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 32 << 10},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return w
}

func (w *way) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if w.port == "" && w.socket == "" {
		return nil, errAway
	}
	var c net.Conn
	var err error
	if w.socket != "" {
		c, err = socket.Dial(ctx, w.socket)
	} else {
		var d net.Dialer
		c, err = d.DialContext(ctx, "tcp", w.port)
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", errAway, err)
	}
	return c, err
}

// errAway: nobody is there who could have taken a request.
var errAway = errors.New("operator: the server cannot be reached")

// commandLine is what a proxy is told to run. Env holds values.
type commandLine struct {
	Name    string            `json:"name"`
	Command string            `json:"command"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
}

// inside is what bobbin's own proxy says of a server.
type inside struct {
	State    string            `json:"state"`
	PID      int               `json:"pid"`
	Exit     string            `json:"exit"`
	Restarts int               `json:"restarts"`
	Stderr   string            `json:"stderr"`
	Tools    []json.RawMessage `json:"tools"`
	Error    string            `json:"error"`
}

func (w *way) ask(ctx context.Context, limit time.Duration, method, path string, body, out any) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var r io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return 0, err
		}
		r = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+w.name+path, r)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+w.token)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := w.http.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err == nil && out != nil {
		err = json.Unmarshal(text, out)
	}
	return resp.StatusCode, err
}

func (w *way) ping(ctx context.Context, limit time.Duration) error {
	status, err := w.ask(ctx, limit, http.MethodGet, "/healthz", nil, nil)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("operator: the proxy answers %d", status)
	}
	return err
}

// look asks how the server is; ok is false when the proxy does not know it.
func (w *way) look(ctx context.Context, limit time.Duration) (in inside, ok bool, err error) {
	status, err := w.ask(ctx, limit, http.MethodGet, "/servers/main", nil, &in)
	return in, err == nil && status == http.StatusOK, err
}

// register tells the proxy what to run, and waits until the server has listed its tools, or is known not to.
func (w *way) register(ctx context.Context, c commandLine) (inside, error) {
	var in inside
	c.Name = "main"
	_, err := w.ask(ctx, registerTime, http.MethodPost, "/servers/register", c, &in)
	return in, err
}

// way gives the way to a server that was started; CodeNotReady when it was not.
func (o *Operator) way(name string) (*way, error) {
	o.mu.Lock()
	w := o.ways[name]
	o.mu.Unlock()
	token, port, err := o.remembered(name)
	if err != nil {
		return nil, &schemas.Error{Code: schemas.CodeNotReady, Text: name + " does not run", Hint: "bobbin mcp start " + name, Err: err}
	}
	if w != nil && w.token == token && w.port == port {
		return w, nil
	}
	socket := ""
	if token != "" {
		socket = filepath.Join(o.folder(name), proxySocket)
	}
	next := newWay(name, token, socket, port)
	o.mu.Lock()
	defer o.mu.Unlock()
	if w != nil {
		w.http.CloseIdleConnections()
	}
	o.ways[name] = next
	return next, nil
}

// folder is what a server's container shares with bobbin.
func (o *Operator) folder(name string) string { return filepath.Join(o.servers.Path(), name, "run") }

// memory is what is kept of a server that was started: for a bobbin after this one, and for one beside it.
type memory struct {
	State string    `json:"state"` // pulling, building, starting, running or failed
	Why   string    `json:"why,omitempty"`
	Hint  string    `json:"hint,omitempty"`
	At    time.Time `json:"at"`
	Token string    `json:"token,omitempty"`
	Port  string    `json:"port,omitempty"`
	Tools int       `json:"tools,omitempty"`
	Print string    `json:"print,omitempty"` // of the definition that it was started with; of a remote one, the URL that was looked at

	Transport schemas.Transport `json:"transport,omitempty"` // that a remote one was found to speak
}

const memoryFile = "state.json"

// print tells one definition from another.
func (o *Operator) print(s Server) string {
	mac := hmac.New(sha256.New, o.salt)
	for _, v := range []any{s, s.Env, s.Headers} { // a Server's own JSON leaves values out
		_ = json.NewEncoder(mac).Encode(v) //nolint:errchkjson // a hash takes all
	}
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

func (o *Operator) recall(name string) (m memory, err error) {
	if !o.servers.Has(name) {
		return m, errors.New("operator: nothing is known of it")
	}
	dir, err := o.servers.Sub(name)
	if err != nil {
		return m, err
	}
	defer dir.Close()
	text, err := dir.Read(memoryFile, 64<<10)
	if err != nil {
		return m, err
	}
	return m, json.Unmarshal(text, &m)
}

func (o *Operator) remember(name string, m memory) error {
	dir, err := o.servers.Sub(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	m.At = o.opt.Now().UTC()
	return writeJSON(dir, memoryFile, m)
}

// token of a server's proxy. It stays the same over restarts, because sessions have it.
func (o *Operator) token(name string) (string, error) {
	dir, err := o.servers.Sub(name)
	if err != nil {
		return "", err
	}
	defer dir.Close()
	if text, err := dir.Read(tokenFile, 256); err == nil && len(text) == 52 {
		return string(text), nil
	}
	token := rand.Text() + rand.Text()
	return token, dir.Write(tokenFile, []byte(token))
}

func writeJSON(dir *durable.Dir, name string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return dir.Write(name, append(text, '\n'))
}

func (o *Operator) remembered(name string) (token, port string, err error) {
	m, err := o.recall(name)
	if err == nil && m.State != stateRunning && m.State != stateStarting {
		err = errors.New("operator: it does not run")
	}
	return m.Token, m.Port, err
}

// portOf is where a container's port is published, "" if it is not.
func portOf(c container.InspectResponse, port int) string {
	if c.NetworkSettings == nil {
		return ""
	}
	for p, all := range c.NetworkSettings.Ports {
		if int(p.Num()) == port && len(all) > 0 && all[0].HostPort != "" {
			return all[0].HostIP.String() + ":" + all[0].HostPort
		}
	}
	return ""
}
