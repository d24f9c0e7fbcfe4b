package host

import (
	"context"
	"errors"
	"net/url"
	"slices"

	"bobbin/audit"
	"bobbin/egress"
	"bobbin/internal/durable"
	"bobbin/internal/safehttp"
	"bobbin/mcpstore"
	"bobbin/sandbox"
	"bobbin/schemas"
)

// Container is how sandboxes in containers are, for the settings docker and auto.
type Container struct {
	Engine    string // unix://…; "" = DOCKER_HOST, else the usual socket
	Image     string // "" = bobbin-sandbox
	Binary    string // a static bobbin for this machine, which runs in the sandboxes; "" = this program
	PerServer bool   // one container a server, not one a member
	Runtime   string // such as runsc; "" = the engine's default
	CA        string // file with the certificates of this network's own authority; "" = none

	// What programs in sandboxes may reach, as schemas.EgressRules; private networks never, but for Options.Allow.
	Allow, Deny []string
	Default     schemas.Verb // for hosts on no list; "" = schemas.Allow
	Upstream    *url.URL     // the operator's proxy, which all of it goes through; nil = none
}

// containers gives the launcher of sandboxes in containers. Its error says in words what is missing.
func (opt Options) containers(ctx context.Context, boxes *durable.Dir, rules *mcpstore.Store, journal *audit.Log, late *gate) (*sandbox.Docker, error) {
	c := opt.Container
	way, err := egress.New(egress.Options{
		Rules: func(ctx context.Context, t schemas.ThreadID) (*schemas.EgressRules, error) {
			cfg, err := rules.Load(ctx, t)
			if err != nil {
				return nil, err
			}
			for _, p := range cfg.Problems {
				if p.File == "policy.json" { // what it forbids cannot be known
					return nil, &schemas.Error{Code: schemas.CodeUnreadable, Text: "the thread's rules cannot be read", Hint: "/mcp policy show"}
				}
			}
			return cfg.Policy.Egress, nil
		},
		Ask: late.Contact,
		Record: func(ctx context.Context, r schemas.Record) error {
			_, err := journal.Append(ctx, r)
			return err
		},
		Default: c.Default, Allow: c.Allow, Deny: c.Deny, Guard: safehttp.Options{Allow: opt.Allow}, Upstream: c.Upstream, Log: opt.Log,
	})
	if err != nil {
		return nil, err
	}
	return sandbox.NewDocker(ctx, sandbox.DockerOptions{
		Boxes: boxes, Engine: c.Engine, Image: c.Image, Binary: c.Binary, PerServer: c.PerServer, Runtime: c.Runtime, CA: c.CA, Egress: way, Log: opt.Log,
	})
}

// launcher picks where local servers run. boxes is nil unless they run in containers; why says then why they do not.
func (opt Options) launcher(ctx context.Context, work *durable.Dir, contained func() (*sandbox.Docker, error)) (run launcher, boxes *sandbox.Docker, why error, err error) {
	if slices.Contains([]string{"docker", "auto", ""}, opt.Sandbox) {
		boxes, why = contained()
		switch e, _ := errors.AsType[*schemas.Error](why); {
		case why == nil:
			return boxes, boxes, nil, nil
		case e != nil && e.Code == schemas.CodeConflict: // connectors work here, too
			return sandbox.NewOff(e.Text, e.Hint), nil, nil, nil
		case opt.Sandbox == "docker":
			return nil, nil, nil, why
		}
	}
	switch opt.Sandbox {
	case "auto", "":
		short := why
		if e, ok := errors.AsType[*schemas.Error](why); ok {
			opt.Log.Debug("no containers", "err", why)
			short = errors.New(e.Text)
		}
		opt.Log.Info("local servers run as processes, NOT isolated", "why", short)
		fallthrough
	case "process":
		p, err := sandbox.NewProcess(sandbox.Options{Work: work, Log: opt.Log})
		if err == nil {
			p.Sweep(ctx)
		}
		return p, nil, why, err
	case "off":
		return sandbox.NewOff("local servers are switched off here", "start bobbin with --sandbox auto"), nil, nil, nil
	}
	return nil, nil, nil, &schemas.Error{Code: schemas.CodeInvalid, Text: "the sandbox is auto, docker, process or off, not " + opt.Sandbox, Hint: "use --sandbox process"}
}
