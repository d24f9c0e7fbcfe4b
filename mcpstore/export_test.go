package mcpstore_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"bobbin/mcpstore"
	"bobbin/schemas"
)

func TestExport(t *testing.T) {
	r := open(t, mcpstore.Options{})
	d := draft("a.b", "npx", "-y", "<x> & y")
	d.Title = "A b"
	d.Server.Timeout, d.Server.Tools, d.Server.Cwd = 5000, &schemas.ToolFilter{Exclude: []string{"rm"}}, "sub"
	d.Server.Env = map[string]string{"API_KEY": "${input:KEY}", "MODE": "fast"}
	e := put(d, draft("off", "echo"))
	e.Inputs = []schemas.Input{{Type: "promptString", ID: "KEY", Description: "the key", Password: true}}
	r.commit(alice, e)
	r.commit(alice, schemas.Edit{Disable: []string{"off"}})
	r.commit(alice, schemas.Edit{Source: "connect", Put: []schemas.Draft{remote("far", "https://far.example/mcp")}})
	names := map[string]string{"": "mcp.json", "claude": "mcp.json", "vscode": "vscode-mcp.json", "cursor": "cursor-mcp.json", "remote": "mcp_remote.json"}
	for format, name := range names {
		f, err := r.Export(t.Context(), tid, format)
		if err != nil || f.Name != name || !json.Valid(f.Data) || f.MIME == "" {
			t.Fatalf("%q: %v %s", format, err, f.Data)
		}
		if format == "cursor" && !strings.Contains(string(f.Data), "${env:KEY}") || format == "vscode" && !strings.Contains(string(f.Data), `"servers"`) {
			t.Errorf("%s", f.Data)
		}
		im := mcpstore.Import(f.Name, f.Data, "")
		if len(im.Problems) > 0 {
			t.Fatalf("%q: %v\n%s", format, im.Problems, f.Data)
		}
		p := r.propose(bob, schemas.Edit{Put: im.Servers, Inputs: im.Inputs, Source: "upload " + f.Name})
		if !p.Empty() || p.Diff != "" || len(p.Remote) != 0 || len(p.Changes) == 0 {
			t.Errorf("%q changes %s\n%s\n%s", format, kinds(p), p.Diff, f.Data)
		}
	}
	if _, err := r.Export(t.Context(), tid, "yaml"); schemas.CodeOf(err) != schemas.CodeInvalid {
		t.Error(err)
	}
	empty, err := open(t, mcpstore.Options{}).Export(t.Context(), tid, "")
	if err != nil || !json.Valid(empty.Data) {
		t.Errorf("%v %s", err, empty.Data)
	}
}

// Whatever another hand leaves in the file, a secret is in no export, no diff and no history.
func TestExport_NoSecret(t *testing.T) {
	const canary = "ghp_CANARYcanaryCANARYcanary0123456789"
	r := open(t, mcpstore.Options{})
	r.commit(chief, put(draft("other", "echo")))
	r.hand("mcp.json", `{"mcpServers": {"gh": {"command": "npx", "env": {"GITHUB_TOKEN": "`+canary+`"}}, "other": {"command": "echo"}}}`)
	look := func(when string, texts ...string) {
		t.Helper()
		for _, text := range texts {
			if strings.Contains(text, canary) {
				t.Errorf("%s: %s", when, text)
			}
		}
	}
	for _, format := range []string{"claude", "vscode", "cursor"} {
		f, err := r.Export(t.Context(), tid, format)
		if err != nil {
			t.Fatal(err)
		}
		look(format, string(f.Data))
	}
	r.commit(chief, put(draft("other", "echo", "2")))
	if !strings.Contains(r.text("mcp.json"), canary) {
		t.Error("a change of another server lost the value that nobody has sealed")
	}
	p := r.propose(chief, schemas.Edit{Approve: []string{"gh"}})
	if len(p.Found) != 1 || p.Found[0].Value.Reveal() != canary {
		t.Fatalf("%+v", p)
	}
	look("proposal", p.Diff, fmt.Sprintf("%+v", p.Changes))
	if _, err := r.Commit(t.Context(), chief, p); err != nil {
		t.Fatal(err)
	}
	e := r.entry("gh")
	look("files", r.text("mcp.json"), r.text("state.json"), r.text("history/000002.json"), r.text("history/000003.json"), fmt.Sprint(e))
	if e.Pending() || !strings.Contains(e.Env["GITHUB_TOKEN"], "${input:") {
		t.Errorf("%+v", e)
	}
}
