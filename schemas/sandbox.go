package schemas

import "time"

// Exec is one command in a member's sandbox.
type Exec struct {
	Thread  ThreadID
	Member  MemberID
	Args    []string // the program and its arguments; no shell
	Dir     string   // under /workspace; "" = /workspace
	Env     map[string]Secret
	Timeout time.Duration     // 0 = 60 s
	Output  func(line string) // gets each line as it comes, cleaned; from another goroutine, never after the call returned
	Install bool              // package registries may be reached while it runs
}

// Executed is how a command ended.
type Executed struct {
	Code           int // exit code; -1 when a signal or the time-out ended it
	Stdout, Stderr string
	TimedOut       bool
	Cut            bool // output beyond the limit was dropped
}

// Contact is a program's wish to reach a host from inside a sandbox.
type Contact struct {
	Thread  ThreadID
	Member  MemberID
	Server  string // "" for a command
	Host    string // a name or an address, lower case
	Port    int
	Install bool // while something is installed
}
