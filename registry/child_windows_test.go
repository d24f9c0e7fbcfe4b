package registry_test

import "os/exec"

func group(*exec.Cmd) {}

func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }

func alive(cmd *exec.Cmd) bool { return cmd.ProcessState == nil }
