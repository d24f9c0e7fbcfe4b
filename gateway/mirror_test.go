package gateway_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// What a tool's schema has clients repeat in headers has to be there, once, and the same (SEP-2243).
func TestMirror(t *testing.T) {
	h := start(t, nil)
	query := tool("s", "echo")
	query.Input = json.RawMessage(`{"type":"object","properties":{
		"region":{"type":"string","x-mcp-header":"Region"},
		"limit":{"type":"integer","x-mcp-header":"Limit"},
		"dry":{"type":"boolean","x-mcp-header":"Dry"},
		"deep":{"type":"object","properties":{"er":{"type":"string","x-mcp-header":"Deeper"}}},
		"list":{"type":"array","x-mcp-header":"List"},
		"any":{"anyOf":[{"type":"string","x-mcp-header":"Any"}]}}}`)
	h.thread.change(query)
	at, token := h.url+"/gateway/t1/mcp", h.token(ann)
	for _, c := range []struct {
		name, args string
		heads      []string
		ok         bool
	}{
		{"nothing to repeat", `{"other":1}`, nil, true},
		{"no arguments", ``, nil, true},
		{"the same", `{"region":"eu"}`, []string{"Region", "eu"}, true},
		{"another", `{"region":"eu"}`, []string{"Region", "us"}, false},
		{"left out", `{"region":"eu"}`, nil, false},
		{"nothing there", `{}`, []string{"Region", "eu"}, false},
		{"null", `{"region":null}`, nil, true},
		{"null, and a header", `{"region":null}`, []string{"Region", "null"}, false},
		{"empty", `{"region":""}`, []string{"Region", ""}, true},
		{"empty, left out", `{"region":""}`, nil, false},
		{"in code", `{"region":"Köln "}`, []string{"Region", "=?base64?S8O2bG4g?="}, true},
		{"in broken code", `{"region":"x"}`, []string{"Region", "=?base64?%%?="}, false},
		{"what only looks like code", `{"region":"=?base64?x"}`, []string{"Region", "=?base64?x"}, true},
		{"twice", `{"region":"eu"}`, []string{"Region", "eu", "Region", "eu"}, false},
		{"a number", `{"limit":42}`, []string{"Limit", "42"}, true},
		{"the same number", `{"limit":42.0}`, []string{"Limit", "42"}, true},
		{"another number", `{"limit":42}`, []string{"Limit", "43"}, false},
		{"a huge number", `{"limit":9007199254740993}`, []string{"Limit", "9007199254740992"}, false},
		{"no number", `{"limit":42}`, []string{"Limit", "forty-two"}, false},
		{"true", `{"dry":true}`, []string{"Dry", "true"}, true},
		{"not true", `{"dry":true}`, []string{"Dry", "false"}, false},
		{"deep inside", `{"deep":{"er":"x"}}`, []string{"Deeper", "x"}, true},
		{"deep inside, another", `{"deep":{"er":"x"}}`, []string{"Deeper", "y"}, false},
		{"a declaration that is not valid binds nobody", `{"list":["a"],"any":"x"}`, nil, true},
		{"a header that no schema names", `{}`, []string{"Colour", "red"}, true},
	} {
		params := `"name":"ext_s_echo"`
		if c.args != "" {
			params += `,"arguments":` + c.args
		}
		req, err := http.NewRequestWithContext(t.Context(), "POST", at, strings.NewReader(since(1, "tools/call", params, "{}")))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + token},
			"Mcp-Protocol-Version": {modern}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"ext_s_echo"}}
		for i := 0; i < len(c.heads); i += 2 {
			req.Header.Add("Mcp-Param-"+c.heads[i], c.heads[i+1])
		}
		before := len(h.thread.calls)
		code, _, body := answer(t, req)
		if ran := len(h.thread.calls) > before; ran != c.ok || c.ok != (code == 200) || !c.ok && (code != 400 || !strings.Contains(body, `"code":-32020,`)) {
			t.Errorf("%s: ran %v, %d %s", c.name, ran, code, body)
		}
	}
	// Before 2026-07-28 no client knows of these headers.
	_, head, _ := post(t, at, token, hello)
	if code, _, body := post(t, at, token, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ext_s_echo","arguments":{"region":"eu"}}}`, "Mcp-Session-Id", head.Get("Mcp-Session-Id")); code != 200 || strings.Contains(body, "-32020") {
		t.Errorf("before 2026: %d %s", code, body)
	}
}

// A header of which what stands before us may have read another value than we do is refused.
func TestHeader_Twice(t *testing.T) {
	h := start(t, nil)
	token := h.token(ann)
	for _, name := range []string{"Authorization", "Content-Type", "Mcp-Session-Id", "Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name", "Origin", "Last-Event-ID"} {
		req, err := http.NewRequestWithContext(t.Context(), "POST", h.url+"/gateway/t1/mcp", strings.NewReader(since(1, "tools/list", "", "{}")))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + token}, "Mcp-Protocol-Version": {modern}, "Mcp-Method": {"tools/list"}}
		value := req.Header.Get(name)
		req.Header[http.CanonicalHeaderKey(name)] = []string{value, value}
		if code, _, body := answer(t, req); code != 400 && code != 403 {
			t.Errorf("%s twice: %d %s", name, code, body)
		}
	}
}
