package gateway_test

import (
	"strings"
	"testing"
	"time"
)

func TestListChanged(t *testing.T) {
	const list = `"notifications/tools/list_changed"`
	h := start(t, nil)
	at, token := h.url+"/gateway/t1/mcp", h.token(ann)
	_, head, _ := post(t, at, token, hello)
	streams := map[string]<-chan string{
		"GET": events(t, open(t, t.Context(), "GET", at, token, "", "Mcp-Session-Id", head.Get("Mcp-Session-Id"))),
		"SSE": events(t, open(t, t.Context(), "GET", h.url+"/gateway/t1/sse", token, "")),
		"listen": events(t, open(t, t.Context(), "POST", at, token, since(4, "subscriptions/listen", `"notifications":{"toolsListChanged":true}`, "{}"),
			"Mcp-Protocol-Version", modern, "Mcp-Method", "subscriptions/listen")),
		"listen to others": events(t, open(t, t.Context(), "POST", at, token, since(5, "subscriptions/listen", `"notifications":{"promptsListChanged":true}`, "{}"),
			"Mcp-Protocol-Version", modern, "Mcp-Method", "subscriptions/listen")),
	}
	if s := next(t, streams["SSE"]); !strings.HasPrefix(s, "/gateway/t1/message?sessionId=") {
		t.Errorf("%s", s)
	}
	for name, id := range map[string]string{"listen": "4", "listen to others": "5"} {
		if s := next(t, streams[name]); !strings.Contains(s, "acknowledged") || !strings.Contains(s, `"io.modelcontextprotocol/subscriptionId":`+id) {
			t.Errorf("%s", s)
		}
	}
	until(t, func() bool { return h.thread.watched() == 4 })
	time.Sleep(20 * time.Millisecond) // GET says that it looked by a comment
	h.thread.change(tool("s", "other"))
	for _, name := range []string{"GET", "SSE", "listen"} {
		if s := next(t, streams[name]); !strings.Contains(s, list) || name == "listen" != strings.Contains(s, "subscriptionId") {
			t.Errorf("%s: %s", name, s)
		}
	}
	h.thread.change(tool("s", "other")) // the same again: nothing to say
	h.thread.change(tool("s", "third"))
	if s := next(t, streams["GET"]); !strings.Contains(s, list) {
		t.Errorf("%s", s)
	}
	select {
	case s := <-streams["GET"]:
		t.Errorf("one too many: %s", s)
	case s := <-streams["listen to others"]:
		t.Errorf("not asked for: %s", s)
	case <-time.After(100 * time.Millisecond):
	}
	newer := events(t, open(t, t.Context(), "GET", at, token, "", "Mcp-Session-Id", head.Get("Mcp-Session-Id")))
	if s, ok := <-streams["GET"]; ok {
		t.Errorf("the older stream goes on: %s", s)
	}
	until(t, func() bool { return h.thread.watched() == 4 })
	time.Sleep(20 * time.Millisecond)
	h.thread.change(tool("s", "fourth"))
	if s := next(t, newer); !strings.Contains(s, list) {
		t.Errorf("%s", s)
	}
}

func TestFollow(t *testing.T) {
	h := start(t, nil)
	at, token := h.url+"/gateway/t1/mcp", h.token(ann)
	_, head, _ := post(t, at, token, hello)
	id := []string{"Mcp-Session-Id", head.Get("Mcp-Session-Id")}
	own := events(t, open(t, t.Context(), "GET", at, token, "", id...))
	until(t, func() bool { return h.thread.watched() == 1 })
	if _, _, body := post(t, at, token, `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"test://a"}}`, id...); !strings.Contains(body, `"result":{}`) {
		t.Fatalf("%s", body)
	}
	if _, _, body := post(t, at, token, `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"test://t/1/data"}}`, id...); !strings.Contains(body, "does not say") {
		t.Errorf("%s", body)
	}
	if _, _, body := post(t, at, token, `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"test://none"}}`, id...); !strings.Contains(body, "-32002") {
		t.Errorf("%s", body)
	}
	h.thread.follows[0] <- struct{}{}
	if s := next(t, own); !strings.Contains(s, `"notifications/resources/updated","params":{"uri":"test://a"}`) {
		t.Errorf("%s", s)
	}
	post(t, at, token, `{"jsonrpc":"2.0","id":1,"method":"resources/unsubscribe","params":{"uri":"test://a"}}`, id...)
	until(t, func() bool { h.thread.mu.Lock(); defer h.thread.mu.Unlock(); return h.thread.unfollowed == 1 })
}
