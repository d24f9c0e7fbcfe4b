package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"bobbin/schemas"
)

const (
	inspectorFile = "inspector.json"
	// Ports of the inspector's image inside of its container.
	inspectorClient = 5173
	inspectorServer = 3000
)

// Inspector is a running inspector: bobbin's own page, or a container.
type Inspector struct {
	Client    int       `json:"client_port"` // of the page
	Server    int       `json:"server_port"` // of what it asks
	Token     string    `json:"token"`       // that its API asks for
	Container string    `json:"container,omitempty"`
	Image     string    `json:"image,omitempty"`
	At        time.Time `json:"at"`
}

// InspectorRunning finds the inspector of this data folder; ok is false when none runs.
func (o *Operator) InspectorRunning(ctx context.Context) (i Inspector, ok bool, err error) {
	text, err := o.state.Read(inspectorFile, 64<<10)
	if errors.Is(err, fs.ErrNotExist) {
		return i, false, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &i)
	}
	if err != nil {
		return i, false, failed("what is known of the inspector cannot be read", err)
	}
	if i.Container != "" {
		c, found, err := o.inspect(ctx, i.Container)
		return i, found && c.Config != nil && c.Config.Labels[labelInstance] == o.instance && c.State.Running, err
	}
	return i, i.ask(ctx, http.MethodGet, "/healthz") == nil, nil
}

// ask makes a request to the API of bobbin's own page.
func (i Inspector) ask(ctx context.Context, method, path string) error {
	ctx, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "http://"+netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(i.Server)).String()+path, nil) //nolint:gosec // a port
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+i.Token)
	w := newWay("", i.Token, "", r.URL.Host)
	defer w.http.CloseIdleConnections()
	resp, err := w.http.Do(r)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("operator: the inspector answers %d", resp.StatusCode)
	}
	return nil
}

// RememberInspector writes down where one runs, so that another bobbin can end it.
func (o *Operator) RememberInspector(i Inspector) error {
	i.At = o.opt.Now().UTC()
	return failed("the inspector's state cannot be written", writeJSON(o.state, inspectorFile, i))
}

// ForgetInspector is for one that ends by itself.
func (o *Operator) ForgetInspector() error { return o.state.Remove(inspectorFile) }

// StopInspector ends the inspector; false: none ran. It waits until the page is gone.
func (o *Operator) StopInspector(ctx context.Context) (bool, error) {
	i, running, err := o.InspectorRunning(ctx)
	if err != nil {
		return false, err
	}
	if i.Container != "" {
		if c, ok, err := o.inspect(ctx, i.Container); err != nil {
			return false, err
		} else if ok && c.Config != nil && c.Config.Labels[labelInstance] == o.instance {
			if err := o.discard(ctx, c.ID); err != nil {
				return false, err
			}
		}
		return running, o.ForgetInspector()
	}
	if !running {
		return false, o.ForgetInspector()
	}
	if err := i.ask(ctx, http.MethodPost, "/stop"); err != nil {
		return false, failed("the inspector does not end", err)
	}
	for range 100 {
		if i.ask(ctx, http.MethodGet, "/healthz") != nil {
			return true, o.ForgetInspector()
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	return false, &schemas.Error{Code: schemas.CodeFailed, Text: "the inspector does not end", Hint: "end its process by hand"}
}

// InspectorURLs says by which name and address each server that runs is found from an inspector's container.
func (o *Operator) InspectorURLs(ctx context.Context) ([]string, error) {
	f, err := o.Load(ctx)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, s := range f.Servers {
		switch {
		case s.Wrong != "":
		case s.Type == Remote:
			all = append(all, s.Name+": "+s.URL)
		default:
			all = append(all, s.Name+": "+insideURL(s, "/sse"))
		}
	}
	return all, nil
}

// inspectorSpec is the container of another inspector than bobbin's own page.
func inspectorSpec(prefix names, instance, image, name string, i Inspector) client.ContainerCreateOptions {
	c := hardened(prefix.inspector(), image, map[string]string{labelInstance: instance, labelRole: roleInspector, labelImage: name})
	// It binds every address inside, or nothing could be published; outside that is this machine's loopback alone.
	c.Config.Env = []string{
		"HOST=0.0.0.0", "CLIENT_PORT=" + strconv.Itoa(inspectorClient), "SERVER_PORT=" + strconv.Itoa(inspectorServer),
		"ALLOWED_ORIGINS=http://127.0.0.1:" + strconv.Itoa(i.Client) + ",http://localhost:" + strconv.Itoa(i.Client),
	}
	published(&c, inspectorClient, i.Client)
	published(&c, inspectorServer, i.Server)
	onNetwork(&c, prefix.common(), "inspector")
	return c
}

// InspectorContainer runs another inspector in a container that is on the networks of all servers. Its own token stands in its log.
func (o *Operator) InspectorContainer(ctx context.Context, image string, i Inspector, tell func(step string)) (Inspector, error) {
	f, err := o.Load(ctx)
	if err != nil {
		return i, err
	}
	if !imageForm().MatchString(image) {
		return i, &schemas.Error{Code: schemas.CodeInvalid, Text: "--image must name an image", Hint: "mcp/inspector, for one"}
	}
	r := &run{o: o, prefix: names(f.Prefix), tell: tell}
	base, err := r.fetch(ctx, image, func() error { tell("pulling " + image); return nil })
	if err != nil {
		return i, err
	}
	if _, err := o.network(ctx, r.prefix.common(), roleServer, true); err != nil {
		return i, err
	}
	id, err := o.create(ctx, inspectorSpec(r.prefix, o.instance, base.ID, image, i))
	if err != nil {
		return i, err
	}
	i.Container, i.Image = id, image
	for _, s := range f.Servers {
		if s.Type != Proxied || s.Wrong != "" {
			continue
		}
		if err = o.join(ctx, r.prefix.network(s.Name), id, &network.EndpointSettings{}); err != nil {
			break
		}
	}
	if err == nil {
		err = o.RememberInspector(i)
	}
	if err == nil {
		err = o.startContainer(ctx, id)
	}
	if err != nil {
		return i, errors.Join(err, o.discard(context.WithoutCancel(ctx), id))
	}
	return i, nil
}

// FreePort says in words that a port of this machine's loopback is taken.
func FreePort(port int, flag string) (net.Listener, error) {
	if port < 1 || port > 65535 {
		return nil, &schemas.Error{Code: schemas.CodeInvalid, Text: fmt.Sprintf("%s is a number from 1 to 65535, not %d", flag, port)}
	}
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, &schemas.Error{Code: schemas.CodeConflict, Text: fmt.Sprintf("port %d of this machine is already in use", port), Hint: "choose another one with " + flag, Err: err}
	}
	return l, nil
}
