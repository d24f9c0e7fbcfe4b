package mcpstore

import "bobbin/schemas"

// The largest texts that are read. A count of servers is a parameter where it differs.
const (
	maxText    = 256 << 10 // bytes of a config file
	maxDepth   = 32        // nesting of objects and lists
	maxServers = 32        // in one file
	maxArgs    = 64        // of one server
	maxArg     = 4 << 10   // bytes of one argument or value
	maxEnv     = 64        // variables or headers of one server
)

// stored is one strictly read mcp.json or mcp_remote.json. With Problems nothing else of it may be used.
type stored struct {
	Servers  []schemas.Server // in file order, without any secret value
	Inputs   []schemas.Input  // declared ones first, then those that only a reference names
	Schema   string           // "$schema" as written
	Disabled map[string]bool  // entries with "disabled": true
	Remote   []schemas.Draft  // of mcp.json: entries with a url, which are never loaded
	Found    []schemas.Found  // literal secrets that stood in the file
	Notes    []schemas.Note
	Problems schemas.Problems
}

// decodeLocal reads a stored mcp.json: strict JSON, no unknown key, at most max servers. It is pure and safe for
// concurrent use.
func decodeLocal(data []byte, max int) stored { return stored{} }

// decodeRemote is decodeLocal for a stored mcp_remote.json, whose entries have a url.
func decodeRemote(data []byte, max int) stored { return stored{} }

// encodeLocal writes mcp.json in the shape that Claude Desktop reads, two spaces deep, servers in the given order.
func encodeLocal(servers []schemas.Server, inputs []schemas.Input, schema string) []byte { return nil }

// encodeRemote writes mcp_remote.json.
func encodeRemote(servers []schemas.Server, inputs []schemas.Input, schema string) []byte { return nil }

// Import reads a text of unknown kind as MCP servers: a file or paste of any client. name is the shown file name, "" for a
// paste; hint names a single server object that has no name. It is pure, bounded and safe for concurrent use.
func Import(name string, data []byte, hint string) schemas.Import { return schemas.Import{} }
