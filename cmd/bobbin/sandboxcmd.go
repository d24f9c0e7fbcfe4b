package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"bobbin/sandbox"
	"bobbin/schemas"
)

const maxDockerfile = 1 << 20

// sandboxCommand is for the operator of a machine with a container engine.
func (m *Main) sandboxCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "sandbox", Short: "The containers in which members' servers run", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var image, file string
	build := &cobra.Command{
		Use: "build", Short: "Build the image of sandboxes: Node, Python with uv, git", Args: cobra.NoArgs,
		Long: "Build the image of sandboxes with the container engine that DOCKER_HOST names, or that of this machine.\n" +
			"The engine pulls what it starts from, so it needs a way to a registry; HTTP_PROXY and the like are handed on to the build.",
		RunE: func(c *cobra.Command, _ []string) error { return m.buildImage(c.Context(), image, file) },
	}
	build.Flags().StringVar(&image, "image", "bobbin-sandbox", "name of the image, as --sandbox-image takes it")
	build.Flags().StringVar(&file, "file", "", "another Dockerfile; it gets no other files")
	c.AddCommand(build)
	return c
}

func (m *Main) buildImage(ctx context.Context, image, file string) error {
	opt := sandbox.BuildOptions{Image: image, Out: m.Out}
	if file != "" {
		f, err := os.Open(file)
		if err == nil {
			defer f.Close()
			opt.Dockerfile, err = io.ReadAll(io.LimitReader(f, maxDockerfile))
		}
		if err != nil {
			return &schemas.Error{Code: schemas.CodeInvalid, Text: "the Dockerfile " + file + " cannot be read", Hint: "check the path in --file", Err: err}
		}
	}
	if err := sandbox.Build(ctx, opt); err != nil {
		return err
	}
	_, err := fmt.Fprintf(m.Out, "the image %s is built; start bobbin with --sandbox docker\n", image)
	return err
}
