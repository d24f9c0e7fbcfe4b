package sandbox

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"strings"

	"github.com/moby/moby/client"

	"bobbin/internal/engine"
	"bobbin/schemas"
)

// Survey is what an engine says of itself, for those who run it.
type Survey struct {
	Engine   string // address
	Podman   bool   // not Docker
	Version  string
	Root     string   // of its own files, on its machine
	Driver   string   // of its storage, with the file system below: "overlay2 on extfs"
	Free     int64    // bytes in Root; -1 = cannot be seen from here
	Runtimes []string // those that --sandbox-runtime may name
	Missing  []string // limits that it cannot hold programs to: "memory"
}

// Look asks an engine what NewDocker would, in the same words, and changes nothing. The Survey holds as much as was found out.
func Look(ctx context.Context, opt DockerOptions) (s Survey, err error) {
	if runtime.GOOS != "linux" {
		return s, refusal(schemas.CodeMissing, "containers need bobbin on Linux, beside the engine", "run bobbin on Linux (WSL counts), or use --sandbox process")
	}
	if opt.Image == "" {
		opt.Image = defaultImage
	}
	opt.Log = slog.New(slog.DiscardHandler)
	d := &Docker{opt: opt}
	s.Free = -1
	if d.engine, err = engine.Connect(ctx, opt.Engine, "without it: "+useProcess); err != nil {
		return s, err
	}
	defer d.engine.Close()
	s.Engine = d.engine.DaemonHost()
	asking, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	if r, err := d.engine.Info(asking, client.InfoOptions{}); err == nil {
		info := r.Info
		s.Version, s.Root, s.Driver = info.ServerVersion, info.DockerRootDir, info.Driver
		for _, kv := range info.DriverStatus {
			if kv[0] == "Backing Filesystem" {
				s.Driver += " on " + kv[1]
			}
		}
		s.Runtimes = slices.DeleteFunc(slices.Sorted(maps.Keys(info.Runtimes)), func(name string) bool { return strings.HasPrefix(name, "io.containerd.") })
		for what, can := range map[string]bool{"memory": info.MemoryLimit, "processes": info.PidsLimit, "processor time": info.CPUCfsQuota} {
			if !can {
				s.Missing = append(s.Missing, what)
			}
		}
		slices.Sort(s.Missing)
		if free, err := freeSpace(s.Root); err == nil {
			s.Free = free
		}
	}
	err = d.ask(ctx)
	s.Podman = d.podman
	_, e := engine.Program(opt.Binary, useProcess)
	err = errors.Join(err, e)
	if opt.CA != "" {
		err = errors.Join(err, trusted(opt.CA))
	}
	return s, err
}
