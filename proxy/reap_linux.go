package proxy

import (
	"bytes"
	"context"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Adopt makes this process the parent of orphans and reaps them until ctx ends: what the first process of a container
// has to do, and harmless under an init.
func (p *Proxy) Adopt(ctx context.Context) error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	defer signal.Stop(ended)
	for {
		p.family.reap()
		select {
		case <-ended:
		case <-ctx.Done():
			return nil
		}
	}
}

// reap takes every dead child that nobody waits for. Waiting for just any child would take those of others away.
func (f *family) reap() {
	f.mu.Lock()
	defer f.mu.Unlock()
	folders, err := os.ReadDir("/proc")
	if err != nil {
		return
	}
	self := os.Getpid()
	for _, folder := range folders {
		pid, err := strconv.Atoi(folder.Name())
		if err != nil || f.pids[pid] || !isZombie(pid, self) {
			continue
		}
		_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
	}
}

// isZombie reads state and parent, which follow the name in parentheses (proc_pid_stat(5)).
func isZombie(pid, parent int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	return len(fields) > 1 && string(fields[0]) == "Z" && string(fields[1]) == strconv.Itoa(parent)
}
