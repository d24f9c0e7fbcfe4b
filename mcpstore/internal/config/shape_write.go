package config

import (
	"bytes"
	"encoding/json"

	"bobbin/schemas"
)

// EncodeLocal writes mcp.json in the shape that Claude Desktop reads, two spaces deep, servers in the given order.
func EncodeLocal(servers []schemas.Server, inputs []schemas.Input, schema string) []byte {
	return encodeFile(servers, inputs, schema)
}

// EncodeRemote writes mcp_remote.json.
func EncodeRemote(servers []schemas.Server, inputs []schemas.Input, schema string) []byte {
	return encodeFile(servers, inputs, schema)
}

func encodeFile(servers []schemas.Server, inputs []schemas.Input, schema string) []byte {
	var b bytes.Buffer
	b.WriteString("{\n")
	if schema != "" {
		b.WriteString(`  "$schema": ` + compact(schema) + ",\n")
	}
	b.WriteString(`  "mcpServers": {`)
	for i, s := range servers {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("\n    " + compact(s.Name) + ": " + indented(s, "    "))
	}
	if len(servers) > 0 {
		b.WriteString("\n  ")
	}
	b.WriteByte('}')
	if len(inputs) > 0 {
		b.WriteString(",\n" + `  "inputs": ` + indented(inputs, "  "))
	}
	b.WriteString("\n}\n")
	return b.Bytes()
}

// compact marshals without escaping < > &, which people write in URLs.
func compact(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // plain data of our own types cannot fail
	return string(bytes.TrimRight(b.Bytes(), "\n"))
}

func indented(v any, prefix string) string {
	var b bytes.Buffer
	_ = json.Indent(&b, []byte(compact(v)), prefix, "  ")
	return b.String()
}
