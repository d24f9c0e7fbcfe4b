package inspect_test

import (
	"context"
	"flag"
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

var shots = flag.String("shots", "", "folder to write pictures of the page to")

// tab is a page of real Chromium that opened the link. What the page logs as an error, or breaks of its policy, fails the
// test at its end.
type tab struct {
	context.Context
	t *testing.T

	mu     sync.Mutex
	errors []string
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

func open(t *testing.T, s *site, width, height int64, dark bool) *tab {
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
	b := &tab{t: t}
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
	if dark {
		scheme = "dark"
	}
	b.do(chromedp.EmulateViewport(width, height), func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
		}})
		return chromedp.Void{}, err
	}, chromedp.Navigate(s.url+"/?token="+token))
	b.until(`document.body.dataset.ready === "" && document.querySelector(".things")`)
	return b
}

func (b *tab) hear(m chromedp.ConsoleMessage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	kind := string(m.Type)
	expected := strings.Contains(m.Text, "the server responded with a status of 4") // a refusal that the page words
	if !expected && (m.IsException() || kind == "error" || kind == "warning" || strings.Contains(m.Text, "Content Security Policy")) {
		b.errors = append(b.errors, m.String()+" "+m.URL)
	}
}

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b, actions...); err != nil {
		b.t.Fatalf("%v\n%s", err, b.text("document.body.innerText"))
	}
}

// text gives the value of a JavaScript expression, as text.
func (b *tab) text(js string) string {
	b.t.Helper()
	out, err := chromedp.Run(b, chromedp.Evaluate[string](`String(`+js+`)`))
	if err != nil {
		b.t.Fatalf("%s: %v", js, err)
	}
	return out
}

// until waits for a JavaScript condition. It is evaluated from outside: the page's policy forbids code made from text.
func (b *tab) until(js string) {
	b.t.Helper()
	js = `(() => { try { return Boolean(` + js + `); } catch { return false; } })()`
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(15 * time.Millisecond) {
		out, err := chromedp.Run(b, chromedp.Evaluate[string](`String(`+js+`)`)) // fails while the page gives way to the next one
		if err == nil && out == "true" {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("never true: %s\n%s", js, b.text("document.body.innerText"))
		}
	}
}

func (b *tab) click(css string) { b.t.Helper(); b.do(chromedp.Click(chromedp.CSS(css))) }

func (b *tab) fill(css, text string) { b.t.Helper(); b.do(chromedp.SendKeys(chromedp.CSS(css), text)) }

// key presses one key as a keyboard does: the character comes with the press, so that a page can prevent it.
func (b *tab) key(key string, modifiers ...chromedp.Modifier) {
	b.t.Helper()
	b.do(func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
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

// shot writes a picture when a folder was given with -shots.
func (b *tab) shot(name string) {
	b.t.Helper()
	if *shots != "" {
		b.picture(filepath.Join(*shots, name+".png"))
	}
}

func (b *tab) picture(file string) {
	b.t.Helper()
	b.do(chromedp.Sleep(200 * time.Millisecond))
	data, err := chromedp.Run(b, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o644); err != nil {
		b.t.Fatal(err)
	}
}
