// Package config reads MCP configurations: Import takes what people have, in any client's shape and with its secrets still in
// it; DecodeLocal and DecodeRemote take our own stored files, strictly. Both tell all mistakes at once, each with its place,
// and both are pure: they read no file, no environment and no clock.
//
// The room is larger than most because the world it reads is: about forty shapes of a dozen clients, and the secrets and
// placeholders that people leave in them. It stands apart from mcpstore so that nothing in here can write.
package config
