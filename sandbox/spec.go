package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"bobbin/schemas"
)

// What is inside of every sandbox.
const (
	workspace   = "/workspace"
	program     = "/bobbin"
	socketsPath = "/run/bobbin"
	proxySocket = "proxy.sock"
	wayOut      = "egress.sock"
	tokenFile   = "token"
	authorities = "/etc/bobbin-ca.pem"
	localProxy  = "http://127.0.0.1:3128"
	boxUser     = "10001:10001"
	volumeName  = "bobbin-sandbox-vol-"
	boxName     = "bobbin-sandbox-"
)

// The labels by which containers and volumes are found again.
const (
	labelInstance = "bobbin.instance" // the data folder's own
	labelMember   = "bobbin.member"   // hash
	labelBox      = "bobbin.box"      // hash
	labelPrint    = "bobbin.fingerprint"
)

// plan is what differs between two containers. Nothing of it is chosen by a member: names are hashes, except that of the volume,
// which carries the member's id from the platform ([schemas.MemberID.Valid]: letters, digits, - and _).
type plan struct {
	instance, member, box string // hashes
	volume                string
	folder                string // holds the sockets, outside
	image                 string // an id: sha256:…
	binary, runtime       string
	ca                    string // "" = what the image brings
	perServer             bool
	podman                bool
}

// hash names something that members named, for the engine.
func hash(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:16])
}

// volumeOf names a member's workspace.
func volumeOf(m schemas.MemberID) string { return volumeName + string(m) }

// spec is the whole container, a constant but for the plan. It is the only place that says how one is made.
func spec(p plan) client.ContainerCreateOptions {
	memory, processes := int64(1024<<20), int64(256)
	if p.perServer {
		memory, processes = 512<<20, 128
	}
	yes, patience := true, 10
	mounts := []mount.Mount{
		{Type: mount.TypeVolume, Source: p.volume, Target: workspace},
		{Type: mount.TypeBind, Source: p.folder, Target: socketsPath},
		{Type: mount.TypeBind, Source: p.binary, Target: program, ReadOnly: true},
	}
	env := variables()
	if p.ca != "" {
		mounts = append(mounts, mount.Mount{Type: mount.TypeBind, Source: p.ca, Target: authorities, ReadOnly: true})
		for _, name := range []string{"SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "PIP_CERT", "GIT_SSL_CAINFO", "CURL_CA_BUNDLE"} {
			env = append(env, name+"="+authorities)
		}
	}
	command := []string{
		"--socket", socketsPath + "/" + proxySocket, "--egress", socketsPath + "/" + wayOut, "--token-file", socketsPath + "/" + tokenFile,
	}
	health := &container.HealthConfig{Test: []string{"NONE"}}
	if p.podman {
		command = append(command, "--confine") // its filter of system calls lets programs make user namespaces
		health = nil                           // for any it has systemd start a program every half a minute
	}
	return client.ContainerCreateOptions{
		Name: boxName + p.box,
		Config: &container.Config{
			User: boxUser, Image: p.image, WorkingDir: workspace, Env: env,
			Entrypoint: []string{program, "proxy"},
			Cmd:        command,
			StopSignal: "SIGTERM", StopTimeout: &patience,
			Healthcheck: health,
			Labels:      map[string]string{labelInstance: p.instance, labelMember: p.member, labelBox: p.box},
		},
		HostConfig: &container.HostConfig{
			NetworkMode: "none", IpcMode: container.IPCModePrivate, CgroupnsMode: container.CgroupnsModePrivate,
			CapDrop: []string{"ALL"}, SecurityOpt: []string{"no-new-privileges"}, ReadonlyRootfs: true, Init: &yes,
			RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyDisabled}, LogConfig: container.LogConfig{Type: "none"},
			Runtime: p.runtime,
			Tmpfs:   map[string]string{"/tmp": "size=64m,nosuid,nodev,mode=1777"},
			Mounts:  mounts,
			Resources: container.Resources{
				Memory: memory, MemorySwap: memory, NanoCPUs: 1_000_000_000, PidsLimit: &processes,
				Ulimits: []*container.Ulimit{{Name: "nofile", Soft: 1024, Hard: 4096}, {Name: "core"}, {Name: "fsize", Soft: 512 << 20, Hard: 512 << 20}},
			},
		},
	}
}

// variables lets what members install stay in the workspace, and find the way out. NODE_USE_ENV_PROXY needs Node 22.21, which warns
// at each start that this is an experiment.
func variables() []string {
	return []string{
		"HOME=" + workspace,
		"PATH=" + workspace + "/.local/bin:" + workspace + "/.npm/global/bin:" + plainPath,
		"LANG=C.UTF-8", "TMPDIR=/tmp",
		"PYTHONUSERBASE=" + workspace + "/.local", "PIP_BREAK_SYSTEM_PACKAGES=1",
		"NPM_CONFIG_PREFIX=" + workspace + "/.npm/global", "NPM_CONFIG_CACHE=" + workspace + "/.npm/cache",
		"UV_CACHE_DIR=" + workspace + "/.cache/uv",
		"HTTP_PROXY=" + localProxy, "HTTPS_PROXY=" + localProxy, "ALL_PROXY=" + localProxy, "NO_PROXY=localhost,127.0.0.1",
		"http_proxy=" + localProxy, "https_proxy=" + localProxy, "all_proxy=" + localProxy, "no_proxy=localhost,127.0.0.1",
		"NPM_CONFIG_PROXY=" + localProxy, "NPM_CONFIG_HTTPS_PROXY=" + localProxy, "PIP_PROXY=" + localProxy, "NODE_USE_ENV_PROXY=1", "NODE_NO_WARNINGS=1",
	}
}

// fingerprint tells a container of this spec from one of another: a newer image, program or bobbin. build names the state of the
// program that is mounted.
func fingerprint(s client.ContainerCreateOptions, build string) string {
	text, err := json.Marshal(s)
	if err != nil {
		return "" // cannot be: the engine's own types
	}
	return hash(string(text), build)
}
