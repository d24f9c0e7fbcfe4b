package discord_test

import (
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bwmarrin/discordgo"

	"bobbin/bot/discord"
	"bobbin/bot/discord/discordtest"
)

// toward leads a session's requests to the fake.
type toward struct{ base *url.URL }

func (h toward) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host, r.Host = h.base.Scheme, h.base.Host, h.base.Host
	r.URL.Path = strings.Replace(r.URL.Path, "/api/v9/", "/api/v10/", 1)
	if strings.HasSuffix(r.URL.Path, "/gateway") {
		r.URL.Path += "/bot"
	}
	return http.DefaultTransport.RoundTrip(r)
}

// stranger is another bot with a session, a command and a button of its own.
func stranger(t *testing.T, f *discordtest.Fake) (s *discordgo.Session, got func() []string) {
	t.Helper()
	base, err := url.Parse(f.URL)
	if err != nil {
		t.Fatal(err)
	}
	if s, err = discordgo.New("Bot " + f.Token); err != nil {
		t.Fatal(err)
	}
	s.Client = &http.Client{Transport: toward{base}}
	s.LogLevel = -1
	discordgo.APIVersion = "10"
	s.Identify.Intents |= discordgo.IntentMessageContent
	var mu sync.Mutex
	var all []string
	s.AddHandler(func(s *discordgo.Session, i *discordgo.InteractionCreate) {
		name := ""
		switch i.Type {
		case discordgo.InteractionApplicationCommand:
			name = i.ApplicationCommandData().Name
		case discordgo.InteractionMessageComponent:
			name = i.MessageComponentData().CustomID
		default:
			return
		}
		if name != "ping" && name != "pong-button" {
			return
		}
		mu.Lock()
		all = append(all, name)
		mu.Unlock()
		_ = s.InteractionRespond(i.Interaction, &discordgo.InteractionResponse{Type: discordgo.InteractionResponseChannelMessageWithSource, Data: &discordgo.InteractionResponseData{
			Content:         "pong from " + name,
			AllowedMentions: &discordgo.MessageAllowedMentions{Parse: []discordgo.AllowedMentionType{}},
			Components:      []discordgo.MessageComponent{discordgo.ActionsRow{Components: []discordgo.MessageComponent{discordgo.Button{Label: "Pong", CustomID: "pong-button"}}}},
		}})
	})
	return s, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string{}, all...)
	}
}

func TestAttach_LeavesTheOtherBotAlone(t *testing.T) {
	for _, order := range []string{"open first", "attach first"} {
		t.Run(order, func(t *testing.T) {
			f := discordtest.New(t, discordtest.Options{AllowContent: true})
			g := f.Guild("Test")
			ann, ch := f.User("ann"), g.Channel("general")
			s, got := stranger(t, f)
			open := func() {
				if err := s.Open(); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = s.Close() })
				if _, err := s.ApplicationCommandCreate(f.AppID, "", &discordgo.ApplicationCommand{Name: "ping", Description: "Say pong"}); err != nil {
					t.Fatal(err)
				}
			}
			if order == "open first" {
				open()
			}
			before := s.Identify
			d, err := discord.Attach(s, discord.Options{Bot: (&mind{}).bot(), Base: f.URL})
			if err != nil {
				t.Fatal(err)
			}
			if order != "open first" {
				open()
			}
			stop := runUntilEnd(t, f, d.Run)
			until(t, "/mcp is there", func() bool {
				n := 0
				for _, r := range f.Requests() {
					if strings.HasSuffix(r.Path, "/commands") && r.Method == "POST" && r.Status < 300 {
						n++
					}
				}
				return n == 2
			})
			seat := f.As(ann, ch)
			if text := seat.Slash("mcp list", nil).Done(); !strings.Contains(text, "notes") {
				t.Errorf("/mcp list: %q", text)
			}
			if text := seat.Slash("ping", nil).Done(); !strings.Contains(text, "pong from ping") {
				t.Errorf("/ping: %q", text)
			}
			seat.Press("Pong").Done()
			seat.Say("@bot /mcp list") // texts are the other bot's
			time.Sleep(quiet)
			if names := strings.Join(got(), " "); names != "ping pong-button" {
				t.Errorf("the other bot saw %q", names)
			}
			if n := len(answers(seat, f)); n != 3 {
				t.Errorf("%d answers:\n%s", n, seat.Transcript())
			}
			for _, r := range f.Requests() {
				if r.Method == "PUT" {
					t.Errorf("%s %s would take the other bot's commands away", r.Method, r.Path)
				}
			}
			stop()
			if !reflect.DeepEqual(s.Identify, before) || !s.ShouldReconnectOnError || !s.StateEnabled || s.SyncEvents {
				t.Error("the session's settings changed")
			}
		})
	}
}

func TestAttach_Refuses(t *testing.T) {
	if _, err := discord.Attach(nil, discord.Options{}); err == nil {
		t.Error("no session")
	}
	s, err := discordgo.New("Bearer x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := discord.Attach(s, discord.Options{Bot: (&mind{}).bot()}); err == nil {
		t.Error("no bot's token")
	}
}
