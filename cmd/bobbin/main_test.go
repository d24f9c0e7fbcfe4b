package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"bobbin": func() {
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			code := NewMain(os.Stdin, os.Stdout, os.Stderr).Run(ctx, os.Args[1:])
			stop()
			os.Exit(code)
		},
		"fakemcp": func() { os.Exit(fakeMCP()) },
	})
}

// TestStories runs the conversations of testdata/story through the real binary.
func TestStories(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "story"),
		RequireExplicitExec: true,
		UpdateScripts:       os.Getenv("UPDATE") != "",
		Setup: func(e *testscript.Env) error {
			e.Setenv("BOBBIN_DATA", filepath.Join(e.WorkDir, "data"))
			e.Setenv("BOBBIN_SANDBOX", "process")
			e.Setenv("BOBBIN_THREAD", "t1")
			e.Setenv("CANARY", "must-not-reach-a-child")
			return nil
		},
	})
}
