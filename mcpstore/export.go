package mcpstore

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"bobbin/mcpstore/internal/config"
	"bobbin/schemas"
)

// Export gives the thread's servers as a file: "claude" or "" for mcp.json, "vscode", "cursor", or "remote" for
// mcp_remote.json. None holds a secret value, and uploading one again changes nothing.
func (s *Store) Export(ctx context.Context, id schemas.ThreadID, format string) (schemas.File, error) {
	snap, err := s.read(ctx, id)
	if err != nil {
		return schemas.File{}, err
	}
	file := schemas.File{MIME: "application/json"}
	local := snap.docs[fileLocal]
	switch strings.ToLower(format) {
	case "", "claude":
		file.Name, file.Data = fileName(fileLocal), encode(fileLocal, local)
	case "remote":
		file.Name, file.Data = fileName(fileRemote), encode(fileRemote, snap.docs[fileRemote])
	case "vscode":
		file.Name = "vscode-mcp.json"
		file.Data, err = foreign("servers", local, true, func(t string) string { return t })
	case "cursor":
		file.Name = "cursor-mcp.json"
		file.Data, err = foreign("mcpServers", local, false, func(t string) string {
			return schemas.InputRef.ReplaceAllString(t, "$${env:$1}")
		})
	default:
		return schemas.File{}, invalid(fmt.Sprintf("%.20q is no format", format), "use claude, vscode, cursor or remote")
	}
	if err != nil {
		return schemas.File{}, fmt.Errorf("mcpstore: export: %w", err)
	}
	return file, nil
}

// foreign writes local servers in another client's shape, without the keys that only bobbin knows.
func foreign(key string, doc config.Stored, inputs bool, change func(string) string) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("{")
	if inputs && len(doc.Inputs) > 0 {
		data, err := json.Marshal(doc.Inputs)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, `"inputs":%s,`, data)
	}
	fmt.Fprintf(&b, "%q:{", key)
	for i, srv := range doc.Servers {
		srv = mapTexts(canonical(srv), change)
		srv.Timeout, srv.Tools = 0, nil
		data, err := json.Marshal(srv)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, "%q:%s", srv.Name, data)
	}
	b.WriteString("}}")
	return encodeJSON(json.RawMessage(b.Bytes()))
}
