// Package registry holds what a thread has: its live MCP servers, the tools that they offer, and the one path by which a
// tool is called. It reconciles the live servers of each thread with the approved configuration.
//
// One goroutine owns each live thread and one supervises each running server. Readers and calls use an immutable
// snapshot and take no lock that calls of other servers or threads share.
package registry
