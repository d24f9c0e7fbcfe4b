package sandbox

import (
	"archive/tar"
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/moby/moby/api/types/build"
	"github.com/moby/moby/api/types/jsonstream"
	"github.com/moby/moby/client"

	"bobbin/internal/engine"
	"bobbin/schemas"
)

// Dockerfile is that of the image bobbin-sandbox.
//
//go:embed Dockerfile
var Dockerfile []byte

const (
	buildTime = 30 * time.Minute
	maxBuild  = 64 << 20 // bytes of what the engine tells of it
)

// BuildOptions of Build.
type BuildOptions struct {
	Engine     string    // as in [DockerOptions]
	Image      string    // name of what is built; "" = bobbin-sandbox
	Dockerfile []byte    // it gets no other files; nil = [Dockerfile]
	Out        io.Writer // gets the progress, line by line, cleaned; nil = discarded
}

// Build has the engine build the image of sandboxes, which takes minutes and 30 at most; the engine pulls what it starts from. The
// proxy that our environment names (HTTP_PROXY and the like) is the build's, too. Errors are *schemas.Error.
func Build(ctx context.Context, opt BuildOptions) error {
	if opt.Image == "" {
		opt.Image = defaultImage
	}
	if opt.Dockerfile == nil {
		opt.Dockerfile = Dockerfile
	}
	if opt.Out == nil {
		opt.Out = io.Discard
	}
	docker, err := engine.Connect(ctx, opt.Engine, "without it: "+useProcess)
	if err != nil {
		return err
	}
	defer docker.Close()
	ctx, cancel := context.WithTimeout(ctx, buildTime)
	defer cancel()
	files, err := archive(opt.Dockerfile)
	if err != nil {
		return err
	}
	how := client.ImageBuildOptions{Tags: []string{opt.Image}, Dockerfile: "Dockerfile", Remove: true, ForceRemove: true, Version: build.BuilderV1, BuildArgs: map[string]*string{}}
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"} {
		if v := os.Getenv(name); v != "" {
			how.BuildArgs[name] = &v
		}
	}
	r, err := docker.ImageBuild(ctx, files, how)
	if err != nil {
		return unbuilt(ctx, opt.Image, err.Error(), false, err)
	}
	defer r.Body.Close()
	return tellBuild(ctx, opt, io.LimitReader(r.Body, maxBuild))
}

func archive(dockerfile []byte) (io.Reader, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := w.WriteHeader(&tar.Header{Name: "Dockerfile", Mode: 0o644, Size: int64(len(dockerfile))})
	if err == nil {
		_, err = w.Write(dockerfile)
	}
	return &b, errors.Join(err, w.Close())
}

// tellBuild shows how it goes. The engine's steps come as text, what it pulls as one status a layer and moment.
func tellBuild(ctx context.Context, opt BuildOptions, body io.Reader) error {
	said := map[string]bool{}
	pulling, built := false, false
	for d := json.NewDecoder(body); ; {
		var m jsonstream.Message
		if err := d.Decode(&m); err != nil {
			if errors.Is(err, io.EOF) && built {
				return nil
			}
			return unbuilt(ctx, opt.Image, "the engine ended in the middle", false, err)
		}
		switch {
		case m.Error != nil:
			return unbuilt(ctx, opt.Image, m.Error.Message, pulling, m.Error)
		case m.Stream != "":
			for line := range strings.SplitSeq(strings.TrimRight(m.Stream, "\n"), "\n") {
				pulling = pulling && (line == "" || strings.HasPrefix(line, "Trying to pull ")) || strings.Contains(line, ": FROM ")
				built = built || strings.HasPrefix(line, "Successfully built ")
				if line = strings.TrimRight(schemas.Clean(line, true), " "); line != "" {
					_, _ = fmt.Fprintln(opt.Out, line)
				}
			}
		case m.Status != "" && len(said) < 1000:
			if line := strings.TrimLeft(m.ID+": "+m.Status, ": "); !said[line] && m.Progress == nil {
				said[line] = true
				_, _ = fmt.Fprintln(opt.Out, " "+schemas.Clean(line, true))
			}
		}
	}
}

// unbuilt gives a failed build words. What runs in one fails mostly for want of the outside, like what it pulls.
func unbuilt(ctx context.Context, image, why string, pulling bool, err error) error {
	why = strings.TrimSpace(schemas.Clean(why, true))
	e := &schemas.Error{Code: schemas.CodeFailed, Text: "the image " + image + " was not built: " + shorten(why, maxWords), Hint: "what the build said above tells more", Err: err}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		e.Text = "the image " + image + " was not built within " + buildTime.String()
	case ctx.Err() != nil:
		e.Text, e.Hint = "the build was ended", ""
	case pulling:
		e.Code, e.Text = schemas.CodeMissing, "the container engine cannot pull what the image starts from: "+shorten(engine.Unreached(why), maxWords)
		e.Hint = "give the engine a way to a registry (a proxy or a mirror in its daemon.json), or carry an image here with docker save and docker load and name it with --sandbox-image"
	}
	return e
}
