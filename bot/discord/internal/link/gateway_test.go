package link_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"bobbin/bot/discord/discordtest"
	"bobbin/bot/discord/internal/link"
	"bobbin/schemas"
)

// ear holds what a gateway told.
type ear struct {
	mu     sync.Mutex
	ready  []link.Ready
	texts  []string
	failed chan error
	stop   context.CancelFunc
}

func listen(t *testing.T, f *discordtest.Fake, opt link.Options) *ear {
	t.Helper()
	opt.Base, opt.Token, opt.Version = f.URL, f.Token, "test"
	if opt.Intents == 0 {
		opt.Intents = 1 | 1<<9 | 1<<12
	}
	_, g, err := link.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	e := &ear{failed: make(chan error, 1), stop: cancel}
	var wg sync.WaitGroup
	wg.Go(func() {
		e.failed <- g.Run(ctx, func(r link.Ready) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.ready = append(e.ready, r)
		}, func(v link.Event) {
			var m struct{ Content string }
			if v.Type != "MESSAGE_CREATE" || json.Unmarshal(v.Data, &m) != nil {
				return
			}
			if strings.Contains(m.Content, "panic") {
				panic("told to")
			}
			e.mu.Lock()
			defer e.mu.Unlock()
			e.texts = append(e.texts, m.Content)
		})
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	return e
}

func (e *ear) until(t *testing.T, d time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		e.mu.Lock()
		done := ok()
		e.mu.Unlock()
		if done {
			return
		}
	}
	t.Fatalf("waited %s for %s", d, what)
}

func TestGateway_ComesBack(t *testing.T) {
	for name, c := range map[string]struct {
		opt link.Options
		cut func(*discordtest.Fake)
	}{
		"the socket breaks": {cut: func(f *discordtest.Fake) { f.Drop(0) }},
		"4000":              {cut: func(f *discordtest.Fake) { f.Drop(4000) }},
		"4007":              {cut: func(f *discordtest.Fake) { f.Drop(4007) }},
		"4009":              {cut: func(f *discordtest.Fake) { f.Drop(4009) }},
		"op 7":              {cut: func(f *discordtest.Fake) { f.Reconnect() }},
		"op 9":              {cut: func(f *discordtest.Fake) { f.InvalidSession(false) }},
		"op 9, resumable":   {cut: func(f *discordtest.Fake) { f.InvalidSession(true) }},
		"silence": {link.Options{Silence: time.Second}, func(f *discordtest.Fake) {
			f.Mute(true)
			time.Sleep(1500 * time.Millisecond)
			f.Mute(false)
		}},
		"an IDENTIFY that is answered with op 9": {cut: func(f *discordtest.Fake) {
			f.OnIdentify(func(n int) (int, int) {
				if n == 2 {
					return 0, 9
				}
				return 0, 0
			})
			f.Drop(0)
		}},
		"an IDENTIFY that is answered with 4009": {cut: func(f *discordtest.Fake) {
			f.OnIdentify(func(n int) (int, int) {
				if n == 2 {
					return 4009, 0
				}
				return 0, 0
			})
			f.Drop(0)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := discordtest.New(t, discordtest.Options{Heartbeat: 300 * time.Millisecond})
			ch, ann := f.Guild("g").Channel("c"), f.User("ann")
			e := listen(t, f, c.opt)
			e.until(t, 5*time.Second, "READY", func() bool { return len(e.ready) == 1 })
			before := time.Now()
			c.cut(f)
			e.until(t, 20*time.Second, "another READY", func() bool { return len(e.ready) >= 2 })
			last := e.ready[len(e.ready)-1]
			if last.Since.IsZero() || last.Since.After(time.Now()) || last.Since.Before(before.Add(-2*time.Minute)) || last.User != f.BotID {
				t.Errorf("%+v", last)
			}
			f.As(ann, ch).Say("@bot still there?")
			e.until(t, 5*time.Second, "a message afterwards", func() bool { return len(e.texts) == 1 })
		})
	}
}

func TestGateway_EndsInWords(t *testing.T) {
	for code, word := range map[int]string{4004: "token", 4010: "shards", 4013: "intents", 4014: "message-content"} {
		f := discordtest.New(t, discordtest.Options{})
		f.OnIdentify(func(int) (int, int) { return code, 0 })
		e := listen(t, f, link.Options{})
		select {
		case err := <-e.failed:
			said, ok := errors.AsType[*schemas.Error](err)
			if !ok || !strings.Contains(said.Text, word) || said.Hint == "" || strings.Contains(said.Text+said.Hint, f.Token) {
				t.Errorf("%d: %v", code, err)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("%d: it goes on", code)
		}
	}
}

func TestGateway_OrderAndPanics(t *testing.T) {
	f := discordtest.New(t, discordtest.Options{})
	ch, ann := f.Guild("g").Channel("c"), f.User("ann")
	e := listen(t, f, link.Options{})
	e.until(t, 5*time.Second, "READY", func() bool { return len(e.ready) == 1 })
	s := f.As(ann, ch)
	s.Say("@bot panic")
	for n := range 200 {
		s.Say("@bot " + strings.Repeat("x", n))
	}
	e.until(t, 5*time.Second, "200 messages", func() bool { return len(e.texts) == 200 })
	for n, text := range e.texts {
		if !strings.HasSuffix(text, "> "+strings.Repeat("x", n)) && n > 0 {
			t.Fatalf("message %d is %q", n, text)
		}
	}
}
