package main

import (
	"net/url"
	"slices"

	"github.com/spf13/pflag"

	"bobbin/host"
	"bobbin/schemas"
)

// containerFlags say how sandboxes in containers are.
type containerFlags struct {
	host.Container

	isolation, defaults, upstream string
}

func (f *containerFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.Image, "sandbox-image", "bobbin-sandbox", "`image` of the sandboxes; bobbin sandbox build makes the usual one (BOBBIN_SANDBOX_IMAGE)")
	flags.StringVar(&f.isolation, "sandbox-isolation", "member", "one container for each: member or server (BOBBIN_SANDBOX_ISOLATION)")
	flags.StringVar(&f.Runtime, "sandbox-runtime", "", "the engine's runtime for sandboxes, such as runsc (BOBBIN_SANDBOX_RUNTIME)")
	flags.StringVar(&f.CA, "sandbox-ca", "", "file with the certificates of this network's own authority, for programs in sandboxes (BOBBIN_SANDBOX_CA)")
	flags.StringVar(&f.Binary, "sandbox-binary", "", "static bobbin for this machine that runs in the sandboxes; this program if none is named (BOBBIN_SANDBOX_BINARY)")
	flags.StringVar(&f.defaults, "egress-default", "allow", "what sandboxes may reach of the public internet, where no list says: allow, ask or deny (BOBBIN_EGRESS_DEFAULT)")
	flags.StringSliceVar(&f.Allow, "egress-allow", nil, "host that sandboxes may reach, such as *.example.com; may be repeated (BOBBIN_EGRESS_ALLOW)")
	flags.StringSliceVar(&f.Deny, "egress-deny", nil, "host that no sandbox may reach; may be repeated (BOBBIN_EGRESS_DENY)")
	flags.StringVar(&f.upstream, "egress-upstream", "", "proxy that everything from sandboxes goes through, such as http://proxy.example.com:3128 (BOBBIN_EGRESS_UPSTREAM)")
}

// container checks the flags.
func (f *containerFlags) container() (host.Container, error) {
	c := f.Container
	if !slices.Contains([]string{"", "member", "server"}, f.isolation) {
		return c, usagef("--sandbox-isolation is member or server, not %q", f.isolation)
	}
	c.PerServer = f.isolation == "server"
	if c.Default = schemas.Verb(f.defaults); !slices.Contains([]schemas.Verb{"", schemas.Allow, schemas.AskVerb, schemas.Deny}, c.Default) {
		return c, usagef("--egress-default is allow, ask or deny, not %q", f.defaults)
	}
	for name, hosts := range map[string][]string{"allow": c.Allow, "deny": c.Deny} {
		for _, h := range hosts {
			if !schemas.ValidHost(h) {
				return c, usagef("--egress-%s: %q is no host such as api.example.com, *.example.com or api.example.com:8443", name, h)
			}
		}
	}
	if f.upstream != "" {
		u, err := url.Parse(f.upstream)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return c, usagef("--egress-upstream is no address like http://proxy.example.com:3128") // it may hold a password
		}
		c.Upstream = u
	}
	return c, nil
}
