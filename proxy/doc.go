// Package proxy puts MCP servers that speak stdio behind HTTP: streamable HTTP (2025-11-25 and 2026-07-28), the older
// HTTP+SSE (2024-11-05), and one raw stream. The same code runs inside a member's sandbox and as `bobbin proxy`.
//
// Messages pass as the bytes that were sent. Only the envelope of JSON-RPC is looked at, and of its params what belongs to
// one client among many: the id, the progress token and the id of a subscription are exchanged on the way.
//
// It trusts neither side: both get limits on size, number and time, and a message that two JSON parsers could read
// differently is refused.
package proxy
