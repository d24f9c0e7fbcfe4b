package proxy

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// group is a job object: it ends the program and what that started, at the latest with us. What the program starts before it is
// put into the job, in its first milliseconds, is not in it.
type group struct {
	job  windows.Handle
	only *os.Process // when there is no job: the program alone can be ended
}

func prepare(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{HideWindow: true, CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
}

func tie(p *os.Process) group {
	job, err := newJob(uint32(p.Pid))
	if err != nil {
		return group{only: p}
	}
	return group{job: job}
}

func newJob(pid uint32) (windows.Handle, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0, err
	}
	var info windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	info.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation, uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
	if err == nil {
		var process windows.Handle
		process, err = windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, pid)
		if err == nil {
			err = errors.Join(windows.AssignProcessToJobObject(job, process), windows.CloseHandle(process))
		}
	}
	if err != nil {
		return 0, errors.Join(err, windows.CloseHandle(job))
	}
	return job, nil
}

// term does nothing: a program without a window gets no wish to end on Windows, other than the end of its input.
func (group) term() {}

func (g group) kill() {
	if g.job == 0 {
		_ = g.only.Kill()
		return
	}
	_ = windows.TerminateJobObject(g.job, 1)
}

func (g group) release() {
	if g.job != 0 {
		_ = windows.CloseHandle(g.job)
	}
}

func signalOf(*os.ProcessState) int { return 0 }

// awaitExit does nothing here: the system cannot wait without reaping.
func awaitExit(int) (held bool) { return false }
