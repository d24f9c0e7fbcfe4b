package web_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"bobbin/bot"
	"bobbin/bot/web"
	"bobbin/schemas"
)

var screenshot = flag.String("screenshot", "", "file to write the picture of the README to")

const pasted = `{
  "mcpServers": {
    "github": {
      "command": "npx",
      "args": ["-y", "@modelcontextprotocol/server-github"],
      "env": { "GITHUB_TOKEN": "ghp_0123456789abcdefghij" }
    }
  }
}`

func TestPage_NewcomerPastesAndConfirms(t *testing.T) {
	s := start(t)
	b := open(t, s, 1280, 860, false)
	b.Until(`!document.querySelector("#scene").hidden && document.querySelector("#welcome").textContent.includes("No model")`)
	b.Until(`document.querySelector("#board").textContent.includes("No servers")`)
	b.Shot("newcomer-light")

	b.paste(pasted)
	b.Until(`document.querySelector("#say-hint").textContent.includes("nothing runs before you confirm")`)
	b.Shot("newcomer-pasted")
	b.Key(kb.Enter)
	b.Until(`!!document.querySelector(".card .diff")`)
	if got := s.last().Text; got != pasted {
		t.Errorf("the bot got %q", got)
	}
	if got := b.Text(`document.activeElement.className`); got != "card-title" {
		t.Errorf("the focus is on %q, not on the heading", got)
	}
	if got := b.Text(`document.body.innerText`); strings.Contains(got, "ghp_") {
		t.Error("the page shows the pasted secret")
	}
	b.Until(`document.querySelector(".expires").textContent === "expires in 10 min"`)
	if got := b.Text(`document.querySelector(".dl.add").textContent`); !strings.HasPrefix(got, "+added: ") {
		t.Errorf("an added line reads %q", got)
	}
	b.Shot("card-light")

	for range 9 { // by keyboard alone: to Confirm
		if b.Text(`document.activeElement.textContent`) == "Confirm" {
			break
		}
		b.Key(kb.Tab)
	}
	b.Shot("card-focus")
	b.Key(kb.Enter)
	b.Until(`document.querySelector(".settled")?.textContent.includes("You chose Confirm")`)
	b.Until(`document.querySelector("#log").textContent.includes("ready in 1.2 s")`)
	b.Until(`document.querySelector("#board .server-name")?.textContent === "github"`)
	if n := b.Text(`document.querySelectorAll("#log .choices button").length`); n != "0" {
		t.Errorf("%s buttons are left on a used card", n)
	}
	b.Shot("confirmed-light")

	b.Do(chromedp.Reload())
	b.Until(`document.querySelector("#log").textContent.includes("ready in 1.2 s") && document.querySelector(".settled").textContent.includes("You chose Confirm")`)
}

func TestPage_Form(t *testing.T) {
	s := start(t)
	s.servers, s.tools = crowd()
	b := open(t, s, 1280, 900, false)
	b.Until(`document.querySelectorAll("#board .server").length === 8`)
	b.Click(`#board .server[data-key="local/github"]`)
	b.Until(`!!document.querySelector(".tool")`)
	b.Shot("servers-light")
	b.Click(`.tool[data-key="github.create_issue"]`)
	b.Until(`document.activeElement.name === "repo"`)
	if got := b.Text(`document.querySelector("[name=key]").type + " " + document.querySelector("[name=key]").autocomplete`); got != "password off" {
		t.Errorf("the field of a secret is %s", got)
	}
	b.Shot("form-light")
	b.Key(kb.Enter)
	b.Until(`document.querySelector("[aria-invalid]")?.name === "repo"`)
	b.Fill(`[name=repo]`, "acme/site")
	b.Fill(`[name=title]`, "Broken link")
	b.Fill(`[name=key]`, "hunter2")
	b.Fill(`[name=assignees]`, "x")
	b.Click(`.form [type=submit]`)
	b.Until(`document.activeElement.name === "assignees"`)
	b.Shot("form-wrong")
	b.Fill(`[name=assignees]`, kb.Backspace+"2")
	b.Click(`.form [type=submit]`)
	b.Until(`document.querySelector("#log").textContent.includes("created issue 42")`)
	got, _ := json.Marshal(s.last().Action)
	want, _ := json.Marshal(bot.Action{ID: "form-1", Values: map[string]string{"repo": "acme/site", "title": "Broken link", "key": "hunter2", "priority": "normal", "assignees": "2"}})
	if string(got) != string(want) {
		t.Errorf("the bot got %s, want %s", got, want)
	}
	if strings.Contains(b.Text(`document.documentElement.outerHTML + [...document.querySelectorAll("input")].map((e) => e.value)`), "hunter2") {
		t.Error("the page kept a secret")
	}
	b.Shot("result-light")
}

func TestPage_Files(t *testing.T) {
	s := start(t)
	b := open(t, s, 1100, 800, false)
	file := filepath.Join(t.TempDir(), "mcp.json")
	if err := os.WriteFile(file, []byte(`{"mcpServers":{}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	b.choose(file)
	b.Until(`document.querySelectorAll(".problem").length === 3`)
	if f := s.last().File; f == nil || f.Name != "mcp.json" || string(f.Data) != `{"mcpServers":{}}` {
		t.Fatalf("the bot got %+v", s.last())
	}
	b.Shot("mistakes-light")
	b.Text(`(() => {
		const d = new DataTransfer();
		d.items.add(new File(["{}"], "dropped.json", { type: "application/json" }));
		dispatchEvent(new DragEvent("dragenter", { dataTransfer: d }));
	})()`)
	b.Until(`!document.querySelector("#drop").hidden`)
	b.Shot("drop-light")
	b.Text(`(() => {
		const d = new DataTransfer();
		d.items.add(new File(["{}"], "dropped.json", { type: "application/json" }));
		dispatchEvent(new DragEvent("drop", { dataTransfer: d, cancelable: true }));
	})()`)
	b.Until(`document.querySelectorAll(".problem").length === 6 && document.querySelector("#drop").hidden`)
	if f := s.last().File; f == nil || f.Name != "dropped.json" {
		t.Errorf("the bot got %+v", s.last())
	}

	dir := t.TempDir()
	b.downloads(dir)
	b.say("/mcp download")
	b.Until(`!!document.querySelector(".file button")`)
	b.Click(".file button")
	b.Until(`document.querySelector(".file [role=status]").textContent === "downloaded"`)
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if data, err := os.ReadFile(filepath.Join(dir, "mcp.json")); err == nil && string(data) == `{"mcpServers":{}}` {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the file was not downloaded")
		}
	}
}

func TestPage_Narrow(t *testing.T) {
	s := start(t)
	b := open(t, s, 360, 740, false)
	b.Shot("newcomer-360")
	check := func(where string) {
		t.Helper()
		if got := b.Text(`document.documentElement.scrollWidth + " " + [...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && getComputedStyle(e).position !== "absolute" && !e.closest(".vh, pre")).map((e) => e.className || e.tagName).slice(0, 5)`); got != "360 " {
			t.Errorf("%s is wider than the window: %s", where, got)
		}
	}
	check("the newcomer's page")
	b.say(pasted)
	b.Until(`!!document.querySelector(".card .diff")`)
	check("a card")
	b.Shot("card-360")
	b.Text(`document.querySelector(".choices").scrollIntoView()`)
	b.Shot("card-360-end")
	s.set(crowd())
	b.say("/mcp list")
	b.Until(`!!document.querySelector("#log table")`)
	check("a list")
	b.Shot("list-360")
	b.say("/mcp call github.create_issue")
	b.Until(`!!document.querySelector("#log .form")`)
	check("a form")
	b.Shot("form-360")
	b.Click("#open-servers")
	b.Until(`document.activeElement.id === "servers-title" && document.querySelectorAll("#board .server").length === 8`)
	check("the servers")
	b.Shot("servers-360")
	b.Key(kb.Escape)
	b.Until(`document.activeElement.id === "open-servers" && !document.querySelector("main").inert`)
	b.Click("#open-servers")
	b.Click("#open-audit-too")
	b.Until(`!!document.querySelector("#audit-body table")`)
	check("the audit")
	b.Shot("audit-360")
}

func TestPage_Dark(t *testing.T) {
	s := start(t)
	s.servers, s.tools = crowd()
	b := open(t, s, 1280, 860, true)
	b.Shot("start-dark")
	b.say(pasted)
	b.Until(`!!document.querySelector(".card .diff")`)
	b.Shot("card-dark")
	b.say("/mcp list")
	b.Until(`!!document.querySelector("#log table")`)
	b.Shot("list-dark")
	b.say("/mcp call x")
	b.Until(`!!document.querySelector("#log .form")`)
	b.Shot("form-dark")
	b.say("/mcp remove github")
	b.Until(`!!document.querySelector(".bad")`)
	b.Shot("refused-dark")
	b.Click("#open-audit")
	b.Until(`!!document.querySelector("#audit-body table")`)
	b.Shot("audit-dark")
}

// hostile is text that would be markup if it were not text, in every place that a reply has.
const hostile = `<img src=x onerror="document.body.dataset.hacked=1">`

func TestPage_TextStaysText(t *testing.T) {
	s := start(t)
	s.servers = []schemas.Status{{Name: hostile, Kind: schemas.Local, Owner: hostile, OwnerName: hostile, State: hostile, Why: hostile, Needs: []string{hostile}, RunsAs: hostile}}
	s.tools = []schemas.Tool{{Server: hostile, Name: hostile, Description: hostile, Risk: hostile, Held: hostile}}
	s.reply = func(context.Context, bot.Request) bot.Reply {
		return bot.Reply{ID: hostile, Bad: true, Private: true, Code: hostile, Choices: []bot.Choice{{Key: hostile, Label: hostile, Style: hostile}},
			Form: &bot.Form{Title: hostile, Submit: hostile, Fields: []bot.Field{{Name: hostile, Label: hostile, Hint: hostile, Default: hostile}, {Name: "b", Kind: "choice", Options: []string{hostile}}}},
			Blocks: []bot.Block{{Text: hostile + "\n`" + hostile + "` `/mcp " + hostile + "`"}, {Facts: []bot.Fact{{Label: hostile, Value: hostile, Note: hostile}}}, {Diff: "+" + hostile + "\n-" + hostile},
				{Code: hostile}, {Warning: hostile}, {Problems: []schemas.Problem{{File: hostile, Server: hostile, Text: hostile, Hint: hostile, Excerpt: hostile}}},
				{Table: &bot.Table{Columns: []string{hostile}, Rows: []bot.Row{{Head: hostile}, {Head: hostile, Cells: []string{hostile}, State: hostile}}}},
				{File: &schemas.File{Name: hostile, MIME: hostile, Data: []byte(hostile)}}}}
	}
	b := open(t, s, 1280, 860, false)
	b.Until(`document.querySelectorAll("#board .server").length === 1`)
	b.Click("#board .server")
	b.say(hostile)
	b.Until(`!!document.querySelector("#log .card")`)
	if n := b.Text(`document.querySelectorAll("img, script:not([src])").length + " " + document.body.dataset.hacked`); n != "0 undefined" {
		t.Errorf("markup came through: %s", n)
	}
	if n := b.Text(`document.querySelector("#log").textContent.split("onerror").length`); n == "1" {
		t.Error("the text is not shown at all")
	}
}

func TestPage_NoticesAndExpiry(t *testing.T) {
	s := start(t)
	b := open(t, s, 1100, 800, false)
	c := card(time.Now().Add(3 * time.Second))
	s.notify(t, bot.Notice{Thread: "web-default", Reply: c})
	b.Until(`/expires in [123] s/.test(document.querySelector(".expires")?.textContent)`)
	if got := b.Text(`document.activeElement.id`); got != "say" {
		t.Errorf("a notice took the focus to %q", got)
	}
	b.Until(`document.querySelector(".card").textContent.includes("has expired") && [...document.querySelectorAll(".choices button")].every((b) => b.disabled)`)
	b.Shot("expired-light")
	s.notify(t, bot.Notice{Thread: "web-default", Reply: bot.Reply{Replace: "card-1", Blocks: []bot.Block{{Text: "@bob confirmed it in Discord"}}}})
	b.Until(`document.querySelector(".settled").textContent.includes("Settled, see below") && document.querySelector("#log").textContent.includes("@bob")`)
}

func TestPage_CompletesCommands(t *testing.T) {
	s := start(t)
	b := open(t, s, 1100, 800, false)
	b.paste("/mcp l")
	b.Until(`!document.querySelector("#lines").hidden`)
	b.Key(kb.Backspace)
	b.Until(`document.querySelectorAll("#lines li").length === 6`)
	b.Key(kb.ArrowDown)
	b.Key(kb.ArrowDown)
	b.Shot("commands-light")
	b.Key(kb.ArrowDown)
	b.Key(kb.Enter)
	b.Until(`document.querySelector("#say").value === "/mcp list"`)
	b.Key(kb.Enter)
	b.Until(`!!document.querySelector("#log table")`)
	b.Shot("list-light")
	b.Key("a")
	b.Key(kb.Enter, chromedp.ModifierShift)
	b.Until(`document.querySelector("#say").value === "a\n"`)
}

// audit of what a reader of screens needs, and of the colours as they are computed.
const accessibility = `(() => {
	const wrong = [];
	const name = (e) => (e.getAttribute("aria-label") || (e.labels && [...e.labels].map((l) => l.textContent).join("")) || e.textContent || "").trim();
	for (const e of document.querySelectorAll("button, input, select, textarea, a[href]")) if (!name(e)) wrong.push("no name: " + e.outerHTML.slice(0, 120));
	for (const e of document.querySelectorAll("[aria-controls], [aria-labelledby], [aria-describedby]"))
		for (const a of ["aria-controls", "aria-labelledby", "aria-describedby"])
			for (const id of (e.getAttribute(a) || "").split(" ").filter(Boolean)) if (!document.getElementById(id)) wrong.push(a + " points to nothing: " + id);
	const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
	for (const id of new Set(ids.filter((x, i) => ids.indexOf(x) !== i))) wrong.push("id twice: " + id);
	for (const e of document.querySelectorAll("img:not([alt]), svg:not([aria-hidden])")) wrong.push("no alt: " + e.outerHTML.slice(0, 80));
	const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
	const rgba = (c) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = c; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; };
	const lum = (c) => c.slice(0, 3).map((v) => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4).reduce((s, v, i) => s + v * [.2126, .7152, .0722][i], 0);
	const ratio = (a, b) => { const [x, y] = [lum(a), lum(b)].sort((p, q) => q - p); return (x + .05) / (y + .05); };
	const behind = (e) => { for (; e; e = e.parentElement) { const c = rgba(getComputedStyle(e).backgroundColor); if (c[3] > 250) return c; } return [255, 255, 255]; };
	let least = 99, where = "";
	for (const e of document.querySelectorAll("body *")) {
		const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
		if (!own || !e.checkVisibility() || e.closest(".vh, .skip, :disabled, option, noscript")) continue;
		const r = ratio(rgba(getComputedStyle(e).color), behind(e));
		if (r < least) { least = r; where = e.className + " " + e.textContent.slice(0, 40); }
		if (r < 4.5) wrong.push("contrast " + r.toFixed(2) + ": " + e.tagName + "." + e.className + " " + e.textContent.slice(0, 40));
	}
	for (const e of document.querySelectorAll("input, textarea, select, .choices button, .dot")) {
		const c = rgba(getComputedStyle(e).borderTopColor);
		if (e.checkVisibility() && c[3] > 250 && !e.closest(".switch, :disabled") && getComputedStyle(e).borderTopStyle !== "none" && getComputedStyle(e).borderTopWidth !== "0px") {
			const r = ratio(c, behind(e.parentElement));
			if (r < 3) wrong.push("edge " + r.toFixed(2) + ": " + e.className + e.tagName);
		}
	}
	return JSON.stringify({ wrong, least: least.toFixed(2) + " " + where });
})()`

func TestPage_Accessible(t *testing.T) {
	for _, dark := range []bool{false, true} {
		t.Run(fmt.Sprintf("dark=%v", dark), func(t *testing.T) {
			s := start(t)
			b := open(t, s, 1280, 900, dark)
			look := func(where string) {
				t.Helper()
				var out struct {
					Wrong []string
					Least string
				}
				if err := json.Unmarshal([]byte(b.Text(accessibility)), &out); err != nil {
					t.Fatal(err)
				}
				for _, w := range out.Wrong {
					t.Errorf("%s: %s", where, w)
				}
				t.Logf("%s: least contrast %s", where, out.Least)
			}
			look("newcomer")
			s.set(crowd())
			b.Until(`document.querySelectorAll("#board .server").length === 8`)
			for i := range 3 {
				b.Text(fmt.Sprintf(`document.querySelectorAll("#board .server")[%d].click()`, i))
			}
			for _, line := range []string{pasted, "/mcp list", "/mcp call x", "/mcp remove x", "/mcp download"} {
				b.say(line)
			}
			b.Until(`!!document.querySelector(".file")`)
			b.choose(writeTemp(t))
			b.Until(`!!document.querySelector(".problem")`)
			look("conversation")
			b.Click("#open-audit")
			b.Until(`!!document.querySelector("#audit-body table")`)
			look("audit")
		})
	}
}

func writeTemp(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "mcp.json")
	if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestPage_SaysWhenBobbinIsGone(t *testing.T) {
	s := start(t)
	b := open(t, s, 900, 700, false)
	b.Quiet() // the browser logs that it cannot connect
	s.stop()
	b.Until(`!document.querySelector("#line").hidden && document.querySelector("#line").textContent.includes("lost")`)
	b.say("hello")
	b.Until(`document.querySelector("#log").textContent.includes("cannot be reached")`)
	b.Shot("lost-light")
}

func TestPage_ProgressAndStop(t *testing.T) {
	s := start(t)
	b := open(t, s, 1100, 800, false)
	s.reply = func(ctx context.Context, req bot.Request) bot.Reply {
		req.Progress("`github` is starting …")
		<-ctx.Done()
		return bot.Reply{Bad: true, Code: schemas.CodeUnknown, Blocks: []bot.Block{{Text: "stopped; whether it ran is unknown"}}}
	}
	b.paste("/mcp reload")
	b.Key(kb.Enter)
	b.Until(`document.querySelector(".pending-text")?.textContent === "github is starting …"`)
	b.Shot("progress-light")
	b.Click(".pending button")
	b.Until(`document.querySelector(".bad .tag-bad")?.textContent.includes("Outcome unknown") && !document.querySelector(".pending")`)
}

// TestScreenshot writes the picture of the README: go test ./bot/web -run Screenshot -screenshot ../../docs/page.png
func TestScreenshot(t *testing.T) {
	if *screenshot == "" {
		t.Skip("no -screenshot file given")
	}
	s := start(t, func(o *web.Options) { o.Inspector = http.NotFoundHandler() })
	s.servers = []schemas.Status{
		{Name: "files", Kind: schemas.Local, Owner: "alice", State: schemas.Ready, Tools: 11, Tokens: 1900},
		{Name: "notes", Kind: schemas.Local, Owner: "bob", OwnerName: "bob", State: schemas.Needs, Needs: []string{"NOTES_KEY"}},
		{Name: "weather", Kind: schemas.Local, Owner: "alice", State: schemas.Idle, Tools: 4, Tokens: 700},
		{Name: "docs", Kind: schemas.Connector, Owner: "alice", State: schemas.Ready, Tools: 3, Tokens: 600},
	}
	s.reply = func(context.Context, bot.Request) bot.Reply {
		r := card(time.Now().Add(10 * time.Minute))
		r.Blocks[0].Text = "1 added: github · asked by you"
		r.Blocks[1].Facts = []bot.Fact{
			{Label: "runs", Value: "npx -y @modelcontextprotocol/server-github"},
			{Label: "secrets", Value: "GITHUB_TOKEN", Note: "moved to your vault; the config keeps ${input:GITHUB_TOKEN}"},
			{Label: "where", Value: "this machine, as you. NOT isolated"},
			{Label: "reach", Value: "whatever this machine and its network can reach"},
			{Label: "shared", Value: "everyone in this thread can use its tools; calls run as you"},
		}
		r.Blocks[2].Diff = strings.Replace(strings.Split(diffText, "-      ")[0], "@2026.8.31", "", 1)
		return r
	}
	b := open(t, s, 1280, 820, false)
	b.Do(chromedp.EmulateViewport(1280, 820, chromedp.EmulateScale(2)))
	b.say(pasted)
	b.Until(`!!document.querySelector(".card .diff")`)
	b.Text(`document.querySelector("#say").focus()`)
	b.Picture(*screenshot)
}

func TestPage_RefusedFormComesBackFilled(t *testing.T) {
	s := start(t)
	b := open(t, s, 1100, 800, false)
	form := func(id string) bot.Reply {
		return bot.Reply{ID: id, Expires: time.Now().Add(time.Minute), Form: &bot.Form{Title: "edit files", Fields: []bot.Field{
			{Name: "args", Label: "arguments"}, {Name: "dry", Label: "dry", Kind: "boolean"}, {Name: "key", Label: "key", Kind: "secret"}}}}
	}
	s.reply = func(_ context.Context, req bot.Request) bot.Reply {
		switch {
		case req.Action == nil:
			return form("one")
		case req.Action.ID == "one":
			r := form("two")
			r.Bad, r.Code, r.Replace = true, schemas.CodeInvalid, "one"
			r.Blocks = []bot.Block{{Text: "the form has a mistake; nothing was changed"}}
			return r
		}
		return bot.Reply{Replace: "two", Blocks: []bot.Block{{Text: "files is ready"}}}
	}
	b.say("/mcp edit files")
	b.Fill(`[name=args]`, `-y "x`)
	b.Click(`[name=dry]`)
	b.Fill(`[name=key]`, "hunter2")
	b.Click(`.form [type=submit]`)
	b.Until(`document.querySelector("#log").textContent.includes("has a mistake") && document.querySelectorAll(".form").length === 1`)
	b.Until(`document.activeElement.name === "args"`)
	if got := b.Text(`["args", "key"].map((n) => document.querySelector("[name=" + n + "]").value) + " " + document.querySelector("[name=dry]").checked`); got != `-y "x, true` {
		t.Errorf("the form came back with %q", got)
	}
	b.Fill(`[name=args]`, `"`)
	b.Key(kb.Enter)
	b.Until(`document.querySelector("#log").textContent.includes("files is ready")`)
	b.Until(`document.activeElement.id === "say"`) // the button that was pressed is gone, the focus is not
	if got := s.last().Action.Values["args"]; got != `-y "x"` {
		t.Errorf("the bot got %q", got)
	}
}
