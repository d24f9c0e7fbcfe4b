package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"bobbin/bot/discord/discordtest"
)

// ready brings a server named demo to a thread.
func (s *seat) ready(pids string) {
	s.t.Helper()
	s.say("/mcp add-json " + config(s.t, map[string]any{"demo": fake(pids)}))
	if got := s.choose("Confirm"); !matches(`demo is ready`, got) {
		s.t.Fatal(got)
	}
}

// gap is one way in which a connection ends, and how Discord meets the next ones.
type gap struct {
	name string
	cut  func(f *discordtest.Fake)
	meet func(n int) (code, op int) // the n-th IDENTIFY after the cut, from 1; nil is READY
}

func gaps() []gap {
	first := func(code, op int) func(int) (int, int) {
		return func(n int) (int, int) {
			if n == 1 {
				return code, op
			}
			return 0, 0
		}
	}
	drop := func(code int) func(*discordtest.Fake) { return func(f *discordtest.Fake) { f.Drop(code) } }
	return []gap{
		{"the socket breaks", drop(0), nil},
		{"the socket breaks, then op 9", drop(0), first(0, 9)},
		{"the socket breaks, then op 7", drop(0), first(0, 7)},
		{"closed with 4009, then 4007", drop(4009), first(4007, 0)},
		{"closed with 4000 again and again", drop(4000), func(n int) (int, int) {
			if n < 3 {
				return 4000, 0
			}
			return 0, 0
		}},
		{"op 7", func(f *discordtest.Fake) { f.Reconnect() }, nil},
		{"op 9", func(f *discordtest.Fake) { f.InvalidSession(false) }, nil},
		{"an outage", func(f *discordtest.Fake) { f.Outage(outage()) }, nil},
	}
}

func outage() time.Duration {
	if os.Getenv("BOBBIN_LONG") != "" {
		return time.Minute
	}
	return 5 * time.Second
}

// TestDiscord_Gaps: after every way in which a connection can end, the bot works, and each message of the gap was answered once.
func TestDiscord_Gaps(t *testing.T) {
	long(t)
	linuxOnly(t)
	for _, g := range gaps() {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			w := newTown(t, discordtest.Options{NoRateLimits: true})
			p := serveDiscord(t, w.f, t.TempDir())
			w.ann.ready(filepath.Join(t.TempDir(), "pids"))
			speak := func(word string) {
				w.ann.Say(`@bot /mcp call demo.echo {"message":"` + word + `"}`)
			}
			speak("before")
			w.ann.Wait("Echo: before", patience)
			if g.meet != nil {
				n := 0
				w.f.OnIdentify(func(int) (int, int) { n++; return g.meet(n) })
			}
			begin := time.Now()
			g.cut(w.f)
			words := []string{"before"}
			for i := range 10 {
				words = append(words, fmt.Sprintf("gap-%d-", i))
				speak(words[len(words)-1])
				time.Sleep(100 * time.Millisecond) // while it is away, comes back, and is there again
			}
			if !eventually(outage()+90*time.Second, func() bool { return count(w.ann, words, 1) }) {
				t.Fatalf("not every message was answered\n%s", clip(w.ann.Transcript()))
			}
			t.Logf("all answered %s after the cut", time.Since(begin).Round(100*time.Millisecond))
			if got := w.ann.say(`/mcp call demo.echo {"message":"afterwards"}`); !matches("Echo: afterwards", got) {
				t.Errorf("afterwards: %s", got)
			}
			time.Sleep(time.Second) // a second answer would have come by now
			if !count(w.ann, words, 1) {
				t.Errorf("a message was answered twice\n%s", clip(w.ann.Transcript()))
			}
			p.signal(os.Interrupt)
			p.wait()
			if p.err != nil {
				t.Errorf("exit: %v", p.err)
			}
		})
	}
}

// count reports whether each word was echoed n times.
func count(s *seat, words []string, n int) bool {
	found := map[string]int{}
	for _, m := range s.Messages() {
		for _, w := range words {
			if m.Author == s.f.BotID && strings.Contains(m.Text, "Echo: "+w) {
				found[w]++
			}
		}
	}
	for _, w := range words {
		if found[w] != n {
			return false
		}
	}
	return true
}

// TestDiscord_Silence: a link over which nothing comes any more counts as dead, without a word from the other side.
func TestDiscord_Silence(t *testing.T) {
	if os.Getenv("BOBBIN_LONG") == "" {
		t.Skip("takes minutes; BOBBIN_LONG=1 runs it")
	}
	w := newTown(t, discordtest.Options{})
	serveDiscord(t, w.f, t.TempDir())
	w.ann.ready(filepath.Join(t.TempDir(), "pids"))
	w.f.Mute(true)
	w.ann.Say(`@bot /mcp call demo.echo {"message":"unheard"}`)
	time.Sleep(105 * time.Second)
	w.f.Mute(false)
	w.ann.Wait("Echo: unheard", 2*time.Minute)
}

// TestDiscord_Fatal: what no new attempt can mend ends the program with words and the next step.
func TestDiscord_Fatal(t *testing.T) {
	for code, words := range map[int]string{
		4004: `Discord does not know this token\nhint: copy it again`,
		4013: `does not know the intents.*\nhint: `,
		4014: `refuses the message-content intent\nhint: switch it on`,
		4010: `refuses this number of shards\nhint: `,
	} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel()
			f := discordtest.New(t, discordtest.Options{Tolerant: true})
			f.Guild("Test")
			f.OnIdentify(func(int) (int, int) { return code, 0 })
			ended(t, f, []string{"DISCORD_TOKEN=" + f.Token}, words)
		})
	}
	t.Run("the token is another's", func(t *testing.T) {
		t.Parallel()
		f := discordtest.New(t, discordtest.Options{Tolerant: true})
		ended(t, f, []string{"DISCORD_TOKEN=MTIzNDU2Nzg5MDEyMzQ1Njc4.Gabcde.made-up_signature-of_a-token-0123456789"}, `Discord does not know this token\nhint: copy it again`)
	})
	t.Run("the intent is not switched on", func(t *testing.T) {
		t.Parallel()
		f := discordtest.New(t, discordtest.Options{Tolerant: true})
		ended(t, f, []string{"DISCORD_TOKEN=" + f.Token, "BOBBIN_DISCORD_MESSAGE_CONTENT=true"}, `refuses the message-content intent`)
	})
}

func ended(t *testing.T, f *discordtest.Fake, env []string, words string) {
	t.Helper()
	p := bobbinWith(t, append(env, "BOBBIN_LISTEN=127.0.0.1:0", "DISCORD_API_BASE="+f.URL), t.TempDir(), "serve")
	p.wait()
	if code := p.cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("exit code %d", code)
	}
	if out := p.all(); !matches(`bobbin: .*`+words, out) || matches(`goroutine|websocket:|made-up|\n\tat`, out) {
		t.Errorf("said:\n%s", out)
	}
}

// TestDiscord_Load: 200 members press buttons at once in 50 threads of a slow Discord. Each is acknowledged within Discord's 3 s.
func TestDiscord_Load(t *testing.T) {
	long(t)
	if racing {
		t.Skip("it is about time, which the race detector takes: `make test` runs it by itself without it")
	}
	threads, each := 50, 4
	f := discordtest.New(t, discordtest.Options{Latency: 300 * time.Millisecond, NoRateLimits: true})
	g := f.Guild("Test")
	general := g.Channel("general")
	var seats []*seat
	for i := range threads {
		var th *discordtest.Channel
		for k := range each {
			u := f.User(fmt.Sprintf("member%d-%d", i, k))
			if th == nil {
				th = general.Thread(u, fmt.Sprintf("thread %d", i))
			}
			seats = append(seats, newSeat(t, f, u, th))
		}
	}
	serveDiscord(t, f, t.TempDir())
	atOnce := func(what string, do func(*seat) *discordtest.Turn) {
		n := len(seats)
		acks, turns := make([]time.Duration, n), make([]*discordtest.Turn, n)
		begin := time.Now()
		var all sync.WaitGroup
		for i, s := range seats {
			all.Go(func() {
				turns[i] = do(s).Wait()
				acks[i] = turns[i].Ack
			})
		}
		all.Wait()
		for _, turn := range turns {
			all.Go(func() { turn.Done() })
		}
		all.Wait()
		slices.Sort(acks)
		t.Logf("%s, %d at once: acknowledged p50 %s, p99 %s, max %s; all answered after %s", what, n, ms(acks[n/2]), ms(acks[n*99/100]), ms(acks[n-1]), ms(time.Since(begin)))
		if acks[n-1] >= 3*time.Second {
			t.Errorf("%s: an interaction was acknowledged after %s", what, acks[n-1])
		}
	}
	atOnce("commands", func(s *seat) *discordtest.Turn {
		return s.Slash("mcp add-json", map[string]any{"name": "n" + s.user.ID, "json": `{"command":"fakemcp","disabled":true}`})
	})
	// Everybody presses a card of the thread, as it was before the first of them did: one is theirs, the others are refused.
	type button struct {
		on *discordtest.Message
		id string
	}
	seen := map[*seat]button{}
	for _, s := range seats {
		for _, m := range s.Messages() {
			for _, b := range m.Buttons {
				if b.Label == "Cancel" {
					seen[s] = button{m, b.CustomID}
				}
			}
		}
		if seen[s].on == nil {
			t.Fatalf("%s sees no card:\n%s", s.user.Name, s.Transcript())
		}
	}
	atOnce("buttons", func(s *seat) *discordtest.Turn { return s.PressID(seen[s].on, seen[s].id) })
}

func ms(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
