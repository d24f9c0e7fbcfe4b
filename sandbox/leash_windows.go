package sandbox

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// leash is a job object: it holds the program and all that it starts, and ends them with its last handle, so with bobbin.
// What the program starts before it is put into the job, in its first milliseconds, is not in it.
type leash struct {
	job  windows.Handle
	only *os.Process // when there is no job: the program alone can be ended
}

func prepare(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{HideWindow: true, CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
}

func tie(p *os.Process) leash {
	job, err := newJob(uint32(p.Pid))
	if err != nil {
		return leash{only: p}
	}
	return leash{job: job}
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
func (leash) term() {}

func (l leash) kill() {
	if l.job != 0 {
		_ = windows.TerminateJobObject(l.job, 1)
		return
	}
	_ = l.only.Kill()
}

func (leash) wait() (held bool) { return false }

func (l leash) release() {
	if l.job != 0 {
		_ = windows.CloseHandle(l.job)
	}
}

func isBrokenPipe(err error) bool {
	return errors.Is(err, windows.ERROR_BROKEN_PIPE) || errors.Is(err, windows.ERROR_NO_DATA)
}

func signalOf(*os.ProcessState) int { return 0 }

func hasWriter(*os.File) bool { return false }

func unread(*os.File) int { return 0 }
