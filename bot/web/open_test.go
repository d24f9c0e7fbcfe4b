package web_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"bobbin/bot"
)

// A page is opened by a press and by nothing else, and learns nothing about who sent its visitor.
func TestPage_Open(t *testing.T) {
	visits := make(chan string, 9)
	away := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		visits <- r.URL.RequestURI() + " " + r.Referer()
	}))
	defer away.Close()
	url := away.URL + "/sign-in?state=" + strings.Repeat("x", 300)
	bad := []string{"javascript:document.title='x'", "data:text/html,x", "http://evil.example/", "https://github.com@evil.example/", "//evil.example/", "", "https://"}
	s := start(t)
	s.reply = func(_ context.Context, r bot.Request) bot.Reply {
		if r.Action != nil {
			return bot.Reply{Replace: "page-1", Blocks: []bot.Block{{Text: "answered"}}}
		}
		reply := bot.Reply{ID: "page-1", Private: true, Expires: time.Now().Add(time.Minute), Choices: []bot.Choice{{Key: "accept", Label: "Continue"}, {Key: "decline", Label: "Decline"}},
			Blocks: []bot.Block{{Text: "`demo` wants you to open a page"}, {Open: &bot.Open{Label: "Open <b>it</b>", URL: url}}}}
		for _, u := range bad {
			reply.Blocks = append(reply.Blocks, bot.Block{Open: &bot.Open{Label: "Bad", URL: u}})
		}
		return reply
	}
	b := open(t, s, 360, 800, true)
	b.Until(`!document.querySelector("#scene").hidden`)
	b.say("go")
	b.Until(`!!document.querySelector("a.open")`)
	if got := b.Text(`document.querySelectorAll("a.open").length + " " + document.querySelectorAll(".page").length`); got != fmt.Sprintf("1 %d", len(bad)+1) {
		t.Errorf("links and pages: %s", got)
	}
	if got := b.Text(`(({ href, target, rel, textContent }) => [href, target, rel, textContent].join(" "))(document.querySelector("a.open"))`); got != url+" _blank noopener noreferrer Open <b>it</b>, in a new tab" {
		t.Errorf("the link is %s", got)
	}
	if got := b.Text(`document.querySelector(".address").textContent + " " + document.querySelector(".address b").textContent`); got != url+" "+strings.TrimPrefix(away.URL, "http://") {
		t.Errorf("the address reads %s", got)
	}
	if got := b.Text(`document.documentElement.scrollWidth`); got != "360" {
		t.Errorf("the page is %s wide", got)
	}
	b.Shot("open-narrow-dark")
	if len(visits) > 0 {
		t.Errorf("visited before it was pressed: %s", <-visits)
	}
	b.Click("a.open")
	select {
	case got := <-visits:
		if got != strings.TrimPrefix(url, away.URL)+" " {
			t.Errorf("the page saw %q", got)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the press opens nothing")
	}
	if s.last().Action != nil {
		t.Error("opening the page answered the question")
	}
	b.Click(".choices button")
	b.Until(`document.querySelector("#log").textContent.includes("answered")`)
	if got := b.Text(`document.querySelectorAll("a.open").length`); got != "0" {
		t.Errorf("%s links are left on a used card", got)
	}
}
