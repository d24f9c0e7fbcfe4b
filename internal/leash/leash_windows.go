package leash

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Leash is a job object: it holds the program and all that it starts, and ends them with its last handle, so with bobbin.
// What the program starts before it is put into the job, in its first milliseconds, is not in it.
type Leash struct {
	job  windows.Handle
	only *os.Process // when there is no job: the program alone can be ended
}

// Prepare gives cmd a process group of its own and no window. Call it before Start.
func Prepare(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{HideWindow: true, CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
}

// Tie takes hold of a program that was started just now.
func Tie(p *os.Process) Leash {
	job, err := newJob(uint32(p.Pid))
	if err != nil {
		return Leash{only: p}
	}
	return Leash{job: job}
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

// Term does nothing: a program without a window gets no wish to end on Windows, other than the end of its input.
func (Leash) Term() {}

// Kill ends the program and all that it started.
func (l Leash) Kill() {
	if l.job != 0 {
		_ = windows.TerminateJobObject(l.job, 1)
		return
	}
	_ = l.only.Kill()
}

// Wait returns false at once: the system cannot wait without reaping.
func (Leash) Wait() (held bool) { return false }

// Release gives the hold up, and ends what is left of it.
func (l Leash) Release() {
	if l.job != 0 {
		_ = windows.CloseHandle(l.job)
	}
}

// Signal is always 0 here.
func Signal(*os.ProcessState) int { return 0 }
