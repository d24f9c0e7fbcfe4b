package main

import (
	"bytes"
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
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
		"fakemcp":    func() { os.Exit(fakeMCP()) },
		"poisonmcp":  func() { os.Exit(poisonMCP()) },
		"conformant": func() { os.Exit(conformant()) },
		"swiftmcp":   func() { os.Exit(swiftMCP()) },
		"floor":      func() { os.Exit(floor()) },
		"suitemcp":   func() { os.Exit(suiteMCP()) },
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
			e.Setenv("DOCKER_HOST", "unix:///no/engine")
			e.Setenv("CANARY", "must-not-reach-a-child")
			e.Setenv("DISCORD_TOKEN", "must-not-reach-a-child")
			e.Setenv("GORACE", "atexit_sleep_ms=0")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"odd": oddFile, "tamper": tamper},
	})
}

// oddFile is "odd KIND FILE": writes a file that a story cannot hold as text.
func oddFile(s *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		s.Fatalf("usage: odd png|latin1|large FILE")
	}
	content := map[string][]byte{
		"png":    []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00"),
		"latin1": []byte("{\"mcpServers\":{\"caf\xe9\":{\"command\":\"node\"}}}"),
		"large":  append([]byte(`{"mcpServers":{"a":{"command":"node","args":["`), append(bytes.Repeat([]byte("x"), 256<<10), `"]}}}`...)...),
	}[args[0]]
	if content == nil {
		s.Fatalf("there is no odd file %q", args[0])
	}
	s.Check(os.WriteFile(s.MkAbs(args[1]), content, 0o600))
}

// tamper is "tamper FILE LINE OLD NEW": changes one word in a line of a file.
func tamper(s *testscript.TestScript, _ bool, args []string) {
	if len(args) != 4 {
		s.Fatalf("usage: tamper FILE LINE OLD NEW")
	}
	data, err := os.ReadFile(s.MkAbs(args[0]))
	s.Check(err)
	lines := strings.SplitAfter(string(data), "\n")
	n, err := strconv.Atoi(args[1])
	s.Check(err)
	if n < 1 || n > len(lines) || !strings.Contains(lines[n-1], args[2]) {
		s.Fatalf("line %d of %s has no %q", n, args[0], args[2])
	}
	lines[n-1] = strings.Replace(lines[n-1], args[2], args[3], 1)
	s.Check(os.WriteFile(s.MkAbs(args[0]), []byte(strings.Join(lines, "")), 0o600))
}
