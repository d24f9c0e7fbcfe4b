package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"bobbin/agent/model/modeltest"
)

// patient is a model that writes for ever when it is told to, uses a tool when it is told to, and else says what came of it.
type patient struct {
	mu    sync.Mutex
	asked []modeltest.Asked
}

var wished = regexp.MustCompile(`use (\w+)`)

func (m *patient) think(a modeltest.Asked) modeltest.Answer {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, a)
	said := lastMessage(a.Body)
	switch {
	case len(a.Results) > 0:
		return modeltest.Answer{Text: "It says: " + strings.Join(a.Results, "; ")}
	case strings.Contains(said, "for ever"):
		return modeltest.Answer{Text: "I begin " + strings.Repeat("and go on ", 5000), Slow: 20 * time.Millisecond}
	case wished.MatchString(said):
		var calls []modeltest.Call
		for _, w := range wished.FindAllStringSubmatch(said, -1) {
			calls = append(calls, modeltest.Call{Name: w[1], Args: "{}"})
		}
		return modeltest.Answer{Text: "I ask it.", Calls: calls}
	}
	return modeltest.Answer{Text: "I am here."}
}

func (m *patient) requests() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.asked)
}

// dragging is a server whose tools never answer, or with 50 MB; a call may take a second.
func dragging(t *testing.T) map[string]any {
	s := quick(t, "slow")
	s["timeout"] = 1000
	return s
}

// quick is a server of poisonMCP whose files nobody looks at.
func quick(t *testing.T, args ...string) map[string]any {
	folder := t.TempDir()
	return poisonous(filepath.Join(folder, "starts"), filepath.Join(folder, "calls"), args...)
}

// TestStop: an answer ends within 200 ms of the word, whatever it does just then, and the next message is answered.
func TestStop(t *testing.T) {
	long(t)
	m := &patient{}
	p := serveWith(t, models(t, m.think)["anthropic"], t.TempDir())
	r, other := p.open(t, "t1"), p.open(t, "t1")
	slow := dragging(t)
	slow["timeout"] = 60_000
	r.say("/mcp add-json " + config(t, map[string]any{"slow": slow, "mail": quick(t, "mailbox", "send")}))
	r.choose("Confirm")
	for name, line := range map[string]string{"while the model writes": "write for ever", "while a tool runs": "use ext_slow_never", "while somebody is asked": "use ext_mail_send"} {
		before := m.requests()
		ended := make(chan time.Time, 1)
		go func() {
			r.say(line)
			ended <- time.Now()
		}()
		if !eventually(patience, func() bool { return m.requests() > before }) {
			t.Fatalf("%s: the model is not asked", name)
		}
		time.Sleep(300 * time.Millisecond) // it is in the middle
		begin := time.Now()
		if got := other.say("/chat stop"); !strings.Contains(got, "stopped") {
			t.Errorf("%s: %s", name, got)
		}
		select {
		case end := <-ended:
			if took := end.Sub(begin); took > 200*time.Millisecond && !racing {
				t.Errorf("%s: %s", name, took)
			} else {
				t.Logf("%s: %s", name, took.Round(100*time.Microsecond))
			}
		case <-time.After(patience):
			t.Fatalf("%s: it goes on", name)
		}
		if got := other.say("are you there?"); !strings.Contains(got, "I am here.") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestKilledInATurn: bobbin is killed while a model writes, while a tool runs and while a person is asked; what comes after it is
// answered each time, by a provider that refuses a conversation with a gap.
func TestKilledInATurn(t *testing.T) {
	long(t)
	m := &patient{}
	env, data := models(t, m.think)["anthropic"], t.TempDir()
	open := func() *process { return bobbinWith(t, env, data, "chat", "--thread", "t1") }
	p := open()
	slow := dragging(t)
	slow["timeout"] = 60_000
	p.say("/mcp add-json " + config(t, map[string]any{"slow": slow, "mail": quick(t, "mailbox", "send")}))
	p.hear(`1\) Confirm`)
	p.say("1")
	p.hear(`slow is ready`)
	for _, line := range []string{"write for ever", "use ext_slow_never", "use ext_mail_send", "use ext_slow_huge use ext_slow_never"} {
		before := m.requests()
		p.say(line)
		if !eventually(patience, func() bool { return m.requests() > before }) {
			t.Fatalf("%s: the model is not asked", line)
		}
		time.Sleep(300 * time.Millisecond) // it is in the middle
		if err := p.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-p.ended
		p = open()
		p.say("are you there?")
		p.hear(`I am here\.`)
	}
	if got := lastConversation(m); !strings.Contains(got, "write for ever") || !strings.Contains(got, "restarted") || !strings.Contains(got, "whether it ran is unknown") {
		t.Error(got)
	}
	p.end()
}

func lastConversation(m *patient) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return string(m.asked[len(m.asked)-1].Body)
}

// TestTools_ThatCostNothing: a tool that never answers and one that answers with 50 MB are a note to the model, which goes on, in
// bounded memory.
func TestTools_ThatCostNothing(t *testing.T) {
	long(t)
	linuxOnly(t)
	m := &patient{}
	p := bobbinWith(t, models(t, m.think)["anthropic"], t.TempDir(), "chat", "--thread", "t1")
	b := dragging(t)
	b["timeout"] = 30_000
	p.say("/mcp add-json " + config(t, map[string]any{"a": dragging(t), "b": b, "mail": quick(t, "mailbox", "send")}))
	p.hear(`1\) Confirm`)
	p.say("1")
	p.hear(`\bb is ready`)
	begin := time.Now()
	p.say("use ext_a_never use ext_b_huge use ext_mail_list")
	got := p.hear(`It says: (.*no mail.*?\n)`)[1]
	took := time.Since(begin)
	shows(t, "what the model was told", got, `a did not answer within 1 s; whether it ran is unknown`, `too large|left out|cut`)
	if took > 10*time.Second || len(got) > 100<<10 {
		t.Errorf("%s, %d bytes for the model", took, len(got))
	}
	if mib := peak(t, p.cmd.Process.Pid); mib > 300 {
		t.Errorf("bobbin used %d MiB", mib)
	} else {
		t.Logf("%s, peak memory %d MiB", took.Round(time.Millisecond), mib)
	}
	p.say("are you there?")
	p.hear(`I am here\.`)
	p.end()
}
