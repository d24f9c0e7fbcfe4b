//go:build linux

package main

import (
	"archive/zip"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// bundledServer is an MCP server without dependencies. Its one tool tells what it was given, and what lies beside it.
const bundledServer = `const fs = require("fs"), path = require("path");
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const m = JSON.parse(line);
  const answer = (result) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id: m.id, result }) + "\n");
  if (m.method === "initialize") answer({ protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo: { name: "units", version: "VERSION" } });
  else if (m.method === "tools/list") answer({ tools: [{ name: "tell", description: "Tells", inputSchema: { type: "object" }, annotations: { readOnlyHint: true } }] });
  else if (m.method === "tools/call") {
    const size = fs.statSync(path.join(__dirname, "../data.bin")).size;
    answer({ content: [{ type: "text", text: ["VERSION", process.argv.slice(2).join(" "), "key " + (process.env.KEY || "none").length, "region " + (process.env.REGION || "none"), size].join(" | ") }] });
  } else if (m.id !== undefined) answer({});
});
`

// writeBundle writes a bundle of a version, with a large file that cannot be packed.
func writeBundle(t *testing.T, file, version string) {
	t.Helper()
	manifest, err := json.Marshal(map[string]any{
		"manifest_version": "0.3", "name": "acme-units", "version": version, "description": "Units", "author": map[string]string{"name": "Acme"}, "license": "MIT",
		"server": map[string]any{"type": "node", "entry_point": "server/index.js", "mcp_config": map[string]any{
			"command": "node", "args": []string{"${__dirname}/server/index.js", "--units", "${user_config.units}", "--at", "${user_config.place}"},
			"env": map[string]string{"KEY": "${user_config.api_key}", "REGION": "${user_config.region}"}}},
		"user_config": map[string]any{
			"units":   map[string]any{"type": "string", "title": "Units", "default": "metric"},
			"place":   map[string]any{"type": "string", "title": "Place"},
			"region":  map[string]any{"type": "string", "title": "Region"},
			"api_key": map[string]any{"type": "string", "title": "Key", "sensitive": true, "required": true}}})
	if err != nil {
		t.Fatal(err)
	}
	noise := make([]byte, 3<<20)
	source := rand.NewChaCha8([32]byte{1})
	_, _ = source.Read(noise)
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	for name, data := range map[string]string{"manifest.json": string(manifest), "server/index.js": strings.ReplaceAll(bundledServer, "VERSION", version), "data.bin": string(noise)} {
		w, err := z.Create(name)
		if err == nil {
			_, err = w.Write([]byte(data))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestSandbox_Bundle: a bundle by upload, its value, its calls; a newer one in its place; what is removed leaves nothing.
func TestSandbox_Bundle(t *testing.T) {
	b := newBoxed(t)
	ann := someone("ann")
	old, fresh := filepath.Join(t.TempDir(), "units.mcpb"), filepath.Join(t.TempDir(), "units.mcpb")
	writeBundle(t, old, "1.0.0")
	writeBundle(t, fresh, "1.1.0")
	p := b.chat(ann)
	p.say("/mcp upload " + old)
	card := p.within(time.Minute, `1 added: acme-units.*Give values`)
	shows(t, "the card", card, `package +acme-units +mcpb`, `version +1\.0\.0`, `integrity +sha256:`, `license +MIT`, "3 files, 3.0 MiB unpacked", "your sandbox")
	p.say("1")
	p.within(2*time.Minute, `acme-units needs ACME_UNITS_API_KEY`)
	p.say("1")
	p.hear(`ACME_UNITS_API_KEY \(Key[^\n]*>`)
	p.say("sesame")
	p.within(time.Minute, `acme-units is ready in [^\n]*1 tool`)
	shows(t, "a call", p.do(`/mcp call acme-units.tell {}`), `1\.0\.0 \| --units metric \| key 6 \| region none \| 3145728`)

	p.say("/mcp upload " + fresh)
	shows(t, "the newer card", p.within(time.Minute, `1 changed: acme-units.*Confirm`), `1\.0\.0 → 1\.1\.0`)
	p.say("1")
	p.within(2*time.Minute, `acme-units is ready in [^\n]*1 tool`)
	shows(t, "a call of the newer", p.do(`/mcp call acme-units.tell {}`), `1\.1\.0 \| --units metric \| key 6`)

	p.say("/mcp remove acme-units")
	p.hear(`1\) Confirm`)
	p.say("1")
	p.within(time.Minute, `is deleted from the sandbox`)
	p.do("/mcp sandbox grant " + ann + " 1h")
	if left := p.do("/mcp sandbox exec ls -A /workspace/external-mcp /workspace/external-mcp/.bundles"); strings.Contains(left, "acme-units") || strings.Contains(left, ".tgz") {
		t.Errorf("left of it:\n%s", left)
	}
	p.say("/mcp sandbox stop remove", "1")
	p.within(time.Minute, "your sandbox is removed")
	p.end()
}

// TestSandbox_RegistryEntry: a pasted server.json leads to the installation of its package, with the arguments that it names.
func TestSandbox_RegistryEntry(t *testing.T) {
	b := newBoxed(t)
	b.registry()
	ann := someone("ann")
	p := b.chat(ann)
	p.say(`/mcp add-json {"name":"io.github.acme/all","version":"1.0.0","packages":[{"registryType":"npm","identifier":"@modelcontextprotocol/server-everything","transport":{"type":"stdio"},` +
		`"packageArguments":[{"type":"positional","value":"stdio"}],"environmentVariables":[{"name":"LEVEL","default":"info","choices":["info","debug"]},{"name":"EXTRA"}]}]}`)
	card := p.within(time.Minute, `1 added: all.*Give values`)
	shows(t, "the card", card, `package +@modelcontextprotocol/server-everything +npm`, `integrity +sha512-`, `index\.js stdio`, `called all here`, `LEVEL`)
	p.say("1")
	p.within(3*time.Minute, `all is ready in [^\n]*tools`)
	shows(t, "a call", p.do(`/mcp call all.echo {"message":"hi"}`), "Echo: hi")
	p.say("/mcp remove all")
	p.hear(`1\) Confirm`)
	p.say("1")
	p.within(time.Minute, `is deleted from the sandbox`)
	p.say("/mcp sandbox stop remove", "1")
	p.within(time.Minute, "your sandbox is removed")
	p.end()
}
