package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"bobbin/bot"
	"bobbin/schemas"
)

// TestGateway_Serve has bobbin serve answer clients beside its page: what they need to find it holds no token, and a token opens one thread.
func TestGateway_Serve(t *testing.T) {
	linuxOnly(t)
	g := startServe(t, "stdio", "")
	base := "http://" + g.addr
	token := strings.TrimSuffix(strings.TrimPrefix(g.more, "Authorization: Bearer "), "\r\n")
	ask := func(method, path, body string, head ...string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, base+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		for i := 0; i < len(head); i += 2 {
			req.Header.Set(head[i], head[i+1])
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		b, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b)
	}
	code, body := ask("GET", "/api/mcp/config.json", "")
	var config struct {
		Servers map[string]struct{ URL string } `json:"mcpServers"`
	}
	if err := json.Unmarshal([]byte(body), &config); err != nil || code != 200 || config.Servers["bobbin-web-default"].URL != base+"/gateway/web-default/mcp" || strings.Contains(body, token[:16]) {
		t.Errorf("config.json: %d %v %s", code, err, body)
	}
	if code, body = ask("GET", "/api/mcp/install.sh?thread=t1", ""); code != 200 || !strings.HasPrefix(body, "#!/bin/sh") || strings.Contains(body, token[:16]) {
		t.Errorf("install.sh: %d %s", code, body)
	}
	if code, _ = ask("GET", "/api/mcp/other", ""); code != 404 {
		t.Errorf("an unknown path: %d", code)
	}
	if code, _ = ask("GET", "/healthz", ""); code != 200 {
		t.Errorf("the page's own: %d", code)
	}
	initialize := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	for path, want := range map[string]int{"/gateway/t1/mcp": 200, "/gateway/t2/mcp": 401} {
		if code, body := ask("POST", path, initialize, "Authorization", "Bearer "+token); code != want {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	if code, _ := ask("POST", "/gateway/t1/mcp", initialize); code != 401 {
		t.Errorf("without a token: %d", code)
	}
	if code, _ := ask("POST", "/gateway/t1/mcp", initialize, "Authorization", "Bearer "+token, "Origin", "http://evil.example"); code != 403 {
		t.Errorf("from another site's page: %d", code)
	}
	code, body = ask("POST", "/gateway/t1/mcp", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ext_demo_echo","arguments":{"message":"x"}}}`,
		"Authorization", "Bearer "+token, "Mcp-Session-Id", g.session)
	if code != 200 || !strings.Contains(body, swiftEcho) {
		t.Errorf("a call: %d %s", code, body)
	}
}

// TestGateway_StdioBesideServe has a client over stdio use the servers of the bobbin that serves the folder already, not start them once more.
func TestGateway_StdioBesideServe(t *testing.T) {
	linuxOnly(t)
	g := startServe(t, "fakemcp", "")
	over := func() string {
		cmd := exec.CommandContext(t.Context(), "bobbin", "--data", g.data, "--sandbox", "process", "gateway", "--stdio", "--thread", "t1")
		cmd.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ext_demo_pid","arguments":{}}}
`)
		cmd.Stderr, cmd.Env = os.Stderr, append(os.Environ(), "DOCKER_HOST=unix:///no/engine")
		out, err := cmd.Output()
		_, pid, ok := strings.Cut(string(out), `"text":"`)
		if err != nil || !ok {
			t.Fatalf("%v %s", err, out)
		}
		pid, _, _ = strings.Cut(pid, `"`)
		return pid
	}
	if one, two := over(), over(); one != two {
		t.Errorf("servers %s and %s", one, two)
	}
}

// TestGateway_AsksInTheChat has a call from outside wait for its member's yes, which is given in the chat.
func TestGateway_AsksInTheChat(t *testing.T) {
	h, origin, token := lender(t, "fakemcp")
	srv := httptest.NewServer(h.Gateway.Handler())
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	origin.Store(srv.URL)
	c := &crowd{t: t, at: srv.URL + "/gateway/t1/mcp", token: token, http: &http.Client{}}
	t.Cleanup(c.http.CloseIdleConnections)
	session := c.open(1)
	who := schemas.Caller{Thread: "t1", Member: "operator", Name: "operator", Door: schemas.DoorTerminal, Role: schemas.Owner, Operator: true}
	for choice, want := range map[string]string{"Once": `"text":"3"`, "Deny": "refused by a person"} {
		notices, stop := h.Bot.Subscribe("t1", "operator")
		answer := make(chan string, 1)
		go func() {
			resp, err := c.send(t.Context(), "POST", session, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ext_suite_add","arguments":{"a":1,"b":2},"_meta":{"progressToken":"p"}}}`)
			if err != nil {
				answer <- err.Error()
				return
			}
			defer func() { _ = resp.Body.Close() }()
			b, _ := io.ReadAll(resp.Body)
			answer <- string(b)
		}()
		for n := range notices {
			i := slices.IndexFunc(n.Reply.Choices, func(c bot.Choice) bool { return c.Label == choice })
			if i >= 0 {
				h.Bot.Handle(t.Context(), bot.Request{Caller: who, Action: &bot.Action{ID: n.Reply.ID, Choice: n.Reply.Choices[i].Key}})
				break
			}
		}
		got := <-answer
		stop()
		if !strings.Contains(got, want) || !strings.Contains(got, "waits for @operator to allow suite.add") {
			t.Errorf("%s: %s", choice, got)
		}
	}
}
