package proxy_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bobbin/proxy"
)

// ran is what a command said, put together.
type ran struct {
	out, err       string
	code           *int
	timedOut, cut  bool
	lines, longest int
}

func collect(t *testing.T, body io.Reader) ran {
	t.Helper()
	var r ran
	in := bufio.NewScanner(body)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var line struct {
			Out, Err      string
			Code          *int
			TimedOut, Cut bool
		}
		if err := json.Unmarshal(in.Bytes(), &line); err != nil {
			t.Fatalf("%q: %v", in.Text(), err)
		}
		if r.code != nil {
			t.Fatalf("after the last line: %q", in.Text())
		}
		r.out, r.err, r.code, r.timedOut, r.cut = r.out+line.Out, r.err+line.Err, line.Code, line.TimedOut, line.Cut
		r.lines, r.longest = r.lines+1, max(r.longest, len(in.Bytes()))
	}
	if in.Err() != nil {
		t.Fatal(in.Err())
	}
	return r
}

// exec runs ourselves as a command.
func (w *world) exec(limit time.Duration, args ...string) ran {
	w.t.Helper()
	a := w.do("POST", "/exec", order(limit, args...))
	if a.status != 200 {
		w.t.Fatalf("%d %s", a.status, a.body)
	}
	r := collect(w.t, strings.NewReader(a.body))
	if r.code == nil {
		w.t.Fatalf("there is no last line: %.300s", a.body)
	}
	return r
}

func order(limit time.Duration, args ...string) string {
	b, err := json.Marshal(map[string]any{"args": append([]string{me().Command, "command"}, args...), "timeoutMs": limit.Milliseconds(), "env": map[string]string{"A": "b"}})
	if err != nil {
		panic(err)
	}
	return string(b)
}

func TestProxy_Exec(t *testing.T) {
	w := open(t)
	if r := w.exec(0, "say", "out ☃", "err", "5"); r.out != "out ☃" || r.err != "err" || *r.code != 5 || r.timedOut || r.cut {
		t.Errorf("%+v", r)
	}
	// Characters are not split between pieces, whatever the reads.
	if r := w.exec(0, "much"); !r.cut || *r.code != 0 || strings.Contains(r.out, "\ufffd") || len(r.out) > 8<<20 || len(r.out) < 7<<20 || r.longest > 64<<10 {
		t.Errorf("cut %t, code %d, %d bytes, lines of %d", r.cut, *r.code, len(r.out), r.longest)
	}
	for body, want := range map[string]int{
		`{}`: 400, `{"args":[]}`: 400, `{"args":"id"}`: 400, `{"args":["a\u0000"]}`: 400, `{"args":["a"],"env":{"":"x"}}`: 400,
		`{"args":["no-such-program"]}`: 422, `{"args":["/etc/passwd"]}`: 422, `{"args":["/"]}`: 422,
	} {
		if a := w.do("POST", "/exec", body); a.status != want {
			t.Errorf("%s: %d %s, want %d", body, a.status, a.body, want)
		}
	}
}

func TestProxy_ExecTimeout(t *testing.T) {
	w := open(t)
	began := time.Now()
	r := w.exec(300*time.Millisecond, "family")
	if took := time.Since(began); took > 8*time.Second || took < 2*time.Second {
		t.Errorf("it took %s", took)
	}
	if *r.code != -1 || !r.timedOut || r.cut {
		t.Errorf("%+v", r)
	}
	gone(t, r.out)
	if r = w.exec(time.Second, "flood"); !r.cut || !r.timedOut || len(r.out) > 8<<20 {
		t.Errorf("code %d, cut %t, timed out %t, %d bytes", *r.code, r.cut, r.timedOut, len(r.out))
	}
}

// gone wants that the processes whose ids are in the text have ended.
func gone(t *testing.T, pids string) {
	t.Helper()
	var a, b int
	if n, err := fmt.Sscan(pids, &a, &b); n != 2 {
		t.Fatalf("%q: %v", pids, err)
	}
	until(t, "the group is gone", func() bool { return !running(a) && !running(b) })
}

func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(stat), ") ")
	return err == nil && !strings.HasPrefix(rest, "Z")
}

func TestProxy_ExecEndsWithItsClient(t *testing.T) {
	w := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	resp := w.begin(ctx, "POST", "/exec", order(time.Hour, "family"))
	defer resp.Body.Close()
	// Output comes while the command runs.
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var piece struct{ Out string }
	if err := json.Unmarshal([]byte(line), &piece); err != nil {
		t.Fatal(err)
	}
	cancel()
	gone(t, piece.Out)
}

func TestProxy_ExecLeavesNothingBehind(t *testing.T) {
	w := open(t)
	// The leader ends at once; its child holds the pipes.
	began := time.Now()
	r := w.exec(time.Minute, "abandon")
	if took := time.Since(began); *r.code != 0 || took > 3*time.Second {
		t.Errorf("%+v after %s", r, took)
	}
	gone(t, r.out)
}

func TestProxy_ExecTooMany(t *testing.T) {
	w := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 16 {
		resp := w.begin(ctx, "POST", "/exec", order(time.Hour, "talk"))
		defer resp.Body.Close()
		if resp.StatusCode != 200 {
			t.Fatal(resp.Status)
		}
	}
	if a := w.do("POST", "/exec", order(time.Hour, "say", "", "", "0")); a.status != 429 {
		t.Errorf("one more: %d %s", a.status, a.body)
	}
	cancel()
	until(t, "there is room again", func() bool { return w.do("POST", "/exec", order(time.Hour, "say", "", "", "0")).status == 200 })
}

func TestProxy_ExecFolder(t *testing.T) {
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	w := open(t, func(o *proxy.Options) { o.Root = root })
	for dir, want := range map[string]int{"sub": 200, "": 200, "..": 422, "/": 422, filepath.Join(root, "sub"): 200} {
		if a := w.do("POST", "/exec", fmt.Sprintf(`{"args":[%q,"command","say","","","0"],"dir":%q}`, me().Command, dir)); a.status != want {
			t.Errorf("%q: %d %s, want %d", dir, a.status, a.body, want)
		}
	}
}
