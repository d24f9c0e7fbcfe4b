package schemas

import _ "embed"

// MCPSchema is the JSON Schema (2020-12) of mcp.json, for editors and tests.
//
//go:embed mcp.schema.json
var MCPSchema []byte

// MCPRemoteSchema is the JSON Schema (2020-12) of mcp_remote.json.
//
//go:embed mcp_remote.schema.json
var MCPRemoteSchema []byte

// PolicySchema is the JSON Schema (2020-12) of policy.json.
//
//go:embed policy.schema.json
var PolicySchema []byte
