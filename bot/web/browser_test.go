package web_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"bobbin/internal/browsertest"
)

// tab is the conversation's page, opened by its link.
type tab struct {
	*browsertest.Tab
	t *testing.T
}

func open(t *testing.T, s *site, width, height int64, dark bool) *tab {
	t.Helper()
	return &tab{browsertest.Open(t, s.door.Link(s.addr), browsertest.Options{
		Width: width, Height: height, Dark: dark, Ready: `document.querySelector("#log")?.getAttribute("aria-busy") === "false"`,
	}), t}
}

// paste puts text into the message field as one piece.
func (b *tab) paste(text string) {
	b.t.Helper()
	b.Text(fmt.Sprintf(`(document.querySelector("#say").focus(), document.execCommand("insertText", false, %s))`, strconv.Quote(text)))
}

// say sends a line and waits until it is answered.
func (b *tab) say(text string) {
	b.t.Helper()
	before := b.Text(`document.querySelectorAll("#log .reply").length`)
	b.paste(text)
	b.Key(kb.Enter)
	b.Until(`document.querySelectorAll("#log .reply").length > ` + before)
}

// choose gives a file to the file field, as the browser's dialog would.
func (b *tab) choose(path string) {
	b.t.Helper()
	b.Do(chromedp.SetUploadFiles(chromedp.CSS("#file"), []string{path}))
}

func (b *tab) downloads(dir string) {
	b.t.Helper()
	if _, err := chromedp.CallBrowser(b, browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{
		Behavior: browser.SetDownloadBehaviorBehaviorAllow, DownloadPath: dir,
	}); err != nil {
		b.t.Fatal(err)
	}
}
