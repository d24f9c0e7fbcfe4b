//go:build unix

package sandbox_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"bobbin/internal/durable"
	"bobbin/sandbox"
	"bobbin/schemas"
)

const modeName, tagName = "SANDBOX_TEST_MODE", "SANDBOX_TEST_TAG"

// TestMain lets the test binary be a server that behaves badly.
func TestMain(m *testing.M) {
	mode := os.Getenv(modeName)
	if mode == "" {
		os.Exit(m.Run())
	}
	behave(mode)
}

func behave(mode string) {
	switch mode {
	case "echo":
		in := bufio.NewScanner(os.Stdin)
		in.Buffer(nil, 1<<20)
		for in.Scan() {
			fmt.Println(in.Text())
		}
	case "crash":
		fmt.Fprintln(os.Stderr, "node:internal/modules/cjs/loader:1228\n  throw err;\n  ^\n\n\x1b[31mError: Cannot find module 'undici'\x1b[0m\n    at Module._resolve (x.js:1)\n\nNode.js v20.20.2")
		os.Exit(1)
	case "mute":
		untilEOF()
	case "deaf":
		sleep()
	case "flood stderr":
		block := []byte(strings.Repeat("all work and no play\n", 3120))
		for n := 0; n < 256<<20; n += len(block) {
			_, _ = os.Stderr.Write(block)
		}
		fmt.Fprintln(os.Stderr, "the last word")
		fmt.Println("done")
		untilEOF()
	case "flood stdout":
		for {
			if _, err := os.Stdout.WriteString(strings.Repeat("x", 1<<16)); err != nil {
				sleep()
			}
		}
	case "grandchild":
		spawn("sleep", &syscall.SysProcAttr{})
		fmt.Println("ready")
		untilEOF()
	case "orphan": // leaves its child behind, with the pipes
		spawn("sleep", &syscall.SysProcAttr{})
		fmt.Println("ready")
	case "setsid":
		spawn("setsid again", &syscall.SysProcAttr{Setsid: true}).Wait()
		fmt.Println("ready")
		untilEOF()
	case "setsid again":
		spawn("sleep", &syscall.SysProcAttr{Setsid: true})
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		spawn("setsid again", &syscall.SysProcAttr{Setsid: true}).Wait()
		fmt.Println("ready")
		sleep()
	case "sleep":
		signal.Ignore(syscall.SIGTERM, syscall.SIGPIPE)
		sleep()
	case "die":
		untilLine()
		os.Exit(3)
	case "die by signal":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		sleep()
	case "last words": // fills the pipe, then is gone
		fmt.Print(strings.Repeat("w", 60000))
	case "cleanup": // must be let finish, and must not block on its output
		untilEOF()
		fmt.Print(strings.Repeat("c", 1<<20))
		if err := os.WriteFile("cleaned", nil, 0o600); err != nil {
			panic(err)
		}
	case "env":
		env := os.Environ()
		slices.Sort(env)
		for _, pair := range env {
			fmt.Println(pair)
		}
	case "cwd":
		dir, _ := os.Getwd()
		fmt.Println(dir)
	case "secret":
		fmt.Fprintln(os.Stderr, "401 for token", os.Getenv("TOKEN"), "in", os.Getenv("FOLDER"))
	case "bot":
		bot()
	}
}

func untilEOF() {
	for buf := make([]byte, 1<<16); ; {
		if _, err := os.Stdin.Read(buf); err != nil {
			return
		}
	}
}

func untilLine() { _, _ = bufio.NewReader(os.Stdin).ReadString('\n') }

// sleep is longer than any test.
func sleep() { time.Sleep(10 * time.Minute) }

type running struct{ cmd *exec.Cmd }

func (r running) Wait() { _ = r.cmd.Wait() }

func spawn(mode string, attr *syscall.SysProcAttr) running {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), modeName+"="+mode)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = os.Stdin, os.Stdout, os.Stderr, attr
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	return running{cmd}
}

// bot is a bobbin that will be killed.
func bot() {
	work, err := durable.Open(os.Getenv("SANDBOX_TEST_WORK"))
	if err != nil {
		panic(err)
	}
	p, err := sandbox.NewProcess(sandbox.Options{Work: work})
	if err != nil {
		panic(err)
	}
	tag := os.Getenv(tagName)
	for _, mode := range []string{"deaf", "grandchild", "setsid", "stubborn"} {
		c, err := p.Launch(context.Background(), launch(mode, tag))
		if err != nil {
			panic(err)
		}
		if mode != "deaf" {
			_, _ = bufio.NewReader(c).ReadString('\n')
		}
	}
	fmt.Println("ready")
	sleep()
}

func launch(mode, tag string) schemas.Launch {
	return schemas.Launch{
		Thread: "t", Owner: "alice", Server: "fake", Command: os.Args[0],
		Env: map[string]schemas.Secret{
			modeName: schemas.NewSecret(mode), tagName: schemas.NewSecret(tag),
			"GORACE": schemas.NewSecret("atexit_sleep_ms=0"), // the race detector sleeps a second at exit
		},
	}
}
