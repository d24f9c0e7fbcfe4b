package main

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"bobbin/schemas"
)

// schemaCommand prints the JSON Schemas of the files, for an editor's "$schema".
func (m *Main) schemaCommand() *cobra.Command {
	files := map[string][]byte{"mcp": schemas.MCPSchema, "mcp_remote": schemas.MCPRemoteSchema, "policy": schemas.PolicySchema}
	names := slices.Sorted(maps.Keys(files))
	return &cobra.Command{
		Use: "schema NAME", Short: "Print the JSON Schema of mcp, mcp_remote or policy, for your editor", ValidArgs: names,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || files[args[0]] == nil {
				return usagef("which schema: one of %s", strings.Join(names, ", "))
			}
			_, err := m.Out.Write(files[args[0]])
			return err
		},
	}
}
