package gateway_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bobbin/gateway"
	"bobbin/schemas"
)

const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

// post sends one message and gives status, headers and body.
func post(t *testing.T, url, token, body string, headers ...string) (int, http.Header, string) {
	t.Helper()
	return send(t, "POST", url, token, body, headers...)
}

func send(t *testing.T, method, url, token, body string, headers ...string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	return answer(t, req)
}

func answer(t *testing.T, req *http.Request) (int, http.Header, string) {
	t.Helper()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header, string(b)
}

func TestToken(t *testing.T) {
	var now = time.Now()
	h := start(t, func(o *gateway.Options) { o.Now = func() time.Time { return now } })
	at := h.url + "/gateway/t1/mcp"
	good := h.token(ann)
	_, short, err := h.Make(t.Context(), ann, "short", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	bob := ann
	bob.Member = "bob"
	left := h.token(bob)
	other := ann
	other.Thread = "t2"
	elsewhere := h.token(other)
	now = now.Add(2 * time.Hour)
	h.thread.mu.Lock()
	h.thread.gone["bob"] = true
	h.thread.mu.Unlock()
	for name, c := range map[string]struct {
		token string
		want  int
	}{
		"good": {good, 200}, "none": {"", 401}, "nonsense": {"x", 401}, "of another thread": {elsewhere, 401}, "ran out": {short, 401}, "who left": {left, 401},
		"another secret of the same id": {good[:len(good)-1] + "x", 401}, "its id alone": {good[:strings.LastIndex(good, "_")+1], 401}, "long": {"bobbin_" + strings.Repeat("a", 5000), 401},
	} {
		code, head, body := post(t, at, c.token, hello)
		if code != c.want {
			t.Errorf("%s: %d %s", name, code, body)
		}
		challenge := head.Get("WWW-Authenticate")
		if (c.want == 401) != strings.HasPrefix(challenge, "Bearer ") || strings.Contains(challenge, "invalid_token") != (c.want == 401 && c.token != "") {
			t.Errorf("%s: challenge %q", name, challenge)
		}
		if c.want == 401 && strings.Contains(body, "t2") {
			t.Errorf("%s: says what exists: %s", name, body)
		}
	}
	for _, path := range []string{"/gateway/t1/sse", "/gateway/t1/message?sessionId=x", "/gateway/t1/servers/s/mcp"} {
		method := "POST"
		if strings.HasSuffix(path, "sse") {
			method = "GET"
		}
		if code, _, _ := send(t, method, h.url+path, "", ""); code != 401 {
			t.Errorf("%s without a token: %d", path, code)
		}
	}
	raw, err := os.ReadFile(filepath.Join(h.dir, "tokens.json"))
	if err != nil || bytes.Contains(raw, []byte(good[16:])) || !bytes.Contains(raw, []byte(`"sha256"`)) {
		t.Errorf("what is kept: %v %s", err, raw)
	}
}

func TestToken_WhoMayMakeAndEnd(t *testing.T) {
	h := start(t, nil)
	guest := ann
	guest.Role = schemas.Guest
	if _, _, err := h.Make(t.Context(), guest, "x", 0); schemas.CodeOf(err) != schemas.CodeDenied {
		t.Errorf("a guest got a token: %v", err)
	}
	var last schemas.GatewayToken
	for range 20 {
		tok, _, err := h.Make(t.Context(), ann, "many\x1b[31m", 0)
		if err != nil {
			t.Fatal(err)
		}
		last = tok
	}
	if last.Name != "many" {
		t.Errorf("name %q", last.Name)
	}
	if _, _, err := h.Make(t.Context(), ann, "x", 0); schemas.CodeOf(err) != schemas.CodeTooLarge {
		t.Errorf("a 21st: %v", err)
	}
	bob, boss := ann, ann
	bob.Member = "bob"
	boss.Member, boss.Role = "boss", schemas.Manager
	if list, err := h.List(t.Context(), bob); err != nil || len(list) != 0 {
		t.Errorf("bob sees %v, %v", list, err)
	}
	if list, err := h.List(t.Context(), boss); err != nil || len(list) != 20 {
		t.Errorf("a manager sees %d, %v", len(list), err)
	}
	if err := h.Revoke(t.Context(), bob, last.ID); schemas.CodeOf(err) != schemas.CodeNotFound {
		t.Errorf("bob ends Ann's: %v", err)
	}
	if err := h.Revoke(t.Context(), boss, last.ID); err != nil {
		t.Error(err)
	}
	if err := h.Left(t.Context(), "t1", "ann"); err != nil {
		t.Error(err)
	}
	if list, _ := h.List(t.Context(), boss); len(list) != 0 {
		t.Errorf("left over: %v", list)
	}
}

// A token that one bobbin makes or revokes holds or ends at another on the same folder.
func TestToken_TwoProcesses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gateway")
	one, two := startIn(t, dir, newThread(), nil), startIn(t, dir, newThread(), nil)
	_, secret, err := one.Make(t.Context(), ann, "x", 0)
	if err != nil {
		t.Fatal(err)
	}
	code, head, _ := post(t, two.url+"/gateway/t1/mcp", secret, hello)
	if code != 200 {
		t.Fatalf("%d at the other", code)
	}
	if code, _, body := post(t, one.url+"/gateway/t1/mcp", secret, `{"jsonrpc":"2.0","id":2,"method":"ping"}`, "Mcp-Session-Id", head.Get("Mcp-Session-Id")); code != 200 {
		t.Errorf("its session is not known at the first: %d %s", code, body)
	}
	list, _ := two.List(t.Context(), ann)
	if len(list) != 1 {
		t.Fatalf("%v", list)
	}
	if err := two.Revoke(t.Context(), ann, list[0].ID); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { code, _, _ := post(t, one.url+"/gateway/t1/mcp", secret, hello); return code == 401 })
}

func TestToken_RevokedInTheMiddle(t *testing.T) {
	h := start(t, nil)
	tok, secret, err := h.Make(t.Context(), ann, "x", 0)
	if err != nil {
		t.Fatal(err)
	}
	at := h.url + "/gateway/t1/mcp"
	_, head, _ := post(t, at, secret, hello)
	ended := make(chan string, 1)
	go func() {
		code, _, body := post(t, at, secret, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ext_s_wait"}}`, "Mcp-Session-Id", head.Get("Mcp-Session-Id"))
		ended <- http.StatusText(code) + body
	}()
	<-h.thread.began
	if err := h.Revoke(t.Context(), ann, tok.ID); err != nil {
		t.Fatal(err)
	}
	if err := <-h.thread.ended; err == nil {
		t.Error("the call went on")
	}
	if got := <-ended; strings.Contains(got, "waited") {
		t.Errorf("it got %s", got)
	}
}

func TestToken_UsedIsNoted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gateway")
	t.Run("used", func(t *testing.T) {
		h := startIn(t, dir, newThread(), nil)
		post(t, h.url+"/gateway/t1/mcp", h.token(ann), hello)
	})
	h := startIn(t, dir, newThread(), nil)
	list, err := h.List(t.Context(), ann)
	if err != nil || len(list) != 1 || time.Since(list[0].Used) > time.Minute {
		t.Errorf("%+v %v", list, err)
	}
}

func TestToken_FileBroken(t *testing.T) {
	h := start(t, nil)
	secret := h.token(ann)
	if err := os.WriteFile(filepath.Join(h.dir, "tokens.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { code, _, _ := post(t, h.url+"/gateway/t1/mcp", secret, hello); return code == 503 })
	if _, _, err := h.Make(t.Context(), ann, "x", 0); schemas.CodeOf(err) != schemas.CodeInternal {
		t.Errorf("it is written over: %v", err)
	}
	var e *schemas.Error
	if _, err := h.List(t.Context(), ann); !errors.As(err, &e) {
		t.Errorf("no words: %v", err)
	}
}

// What a token opened ends when its member becomes a guest, and so does a stream that is open.
func TestToken_ItsMemberBecomesAGuest(t *testing.T) {
	h := start(t, func(o *gateway.Options) { o.Quiet = 20 * time.Millisecond })
	at, secret := h.url+"/gateway/t1/mcp", h.token(ann)
	_, head, _ := post(t, at, secret, hello)
	stream := events(t, open(t, t.Context(), "GET", at, secret, "", "Mcp-Session-Id", head.Get("Mcp-Session-Id")))
	h.thread.mu.Lock()
	h.thread.guests["ann"] = true
	h.thread.mu.Unlock()
	for _, body := range []string{hello, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ext_s_echo"}}`} {
		if code, _, said := post(t, at, secret, body, "Mcp-Session-Id", head.Get("Mcp-Session-Id")); code != 403 || !strings.Contains(said, "a guest of the thread") {
			t.Errorf("%d %s", code, said)
		}
	}
	for range stream {
	}
	if len(h.thread.calls) != 0 {
		t.Error("a call of a guest arrived")
	}
	h.thread.mu.Lock()
	h.thread.guests["ann"] = false
	h.thread.mu.Unlock()
	if code, _, said := post(t, at, secret, hello); code != 200 {
		t.Errorf("a member again: %d %s", code, said)
	}
}
