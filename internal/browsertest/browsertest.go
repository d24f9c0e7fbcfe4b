// Package browsertest opens a page in real Chromium and asks, from outside, what is on it. What the page logs as an error, or breaks of
// its policy, fails the test at its end.
package browsertest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// Options of Open.
type Options struct {
	Width, Height int64
	Dark          bool
	Ready         string                 // JavaScript condition that holds when the page is there
	Expected      func(text string) bool // nil: nothing that the page complains of is
}

// Tab is a page. Its methods fail the test instead of giving errors.
type Tab struct {
	context.Context
	t        *testing.T
	expected func(string) bool

	mu     sync.Mutex
	errors []string
	quiet  bool
}

func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") != "" {
		t.Fatal("Chromium is needed here and not found")
	}
	t.Skip("Chromium is not installed")
	return ""
}

// Open starts a browser of its own, which ends with the test, and goes to an address. The test is skipped where there is no Chromium,
// but for machines that build (CI is set).
func Open(t *testing.T, address string, o Options) *Tab {
	t.Helper()
	alloc, stop := chromedp.NewExecAllocator(t.Context(),
		chromedp.ExecPath(chromium(t)), chromedp.Headless, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck,
		chromedp.Flag("user-data-dir", t.TempDir()), chromedp.Flag("no-sandbox", true), chromedp.Flag("disable-gpu", true),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true), chromedp.Flag("hide-scrollbars", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true), chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("force-color-profile", "srgb"), chromedp.Flag("password-store", "basic"),
		chromedp.Flag("disable-features", "OptimizationHints,MediaRouter,Translate"))
	t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(alloc)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil { // the first context is the browser's: no deadline on it
		t.Fatal(err)
	}
	b := &Tab{t: t, expected: o.Expected}
	var reading sync.WaitGroup
	listening, deaf := context.WithCancel(ctx)
	messages := chromedp.Console(listening)
	reading.Go(func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			b.hear(m)
		}
	})
	ctx, late := context.WithTimeout(ctx, 90*time.Second)
	b.Context = ctx
	t.Cleanup(func() {
		deaf()
		reading.Wait()
		late()
		for _, e := range b.errors {
			t.Errorf("the page complains: %s", e)
		}
	})
	scheme := "light"
	if o.Dark {
		scheme = "dark"
	}
	b.Do(chromedp.EmulateViewport(o.Width, o.Height), func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
		}})
		return chromedp.Void{}, err
	}, chromedp.Navigate(address))
	b.Until(o.Ready)
	return b
}

// Quiet lets the page complain from now on: the test does what makes it.
func (b *Tab) Quiet() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.quiet = true
}

func (b *Tab) hear(m chromedp.ConsoleMessage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.quiet || b.expected != nil && b.expected(m.Text) {
		return
	}
	if kind := string(m.Type); m.IsException() || kind == "error" || kind == "warning" || strings.Contains(m.Text, "Content Security Policy") {
		b.errors = append(b.errors, m.String()+" "+m.URL)
	}
}

// Do runs actions one after the other.
func (b *Tab) Do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b, actions...); err != nil {
		b.t.Fatalf("%v\n%s", err, b.Text("document.body.innerText"))
	}
}

// Text gives the value of a JavaScript expression, as text.
func (b *Tab) Text(js string) string {
	b.t.Helper()
	out, err := chromedp.Run(b, chromedp.Evaluate[string](`String(`+js+`)`))
	if err != nil {
		b.t.Fatalf("%s: %v", js, err)
	}
	return out
}

// Until waits for a JavaScript condition. It is evaluated from outside: the page's policy forbids code made from text.
func (b *Tab) Until(js string) {
	b.t.Helper()
	js = `(() => { try { return Boolean(` + js + `); } catch { return false; } })()`
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(15 * time.Millisecond) {
		out, err := chromedp.Run(b, chromedp.Evaluate[string](`String(`+js+`)`)) // fails while the page gives way to the next one
		if err == nil && out == "true" {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("never true: %s\n%s", js, b.Text("document.body.innerText"))
		}
	}
}

// Click presses the one element that a selector names.
func (b *Tab) Click(css string) { b.t.Helper(); b.Do(chromedp.Click(chromedp.CSS(css))) }

// Fill types into it.
func (b *Tab) Fill(css, text string) { b.t.Helper(); b.Do(chromedp.SendKeys(chromedp.CSS(css), text)) }

// Key presses one key as a keyboard does: the character comes with the press, so that a page can prevent it.
func (b *Tab) Key(key string, modifiers ...chromedp.Modifier) {
	b.t.Helper()
	b.Do(func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		events := kb.Encode([]rune(key)[0])
		for _, e := range events {
			chromedp.KeyModifiers(modifiers...)(e)
		}
		if len(events) == 3 {
			events[0].Text, events[0].UnmodifiedText = events[1].Text, events[1].UnmodifiedText
			events = append(events[:1], events[2])
		}
		for _, e := range events {
			if _, err := cdp.Call(ctx, t, input.DispatchKeyEvent, *e); err != nil {
				return chromedp.Void{}, err
			}
		}
		return chromedp.Void{}, nil
	})
}

// Shot writes a picture into the folder that BOBBIN_TEST_SHOTS names, if it names one.
func (b *Tab) Shot(name string) {
	b.t.Helper()
	if dir := os.Getenv("BOBBIN_TEST_SHOTS"); dir != "" {
		b.Picture(filepath.Join(dir, name+".png"))
	}
}

// Picture writes what can be seen to a file, as PNG.
func (b *Tab) Picture(file string) {
	b.t.Helper()
	b.Do(chromedp.Sleep(200 * time.Millisecond))
	data, err := chromedp.Run(b, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o644); err != nil {
		b.t.Fatal(err)
	}
}
