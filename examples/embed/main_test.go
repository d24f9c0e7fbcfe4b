package main

import (
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	var out strings.Builder
	err := run(t.Context(), t.TempDir(), strings.NewReader("T1 alice /mcp list\nT1 alice /mcp connect https://mcp.example.com/mcp\nT1 alice !nonsense x\n"), &out)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"No MCP servers configured", "Nothing has been sent to it yet", "With an API key", "this card is no longer open"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
}
