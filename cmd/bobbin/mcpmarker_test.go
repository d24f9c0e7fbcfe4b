//go:build linux

package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMCP_Marker: a member's file that marks its server as one of the operator's gets none of the operator's credentials: it is refused.
func TestMCP_Marker(t *testing.T) {
	d := newDesk(t)
	asked := make(chan string, 16)
	far := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case asked <- r.Header.Get("Authorization"):
		default:
		}
	}))
	defer far.Close()
	d.want(0, "mcp add-remote far "+far.URL+"/mcp --header Authorization="+opCanary)
	folder := filepath.Join(d.data, "users", "T1")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"far", "mine"} {
		for _, file := range []string{"mcp.json", "mcp_remote.json"} {
			text := `{"mcpServers":{"` + name + `":{"type":"http","url":"` + far.URL + `/mcp","auth":{"type":"operator"}}}}`
			if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			said := d.chat("T1", "/mcp list", "/mcp check "+name, "/mcp call "+name+".x {}")
			if file == "mcp_remote.json" && !strings.Contains(said, `the "type" of "auth" must be "none", "header" or "oauth"`) {
				t.Errorf("%s in %s:\n%s", name, file, said)
			}
			if err := os.Remove(filepath.Join(folder, file)); err != nil {
				t.Fatal(err)
			}
		}
	}
	select {
	case header := <-asked:
		t.Errorf("the server was asked, with %q", strings.ReplaceAll(header, opCanary, "the operator's credential"))
	default:
	}
	d.canaries()
}
