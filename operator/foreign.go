package operator

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/api/types/build"
	"github.com/moby/moby/api/types/jsonstream"
	"github.com/moby/moby/client"

	"bobbin/schemas"
)

const (
	buildTime   = 30 * time.Minute
	foreignTime = 3 * time.Second
	maxBuild    = 64 << 20
	buildLines  = 20 // of its log, when a build fails
)

// Dockerfile is that of a server's own proxy image: the proxy image with a client of the engine, which runs the base image. It
// holds names of variables and no value.
func Dockerfile(s Server) string {
	return "FROM " + s.ProxyImage + `
USER root
RUN command -v docker >/dev/null 2>&1 || \
    { command -v apk >/dev/null 2>&1 && apk add --no-cache docker-cli; } || \
    { apt-get update && apt-get install -y --no-install-recommends docker.io && rm -rf /var/lib/apt/lists/*; }
COPY entrypoint.sh /bobbin-entrypoint.sh
ENV MCP_BASE_IMAGE=` + s.BaseImage + fmt.Sprintf(`
EXPOSE %d
ENTRYPOINT ["/bin/sh", "/bobbin-entrypoint.sh"]
`, s.ProxyOptions.Port)
}

// Entrypoint is the script that the Dockerfile copies. The values of the environment come as shell words on standard input, once.
func Entrypoint(s Server) (string, error) {
	command, err := words(s.Command)
	if err != nil {
		return "", err
	}
	var run strings.Builder
	for _, k := range slices.Sorted(maps.Keys(s.Env)) {
		run.WriteString(" -e " + k)
	}
	run.WriteString(" " + quote(s.BaseImage))
	for _, w := range command {
		run.WriteString(" " + quote(w))
	}
	return fmt.Sprintf(`#!/bin/sh
set -eu
eval "$(cat)"
docker image inspect %[1]s >/dev/null 2>&1 || docker pull %[1]s
exec mcp-proxy --sse-port %[2]d --sse-host %[3]s --allow-origin %[4]s --pass-environment -- docker run --rm -i --init --log-driver none --cap-drop ALL --security-opt no-new-privileges --memory 512m --cpus 1 --pids-limit 256%[5]s
`, quote(s.BaseImage), s.ProxyOptions.Port, quote(s.ProxyOptions.Host), quote(s.ProxyOptions.Origin), run.String()), nil
}

// quote makes one word of a text for a shell.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// build makes the image of a proxied server with an own proxy image, and gives its id.
func (r *run) build(ctx context.Context) (id string, err error) {
	engine, err := r.o.docker(ctx)
	if err != nil {
		return "", err
	}
	script, err := Entrypoint(r.server)
	if err != nil {
		return "", err
	}
	if _, err := r.image(ctx, r.server.ProxyImage); err != nil {
		return "", err
	}
	if err := r.step(stateBuilding); err != nil {
		return "", err
	}
	files, err := archive(map[string]string{"Dockerfile": Dockerfile(r.server), "entrypoint.sh": script})
	if err != nil {
		return "", err
	}
	name := strings.ToLower(r.prefix.image(r.server.Name))
	ctx, cancel := context.WithTimeout(ctx, buildTime)
	defer cancel()
	b, err := engine.ImageBuild(ctx, files, client.ImageBuildOptions{Tags: []string{name}, Dockerfile: "Dockerfile", Remove: true, ForceRemove: true, Version: build.BuilderV1})
	if err != nil {
		return "", failed("the image "+name+" was not built", err)
	}
	defer b.Body.Close()
	if err := followBuild(name, io.LimitReader(b.Body, maxBuild)); err != nil {
		return "", err
	}
	made, err := engine.ImageInspect(ctx, name)
	if err != nil {
		return "", failed("the image "+name+" was not built", err)
	}
	return made.ID, nil
}

// followBuild reads a build to its end; one that fails is told with the last lines of its log.
func followBuild(name string, body io.Reader) error {
	var last []string
	for d := json.NewDecoder(body); ; {
		var m jsonstream.Message
		err := d.Decode(&m)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return failed("the image "+name+" was not built", err)
		case m.Error != nil:
			last = append(last, schemas.Clean(m.Error.Message, true))
			return &schemas.Error{Code: schemas.CodeFailed, Text: "the image " + name + " was not built; the end of its log:\n  " + strings.Join(last[max(0, len(last)-buildLines):], "\n  "),
				Hint: "leave proxy_image out, and bobbin's own proxy serves the server", Err: m.Error}
		}
		for line := range strings.Lines(m.Stream) {
			if line = strings.TrimSpace(schemas.Clean(line, true)); line != "" {
				if last = append(last, line); len(last) > 2*buildLines {
					last = slices.Delete(last, 0, buildLines)
				}
			}
		}
	}
}

func archive(files map[string]string) (io.Reader, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name]))}); err != nil {
			return nil, err
		}
		if _, err := io.WriteString(w, files[name]); err != nil {
			return nil, err
		}
	}
	return &b, w.Close()
}

// awaitForeign waits until another proxy than bobbin's own takes connections. One that neither does nor ends is left to its work: it
// may be pulling the base image.
func (o *Operator) awaitForeign(ctx context.Context, id, port string) error {
	ctx, cancel := context.WithTimeout(ctx, foreignTime)
	defer cancel()
	for {
		c, ok, err := o.inspect(ctx, id)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		case !ok || !c.State.Running:
			return o.ended(context.WithoutCancel(ctx), id, c)
		}
		var d net.Dialer
		if conn, err := d.DialContext(ctx, "tcp", port); port != "" && err == nil {
			return conn.Close()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// feed starts a container and gives it the values of its environment on standard input, which ends then.
func (r *run) feed(ctx context.Context, id string) error {
	engine, err := r.o.docker(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, engineTime)
	defer cancel()
	at, err := engine.ContainerAttach(ctx, id, client.ContainerAttachOptions{Stream: true, Stdin: true})
	if err != nil {
		return failed("the container cannot be given its environment", err)
	}
	defer at.Close()
	if err := r.o.startContainer(ctx, id); err != nil {
		return err
	}
	var frame strings.Builder
	for _, k := range slices.Sorted(maps.Keys(r.values)) {
		frame.WriteString("export " + k + "=" + quote(r.values[k].Reveal()) + "\n")
	}
	if _, err := io.WriteString(at.Conn, frame.String()); err != nil {
		return failed("the container cannot be given its environment", err)
	}
	return failed("the container cannot be given its environment", at.CloseWrite())
}
