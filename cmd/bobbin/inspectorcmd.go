package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bobbin/operator"
	"bobbin/schemas"
)

// inspection is what the inspector's page gets to work with.
type inspection struct {
	Operator *operator.Operator
	Page     net.Listener // of --client-port, on loopback
	API      net.Listener // of --server-port, on loopback; every request of it must bear Token
	Token    string
	Stop     func() // ends the inspector
}

type inspectorFlags struct {
	client, server int
	detach, stop   bool
	image          string
}

func (m *Main) inspectorCommand() *cobra.Command {
	var flags inspectorFlags
	c := &cobra.Command{Use: "inspector", Short: "Look at the operator's MCP servers on a page: their tools, calls and messages", Args: cobra.NoArgs}
	f := c.Flags()
	f.IntVar(&flags.client, "client-port", 5173, "port of the page")
	f.IntVar(&flags.server, "server-port", 3000, "port of what the page asks")
	f.BoolVar(&flags.detach, "detach", false, "go on in the background")
	f.BoolVar(&flags.stop, "stop", false, "end the one that runs")
	f.StringVar(&flags.image, "image", "", "another inspector in a container on the networks of all servers, such as mcp/inspector")
	c.RunE = m.withOperator(func(ctx context.Context, o *operator.Operator, _ []string) error {
		switch {
		case flags.stop:
			return m.stopInspector(ctx, o)
		case flags.detach && flags.image == "":
			return m.detachInspector(ctx, o, flags)
		}
		return m.inspector(ctx, o, flags)
	})
	return c
}

func (m *Main) stopInspector(ctx context.Context, o *operator.Operator) error {
	was, err := o.StopInspector(ctx)
	switch {
	case err != nil:
		return err
	case m.JSON:
		return m.printJSON(map[string]bool{"stopped": was})
	case was:
		m.sayf("MCP Inspector stopped")
	default:
		m.sayf("No running MCP Inspector instances found")
	}
	return nil
}

// claim looks that no other inspector runs, and takes both ports.
func claim(ctx context.Context, o *operator.Operator, flags inspectorFlags) (page, api net.Listener, err error) {
	if i, running, err := o.InspectorRunning(ctx); err != nil {
		return nil, nil, err
	} else if running {
		return nil, nil, &schemas.Error{Code: schemas.CodeConflict, Text: fmt.Sprintf("an MCP Inspector runs already at http://127.0.0.1:%d", i.Client), Hint: "bobbin mcp inspector --stop ends it"}
	}
	if page, err = operator.FreePort(flags.client, "--client-port"); err != nil {
		return nil, nil, err
	}
	if api, err = operator.FreePort(flags.server, "--server-port"); err != nil {
		_ = page.Close()
		return nil, nil, err
	}
	return page, api, nil
}

func (m *Main) tellInspector(ctx context.Context, o *operator.Operator, i operator.Inspector) error {
	query := ""
	if i.Token != "" {
		query = "/?token=" + i.Token
	}
	if m.JSON {
		urls, err := o.InspectorURLs(ctx)
		return errors.Join(err, m.printJSON(struct {
			operator.Inspector
			Page    string   `json:"page"`
			API     string   `json:"api"`
			Servers []string `json:"servers"`
		}{i, fmt.Sprintf("http://127.0.0.1:%d%s", i.Client, query), fmt.Sprintf("http://127.0.0.1:%d", i.Server), urls}))
	}
	m.sayf("MCP Inspector: http://127.0.0.1:%d%s", i.Client, query)
	m.sayf("Backend: http://127.0.0.1:%d", i.Server)
	urls, err := o.InspectorURLs(ctx)
	for _, u := range urls {
		m.sayf("- %s", u)
	}
	return err
}

// inspector serves until it is stopped; a container goes on by itself with --detach.
func (m *Main) inspector(ctx context.Context, o *operator.Operator, flags inspectorFlags) error {
	page, api, err := claim(ctx, o, flags)
	if err != nil {
		return err
	}
	i := operator.Inspector{Client: flags.client, Server: flags.server}
	if flags.image != "" {
		if err := errors.Join(page.Close(), api.Close()); err != nil {
			return err
		}
		return m.inspectorContainer(ctx, o, i, flags)
	}
	defer page.Close()
	defer api.Close()
	i.Token = rand.Text()
	if err := o.RememberInspector(i); err != nil {
		return err
	}
	defer o.ForgetInspector() //nolint:errcheck // the next one replaces it
	if err := m.tellInspector(ctx, o, i); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	return m.inspect(ctx, inspection{Operator: o, Page: page, API: api, Token: i.Token, Stop: stop})
}

func (m *Main) inspectorContainer(ctx context.Context, o *operator.Operator, i operator.Inspector, flags inspectorFlags) error {
	i, err := o.InspectorContainer(ctx, flags.image, i, func(step string) { _, _ = fmt.Fprintln(m.Err, step) })
	if err != nil {
		return err
	}
	if err := m.tellInspector(ctx, o, i); err != nil || flags.detach {
		return err
	}
	<-ctx.Done()
	_, err = o.StopInspector(context.WithoutCancel(ctx))
	return err
}

// detachInspector starts this program once more, without a terminal, and waits until it serves.
func (m *Main) detachInspector(ctx context.Context, o *operator.Operator, flags inspectorFlags) error {
	page, api, err := claim(ctx, o, flags)
	if err != nil {
		return err
	}
	if err := errors.Join(page.Close(), api.Close()); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	data, err := filepath.Abs(m.Data)
	if err != nil {
		return err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	args := []string{self, "mcp", "inspector", "--data", data, fmt.Sprintf("--client-port=%d", flags.client), fmt.Sprintf("--server-port=%d", flags.server)}
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "BOBBIN_DETACH=") })
	p, err := os.StartProcess(self, args, &os.ProcAttr{Files: []*os.File{null, null, null}, Env: env, Sys: apart()})
	if err != nil {
		return &schemas.Error{Code: schemas.CodeFailed, Text: "the inspector cannot be started in the background", Hint: "leave --detach out", Err: err}
	}
	for range 200 {
		i, running, err := o.InspectorRunning(ctx)
		if err == nil && running {
			_ = p.Release()
			return m.tellInspector(ctx, o, i)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	_ = p.Kill()
	return &schemas.Error{Code: schemas.CodeFailed, Text: "the inspector does not start in the background", Hint: "leave --detach out to see why"}
}
