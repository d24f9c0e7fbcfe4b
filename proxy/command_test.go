package proxy_test

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// command is what the child does for /exec.
func command(args []string) int {
	switch args[0] {
	case "say":
		fmt.Fprint(os.Stdout, args[1])
		fmt.Fprint(os.Stderr, args[2])
		n, _ := strconv.Atoi(args[3])
		return n
	case "flood":
		for block := strings.Repeat("y", 1<<16); ; {
			if _, err := os.Stdout.WriteString(block); err != nil {
				return 1
			}
		}
	case "much":
		for range 12 {
			_, _ = os.Stdout.WriteString(strings.Repeat("☃", 1<<18))
		}
		return 0
	case "family": // a group that ignores SIGTERM
		signal.Ignore(syscall.SIGTERM)
		exe, _ := os.Executable()
		c := exec.Command(exe, "command", "sleep")
		if err := c.Start(); err != nil {
			return 1
		}
		fmt.Println(os.Getpid(), c.Process.Pid)
		time.Sleep(time.Hour)
	case "orphan": // ends before its child, which escapes from the group
		exe, _ := os.Executable()
		c := exec.Command(exe, "command", "moment")
		escape(c)
		if err := c.Start(); err != nil {
			return 1
		}
	case "abandon": // ends before its child, which holds the pipes
		exe, _ := os.Executable()
		c := exec.Command(exe, "command", "sleep")
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		if err := c.Start(); err != nil {
			return 1
		}
		fmt.Println(os.Getpid(), c.Process.Pid)
	case "talk":
		fmt.Println("here")
		time.Sleep(time.Hour)
	case "moment":
		time.Sleep(200 * time.Millisecond)
	case "sleep":
		signal.Ignore(syscall.SIGTERM)
		time.Sleep(time.Hour)
	}
	return 0
}
