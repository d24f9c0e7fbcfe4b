package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"bobbin/schemas"
)

const goodLocal = `{
  "$schema": "https://example.com/mcp.schema.json",
  "mcpServers": {
    "a": {"type": "stdio", "command": "npx", "args": ["-y", "acme-a@1.0.0"], "env": {"K": "${input:K}", "EMPTY": ""}, "cwd": "tools", "timeout": 30000, "tools": {"include": ["x_*"]}},
    "b": {"command": "node", "disabled": true, "autoApprove": ["all"]},
    "far": {"type": "http", "url": "https://far.example/mcp", "headers": {"X-Key": "${input:FAR}"}}
  },
  "inputs": [{"type": "promptString", "id": "K", "password": true}, {"type": "pickString", "id": "R", "options": ["eu", "us"], "default": "eu"}]
}`

func TestDecodeLocal_Good(t *testing.T) {
	got := DecodeLocal([]byte(goodLocal), MaxServers)
	if got.Problems != nil {
		t.Fatal(got.Problems)
	}
	if len(got.Servers) != 2 || got.Servers[0].Name != "a" || got.Servers[1].Name != "b" || got.Servers[0].Env["EMPTY"] != "" {
		t.Errorf("servers %+v", got.Servers)
	}
	if !got.Disabled["b"] || got.Disabled["a"] {
		t.Errorf("disabled %v", got.Disabled)
	}
	if len(got.Remote) != 1 || got.Remote[0].Server.URL != "https://far.example/mcp" {
		t.Errorf("a url entry is never loaded, but handed on: %+v", got.Remote)
	}
	if len(got.Inputs) != 3 || got.Schema == "" {
		t.Errorf("inputs %+v schema %q", got.Inputs, got.Schema)
	}
	var said string
	for _, n := range got.Notes {
		said += string(n.Kind) + " "
	}
	if !strings.Contains(said, "not_obeyed") || !strings.Contains(said, "remote") {
		t.Errorf("notes %+v", got.Notes)
	}
}

func TestDecodeLocal_Environment(t *testing.T) {
	got := DecodeLocal([]byte(`{"mcpServers":{"a":{"command":"x","args":["--t","${DISCORD_TOKEN}"],"env":{"A":"${env:DISCORD_TOKEN}","P":"/home/${HOME}"}}}}`), MaxServers)
	if got.Problems != nil {
		t.Fatal(got.Problems)
	}
	if s := got.Servers[0]; s.Env["A"] != "${input:DISCORD_TOKEN}" || s.Args[1] != "${input:DISCORD_TOKEN}" {
		t.Errorf("a variable becomes an input: %+v", s)
	}
}

func TestDecodeLocal_LiteralSecret(t *testing.T) {
	canary := "ghp_" + "Canary0Canary1Canary2"
	got := DecodeLocal([]byte(`{"mcpServers":{"a":{"command":"x","env":{"TOKEN":"`+canary+`"}}}}`), MaxServers)
	if got.Problems != nil {
		t.Fatal(got.Problems)
	}
	if len(got.Found) != 1 || got.Found[0].Value.Reveal() != canary || got.Servers[0].Env["TOKEN"] != "${input:TOKEN}" {
		t.Errorf("found %+v in %+v", got.Found, got.Servers)
	}
}

func TestDecode_Refused(t *testing.T) {
	deep := strings.Repeat("[", 200_000) + strings.Repeat("]", 200_000)
	many := `{"mcpServers":{` + strings.TrimSuffix(strings.Repeat(`"%d":{"command":"x"},`, 40), ",") + `}}`
	for i := range 40 {
		many = strings.Replace(many, "%d", fmt.Sprintf("s%d", i), 1)
	}
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "the file is empty"},
		{"white", " \n", "the file is empty"},
		{"null", "null", "must hold an object, not null"},
		{"list", "[]", "must hold an object, not a list"},
		{"text", `""`, "must hold an object, not text"},
		{"no servers", "{}", `"mcpServers" is missing`},
		{"bom", "\xef\xbb\xbf{}", "byte order mark"},
		{"comment", `{/*c*/"mcpServers":{}}`, "comments are not allowed"},
		{"trailing comma", `{"mcpServers":{},}`, "this comma"},
		{"trailing", `{"mcpServers":{}} {"mcpServers":{}}`, "more text after the end"},
		{"nul", "{\"mcpServers\":{}}\x00", "control character"},
		{"utf8", "{\"mcpServers\":{\"a\xff\":{}}}", "not UTF-8"},
		{"deep", deep, ""},
		{"huge", `{"mcpServers":{}}` + strings.Repeat(" ", MaxText), "larger than 256 KiB"},
		{"missing brace", `{"mcpServers":{}`, `the final "}" is missing`},
		{"fragment", `"mcpServers": {}`, "outer"},
		{"dup server", `{"mcpServers":{"a":{"command":"safe"},"a":{"command":"evil"}}}`, `"a" is given twice`},
		{"dup field", `{"mcpServers":{"a":{"command":"safe","command":"evil"}}}`, "given twice"},
		{"case", `{"mcpServers":{"a":{"COMMAND":"evil"}}}`, `did you mean "command"?`},
		{"case top", `{"MCPSERVERS":{"a":{"command":"evil"}}}`, `did you mean "mcpServers"?`},
		{"args", `{"mcpServers":{"a":{"command":"x","args":"server.js"}}}`, `"args" must be a list, not text`},
		{"args item", `{"mcpServers":{"a":{"command":"x","args":[1]}}}`, "/mcpServers/a/args/0"},
		{"env", `{"mcpServers":{"a":{"command":"x","env":{"A":1}}}}`, "must be text, not a number"},
		{"env name", `{"mcpServers":{"a":{"command":"x","env":{"A=B":"1"}}}}`, "no name for a variable"},
		{"command", `{"mcpServers":{"a":{"command":["x"]}}}`, "must be text, not a list"},
		{"blank", `{"mcpServers":{"a":{"command":" "}}}`, "must not be blank"},
		{"disabled", `{"mcpServers":{"a":{"command":"x","disabled":"false"}}}`, "must be true or false"},
		{"timeout", `{"mcpServers":{"a":{"command":"x","timeout":"5"}}}`, "must be a number"},
		{"1e999", `{"mcpServers":{"a":{"command":"x","timeout":1e999}}}`, "whole number"},
		{"-0", `{"mcpServers":{"a":{"command":"x","timeout":-0}}}`, "whole number"},
		{"nan", `{"mcpServers":{"a":{"command":"x","timeout":NaN}}}`, "NaN"},
		{"both", `{"mcpServers":{"a":{"command":"x","url":"https://x.example"}}}`, "both"},
		{"neither", `{"mcpServers":{"a":{}}}`, `"command" is missing`},
		{"privileged", `{"mcpServers":{"a":{"command":"x","privileged":true}}}`, `cannot set "privileged"`},
		{"image", `{"mcpServers":{"a":{"command":"x","image":"i"}}}`, `cannot set "image"`},
		{"glob", `{"mcpServers":{"a":{"command":"x","env":{"A":"${input:**}"}}}}`, "names no input"},
		{"input twice", `{"mcpServers":{},"inputs":[{"type":"promptString","id":"A"},{"type":"promptString","id":"A"}]}`, "declared twice"},
		{"input type", `{"mcpServers":{},"inputs":[{"type":"command","id":"A"}]}`, "type of an input"},
		{"many", many, "max 32 servers"},
		{"name", `{"mcpServers":{"a/b":{"command":"x"}}}`, `"a/b" is not allowed`},
		{"name dot", `{"mcpServers":{"..":{"command":"x"}}}`, "no name"},
		{"name homoglyph", `{"mcpServers":{"g` + "\u0456" + `thub":{"command":"x"}}}`, `g\u0456thub`},
		{"name wide", `{"mcpServers":{"` + "\uff41" + `":{"command":"x"}}}`, `\uff41`},
		{"name surrogate", `{"mcpServers":{"\ud800":{"command":"x"}}}`, `\ufffd`},
		{"name bidi", `{"mcpServers":{"a\u202eb":{"command":"x"}}}`, `\u202e`},
		{"name long", `{"mcpServers":{"` + strings.Repeat("a", 49) + `":{"command":"x"}}}`, "not allowed"},
		{"name proto", `{"mcpServers":{"__proto__":{"command":"x"}}}`, "reserved"},
		{"name case", `{"mcpServers":{"A":{"command":"x"},"a":{"command":"x"}}}`, "differ only in case"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := DecodeLocal([]byte(c.text), MaxServers)
			if len(got.Problems) == 0 {
				t.Fatal("accepted")
			}
			var all string
			for _, p := range got.Problems {
				all += p.String() + " " + p.Pointer + "\n"
			}
			if !strings.Contains(all, c.want) {
				t.Errorf("want %q in %s", c.want, all)
			}
			if got.Servers != nil && len(got.Problems) == 0 {
				t.Error("servers beside problems")
			}
		})
	}
}

func TestDecodeRemote(t *testing.T) {
	got := DecodeRemote([]byte(`{"mcpServers":{"a":{"url":"https://a.example/sse","headers":{"Authorization":"Bearer ${input:T}"},"auth":{"type":"header","identity":"thread"}}}}`), MaxServers)
	if got.Problems != nil || len(got.Servers) != 1 || got.Servers[0].Type != schemas.SSE {
		t.Errorf("%+v", got)
	}
	for _, text := range []string{
		`{"mcpServers":{"a":{"command":"x"}}}`,
		`{"mcpServers":{"a":{"command":"x","url":"https://a.example"}}}`,
		`{"mcpServers":{"a":{"url":"ftp://a.example"}}}`,
		`{"mcpServers":{"a":{"url":"https://a.example","type":"stdio"}}}`,
		`{"mcpServers":{"a":{"url":"https://a.example","headers":{"Host":"x"}}}}`,
		`{"mcpServers":{"a":{"url":"https://a.example","headers":{"X":"a\r\nb"}}}}`,
		`{"mcpServers":{"a":{"url":"https://a.example","headers":{"Mcp-Session-Id":"x"}}}}`,
		`{"mcpServers":{"a":{"url":"https://a.example","auth":{"type":"bearer"}}}}`,
		`{"mcpServers":{"a":{"url":"https://a.example","auth":{"type":"oauth","token":"x"}}}}`,
	} {
		if got := DecodeRemote([]byte(text), MaxServers); len(got.Problems) == 0 {
			t.Errorf("accepted %s", text)
		}
	}
}

// schema compiles one of ours; it may load nothing.
func schema(t testing.TB, text []byte) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.Draft = jsonschema.Draft2020
	c.LoadURL = func(string) (io.ReadCloser, error) { return nil, errors.New("nothing is loaded") }
	if err := c.AddResource("mem:///s.json", bytes.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	return c.MustCompile("mem:///s.json")
}

// TestSchema_AgreesWithDecode holds the JSON Schemas and the strict reader to the same verdict, apart from what a schema
// cannot say: duplicates, names that differ in case, look-alikes, references.
func TestSchema_AgreesWithDecode(t *testing.T) {
	local, remote := schema(t, schemas.MCPSchema), schema(t, schemas.MCPRemoteSchema)
	entries := []string{
		`{"command":"x"}`, `{}`, `null`, `"x"`, `{"command":""}`, `{"command":" "}`, `{"command":1}`, `{"command":"x","args":[]}`, `{"command":"x","args":["a",""]}`, `{"command":"x","args":[1]}`,
		`{"command":"x","args":"a"}`, `{"command":"x","args":{}}`, `{"command":"x","env":{}}`, `{"command":"x","env":{"A":"b"}}`, `{"command":"x","env":{"A":1}}`, `{"command":"x","env":{"A":null}}`,
		`{"command":"x","env":{"a-b":"b"}}`, `{"command":"x","env":{"":"b"}}`, `{"command":"x","env":[]}`, `{"command":"x","cwd":"."}`, `{"command":"x","cwd":3}`, `{"command":"x","timeout":1000}`,
		`{"command":"x","timeout":999}`, `{"command":"x","timeout":600001}`, `{"command":"x","timeout":1000.5}`, `{"command":"x","timeout":"1000"}`, `{"command":"x","tools":{}}`, `{"command":"x","tools":[]}`,
		`{"command":"x","tools":{"include":["a"],"exclude":["b"]}}`, `{"command":"x","tools":{"include":"a"}}`, `{"command":"x","tools":{"only":[]}}`, `{"command":"x","disabled":true}`,
		`{"command":"x","disabled":"true"}`, `{"command":"x","type":"stdio"}`, `{"command":"x","type":"http"}`, `{"command":"x","type":3}`, `{"command":"x","trust":true}`, `{"command":"x","autoApprove":["*"]}`,
		`{"command":"x","privileged":true}`, `{"command":"x","image":"i"}`, `{"command":"x","headers":{}}`, `{"command":"x","url":"https://a.example"}`, `{"command":"x","envs":{}}`,
		`{"url":"https://a.example/mcp"}`, `{"url":"https://a.example/mcp","type":"http"}`, `{"url":"https://a.example/mcp","type":"sse"}`, `{"url":"https://a.example/mcp","type":"stdio"}`, `{"url":"a.example"}`,
		`{"url":"ftp://a.example"}`, `{"url":""}`, `{"url":3}`, `{"url":"https://a b"}`, `{"url":"https://a.example","headers":{"X-A":"b"}}`, `{"url":"https://a.example","headers":{"X A":"b"}}`,
		`{"url":"https://a.example","headers":{"host":"b"}}`, `{"url":"https://a.example","headers":{"X":"a\nb"}}`, `{"url":"https://a.example","headers":{"X":1}}`, `{"url":"https://a.example","headers":[]}`,
		`{"url":"https://a.example","auth":{"type":"oauth","scopes":["a"],"clientId":"c","identity":"requester"}}`, `{"url":"https://a.example","auth":{}}`, `{"url":"https://a.example","auth":{"type":"x"}}`,
		`{"url":"https://a.example","auth":"oauth"}`, `{"url":"https://a.example","auth":{"type":"none","identity":"x"}}`, `{"url":"https://a.example","args":[]}`, `{"url":"https://a.example","env":{}}`,
		`{"url":"https://a.example","timeout":5000,"tools":{"include":["a"]},"disabled":false}`, `{"command":"x","args":["` + strings.Repeat("a", maxArg+1) + `"]}`,
		`{"command":"x","args":[` + strings.TrimSuffix(strings.Repeat(`"a",`, maxArgs+1), ",") + `]}`,
	}
	files := []string{`{}`, `[]`, `null`, `{"mcpServers":[]}`, `{"mcpServers":{},"x":1}`, `{"mcpServers":{},"inputs":{}}`, `{"mcpServers":{},"inputs":[{"type":"promptString","id":"a"}]}`, `{"mcpServers":{},"$schema":1}`,
		`{"mcpServers":{},"inputs":[{"type":"x","id":"a"}]}`, `{"mcpServers":{},"inputs":[{"type":"promptString"}]}`, `{"mcpServers":{},"inputs":[{"type":"promptString","id":"a b"}]}`, `{"mcpServers":{},"inputs":[1]}`,
		`{"mcpServers":{},"inputs":[{"type":"promptString","id":"a","password":"x"}]}`, `{"mcpServers":{},"inputs":[{"type":"promptString","id":"a","password":true,"default":"x"}]}`,
		`{"mcpServers":{},"inputs":[{"type":"pickString","id":"a","options":["x"],"default":"x"}]}`, `{"mcpServers":{"a b":{"command":"x"}}}`, `{"mcpServers":{"":{"command":"x"}}}`, `{"mcpServers":{"constructor":{"command":"x"}}}`,
		goodLocal,
	}
	for _, e := range entries {
		files = append(files, `{"mcpServers":{"s":`+e+`}}`)
	}
	for _, text := range files {
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		if s, d := local.Validate(v) == nil, len(DecodeLocal([]byte(text), MaxServers).Problems) == 0; s != d {
			t.Errorf("mcp.json %.200s: schema says %v, decode says %v %v", text, s, d, DecodeLocal([]byte(text), MaxServers).Problems)
		}
		if s, d := remote.Validate(v) == nil, len(DecodeRemote([]byte(text), MaxServers).Problems) == 0; s != d {
			t.Errorf("mcp_remote.json %.200s: schema says %v, decode says %v %v", text, s, d, DecodeRemote([]byte(text), MaxServers).Problems)
		}
	}
}

func TestSchema_Policy(t *testing.T) {
	s := schema(t, schemas.PolicySchema)
	for text, want := range map[string]bool{
		`{"thread":{"allow":["a.*"],"deny":["*.rm"]},"members":{"u1":{"deny":["x"]}},"grants":[{"tool":"a.b","pin":"p","member":"u1","until":"2026-01-01T00:00:00Z"}]}`: true,
		`{}`: false, `{"thread":{"allow":"a"}}`: false, `{"thread":{},"x":1}`: false, `{"thread":{},"members":{"a b":{}}}`: false,
	} {
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		if got := s.Validate(v) == nil; got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// again checks that what was accepted is written and read back to the same fingerprints.
func again(t testing.TB, data []byte) {
	t.Helper()
	first := DecodeLocal(data, MaxServers)
	if len(first.Problems) > 0 {
		return
	}
	text := EncodeLocal(first.Servers, first.Inputs, first.Schema)
	second := DecodeLocal(text, MaxServers)
	if len(second.Problems) > 0 {
		t.Fatalf("not read back: %v\n%s", second.Problems, text)
	}
	if len(first.Servers) != len(second.Servers) || len(second.Found) > 0 {
		t.Fatalf("%d servers became %d, found %v", len(first.Servers), len(second.Servers), second.Found)
	}
	for i := range first.Servers {
		if first.Servers[i].Fingerprint() != second.Servers[i].Fingerprint() {
			t.Fatalf("%+v became %+v", first.Servers[i], second.Servers[i])
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(goodLocal))
	f.Add([]byte(`{"mcpServers":{"a":{"command":"x","args":["--token","abcd1234"],"env":{"T":"${X:-y}"}}}}`))
	f.Add([]byte(`{"mcpServers":{"a":{"url":"https://u:p@a.example/mcp?key=1"}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		again(t, data)
		DecodeRemote(data, MaxServers)
	})
}

func TestDecode_Again(t *testing.T) { again(t, []byte(goodLocal)) }

func many(n int) []byte {
	var b strings.Builder
	b.WriteString(`{"mcpServers":{`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "\n    \"server-%d\": {\"command\": \"npx\", \"args\": [\"-y\", \"@acme/server-%d@1.2.3\", \"--root\", \"/workspace/data\"], \"env\": {\"API_KEY\": \"${input:KEY_%d}\", \"LOG_LEVEL\": \"info\"}}", i, i, i)
	}
	b.WriteString("\n}}\n")
	return []byte(b.String())
}

func BenchmarkDecodeLocal(b *testing.B) {
	for _, n := range []int{10, 1000} {
		data := many(n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if got := DecodeLocal(data, n); len(got.Servers) != n {
					b.Fatal(got.Problems)
				}
			}
		})
	}
}
