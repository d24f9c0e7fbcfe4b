package discordtest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"bobbin/bot/discord/discordtest"
)

// TestFake_IsStrict breaks one rule after the other: what Discord refuses must be refused and noted.
func TestFake_IsStrict(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	const calm = `"allowed_mentions":{"parse":[]}`
	button := func(id, label string) string {
		return `{"type":2,"style":2,"label":"` + label + `","custom_id":"` + id + `"}`
	}
	link := func(more string) string {
		return `{"content":"hi","components":[{"type":1,"components":[{"type":2,"style":5,"label":"A",` + more + `}]}],` + calm + `}`
	}
	for name, body := range map[string]string{
		"no allowed_mentions":  `{"content":"hi"}`,
		"parses mentions":      `{"content":"hi","allowed_mentions":{"parse":["everyone"]}}`,
		"too long":             `{"content":"` + x(2001) + `",` + calm + `}`,
		"empty":                `{"content":"",` + calm + `}`,
		"unknown field":        `{"content":"hi","contents":"x",` + calm + `}`,
		"content with V2":      `{"content":"hi","flags":32768,"components":[{"type":10,"content":"x"}],` + calm + `}`,
		"text outside V2":      `{"content":"hi","components":[{"type":10,"content":"x"}],` + calm + `}`,
		"4001 of text":         `{"flags":32768,"components":[{"type":10,"content":"` + x(4000) + `"},{"type":10,"content":"x"}],` + calm + `}`,
		"41 components":        `{"flags":32768,"components":[` + strings.TrimSuffix(strings.Repeat(`{"type":10,"content":"x"},`, 41), ",") + `],` + calm + `}`,
		"12 KB in UTF-8":       `{"flags":32768,"components":[{"type":10,"content":"` + strings.Repeat("漢", 3900) + `"}],` + calm + `}`,
		"custom_id twice":      `{"content":"hi","components":[{"type":1,"components":[` + button("a", "A") + "," + button("a", "B") + `]}],` + calm + `}`,
		"label of 81":          `{"content":"hi","components":[{"type":1,"components":[` + button("a", x(81)) + `]}],` + calm + `}`,
		"custom_id of 101":     `{"content":"hi","components":[{"type":1,"components":[` + button(x(101), "A") + `]}],` + calm + `}`,
		"6 buttons":            `{"content":"hi","components":[{"type":1,"components":[` + strings.TrimSuffix(strings.Repeat(button("a", "A")+",", 6), ",") + `]}],` + calm + `}`,
		"button outside a row": `{"content":"hi","components":[` + button("a", "A") + `],` + calm + `}`,
		"unknown component":    `{"content":"hi","components":[{"type":1,"components":[{"type":2,"style":2,"label":"A","custom_id":"a","tooltip":"x"}]}],` + calm + `}`,
		"javascript":           link(`"url":"javascript:alert(1)"`),
		"link without host":    link(`"url":"https://"`),
		"link with custom_id":  link(`"url":"https://e.example","custom_id":"a"`),
		"link without url":     link(`"disabled":false`),
		"url on a button":      `{"content":"hi","components":[{"type":1,"components":[{"type":2,"style":2,"label":"A","custom_id":"a","url":"https://e.example"}]}],` + calm + `}`,
		"url of 513":           `{"content":"hi","components":[{"type":1,"components":[{"type":2,"style":5,"label":"A","url":"https://` + x(510) + `"}]}],` + calm + `}`,
		"file that is not":     `{"flags":32768,"components":[{"type":13,"file":{"url":"attachment://a.txt"}}],` + calm + `}`,
	} {
		t.Run(name, func(t *testing.T) {
			f := discordtest.New(t, discordtest.Options{Tolerant: true})
			ch := f.Guild("g").Channel("c")
			if code := post(t, f, "/channels/"+ch.ID+"/messages", body); code < 400 {
				t.Errorf("was taken with %d", code)
			}
			if len(f.Violations()) != 1 {
				t.Errorf("noted %q", f.Violations())
			}
			if code := post(t, f, "/channels/"+ch.ID+"/messages", `{"content":"fine",`+calm+`}`); code != 200 {
				t.Errorf("a good message: %d, %q", code, f.Violations())
			}
		})
	}
}

func TestFake_RefusesCommands(t *testing.T) {
	sub := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`{"type":1,"name":"s%d","description":"%s"}`, i, strings.Repeat("d", 90)))
		}
		return strings.Join(all, ",")
	}
	for name, body := range map[string]string{
		"upper case":              `{"type":1,"name":"MCP","description":"d"}`,
		"26 options":              `{"type":1,"name":"mcp","description":"d","options":[` + sub(26) + `]}`,
		"long description":        `{"type":1,"name":"mcp","description":"` + strings.Repeat("d", 101) + `"}`,
		"required after optional": `{"type":1,"name":"mcp","description":"d","options":[{"type":3,"name":"a","description":"d"},{"type":3,"name":"b","description":"d","required":true}]}`,
		"unknown field":           `{"type":1,"name":"mcp","description":"d","descripton":"d"}`,
	} {
		t.Run(name, func(t *testing.T) {
			f := discordtest.New(t, discordtest.Options{Tolerant: true})
			if code := post(t, f, "/applications/"+f.AppID+"/commands", body); code < 400 || len(f.Violations()) != 1 {
				t.Errorf("%d, %q", code, f.Violations())
			}
		})
	}
}

func TestLively(t *testing.T) {
	for _, s := range []string{"[x](https://e)", "https://e.example", "@everyone", "<@1>", "<#2>", "</mcp:1>", ":smile:", "# big", "> q", "||s||", "```open", "discord.gg/x", "`a` https://x"} {
		if len(discordtest.Lively(s)) == 0 {
			t.Errorf("%q counts as inert", s)
		}
	}
	for _, s := range []string{"plain", "`https://e`", "```\n@everyone [x](https://e)\n```", `\@everyone`, `\<@1>`, "**bold** -# small", "3:41"} {
		if bad := discordtest.Lively(s); len(bad) > 0 {
			t.Errorf("%q: %q", s, bad)
		}
	}
}

func post(t *testing.T, f *discordtest.Fake, path, body string) int {
	t.Helper()
	if !json.Valid([]byte(body)) {
		t.Fatalf("the test's own JSON is broken: %s", body)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.URL+"/api/v10"+path, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bot "+f.Token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "test")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}
