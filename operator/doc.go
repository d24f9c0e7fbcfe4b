// Package operator keeps the operator's own MCP servers: those of mcps.yaml, which run in containers of their own until they are
// stopped, or are reached by URL, and the sessions that use them.
//
// A server's container is made from its base image, with bobbin's own proxy in front, on a network of its own. Whoever may use a
// server is on that network, or comes through [Operator.Client]; nobody else reaches it.
package operator
