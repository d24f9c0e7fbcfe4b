package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"bobbin/sandbox"
)

const reachTime = 8 * time.Second // for one host

// sandbox looks at where members' programs would run.
func (d *doctor) sandbox(ctx context.Context) {
	how := d.m.Sandbox
	switch how {
	case "off":
		d.ok("sandbox", "off: threads have connectors only")
		return
	case "process":
		d.say(warning, "sandbox", "use --sandbox docker where others than you may add servers", "members' programs run on this machine as %s, NOT isolated", me())
		d.programs()
		return
	case "auto", "docker":
	default:
		d.say(problem, "sandbox", "bobbin serve --help", "--sandbox is auto, docker, process or off, not %q", how)
		return
	}
	boxes, err := d.m.containers.container()
	if err != nil {
		d.fault(problem, "sandbox", "", err)
		return
	}
	s, err := sandbox.Look(ctx, sandbox.DockerOptions{Engine: boxes.Engine, Image: boxes.Image, Binary: boxes.Binary, Runtime: boxes.Runtime, CA: boxes.CA})
	d.engine(s)
	switch {
	case err == nil:
		d.ok("sandbox", "the engine has the image %s", boxes.Image)
		if boxes.Runtime != "" {
			d.ok("sandbox", "the engine has the runtime %s", boxes.Runtime)
		}
		if boxes.CA != "" {
			d.ok("sandbox", "the certificates in %s can be read", boxes.CA)
		}
		d.lock(ctx)
	case how == "docker":
		d.faults(problem, err)
	default:
		d.faults(warning, err)
		d.say(warning, "sandbox", "mend that, or say --sandbox off or process, so that it is meant", "with --sandbox auto programs then run as %s for the terminal and the page, and not at all for Discord", me())
		d.programs()
	}
}

// faults says each of joined errors.
func (d *doctor) faults(state string, err error) {
	if all, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // the join itself is looked at
		for _, e := range all.Unwrap() {
			d.faults(state, e)
		}
		return
	}
	d.fault(state, "sandbox", "docker info says more", err)
}

func (d *doctor) engine(s sandbox.Survey) {
	if s.Version == "" {
		return
	}
	name := "engine"
	if s.Podman {
		name = "Podman"
	}
	d.ok("sandbox", "%s %s at %s, storage %s", name, s.Version, s.Engine, s.Driver)
	if len(s.Missing) > 0 {
		d.say(problem, "sandbox", "switch the cgroup controllers on, or use an engine that is not rootless without them", "the engine cannot limit %s: one member's program can take it all", strings.Join(s.Missing, ", "))
	}
	switch {
	case s.Free < 0:
		d.say(warning, "sandbox", "see that its disk has room: df -h "+s.Root, "how much room the engine has in %s cannot be seen from here", s.Root)
	case s.Free < 2<<30:
		d.say(warning, "sandbox", "make room there: sandboxes are stopped when less than 1 GiB is free", "the engine has only %s free in %s", size(s.Free), s.Root)
	}
}

// lock tells whether a bobbin has the sandboxes of this folder now.
func (d *doctor) lock(ctx context.Context) {
	boxes := d.sub("boxes")
	if boxes == nil {
		return
	}
	defer func() { _ = boxes.Close() }()
	ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	unlock, err := boxes.Lock(ctx, "engine")
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		d.ok("sandbox", "a bobbin that runs has the sandboxes of this data folder; a second one would have connectors only")
	case err != nil:
		d.say(problem, "sandbox", "check who owns the data folder", "the folder of the sandboxes cannot be locked")
	default:
		unlock()
	}
}

// programs looks for what most servers are started with.
func (d *doctor) programs() {
	var missing []string
	for _, name := range []string{"node", "npx", "python3", "uvx"} {
		if onPath(name) == "" {
			missing = append(missing, name)
		}
	}
	switch {
	case slices.Contains(missing, "npx") || slices.Contains(missing, "node"):
		d.say(warning, "programs", "install Node.js 22 or later, or have sandboxes, whose image has it", "not found: %s; most published servers start with npx", strings.Join(missing, ", "))
	case len(missing) > 0:
		d.say(warning, "programs", "install it if members use servers in Python", "not found: %s", strings.Join(missing, ", "))
	default:
		d.ok("programs", "node, npx, python3 and uvx are there")
	}
}

func onPath(name string) string {
	endings := []string{""}
	if runtime.GOOS == "windows" {
		endings = []string{".exe", ".cmd", ".bat"}
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		for _, end := range endings {
			at := filepath.Join(dir, name+end)
			if info, err := os.Stat(at); err == nil && info.Mode().IsRegular() && (!enforced || info.Mode().Perm()&0o111 != 0) {
				return at
			}
		}
	}
	return ""
}

// page looks whether the address of the local page is free, or a bobbin's.
func (d *doctor) page(ctx context.Context) {
	l, err := loopback(d.listen)
	if err == nil {
		_ = l.Close()
		d.ok("page", "%s is free", d.listen)
		return
	}
	if errors.Is(err, errUsage) {
		d.fault(problem, "page", "", err)
		return
	}
	if resp, err := d.fetch(ctx, "http://"+d.listen+"/healthz", ""); err == nil && resp.StatusCode == http.StatusOK && resp.Header.Get("Content-Security-Policy") != "" {
		d.ok("page", "bobbin serve runs at %s", d.listen)
		return
	}
	d.say(problem, "page", "choose another with --listen 127.0.0.1:8081", "another program has %s", d.listen)
}

// models looks whether each provider's host answers. Nothing is asked of a model: no tokens are spent, and no key is sent.
func (d *doctor) models(ctx context.Context) {
	a, err := d.m.models.assistant()
	if err != nil {
		d.fault(problem, "model", "see docs/assistant.md", err)
		return
	}
	if len(a.Models) == 0 {
		d.say(warning, "model", "set ANTHROPIC_API_KEY, or --model; without one tools work by hand with /mcp call", "none is set up: nobody answers messages")
		return
	}
	seen := map[string]bool{}
	for _, m := range a.Models {
		at, ok := m.Provider.(interface{ BaseURL() string })
		if !ok {
			d.ok("model", "%s", m.Name)
			continue
		}
		host := hostOf(at.BaseURL())
		if seen[host] {
			continue
		}
		seen[host] = true
		d.reach(ctx, "model", m.Name+" at "+host, at.BaseURL())
	}
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "an address that cannot be read"
	}
	return u.Scheme + "://" + u.Host
}

// reach connects to a host and looks at its clock.
func (d *doctor) reach(ctx context.Context, check, what, address string) bool {
	resp, err := d.fetch(ctx, hostOf(address)+"/", "")
	if err != nil {
		d.say(problem, check, "look at the network, the proxy (HTTPS_PROXY) and the address", "%s cannot be reached: %s", what, plainly(err))
		return false
	}
	d.ok(check, "%s answers", what)
	d.clock(resp)
	return true
}

// clock compares this machine's with another's.
func (d *doctor) clock(resp *http.Response) {
	theirs, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return
	}
	if off := d.now().Sub(theirs); off.Abs() > mostSkew {
		d.say(warning, "clock", "timedatectl set-ntp true; sign-ins and tokens fail with a wrong clock", "this machine's clock is %s %s", off.Abs().Round(time.Minute), map[bool]string{true: "ahead", false: "behind"}[off > 0])
	}
}

// fetch makes one small request. Redirects are not followed, and little is read.
func (d *doctor) fetch(ctx context.Context, address, authorization string) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "DiscordBot (bobbin, "+version+")")
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	t := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10}
	c := &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	_ = resp.Body.Close()
	resp.Body = io.NopCloser(strings.NewReader(string(body)))
	return resp, nil
}

// plainly words why a host was not reached, without the address: it may hold a secret.
func plainly(err error) string {
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		return "its name is not known"
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("no answer within %s", reachTime)
	case strings.Contains(err.Error(), "certificate"):
		return "its certificate is not trusted here, or the clock is wrong"
	case strings.Contains(err.Error(), "refused"):
		return "nothing listens there"
	}
	return "the connection failed"
}

// onDiscord looks at the token's form, and whether Discord can be reached; with --online, whose token it is.
func (d *doctor) onDiscord(ctx context.Context) {
	token, err := d.discord.secret()
	if err != nil {
		d.fault(problem, "discord", "", err)
		return
	}
	if token == "" {
		d.ok("discord", "no token: bobbin serve has the local page only")
		return
	}
	if _, err := d.discord.login(); err != nil {
		d.fault(problem, "discord", "", err)
	}
	base := cmp.Or(d.discord.address(), "https://discord.com")
	if !d.online {
		if d.reach(ctx, "discord", hostOf(base), base) {
			d.ok("discord", "the token has the right form; --online asks Discord whose it is")
		}
		return
	}
	resp, err := d.fetch(ctx, strings.TrimSuffix(base, "/")+"/api/v10/users/@me", "Bot "+token)
	if err != nil {
		d.say(problem, "discord", "look at the network and the proxy (HTTPS_PROXY)", "Discord cannot be reached: %s", plainly(err))
		return
	}
	d.clock(resp)
	var who struct{ Username, ID string }
	switch {
	case resp.StatusCode == http.StatusUnauthorized:
		d.say(problem, "discord", "make a new one in the developer portal: page Bot, Reset Token", "Discord does not know this token")
	case resp.StatusCode != http.StatusOK || json.NewDecoder(resp.Body).Decode(&who) != nil:
		d.say(warning, "discord", "try again in a while", "Discord answers with HTTP %d", resp.StatusCode)
	default:
		d.ok("discord", "the token is %.40q's", who.Username)
	}
}

// address looks at the form of --public-url, and whether its name leads anywhere.
func (d *doctor) address(ctx context.Context) {
	if d.public == "" {
		token, _ := d.discord.secret()
		if token != "" {
			d.say(warning, "public-url", "set --public-url where a browser reaches this bobbin, behind a proxy with TLS", "none: members on Discord cannot sign in to connectors")
		}
		return
	}
	u, err := url.Parse(strings.TrimSuffix(d.public, "/"))
	switch {
	case err != nil || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.User != nil:
		d.say(problem, "public-url", "an origin alone, such as https://bot.example.com", "--public-url is not of the right form")
		return
	case u.Scheme != "https":
		d.say(problem, "public-url", "put a proxy with TLS in front, and give its https:// address", "--public-url must be https: browsers sign in there")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	addrs, err := (&net.Resolver{}).LookupNetIP(ctx, "ip", u.Hostname())
	private := func(a netip.Addr) bool {
		a = a.Unmap()
		return a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast()
	}
	switch {
	case err != nil:
		d.say(warning, "public-url", "make a DNS record for it", "the name %s is not known here", u.Hostname())
	case !slices.ContainsFunc(addrs, func(a netip.Addr) bool { return !private(a) }):
		d.say(warning, "public-url", "this is right only if all members are in that network", "%s leads to a private address", u.Hostname())
	default:
		d.ok("public-url", "%s has a public address", u.Hostname())
	}
}
