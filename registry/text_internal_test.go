package registry

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"bobbin/registry/internal/session"
	"bobbin/schemas"

	"pgregory.net/rapid"
)

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                       "plain",
		"größe 日本 👍":                  "größe 日本 👍",
		"a\x1b[31mred\x1b[0m b":       "ared b",
		"\x1b]8;;http://x\x07link":    "link",
		"\x1b]8;;http://x\x1b\\link":  "link",
		"\u202eevil\u2066x\u2069":     "evilx",
		"a\u200bb\u200d\ufeffc\u00ad": "abc",
		"hi\U000e0041\U000e0042":      "hi",
		"a\x00b\x07c\x7f\u0085":       "abc",
		"line\nnext\tcol\r\n":         "line\nnext\tcol\n",
		"sep\u2028x\u2029y":           "sep x y",
		"vs\ufe01\U000e0100":          "vs",
		"bad\xffutf":                  "bad\ufffdutf",
		"\x1b":                        "",
		"\x9b31mred":                  "\ufffd31mred",
		"\u009b31mred":                "red",
	} {
		if got := schemas.Clean(in, false); got != want {
			t.Errorf("schemas.Clean(%q) = %q, want %q", in, got, want)
		}
	}
	if got := schemas.Clean("a\nb", true); got != "a b" {
		t.Errorf("one line: %q", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.String().Draw(t, "text")
		out := schemas.Clean(in, true)
		if !utf8.ValidString(out) || schemas.Clean(out, true) != out || strings.ContainsAny(out, "\x1b\u202e\u200b\n\r") {
			t.Fatalf("schemas.Clean(%q) = %q", in, out)
		}
	})
}

func TestShort(t *testing.T) {
	for _, c := range []struct {
		in    string
		limit int
		want  string
	}{{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"äöü", 3, "äöü"}, {"äöüß", 3, "äö…"}} {
		if got := short(c.in, c.limit); got != c.want {
			t.Errorf("short(%q, %d) = %q, want %q", c.in, c.limit, got, c.want)
		}
	}
}

func TestWords(t *testing.T) {
	for d, want := range map[time.Duration]string{time.Minute: "1 min", 30 * time.Second: "30 s", 1500 * time.Millisecond: "1.5 s", 310 * time.Millisecond: "310 ms"} {
		if got := words(d); got != want {
			t.Errorf("words(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestRisk(t *testing.T) {
	yes, no := true, false
	for name, want := range map[string]string{
		"run_command": riskShell, "execute_command": riskShell, "exec": riskShell, "bash": riskShell, "runShell": riskShell, "eval": riskShell,
		"terminal-open": riskShell, "start_process": riskShell, "run_python": riskShell, "executeCode": riskShell, "RunCommand": riskShell, "HTTPShell": riskShell,
		"write_file": riskFiles, "edit-file": riskFiles, "move_file": riskFiles, "createDirectory": riskFiles, "upload_file": riskFiles, "read_file": riskFiles, "mkdir": riskFiles,
		"delete_repo": riskDestructive, "drop_table": riskDestructive, "purgeCache": riskDestructive, "kill": riskDestructive, "format_disk": riskDestructive, "formatDrive": riskDestructive, "format_the_volume": riskDestructive,
		"format_code": "", "format": "", "reformat_drive_names": "", "disk_usage_format": "",
		"executive_summary": "", "list_commands": "", "get_issue": "", "create_issue": "", "profile": "", "processes_overview": "", "undeleted": "", "search_files": "", "commander": "",
		"shellfish_info": "", "update_status": "", "process_payment": "",
	} {
		if got := risk(name, hints{}); got != want {
			t.Errorf("risk(%s) = %q, want %q", name, got, want)
		}
	}
	for _, c := range []struct {
		name string
		h    hints
		want string
	}{
		{"read_file", hints{ReadOnly: true}, ""},
		{"get_command_help", hints{ReadOnly: true}, ""},
		{"get_command_help", hints{}, riskShell},
		{"run_command", hints{ReadOnly: true}, riskShell},
		{"delete_repo", hints{ReadOnly: true, Destructive: &no}, riskDestructive},
		{"archive", hints{Destructive: &yes}, riskDestructive},
		{"archive", hints{Destructive: &no}, ""},
		{"write_file", hints{ReadOnly: true, Destructive: &no}, riskFiles},
	} {
		if got := risk(c.name, c.h); got != c.want {
			t.Errorf("risk(%s, %+v) = %q, want %q", c.name, c.h, got, c.want)
		}
	}
}

func TestSpeaksAgainst(t *testing.T) {
	for name, want := range map[string]bool{
		"get_issue": false, "echo": false, "delete_issue": true, "list_posts": false, "get_post": false, "get_or_create": true, "createIssue": true, "search_and_replace": true, "run_query": true, "weather": false,
	} {
		if got := speaksAgainst(name); got != want {
			t.Errorf("speaksAgainst(%s) = %v", name, got)
		}
	}
}

func TestModelNames(t *testing.T) {
	form := regexp.MustCompile(`\A[A-Za-z0-9_-]{1,64}\z`)
	name := func(tools ...*schemas.Tool) []string {
		modelNames(tools)
		var names []string
		seen := map[string]bool{}
		for _, tl := range tools {
			if !form.MatchString(tl.Model) || seen[strings.ToLower(tl.Model)] {
				t.Errorf("%s.%s is called %q", tl.Server, tl.Name, tl.Model)
			}
			seen[strings.ToLower(tl.Model)] = true
			names = append(names, tl.Model)
		}
		return names
	}
	tool := func(s, n string) *schemas.Tool { return &schemas.Tool{Server: s, Name: n} }
	if got := name(tool("git.hub", "create_issue")); got[0] != "ext_git-hub_create_issue" {
		t.Error(got)
	}
	a := name(tool("a_b", "c"), tool("a", "b_c"), tool("x", "y"))
	b := name(tool("x", "y"), tool("a", "b_c"), tool("a_b", "c"))
	if a[0] != b[2] || a[1] != b[1] || a[2] != "ext_x_y" {
		t.Errorf("order matters: %v, %v", a, b)
	}
	name(tool("s", "Search"), tool("s", "search"), tool("s", "se.arch"), tool("s", "se_arch"), tool("s", "größe"), tool("s", "grösse"))
	long := strings.Repeat("x", 100)
	name(tool("s", long), tool("s", long+"y"))
	// A server may choose names that look like somebody else's suffix.
	forged := name(tool("a_b", "c"), tool("a", "b_c"))[0]
	name(tool("a_b", "c"), tool("a", "b_c"), tool("a", strings.TrimPrefix(forged, "ext_a_")))
}

func TestCheck_AllMistakesAtOnce(t *testing.T) {
	d, _, reason := define("s", json.RawMessage(`{"name":"t","inputSchema":{"type":"object","required":["repo","title"],"additionalProperties":false,
		"properties":{"repo":{"type":"string","pattern":"^(?!x).*$"},"title":{"type":"string"},"n":{"type":"integer","maximum":5},"tags":{"type":"array","items":{"type":"string"}}}}}`))
	if reason != "" {
		t.Fatal(reason)
	}
	args, _ := decode([]byte(`{"n":7,"tags":["a",1],"titel":"x"}`))
	got := fmt.Sprint(d.check(args))
	for _, part := range []string{`"repo" is missing`, `"title" is missing`, `unknown argument "titel"`, `did you mean "title"?`, "must be <= 5", "must be string, not number"} {
		if !strings.Contains(got, part) {
			t.Errorf("no %q in\n%s", part, got)
		}
	}
	open, _, _ := define("s", json.RawMessage(`{"name":"t","inputSchema":{"type":"object","required":["message"],"properties":{"message":{"type":"string"}}}}`))
	if got := fmt.Sprint(open.check(map[string]any{"mesage": "x"})); got != `"message" is missing ("mesage" was given; did you mean "message"?)` {
		t.Error(got)
	}
	if ps := d.check(map[string]any{"repo": "x", "title": "y"}); len(ps) != 0 {
		t.Errorf("good arguments: %v", ps)
	}
}

func TestDefine_Refusals(t *testing.T) {
	deep := strings.Repeat(`{"properties":{"a":`, 40) + `{}` + strings.Repeat(`}}`, 40)
	for schema, part := range map[string]string{
		`{"$ref":"https://evil.example/x"}`:                                  "another document",
		`{"type":"object","properties":{"a":{"$ref":"file:///etc/passwd"}}}`: "another document",
		`[]`:                                   "not a JSON object",
		`{"type":"string"}`:                    "does not describe an object",
		`{"type":7}`:                           "does not describe an object",
		`{"type":"object","properties":7}`:     "not a valid JSON Schema",
		`{"$schema":"https://evil.example/s"}`: "another document",
		`{"type":"object","properties":{"a\u200b":{}}}`: "invisible",
		deep: "nested",
		`{"type":"object","description":"` + strings.Repeat("x", session.MaxSchema) + `"}`: "larger than",
	} {
		_, name, reason := define("s", json.RawMessage(`{"name":"t","inputSchema":`+schema+`}`))
		if name != "t" || !strings.Contains(reason, part) {
			t.Errorf("%.60s: %q, want %q", schema, reason, part)
		}
	}
	for _, raw := range []string{`{"name":""}`, `{"name":"a\u200b"}`, `{"name":"` + strings.Repeat("x", 200) + `"}`, `7`, `{"name":{}}`, `{"name":" a"}`} {
		if _, _, reason := define("s", json.RawMessage(raw)); reason == "" {
			t.Errorf("%.40s was taken", raw)
		}
	}
	for _, schema := range []string{`{"type":"object","$defs":{"n":{"type":"object","properties":{"next":{"$ref":"#/$defs/n"}}}},"properties":{"n":{"$ref":"#/$defs/n"}}}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}`, `{"type":"object","properties":{"e":{"type":"string","pattern":"(a+)+$"}}}`} {
		if _, _, reason := define("s", json.RawMessage(`{"name":"t","inputSchema":`+schema+`}`)); reason != "" {
			t.Errorf("%.60s: %s", schema, reason)
		}
	}
}

// TestDefine_Doubling: a schema of two kilobytes must not keep a processor busy for ever.
func TestDefine_Doubling(t *testing.T) {
	chain := func(part, ref string) string {
		var b strings.Builder
		b.WriteString(`{"type":"object",` + part + `,"$defs":{`)
		for i := range 40 {
			next := fmt.Sprintf(ref, i+1)
			fmt.Fprintf(&b, `"d%d":{"$anchor":"a%d","allOf":[{"$ref":"%s"},{"anyOf":[{"$ref":"%s"}]}]},`, i, i, next, next)
		}
		return b.String() + `"d40":{"$anchor":"a40"}}}`
	}
	for _, schema := range []string{
		chain(`"allOf":[{"$ref":"#/$defs/d0"}]`, "#/$defs/d%d"), chain(`"properties":{"x":{"items":{"$ref":"#a0"}}}`, "#a%d"),
		chain(`"not":{"$ref":"#/%24defs/d0"}`, "#/%%24defs/d%d"), `{"$id":"tool:///a","properties":{"x":{"$id":"tool:///b","$ref":"#/$defs/y","$defs":{"y":{}}}}}`,
	} {
		if _, _, reason := define("s", json.RawMessage(`{"name":"t","inputSchema":`+schema+`}`)); !strings.Contains(reason, "takes too long") && !strings.Contains(reason, "another document") {
			t.Errorf("%.80s: %q", schema, reason)
		}
	}
	var many strings.Builder
	for i := range 200 {
		fmt.Fprintf(&many, `"p%d":{"$ref":"#/$defs/v"},`, i)
	}
	wide := `{"type":"object","properties":{` + many.String() + `"a":{"$ref":"#/$defs/v"}},"$defs":{"v":{"anyOf":[{"type":"string"},{"type":"array","items":{"$ref":"#/$defs/v"}},{"type":"object","additionalProperties":{"$ref":"#/$defs/v"}}]}}}`
	d, _, reason := define("s", json.RawMessage(`{"name":"t","inputSchema":`+wide+`}`))
	if reason != "" {
		t.Fatalf("an ordinary recursive schema: %q", reason)
	}
	if ps := d.check(map[string]any{"a": []any{"x", map[string]any{"y": "z"}}}); ps != nil {
		t.Error(ps)
	}
}

// Clients hold a tool to any output schema that is there. The pins are those that people's state.json holds since the first version.
func TestDefine_OutputAndPin(t *testing.T) {
	for raw, want := range map[string]struct{ output, pin string }{
		`{"name":"t","description":"d","inputSchema":{"type":"object"}}`:                     {"", "d526dac93520a3edd71a249d55aefa9159fbdf863db7ddc110028e58fe35721c"},
		`{"name":"t","outputSchema":null}`:                                                   {"", "018a796e56b6aac6def492299c90dc84e168358deafc24113e9723c2b998fa94"},
		`{"name":"t","outputSchema":{"type":"object","properties":{"a":{"type":"string"}}}}`: {`{"type":"object","properties":{"a":{"type":"string"}}}`, "64e1b8b235f07fe415482adb3b6feebe68acf3966f156fee8862ab26c1e2a951"},
	} {
		d, _, reason := define("s", json.RawMessage(raw))
		if reason != "" || string(d.Output) != want.output || d.Pin != want.pin {
			t.Errorf("%s: output %q, pin %s, %q", raw, d.Output, d.Pin, reason)
		}
	}
}

func TestDigestArgs(t *testing.T) {
	if k := repeated([]byte(`{"a":1,"b":{"a":2},"a":3}`)); k != "a" {
		t.Errorf("repeated: %q", k)
	}
	if got := digestArgs([]byte(`{"repo":"acme/site","ghp_secret value":1,"n":3}`)); got != "repo 11, ? 1, n 1" {
		t.Errorf("digest: %q", got)
	}
	if got := digestArgs([]byte(`[1,2,3]`)); got != "not an object, 7" {
		t.Errorf("digest: %q", got)
	}
	rapid.Check(t, func(t *rapid.T) { digestArgs(rapid.SliceOf(rapid.Byte()).Draw(t, "noise")) })
}

func TestSaysError(t *testing.T) {
	for raw, want := range map[string]bool{
		`{"content":[]}`: false, `{"isError":true}`: true, `{"content":[],"isError" : true }`: true, `{"isError":false}`: false,
		`{"content":[{"type":"text","text":"\"isError\":true"}]}`: false, `{"structuredContent":{"isError":true}}`: false,
		`{"structuredContent":{"isError":true},"isError":false}`: false, `{"isError":true,"isError":false}`: true,
	} {
		if got := saysError([]byte(raw)); got != want {
			t.Errorf("saysError(%s) = %v", raw, got)
		}
	}
}

func TestSubstitute(t *testing.T) {
	values := map[string]schemas.Secret{"A": schemas.NewSecret("${input:B}$1"), "B": schemas.NewSecret("secret")}
	if got := substitute("x ${input:A} ${input:C} ${input:B}", values); got != "x ${input:B}$1 ${input:C} secret" {
		t.Error(got)
	}
}
