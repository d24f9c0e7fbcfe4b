package proxy_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"bobbin/proxy"
)

// raw is the one user of a server's stdio.
type raw struct {
	net.Conn
	in *bufio.Reader
}

// stdio asks for the stream; a status other than 101 comes with the words of the refusal.
func (w *world) stdio(name string) (*raw, int, string) {
	w.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.at, "http://"))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(conn, "GET /servers/"+name+"/stdio HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer "+token+
		"\r\nConnection: Upgrade\r\nUpgrade: mcp-stdio\r\n\r\n"); err != nil {
		w.t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		if resp.Header.Get("Upgrade") != "mcp-stdio" {
			w.t.Errorf("the answer's headers: %v", resp.Header)
		}
		return &raw{conn, in}, resp.StatusCode, ""
	}
	b, _ := io.ReadAll(resp.Body)
	_ = conn.Close()
	return nil, resp.StatusCode, string(b)
}

func (r *raw) ask(t *testing.T, line string) string {
	t.Helper()
	if _, err := io.WriteString(r, line+"\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := r.in.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func TestProxy_Stdio(t *testing.T) {
	w := open(t)
	first := w.put("a", me(), 201)
	if a := w.do("GET", "/servers/a/stdio", ""); a.status != 426 || a.header.Get("Upgrade") != "mcp-stdio" {
		t.Errorf("without an upgrade: %d %s", a.status, a.body)
	}
	if _, status, _ := w.stdio("none"); status != 404 {
		t.Errorf("an unknown server: %d", status)
	}
	r, status, words := w.stdio("a")
	if status != 101 {
		t.Fatalf("%d %s", status, words)
	}
	// Bytes pass as they are, also those that a link would not let through, and large ones.
	big := strings.Repeat("z", 3<<20)
	if got := r.ask(t, request(`"x\u0041"`, "echo", map[string]any{"text": big})); !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":"x\u0041"`) || len(got) < len(big) {
		t.Errorf("%.100s", got)
	}
	if _, status, _ := w.stdio("a"); status != 409 {
		t.Errorf("a second user: %d", status)
	}
	if a := w.do("POST", "/servers/a/mcp", hello, "Accept", both); a.status != 409 {
		t.Errorf("a client beside the user: %d %s", a.status, a.body)
	}
	// The end of the stream ends the program; the next user starts it.
	_ = r.Close()
	until(t, "it is stopped", func() bool { return w.status("a").State == proxy.Stopped })
	if st := w.status("a"); st.Exit != "exited with 0" || st.PID != 0 {
		t.Errorf("%+v", st)
	}
	r, status, words = w.stdio("a")
	if status != 101 {
		t.Fatalf("again: %d %s", status, words)
	}
	if got := r.ask(t, request("1", "pid", nil)); !strings.Contains(got, `"id":1`) {
		t.Errorf("%s", got)
	}
	if st := w.status("a"); st.PID == first.PID || st.State != proxy.Running {
		t.Errorf("%+v, before %+v", st, first)
	}
}

func TestProxy_StdioEnds(t *testing.T) {
	w := open(t)
	w.put("a", me(), 201)
	r, _, _ := w.stdio("a")
	// Half of the stream closed: the program sees the end of its input, and may still speak.
	if _, err := io.WriteString(r, request("1", "echo", map[string]any{"text": "last words"})+"\n"); err != nil {
		t.Fatal(err)
	}
	if err := r.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(r.in); err != nil || !strings.Contains(string(b), "last words") {
		t.Errorf("%q %v", b, err)
	}
	until(t, "it is stopped", func() bool { return w.status("a").State == proxy.Stopped })

	// A program that ends ends the stream.
	r, _, _ = w.stdio("a")
	if _, err := io.WriteString(r, request("1", "exit", map[string]any{"n": 9})+"\n"); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(r.in); err != nil || len(b) > 0 {
		t.Errorf("%q %v", b, err)
	}
	until(t, "its end is known", func() bool { return w.status("a").Exit == "exited with 9" })

	// So does DELETE.
	r, _, _ = w.stdio("a")
	if a := w.do("DELETE", "/servers/a", ""); a.status != 204 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if _, err := io.ReadAll(r.in); err != nil {
		t.Error(err)
	}
	if a := w.do("PUT", "/servers/b", `{"command":"no-such-program"}`); a.status != 422 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if _, status, words := w.stdio("b"); status != 422 || !strings.Contains(words, "no such program") {
		t.Errorf("a program that is not there: %d %s", status, words)
	}
}

func TestProxy_StdioAfterClients(t *testing.T) {
	w := open(t)
	w.put("a", me(), 201)
	c := w.connect("a")
	before := c.call("pid", nil)
	if _, status, _ := w.stdio("a"); status != 409 {
		t.Errorf("beside a session: %d", status)
	}
	if a := w.do("DELETE", c.path, "", "Mcp-Session-Id", c.session); a.status != 204 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	r, status, words := w.stdio("a")
	if status != 101 {
		t.Fatalf("after the session: %d %s", status, words)
	}
	if got := r.ask(t, request("1", "pid", nil)); strings.Contains(got, `"`+before+`"`) {
		t.Errorf("the program knows a handshake of others: %s", got)
	}
}
