package operator

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"bobbin/schemas"
)

// What is inside of every container.
const (
	program      = "/bobbin"
	runPath      = "/run/bobbin"
	proxySocket  = "proxy.sock"
	tokenFile    = "token"
	engineSocket = "/var/run/docker.sock"
)

// The labels by which containers and networks are found again.
const (
	labelInstance = "bobbin.instance" // the data folder's own
	labelRole     = "bobbin.role"     // mcp, session, inspector
	labelServer   = "bobbin.mcp"      // the server's name
	labelSession  = "bobbin.session"  // the session's name
	labelServers  = "bobbin.mcps"     // of a session: the names of its servers, as JSON
	labelReplica  = "bobbin.replica"  // which of the server, from 2
	labelPrint    = "bobbin.fingerprint"
	labelImage    = "bobbin.image" // as mcps.yaml names it

	roleServer    = "mcp"
	roleSession   = "session"
	roleInspector = "inspector"
)

// names of what belongs to a prefix.
type names string

func (p names) server(name string) string     { return string(p) + "_mcp_" + name }
func (p names) common() string                { return string(p) + "-mcp-network" }
func (p names) network(name string) string    { return string(p) + "-mcp-" + name + "-network" }
func (p names) image(name string) string      { return string(p) + "_mcp_proxy_" + name }
func (p names) session(name string) string    { return string(p) + "_session_" + name }
func (p names) sessionNet(name string) string { return string(p) + "-session-" + name + "-network" }
func (p names) inspector() string             { return string(p) + "_mcp_inspector" }

// plan is what a server's container is made from.
type plan struct {
	server   Server
	prefix   names
	instance string
	image    string // an id: sha256:…
	binary   string
	folder   string // holds the socket, outside
	engine   string // its socket, outside; for a proxy image alone
	podman   bool
}

// serverSpec is the whole container of a server behind bobbin's own proxy. What runs in it is told to the proxy when it is up, so
// that no value of its environment stands in what the engine keeps.
func serverSpec(p plan) client.ContainerCreateOptions {
	o := p.server.ProxyOptions
	c := hardened(p.prefix.server(p.server.unit()), p.image, map[string]string{
		labelInstance: p.instance, labelRole: roleServer, labelServer: p.server.Name, labelImage: p.server.BaseImage,
	})
	if p.server.nth > 0 {
		c.Config.Labels[labelReplica] = strconv.Itoa(p.server.nth + 1)
	}
	c.Config.Entrypoint = []string{program, "proxy"}
	c.Config.Cmd = []string{
		"--listen", net.JoinHostPort(o.Host, strconv.Itoa(o.Port)), "--socket", runPath + "/" + proxySocket,
		"--token-file", runPath + "/" + tokenFile, "--allow-origin", o.Origin, "--echo", "--use-only",
	}
	if p.podman { // its filter of system calls lets programs make user namespaces
		c.Config.Cmd = append(c.Config.Cmd, "--confine")
	}
	c.HostConfig.ReadonlyRootfs = !p.server.Writable
	c.HostConfig.Mounts = []mount.Mount{
		{Type: mount.TypeBind, Source: p.folder, Target: runPath},
		{Type: mount.TypeBind, Source: p.binary, Target: program, ReadOnly: true},
	}
	published(&c, o.Port, 0)
	onNetwork(&c, p.prefix.network(p.server.Name), p.server.unit())
	return c
}

// foreignSpec is that of a server behind a proxy image, which was built with [Dockerfile]. It reads its environment from standard
// input, and uses the engine to run the base image, so it needs the engine's socket.
func foreignSpec(p plan) client.ContainerCreateOptions {
	c := hardened(p.prefix.server(p.server.Name), p.image, map[string]string{
		labelInstance: p.instance, labelRole: roleServer, labelServer: p.server.Name, labelImage: p.server.BaseImage,
	})
	c.Config.User = "0:0" // who may use the engine's socket
	c.Config.OpenStdin, c.Config.StdinOnce, c.Config.AttachStdin = true, true, true
	c.HostConfig.ReadonlyRootfs = !p.server.Writable
	if p.server.AllowDockerSocket {
		c.HostConfig.Mounts = []mount.Mount{{Type: mount.TypeBind, Source: p.engine, Target: engineSocket}}
	}
	published(&c, p.server.ProxyOptions.Port, 0)
	onNetwork(&c, p.prefix.network(p.server.Name), p.server.Name)
	return c
}

// hardened is what all containers here have in common. It runs as the image's user, without a capability.
func hardened(name, image string, labels map[string]string) client.ContainerCreateOptions {
	yes, patience, processes := true, stopTime, int64(256)
	return client.ContainerCreateOptions{
		Name: name,
		Config: &container.Config{
			Image: image, Labels: labels, StopTimeout: &patience, StopSignal: "SIGTERM",
			Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
		},
		HostConfig: &container.HostConfig{
			IpcMode: container.IPCModePrivate, CgroupnsMode: container.CgroupnsModePrivate,
			CapDrop: []string{"ALL"}, SecurityOpt: []string{"no-new-privileges"}, Init: &yes,
			RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyDisabled},
			LogConfig:     container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": "5m", "max-file": "2"}},
			Tmpfs:         map[string]string{"/tmp": "size=64m,nosuid,nodev,mode=1777"},
			Resources: container.Resources{
				Memory: 512 << 20, MemorySwap: 512 << 20, NanoCPUs: 1_000_000_000, PidsLimit: &processes,
				Ulimits: []*container.Ulimit{{Name: "nofile", Soft: 4096, Hard: 4096}, {Name: "core"}},
			},
		},
	}
}

// published makes a port reachable from this machine's loopback, and from nowhere else; outside 0 is any that is free.
func published(c *client.ContainerCreateOptions, inside, outside int) {
	p, ok := network.PortFrom(uint16(inside), network.TCP) //nolint:gosec // was checked to be a port
	if !ok {
		return
	}
	if c.Config.ExposedPorts == nil {
		c.Config.ExposedPorts, c.HostConfig.PortBindings = network.PortSet{}, network.PortMap{}
	}
	at := ""
	if outside > 0 {
		at = strconv.Itoa(outside)
	}
	c.Config.ExposedPorts[p] = struct{}{}
	c.HostConfig.PortBindings[p] = []network.PortBinding{{HostIP: netip.AddrFrom4([4]byte{127, 0, 0, 1}), HostPort: at}}
}

func onNetwork(c *client.ContainerCreateOptions, name string, aliases ...string) {
	c.HostConfig.NetworkMode = container.NetworkMode(name)
	c.NetworkingConfig = &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{name: {Aliases: aliases}}}
}

// fingerprint tells a container of this spec and these values from one of others. It is keyed, so that it says nothing about the
// values to who reads the labels.
func (o *Operator) fingerprint(s client.ContainerCreateOptions, more any, values map[string]schemas.Secret) string {
	mac := hmac.New(sha256.New, o.salt)
	_ = json.NewEncoder(mac).Encode(s)    // cannot fail: the engine's own types, and a hash takes all
	_ = json.NewEncoder(mac).Encode(more) //nolint:errchkjson // plain words
	for _, k := range slices.Sorted(maps.Keys(values)) {
		_ = json.NewEncoder(mac).Encode([]string{k, values[k].Reveal()})
	}
	return hex.EncodeToString(mac.Sum(nil)[:16])
}
