// Command quick is an MCP server over stdio (2025-11-25) that takes next to nothing, so that a hundred of them can be behind a benchmark
// and what is seen is bobbin's. Its argument is how many ms it needs to start.
package main

import (
	"bufio"
	"bytes"
	"os"
	"strconv"
	"time"
)

func main() {
	if len(os.Args) > 1 {
		ms, _ := strconv.Atoi(os.Args[1])
		time.Sleep(time.Duration(ms) * time.Millisecond)
	}
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return
		}
		_, rest, ok := bytes.Cut(line, []byte(`"id":`))
		if !ok {
			continue
		}
		answer := `"result":{}}`
		switch {
		case bytes.Contains(line, []byte(`"initialize"`)):
			answer = `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"quick","version":"1"}}}`
		case bytes.Contains(line, []byte(`"tools/list"`)):
			answer = `"result":{"tools":[{"name":"echo","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}}`
		case bytes.Contains(line, []byte(`"tools/call"`)):
			answer = `"result":{"content":[{"type":"text","text":"the quick brown fox jumps over the lazy dog"}]}}`
		case bytes.Contains(line, []byte(`"server/discover"`)):
			answer = `"error":{"code":-32601,"message":"method not found"}}`
		}
		id := rest[:bytes.IndexAny(rest, ",}")]
		_, _ = os.Stdout.WriteString(`{"jsonrpc":"2.0","id":` + string(id) + `,` + answer + "\n")
	}
}
