package view

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// OneLine gives a result that is nothing but a short line of text, cleaned to stand in a line of ours; "" for any other.
func OneLine(blocks []Block) string {
	if len(blocks) != 1 {
		return ""
	}
	text := strings.TrimSpace(blocks[0].Code)
	if strings.Contains(text, "\n") || utf8.RuneCountInString(text) > 200 {
		return ""
	}
	return words.Clean(text)
}

// maxFile bounds a file made of a tool's result, maxResult the text of one that is shown, both in bytes; maxBlocks the parts
// of one result that are drawn.
const (
	maxFile   = 8 << 20
	maxBlocks = 64
	maxResult = 8 << 10
)

// Cut shortens the preformatted texts of a result to what a person reads, and gives the whole text if it cut any.
func Cut(blocks []Block) (shown []Block, whole string) {
	total := 0
	var texts []string
	for _, b := range blocks {
		total += len(b.Code)
		if b.Code != "" {
			texts = append(texts, b.Code)
		}
	}
	if total <= maxResult {
		return blocks, ""
	}
	left := maxResult
	for _, b := range blocks {
		if b.Code != "" && left == 0 {
			continue
		}
		if len(b.Code) > left {
			b.Code = strings.ToValidUTF8(b.Code[:left], "") + "\n…"
		}
		left -= min(left, len(b.Code))
		shown = append(shown, b)
	}
	return shown, strings.Join(texts, "\n")
}

// part is one item of an MCP content list, or of the contents of a resource (MCP specification, Content and Resources).
type part struct {
	Type        string `json:"type"`
	Text        string `json:"text"`
	Data        string `json:"data"`
	Blob        string `json:"blob"`
	MIME        string `json:"mimeType"`
	URI         string `json:"uri"`
	Name        string `json:"name"`
	Description string `json:"description"`
	Resource    *part  `json:"resource"`
}

// Content draws an MCP result. Its text is preformatted and made visible; nothing in it is markup.
func Content(name string, raw json.RawMessage) []Block {
	var got struct {
		Content    []part          `json:"content"`
		Contents   []part          `json:"contents"`
		Structured json.RawMessage `json:"structuredContent"`
	}
	if len(raw) == 0 {
		return nil
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		return []Block{{Code: words.Lines(string(raw))}}
	}
	var blocks []Block
	parts := append(got.Content, got.Contents...)
	for i, p := range parts {
		if len(blocks) >= maxBlocks {
			blocks = append(blocks, Block{Text: fmt.Sprintf("and %d more parts, not shown", len(parts)-i)})
			break
		}
		blocks = append(blocks, p.draw(fmt.Sprintf("%s-%d", name, i+1)))
	}
	if len(blocks) == 0 && len(got.Structured) > 0 {
		return []Block{{Code: words.Lines(Indent(got.Structured))}}
	}
	if len(blocks) == 0 {
		return []Block{{Text: "it gave nothing back"}}
	}
	return blocks
}

func (p part) draw(name string) Block {
	switch {
	case p.Type == "resource" && p.Resource != nil:
		inner := *p.Resource
		inner.Type = ""
		return inner.draw(name)
	case p.Type == "resource_link":
		return Block{Text: "resource " + words.Short(words.Clean(p.URI), 300) + " " + words.FirstLine(p.Name, 80)}
	case p.Data != "":
		return file(name, p.Data)
	case p.Blob != "":
		return file(name, p.Blob)
	case p.Text != "":
		return Block{Code: words.Lines(p.Text)}
	}
	return Block{Text: "(an empty part)"}
}

// file makes a download of base64 data. Its type is what the bytes are, never what the server says.
func file(name, data string) Block {
	if base64.StdEncoding.DecodedLen(len(data)) > maxFile {
		return Block{Text: "a file of " + words.Size(base64.StdEncoding.DecodedLen(len(data))) + ", too large to show"}
	}
	b, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return Block{Text: "a file that cannot be read"}
	}
	mime := http.DetectContentType(b)
	ext := map[string]string{"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp", "application/pdf": ".pdf",
		"audio/wave": ".wav", "audio/mpeg": ".mp3", "application/ogg": ".ogg", "text/plain; charset=utf-8": ".txt"}[mime]
	if ext == "" {
		mime, ext = "application/octet-stream", ".bin"
	}
	return Block{File: &schemas.File{Name: FileName(name) + ext, MIME: mime, Data: b}}
}

// FileName makes a safe base name of a tool's.
func FileName(name string) string {
	safe := strings.Trim(regexp.MustCompile(`[^A-Za-z0-9_-]+`).ReplaceAllString(name, "-"), "-")
	return "result-" + safe[:min(len(safe), 60)]
}

// Indent writes JSON on several lines; what is no JSON stays as it is.
func Indent(raw json.RawMessage) string {
	var out bytes.Buffer
	if json.Indent(&out, raw, "", "  ") != nil {
		return string(raw)
	}
	return out.String()
}

const shownText = 1900 // characters of output that stand in the chat; more is a file

// Ran draws how a command ended; long output is a file.
func Ran(res schemas.Executed, d time.Duration) Reply {
	r := Reply{Private: true, Bad: res.Code != 0}
	switch {
	case res.TimedOut:
		r.Blocks = append(r.Blocks, Block{Text: "was ended after " + words.Took(d)})
	default:
		r.Blocks = append(r.Blocks, Block{Text: fmt.Sprintf("exit %d · %s", res.Code, words.Took(d))})
	}
	for _, out := range []struct{ name, text string }{{"stdout", res.Stdout}, {"stderr", res.Stderr}} {
		text := words.Lines(out.text)
		switch {
		case strings.TrimSpace(text) == "":
		case len([]rune(text)) > shownText:
			r.Blocks = append(r.Blocks, Block{Text: out.name + ", " + words.Size(len(text))}, Block{File: &schemas.File{Name: out.name + ".txt", MIME: "text/plain; charset=utf-8", Data: []byte(text)}})
		default:
			if out.name == "stderr" {
				r.Blocks = append(r.Blocks, Block{Text: out.name})
			}
			r.Blocks = append(r.Blocks, Block{Code: text})
		}
	}
	if res.Cut {
		r.Blocks = append(r.Blocks, Block{Text: "more was printed than I keep"})
	}
	return r
}
