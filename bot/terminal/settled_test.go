package terminal_test

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"bobbin/bot"
	"bobbin/bot/terminal"
	"bobbin/schemas"
)

// screen is an output that a test waits on.
type screen struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(b)
}

func (s *screen) until(t *testing.T, text string) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		s.mu.Lock()
		found := strings.Contains(s.buf.String(), text)
		s.mu.Unlock()
		if found {
			return
		}
	}
	t.Fatalf("no %q in\n%s", text, s.buf.String())
}

// A question that ends by itself is not asked again, and what is typed to it answers nothing.
func TestQuestion_EndsByItself(t *testing.T) {
	s, end, out := &script{}, make(chan struct{}), &screen{}
	s.answer = func(r bot.Request) bot.Reply {
		if r.Action != nil {
			t.Errorf("answered %+v", r.Action)
		}
		if r.Text == "next" {
			return say("and on")
		}
		q := say("demo wants you to open a page")
		q.ID, q.Choices, q.Expires = "nonce", []bot.Choice{{Key: "accept", Label: "Continue"}, {Key: "decline", Label: "Decline"}}, time.Now().Add(time.Minute)
		s.notices <- bot.Notice{Thread: "t1", To: "alice", Reply: q}
		<-end
		return say("called")
	}
	in, keys := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- terminal.New(terminal.Options{Bot: s, Notices: s, In: in, Out: out, Echo: true, Caller: schemas.Caller{Thread: "t1", Member: "alice"}}).Run(t.Context())
	}()
	line := func(l string) { _, _ = io.WriteString(keys, l+"\n") }
	line("call")
	out.until(t, "2) Decline")
	over := say("done · the call goes on")
	over.Replace = "nonce"
	s.notices <- bot.Notice{Thread: "t1", To: "alice", Reply: over}
	out.until(t, "press Enter to go on")
	close(end)
	line("Continue")
	out.until(t, "called")
	line("next")
	out.until(t, "and on")
	_ = keys.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := strings.Count(out.buf.String(), "demo wants you"); n != 1 {
		t.Errorf("asked %d times:\n%s", n, out.buf.String())
	}
}
