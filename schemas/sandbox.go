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

// Box is how a member's sandbox is, for people.
type Box struct {
	State   string // "none", "stopped" or "running"
	ID      string // of the container, short
	Image   string
	Since   time.Time // when it started; zero: it does not run
	Servers int       // programs that run in it
	Locks   []string  // what holds them in, in words: "all capabilities are dropped"
	Missing []string  // locks that this machine cannot give, in words
}

// Permission lets a member do in a thread what is closed to everybody otherwise. Resource and Action are "shell" and "execute".
type Permission struct {
	Member   MemberID  `json:"member"`
	Resource string    `json:"resource"`
	Action   string    `json:"action"`
	By       MemberID  `json:"by"`
	Until    time.Time `json:"until"`
}

// Shell and Execute name the one permission there is: to run commands in one's sandbox.
const (
	Shell   = "shell"
	Execute = "execute"
)

// Permits reports whether a member may do something at a time. Without an end a permission holds for nobody.
func (p Policy) Permits(m MemberID, resource, action string, now time.Time) bool {
	for _, one := range p.Permissions {
		if one.Member == m && one.Resource == resource && one.Action == action && now.Before(one.Until) {
			return true
		}
	}
	return false
}
