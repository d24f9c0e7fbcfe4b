// Package gateway lends a thread's tools, resources and prompts to MCP clients outside of chat: streamable HTTP in the protocol versions
// from 2025-03-26 to 2026-07-28, HTTP+SSE for older clients, and stdio. It adds no way of its own to a server: every call takes the path
// that calls from chat take, with the same policy and audit, as the member whose token the client bears.
//
// Results travel as the bytes that the server sent; nothing decodes them here.
//
// Where to read: token.go says who may, http.go and modern.go are the two eras of streamable HTTP, sse.go and stdio.go the other ways,
// answer.go dispatches what they all understand, list.go and call.go do the work, trail.go keeps what was said for clients whose connection broke, question.go brings a server's question to the client, bridge.go a client over stdio to a bobbin that serves already.
//
// The room is larger than most since it speaks five versions of a protocol over four ways itself: a library in between would decode and write
// anew each result that passes.
package gateway
