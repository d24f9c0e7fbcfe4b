package operator

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"bobbin/internal/socket"
	"bobbin/schemas"
)

const (
	frameSocket = "frame.sock"
	frameTime   = 30 * time.Second
	maxFrame    = 1 << 20
	sessionFile = "mcp.json"
	maxSessions = 500
)

// Wanted is a session to make.
type Wanted struct {
	Name    string   // "" = one is made up
	Image   string   // of the driver; it is pulled if it is not here
	Servers []string // that it may use; those that do not run are started
	Command []string // in the place of the image's own
	TTY     bool     // the driver is used at a terminal: docker attach
}

// Session is a driver's container with the servers that it uses.
type Session struct {
	Name      string    `json:"name"`
	State     string    `json:"state"` // running or ended
	Container string    `json:"container"`
	ID        string    `json:"id"`
	Image     string    `json:"image"`
	Servers   []string  `json:"mcps"`
	Networks  []string  `json:"networks"`
	Created   time.Time `json:"created"`
	Exit      int       `json:"exit,omitempty"`
	Notes     []string  `json:"notes,omitempty"` // what was left out, and why
}

// Variable of a session's environment.
type Variable struct {
	Name   string
	Value  schemas.Secret
	Secret bool // it holds credentials
}

// attached is a server that a session uses.
type attached struct {
	server Server
	token  string
}

// Create makes a session: a container on a network of its own and on those of its servers. tell hears of the steps, and may be nil.
// Servers that are unknown, not allowed or do not start are left out, and Notes says so.
func (o *Operator) Create(ctx context.Context, w Wanted, tell func(step string)) (s Session, err error) {
	if tell == nil {
		tell = func(string) {}
	}
	if w.Name == "" {
		w.Name = strings.ToLower(rand.Text()[:8])
	}
	f, err := o.Load(ctx)
	if err != nil {
		return s, err
	}
	if err := o.wanted(ctx, w); err != nil {
		return s, err
	}
	var use []attached
	use, s.Notes = o.gather(ctx, f, w, tell)
	r := &run{o: o, prefix: names(f.Prefix), tell: tell}
	base, err := r.fetch(ctx, w.Image, func() error { tell("pulling " + w.Image); return nil })
	if err != nil {
		return s, err
	}
	binary, err := o.binary()
	if err != nil {
		return s, err
	}
	command := w.Command
	if base.Config != nil {
		if command = append(slices.Clone(base.Config.Entrypoint), w.Command...); len(w.Command) == 0 {
			command = append(command, base.Config.Cmd...)
		}
	}
	if len(command) == 0 {
		return s, &schemas.Error{Code: schemas.CodeInvalid, Text: "the image " + w.Image + " does not say what to run", Hint: "name a command after --"}
	}
	vars, err := o.variables(ctx, use)
	if err != nil {
		return s, err
	}
	c := sessionSpec(sessionPlan{want: w, prefix: r.prefix, instance: o.instance, image: base.ID, binary: binary, folder: o.sessionFolder(w.Name), command: command, use: use})
	if err := o.openSession(ctx, c, r.prefix, w.Name, use, vars); err != nil {
		return s, err
	}
	made, err := o.session(ctx, w.Name)
	made.Notes = s.Notes
	return made, err
}

func (o *Operator) wanted(ctx context.Context, w Wanted) error {
	switch {
	case !schemas.ThreadID(w.Name).Valid():
		return &schemas.Error{Code: schemas.CodeInvalid, Text: "a session's name has letters, digits, - and _, at most 64"}
	case !imageForm().MatchString(w.Image):
		return &schemas.Error{Code: schemas.CodeInvalid, Text: "the image of the session's driver is missing", Hint: "--image goose, or the image of another driver"}
	}
	all, err := o.found(ctx, labelRole+"="+roleSession)
	if err != nil {
		return err
	}
	if len(all) >= maxSessions {
		return &schemas.Error{Code: schemas.CodeTooLarge, Text: fmt.Sprintf("there are %d sessions already", maxSessions), Hint: "bobbin session stop NAME"}
	}
	if slices.ContainsFunc(all, func(c container.Summary) bool { return c.Labels[labelSession] == w.Name }) {
		return &schemas.Error{Code: schemas.CodeConflict, Text: "session '" + w.Name + "' is there already", Hint: "bobbin session stop " + w.Name}
	}
	return nil
}

// gather finds and starts the servers of a session.
func (o *Operator) gather(ctx context.Context, f File, w Wanted, tell func(string)) (use []attached, notes []string) {
	for _, name := range w.Servers {
		s, ok := f.Find(name)
		switch {
		case slices.ContainsFunc(use, func(a attached) bool { return a.server.Name == name }):
			continue
		case !ok:
			notes = append(notes, fmt.Sprintf("MCP server '%s' not found, skipped", schemas.Clean(name, true)))
			continue
		case !s.allowsSession(w.Name):
			notes = append(notes, fmt.Sprintf("MCP server '%s' does not allow this session, skipped", name))
			continue
		}
		a := attached{server: s}
		if s.Type == Proxied {
			tell(fmt.Sprintf("Ensuring MCP server '%s' is running...", name))
			_, err := o.Start(ctx, name, func(step string) { tell(name + ": " + step) })
			if err == nil {
				a.token, _, err = o.remembered(name)
			}
			if err != nil {
				notes = append(notes, fmt.Sprintf("MCP server '%s' does not start, skipped: %s", name, explained(name, err).Text))
				continue
			}
			a.server, _ = f.Find(name)
		} else if _, err := o.resolve(ctx, s, s.Headers); err != nil {
			notes = append(notes, fmt.Sprintf("MCP server '%s' is skipped: %s", name, explained(name, err).Text))
			continue
		}
		use = append(use, a)
	}
	return use, notes
}

// variables of a session, by which a driver finds its servers. The ports are those inside of the networks.
func (o *Operator) variables(ctx context.Context, use []attached) ([]Variable, error) {
	var all []Variable
	add := func(name, value string, secret bool) {
		all = append(all, Variable{name, schemas.NewSecret(value), secret})
	}
	list := []string{}
	for _, a := range use {
		list = append(list, a.server.Name)
	}
	text, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	add("MCP_COUNT", strconv.Itoa(len(use)), false)
	add("MCP_NAMES", string(text), false)
	for i, a := range use {
		headers, err := o.headers(ctx, a)
		if err != nil {
			return nil, err
		}
		text, err := json.Marshal(headers)
		if err != nil {
			return nil, err
		}
		p := "MCP_" + strconv.Itoa(i)
		host, port, sse, http := a.addresses()
		add(p+"_NAME", a.server.Name, false)
		add(p+"_TYPE", a.server.Type, false)
		add(p+"_HOST", host, false)
		add(p+"_PORT", port, false)
		add(p+"_URL", sse, false)
		add(p+"_HTTP_URL", http, false)
		add(p+"_HEADERS", string(text), len(headers) > 0)
		for _, k := range slices.Sorted(maps.Keys(headers)) {
			add(headerVariable(i, k), headers[k], true)
		}
	}
	return all, nil
}

func headerVariable(i int, header string) string {
	return "MCP_" + strconv.Itoa(i) + "_HEADER_" + strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToUpper(header))
}

func (o *Operator) headers(ctx context.Context, a attached) (map[string]string, error) {
	headers := map[string]string{}
	if a.token != "" {
		headers["Authorization"] = "Bearer " + a.token
	}
	values, err := o.resolve(ctx, a.server, a.server.Headers)
	for k, v := range values {
		headers[k] = v.Reveal()
	}
	return headers, err
}

// addresses of a server as a session sees it: sse is the one for older clients, http for streamable HTTP.
func (a attached) addresses() (host, port, sse, http string) {
	if a.server.Type == Proxied {
		return a.server.Name, strconv.Itoa(a.server.ProxyOptions.Port), insideURL(a.server, "/sse"), insideURL(a.server, "/mcp")
	}
	u, err := url.Parse(a.server.URL)
	if err != nil { // was checked
		return "", "", a.server.URL, a.server.URL
	}
	if port = u.Port(); port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	if strings.HasSuffix(strings.TrimSuffix(u.Path, "/"), "/sse") {
		return u.Hostname(), port, a.server.URL, ""
	}
	return u.Hostname(), port, a.server.URL, a.server.URL
}

// clientFile is the configuration that drivers read, in the shape of Claude Code's .mcp.json. Header values stand in it as names of
// variables.
func clientFile(use []attached, headers func(int) []string) ([]byte, error) {
	type entry struct {
		Type    string            `json:"type"`
		URL     string            `json:"url"`
		Headers map[string]string `json:"headers,omitempty"`
	}
	file := struct {
		Servers map[string]entry `json:"mcpServers"`
	}{map[string]entry{}}
	for i, a := range use {
		_, _, sse, http := a.addresses()
		e := entry{Type: "http", URL: http}
		if http == "" {
			e = entry{Type: "sse", URL: sse}
		}
		for _, k := range headers(i) {
			if e.Headers == nil {
				e.Headers = map[string]string{}
			}
			e.Headers[k] = "${" + headerVariable(i, k) + "}"
		}
		file.Servers[a.server.Name] = e
	}
	return json.MarshalIndent(file, "", "  ")
}

type sessionPlan struct {
	want                            Wanted
	prefix                          names
	instance, image, binary, folder string
	command                         []string
	use                             []attached
}

// sessionSpec is the whole container of a session. Its environment comes over a socket when it starts, so that the engine keeps none
// of it.
func sessionSpec(p sessionPlan) client.ContainerCreateOptions {
	list := []string{}
	for _, a := range p.use {
		list = append(list, a.server.Name)
	}
	text, _ := json.Marshal(list) // a list of names
	c := hardened(p.prefix.session(p.want.Name), p.image, map[string]string{
		labelInstance: p.instance, labelRole: roleSession, labelSession: p.want.Name, labelServers: string(text), labelImage: p.want.Image,
	})
	c.Config.Entrypoint, c.Config.Cmd = []string{program, "frame", runPath + "/" + frameSocket}, p.command
	c.Config.OpenStdin, c.Config.Tty = true, p.want.TTY
	c.HostConfig.Mounts = []mount.Mount{
		{Type: mount.TypeBind, Source: p.folder, Target: runPath, ReadOnly: true},
		{Type: mount.TypeBind, Source: p.binary, Target: program, ReadOnly: true},
	}
	c.HostConfig.Resources.Memory, c.HostConfig.Resources.MemorySwap = 2<<30, 2<<30 // a driver is an application with a person in front
	onNetwork(&c, p.prefix.sessionNet(p.want.Name))
	return c
}

func (o *Operator) sessionFolder(name string) string {
	return filepath.Join(o.state.Path(), "sessions", name, "run")
}

// openSession makes the networks and the container, starts it, and hands it its environment.
func (o *Operator) openSession(ctx context.Context, c client.ContainerCreateOptions, prefix names, name string, use []attached, vars []Variable) (err error) {
	folder := o.sessionFolder(name)
	if err := errors.Join(os.RemoveAll(folder), os.MkdirAll(folder, 0o700), os.Chmod(folder, 0o755)); err != nil {
		return failed("the session's folder cannot be made", err)
	}
	l, err := o.lendFrame(ctx, folder, use)
	if err != nil {
		return failed("the session's folder cannot be made", err)
	}
	defer l.Close()
	if _, err := o.network(ctx, prefix.sessionNet(name), roleSession, false); err != nil {
		return err
	}
	id, err := o.create(ctx, c)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = o.discard(context.WithoutCancel(ctx), id)
			o.forsake(context.WithoutCancel(ctx), prefix.sessionNet(name))
		}
	}()
	for _, a := range use {
		if a.server.Type == Proxied {
			if err := o.join(ctx, prefix.network(a.server.Name), id, a.server.link(o.turn(ctx, a.server), prefix)); err != nil {
				return err
			}
		}
	}
	if err := o.startContainer(ctx, id); err != nil {
		return err
	}
	if err := handFrame(ctx, l, vars); err != nil {
		c, _, _ := o.inspect(ctx, id)
		return o.ended(ctx, id, c)
	}
	return os.Remove(filepath.Join(folder, frameSocket))
}

// lendFrame fills the folder that a session sees: the configuration for its driver, and the socket for its environment.
func (o *Operator) lendFrame(ctx context.Context, folder string, use []attached) (net.Listener, error) {
	file, err := clientFile(use, func(i int) []string {
		h, _ := o.headers(ctx, use[i]) // an error was told before
		return slices.Sorted(maps.Keys(h))
	})
	if err != nil {
		return nil, err
	}
	in, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	if err := errors.Join(in.WriteFile(sessionFile, file, 0o644), in.Chmod(sessionFile, 0o644)); err != nil {
		return nil, err
	}
	return socket.Listen(filepath.Join(folder, frameSocket))
}

// handFrame gives the environment to the first who asks: until it has it, nothing else runs in the container.
func handFrame(ctx context.Context, l net.Listener, vars []Variable) error {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	if d, ok := l.(interface{ SetDeadline(time.Time) error }); ok {
		if err := d.SetDeadline(time.Now().Add(frameTime)); err != nil {
			return err
		}
	}
	conn, err := l.Accept()
	if err != nil {
		return err
	}
	defer conn.Close()
	env := map[string]string{"MCP_CONFIG": runPath + "/" + sessionFile}
	for _, v := range vars {
		env[v.Name] = v.Value.Reveal()
	}
	if err := conn.SetDeadline(time.Now().Add(frameTime)); err != nil {
		return err
	}
	if err := json.NewEncoder(conn).Encode(env); err != nil {
		return err
	}
	return nil
}

// Frame reads the environment that a session's container is handed at its socket, as NAME=VALUE. It is for the program inside.
func Frame(ctx context.Context, socket string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, frameTime)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, &schemas.Error{Code: schemas.CodeNotReady, Text: "the session's environment is not at hand: a session that ended is not started again", Hint: "bobbin session create makes another", Err: err}
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(frameTime)); err != nil {
		return nil, err
	}
	env := map[string]string{}
	if err := json.NewDecoder(io.LimitReader(conn, maxFrame)).Decode(&env); err != nil {
		return nil, err
	}
	all := make([]string, 0, len(env))
	for _, k := range slices.Sorted(maps.Keys(env)) {
		all = append(all, k+"="+env[k])
	}
	return all, nil
}
