package schemas

// Launch is all that is said about a program to start. No field of it reaches mounts, devices, users, capabilities or
// network settings.
type Launch struct {
	Thread  ThreadID
	Owner   MemberID // whose sandbox it runs in
	Server  string
	Command string
	Args    []string
	Env     map[string]Secret // resolved values; handed to the process alone
	Cwd     string            // "" = the owner's workspace
}

// Place says where a member's programs run, for cards and lists.
type Place struct {
	Available bool
	Isolated  bool
	Where     string // "your sandbox (container, no access to this machine)", "this machine, as you. NOT isolated"
	Reach     string // "the public internet, by way of the egress proxy", "whatever this machine can reach"
	Why       string // when not available: what is missing
	Hint      string // and how to fix it
}
