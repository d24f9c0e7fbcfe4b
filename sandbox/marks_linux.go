package sandbox

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	passes     = 8       // looks at all processes for one end
	maxEnviron = 4 << 20 // bytes; above what execve(2) takes
)

// ownMark names this process for as long as the machine runs: its pid namespace, pid and start time.
func ownMark() string {
	ns, _ := os.Readlink("/proc/self/ns/pid") // pid:[4026531836]
	return strings.Trim(strings.TrimPrefix(ns, "pid:"), "[]") + "." + strconv.Itoa(os.Getpid()) + "." + startTime("self")
}

// startTime is field 22 of /proc/pid/stat, in clock ticks since boot; "" for a process that is gone or dead.
func startTime(pid string) string {
	stat, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return ""
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return ""
	}
	return fields[19]
}

// abandoned reports whether id is a mark of a bobbin that is gone. Marks of another pid namespace (a bobbin in a container)
// cannot be judged.
func abandoned(id string) bool {
	part := strings.Split(id, ".")
	ns, _, _ := strings.Cut(ownMark(), ".")
	return len(part) == 4 && part[0] == ns && part[2] != "" && startTime(part[1]) != part[2]
}

// endMarked kills every process of this user whose mark is wanted, and looks again until there is none, a few times: what
// is killed may just have started another one.
func endMarked(stop <-chan struct{}, wanted func(id string) bool) int {
	seen := map[int]bool{}
	for range passes {
		found := false
		for _, pid := range processes() {
			select {
			case <-stop:
				return len(seen)
			default:
			}
			if pid != os.Getpid() && wanted(markOf(pid)) && killMarked(pid, wanted) {
				seen[pid], found = true, true
			}
		}
		if !found {
			break
		}
		time.Sleep(2 * time.Millisecond) // for the kernel to take them down
	}
	return len(seen)
}

// killMarked looks again through a handle (pidfd), so that a pid that was given to another process meanwhile is spared.
func killMarked(pid int, wanted func(string) bool) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	defer p.Release()
	return wanted(markOf(pid)) && p.Kill() == nil
}

func processes() []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	pids := make([]int, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// markOf reads the mark in a process's environment as it was at its start; "" when there is none or it is not ours to see.
func markOf(pid int) string {
	f, err := os.Open(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err != nil {
		return ""
	}
	defer f.Close()
	env, err := io.ReadAll(io.LimitReader(f, maxEnviron))
	if err != nil {
		return ""
	}
	prefix := []byte(markName + "=")
	for pair := range bytes.SplitSeq(env, []byte{0}) {
		if id, ok := bytes.CutPrefix(pair, prefix); ok {
			return string(id)
		}
	}
	return ""
}
