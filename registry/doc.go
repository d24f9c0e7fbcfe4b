// Package registry holds what a thread has: its live MCP servers, the tools that they offer, and the one path by which a
// tool is called. It reconciles the live servers of each thread with the approved configuration.
//
// One goroutine owns each live thread and one supervises each running server. Readers and calls use an immutable
// snapshot and take no lock that calls of other servers or threads share.
//
// Where to read: plan.go decides, thread.go and slot.go act, instance.go is one running server, snapshot.go is what
// readers see, call.go is the way of a call, toolset.go what becomes of a server's tools. The room is larger than most
// because a tool's text, risk, schema and pin must be judged by the code that hands it to a call, not beside it.
package registry
