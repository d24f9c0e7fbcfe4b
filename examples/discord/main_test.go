package main

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/bwmarrin/discordgo"

	"bobbin/bot/discord"
	"bobbin/bot/discord/discordtest"
)

// toward leads a session's requests to the fake.
type toward struct{ host string }

func (h toward) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL = &url.URL{Scheme: "http", Host: h.host, Path: strings.Replace(r.URL.Path, "/api/v9/", "/api/v10/", 1), RawQuery: r.URL.RawQuery}
	if strings.HasSuffix(r.URL.Path, "/gateway") {
		r.URL.Path += "/bot"
	}
	return http.DefaultTransport.RoundTrip(r)
}

func TestRun(t *testing.T) {
	f := discordtest.New(t, discordtest.Options{})
	g := f.Guild("Test")
	ann, ch := f.User("ann"), g.Channel("general")
	session, err := discordgo.New("Bot " + f.Token)
	if err != nil {
		t.Fatal(err)
	}
	discordgo.APIVersion = "10"
	session.Client = &http.Client{Transport: toward{strings.TrimPrefix(f.URL, "http://")}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, t.TempDir(), session, discord.Options{Base: f.URL}) }()
	for end := time.Now().Add(20 * time.Second); registered(f) < 2; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the commands are not there")
		}
	}
	s := f.As(ann, ch)
	if text := s.Slash("ping", nil).Done(); !strings.Contains(text, "pong") {
		t.Errorf("/ping: %q", text)
	}
	if text := s.Slash("mcp list", nil).Done(); !strings.Contains(text, "No MCP servers configured") {
		t.Errorf("/mcp list: %q", text)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func registered(f *discordtest.Fake) (n int) {
	for _, r := range f.Requests() {
		if strings.HasSuffix(r.Path, "/commands") && r.Status < 300 {
			n++
		}
	}
	return n
}
