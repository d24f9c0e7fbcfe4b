package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"bobbin/bot"
	"bobbin/host"
	"bobbin/oauth"
	"bobbin/schemas"
)

// conformant is the client that the official conformance suite drives: bobbin's own rooms, a person who says yes, and that person's
// browser. Its last argument is the server's address.
func conformant() int {
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Second)
	defer cancel()
	c := &conformer{scenario: os.Getenv("MCP_CONFORMANCE_SCENARIO"), clients: map[string]oauth.Client{}}
	if raw := os.Getenv("MCP_CONFORMANCE_CONTEXT"); raw != "" {
		if err := json.Unmarshal([]byte(raw), &c.context); err != nil {
			fmt.Fprintln(os.Stderr, "context:", err)
			return 1
		}
	}
	if err := c.run(ctx, os.Args[len(os.Args)-1]); err != nil {
		fmt.Fprintln(os.Stderr, "conformant:", err)
		return 1
	}
	return 0
}

type toolCall struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

type conformer struct {
	scenario string
	context  struct {
		ClientID     string     `json:"client_id"`
		ClientSecret string     `json:"client_secret"`
		ToolCalls    []toolCall `json:"toolCalls"`
	}
	clients map[string]oauth.Client
	host    *host.Host
	caller  schemas.Caller
	server  schemas.Server
}

func (c *conformer) run(ctx context.Context, address string) error {
	data, err := os.MkdirTemp("", "conformant-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(data) }()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	c.host, err = host.Open(ctx, host.Options{Data: data, Sandbox: "off", Version: "conformance", Log: log, Loopback: true, Connect: host.Connect{
		Local:   func() (string, error) { return "http://" + l.Addr().String(), nil },
		Clients: c.clients, Document: "https://conformance-test.local/client-metadata.json",
	}})
	if err != nil {
		return err
	}
	c.caller = schemas.Caller{Thread: "terminal-conformance", Member: "operator", Name: "operator", Door: schemas.DoorTerminal, Role: schemas.Owner, Operator: true}
	c.server = schemas.Server{Name: "suite", Type: schemas.HTTP, URL: address, Auth: &schemas.Auth{Type: "none"}}
	if strings.HasPrefix(c.scenario, "auth/") {
		c.server.Auth = &schemas.Auth{Type: "oauth", Identity: "requester"}
	}
	p, err := c.host.Store.Propose(ctx, c.caller, schemas.Edit{Put: []schemas.Draft{{Server: c.server}}, Source: "connect"})
	if err != nil {
		return err
	}
	if _, err := c.host.Store.Commit(ctx, c.caller, p); err != nil {
		return err
	}
	return c.host.Run(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		g, ctx := errgroup.WithContext(ctx)
		g.Go(func() error { return serveUntil(ctx, &http.Server{Handler: c.host.SignIns.Handler()}, l) })
		g.Go(func() error { return c.answer(ctx) })
		g.Go(func() error { defer cancel(); return c.use(ctx) })
		return g.Wait()
	})
}

// use lists the tools and calls them, signing in wherever that is asked for.
func (c *conformer) use(ctx context.Context) error {
	var tools []schemas.Tool
	err := c.signedIn(ctx, func() error {
		if err := c.host.Registry.Apply(ctx, c.caller.Thread); err != nil {
			return err
		}
		ss, err := c.host.Registry.Status(ctx, c.caller.Thread)
		if err != nil {
			return err
		}
		if ss[0].State == schemas.NeedsConnect {
			return &schemas.Error{Code: schemas.CodeNeeds, Text: ss[0].Why}
		}
		if ss[0].State == schemas.Failed {
			return errors.New(ss[0].Why)
		}
		tools, err = c.host.Registry.Tools(ctx, c.caller)
		return err
	})
	if err != nil {
		return err
	}
	if err := c.host.Store.Rule(ctx, c.caller.Thread, func(p *schemas.Policy) error {
		p.Thread.Allow = []string{"suite.*"}
		return nil
	}); err != nil {
		return err
	}
	var first error
	for _, one := range c.calls(tools) {
		err := c.signedIn(ctx, func() error {
			res, err := c.host.Registry.Call(ctx, schemas.Call{Caller: c.caller, Origin: schemas.ByPerson, Tool: "suite." + one.Name, Args: one.Arguments})
			if err == nil {
				fmt.Fprintf(os.Stderr, "%s: %.200s\n", one.Name, res.Raw)
			}
			return err
		})
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", one.Name, err)
			first = errors.Join(first, err)
		}
	}
	return first
}

// calls are those that the suite names, or one of each tool. Of json-schema-2020-12-preservation they are what that scenario asks of a
// client: one tool's schema as it arrived here, given to the other.
func (c *conformer) calls(tools []schemas.Tool) []toolCall {
	if len(c.context.ToolCalls) > 0 {
		return c.context.ToolCalls
	}
	var calls []toolCall
	for _, t := range tools {
		if c.scenario != "json-schema-2020-12-preservation" {
			calls = append(calls, toolCall{t.Name, sample(t.Input)})
		} else if t.Name == "json_schema_2020_12_tool" {
			calls = append(calls, toolCall{"json_schema_echo", json.RawMessage(`{"schema":` + string(t.Input) + `}`)})
		}
	}
	return calls
}

// signedIn does something, and signs in and does it again as long as that is what it lacks.
func (c *conformer) signedIn(ctx context.Context, do func() error) error {
	for range 6 {
		err := do()
		if schemas.CodeOf(err) != schemas.CodeNeeds {
			return err
		}
		if err := c.signIn(ctx); err != nil {
			return err
		}
	}
	return errors.New("it wants a sign-in again and again")
}

func (c *conformer) signIn(ctx context.Context) error {
	if c.context.ClientID != "" {
		offer, err := c.host.SignIns.Offer(ctx, c.caller, c.server)
		if err != nil {
			return err
		}
		c.clients[offer.Issuer] = oauth.Client{ID: c.context.ClientID, Secret: c.context.ClientSecret}
	}
	link, err := c.host.SignIns.Link(ctx, schemas.SignIn{Caller: c.caller, Server: c.server, Shared: "only you"})
	if err != nil {
		return err
	}
	if _, err := newBrowser(nil).walk(ctx, link.URL, nil); err != nil {
		return err
	}
	return c.host.SignIns.Finish(ctx, c.caller, link.ID, "")
}

// sample makes arguments that fit a schema, plainly.
func sample(schema json.RawMessage) json.RawMessage {
	var s struct {
		Properties map[string]struct {
			Type    string            `json:"type"`
			Default json.RawMessage   `json:"default"`
			Enum    []json.RawMessage `json:"enum"`
		} `json:"properties"`
		Required []string `json:"required"`
	}
	_ = json.Unmarshal(schema, &s)
	args := map[string]any{}
	for _, name := range s.Required {
		switch p := s.Properties[name]; {
		case p.Default != nil:
			args[name] = p.Default
		case len(p.Enum) > 0:
			args[name] = p.Enum[0]
		default:
			args[name] = map[string]any{"number": 5, "integer": 3, "boolean": true, "array": []any{}, "object": map[string]any{}}[p.Type]
			if args[name] == nil {
				args[name] = "text"
			}
		}
	}
	b, _ := json.Marshal(args)
	return b
}

// answer says yes to every question with what its form proposes.
func (c *conformer) answer(ctx context.Context) error {
	notices, stop := c.host.Bot.Subscribe(c.caller.Thread, c.caller.Member)
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case n := <-notices:
			if n.Reply.ID == "" {
				continue
			}
			a := bot.Action{ID: n.Reply.ID}
			if n.Reply.Form != nil {
				a.Values = map[string]string{}
				for _, f := range n.Reply.Form.Fields {
					a.Values[f.Name] = f.Default
				}
			} else {
				a.Choice = n.Reply.Choices[0].Key
			}
			r := c.host.Bot.Handle(ctx, bot.Request{Caller: c.caller, Action: &a})
			fmt.Fprintf(os.Stderr, "answered: %+v\n", r.Blocks)
		}
	}
}
