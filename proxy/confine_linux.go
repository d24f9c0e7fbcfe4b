package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// confine keeps this process and all that it starts from user namespaces, in which a program has every capability: not every
// engine's own filter does (seccomp(2); Docker's profile says the same). Programs for another processor, 32-bit ones too, do not run.
func confine() error {
	arch, ok := map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}[runtime.GOARCH]
	if !ok {
		return errors.New("system calls cannot be filtered on " + runtime.GOARCH)
	}
	const (
		number, processor, first = 0, 4, 16 // of struct seccomp_data: the call, who makes it, the low half of its first argument
		foreign                  = 1 << 30  // calls of x32

		load   = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		least  = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
		has    = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
		answer = unix.BPF_RET | unix.BPF_K
	)
	filter := []unix.SockFilter{ // jumps count what they leave out
		{Code: load, K: processor},
		{Code: equal, K: arch, Jf: 10},
		{Code: load, K: number},
		{Code: least, K: foreign, Jt: 8},
		{Code: equal, K: unix.SYS_CLONE3, Jt: 7}, // its flags cannot be seen; C libraries then take clone
		{Code: equal, K: unix.SYS_SETNS, Jt: 5},
		{Code: equal, K: unix.SYS_UNSHARE, Jt: 1},
		{Code: equal, K: unix.SYS_CLONE, Jf: 2},
		{Code: load, K: first},
		{Code: has, K: unix.CLONE_NEWUSER, Jt: 1},
		{Code: answer, K: unix.SECCOMP_RET_ALLOW},
		{Code: answer, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: answer, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	all := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	other, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&all)))
	switch {
	case errno != 0:
		return errno
	case other != 0:
		return fmt.Errorf("thread %d has a filter of its own", other)
	}
	return nil
}

// filtered reports whether the kernel looks at our system calls.
func filtered() bool {
	mode, err := unix.PrctlRetInt(unix.PR_GET_SECCOMP, 0, 0, 0, 0)
	return err == nil && mode == 2
}

// loose says what of a sandbox does not hold this process, in words, as the kernel sees it.
func (p *Proxy) loose() (all []string) {
	check := func(holds bool, otherwise string) {
		if !holds {
			all = append(all, otherwise)
		}
	}
	status, _ := os.ReadFile("/proc/self/status")
	for _, set := range []string{"CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb"} {
		if !bytes.Contains(status, []byte("\n"+set+":\t0000000000000000\n")) {
			check(false, "it has capabilities")
			break
		}
	}
	bare, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	check(err == nil && bare == 1, "programs may gain privileges")
	check(os.Getuid() != 0 && os.Getgid() != 0, "it runs as root")
	check(p.filtered, "system calls are not filtered")
	var root unix.Statfs_t
	check(unix.Statfs("/", &root) == nil && root.Flags&unix.ST_RDONLY != 0, "the system can be written to")
	cards, err := net.Interfaces()
	check(err == nil && len(cards) == 1 && cards[0].Flags&net.FlagLoopback != 0, "it has a network")
	check(limited("memory.max", "memory/memory.limit_in_bytes"), "its memory is not limited")
	check(limited("pids.max", "pids/pids.max"), "the number of its processes is not limited")
	check(limited("cpu.max", "cpu/cpu.cfs_quota_us") || limited("cpu.max", "cpu,cpuacct/cpu.cfs_quota_us"), "its processor time is not limited")
	return all
}

// limited reads a limit of our control group, of version 2 or 1 (cgroups(7)); one that cannot be read is none.
func limited(two, one string) bool {
	const folder, most = "/sys/fs/cgroup/", 1 << 50
	text, err := os.ReadFile(folder + two)
	if err != nil {
		text, err = os.ReadFile(folder + one)
	}
	words := strings.Fields(string(text))
	if err != nil || len(words) == 0 {
		return false
	}
	n, err := strconv.ParseInt(words[0], 10, 64)
	return err == nil && n > 0 && n < most
}
