package registry

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"unicode/utf8"

	"bobbin/internal/durable"
	"bobbin/schemas"
)

const (
	maxText    = 20_000   // characters of text in a result
	maxBinary  = 8 << 20  // bytes of pictures, sound and files in a result, as base64
	maxBlocks  = 100      // content blocks in a result
	maxMember  = 4 << 10  // bytes of any other member of a block
	maxSpilled = 16 << 20 // bytes of one result on disk
	keptSpills = 50       // results on disk for one thread
)

// limit cuts a result that is too large for a model and keeps the whole on disk.
func (c *call) limit(res *schemas.Result) {
	if c.Whole || len(res.Raw) <= maxText {
		return
	}
	short, cut := shorten(res.Raw)
	if !cut {
		return
	}
	note := "the whole is kept as a file"
	id, err := c.t.spill(c.r.opt.Now().UnixMilli(), res.Raw)
	if err != nil {
		c.r.opt.Log.Warn("cannot keep a large result", "thread", c.t.id, "receipt", c.receipt, "err", err)
		note = "the rest could not be kept"
	}
	res.Spilled = id
	res.Raw = short.close(len(res.Raw), note)
}

// shortened is a CallToolResult under construction.
type shortened struct {
	rest   map[string]json.RawMessage
	list   string // the member that holds the blocks: "content", or "contents" of a resource
	blocks []json.RawMessage
}

// block is a ContentBlock (MCP, schema); unknown members are kept.
type block map[string]json.RawMessage

// shorten cuts the texts of a result to maxText characters in all, and leaves out what else is too large.
func shorten(raw json.RawMessage) (shortened, bool) {
	var s shortened
	var blocks []json.RawMessage
	cut := false
	if json.Unmarshal(raw, &s.rest) != nil || s.rest == nil {
		return shortened{rest: map[string]json.RawMessage{}, list: "content"}, true
	}
	s.list = "content"
	if s.rest["contents"] != nil {
		s.list = "contents"
	}
	if json.Unmarshal(s.rest[s.list], &blocks) != nil {
		blocks, cut = nil, len(s.rest[s.list]) > maxText
	}
	if len(s.rest["structuredContent"]) > maxText {
		delete(s.rest, "structuredContent")
		cut = true
	}
	for key, value := range s.rest {
		if key != s.list && key != "structuredContent" && len(value) > maxText {
			delete(s.rest, key)
			cut = true
		}
	}
	text, binary := maxText, maxBinary
	for n, b := range blocks {
		if n == maxBlocks {
			cut = true
			break
		}
		kept, whole := shortenBlock(b, &text, &binary)
		cut = cut || !whole
		if kept != nil {
			s.blocks = append(s.blocks, kept)
		}
	}
	return s, cut
}

// shortenBlock takes what one block needs from the budgets; nil: the block is left out.
func shortenBlock(raw json.RawMessage, text, binary *int) (kept json.RawMessage, whole bool) {
	var b block
	if json.Unmarshal(raw, &b) != nil {
		return nil, false
	}
	whole = true
	var inner block
	part := b
	if json.Unmarshal(b["resource"], &inner) == nil && inner != nil {
		part = inner
	}
	for key, value := range part {
		switch key {
		case "text":
			var t string
			_ = json.Unmarshal(value, &t)
			n := utf8.RuneCountInString(t)
			if n > *text {
				t, n, whole = first(t, *text), *text, false
				part[key], _ = json.Marshal(t)
			}
			*text -= n
		case "data", "blob":
			if len(value) > *binary {
				return nil, false
			}
			*binary -= len(value)
		case "resource":
		default:
			if len(value) > maxMember {
				return nil, false
			}
		}
	}
	if whole {
		return raw, true
	}
	if inner != nil {
		b["resource"], _ = json.Marshal(inner)
	}
	kept, _ = json.Marshal(b)
	return kept, false
}

// first gives the first n characters.
func first(text string, n int) string {
	for i := range text {
		if n == 0 {
			return text[:i]
		}
		n--
	}
	return text
}

// close makes the result object and says in it what happened.
func (s shortened) close(size int, note string) json.RawMessage {
	text := fmt.Sprintf("[cut by bobbin: the result had %d bytes, %d characters of text are shown; %s]", size, maxText, note)
	block := map[string]string{"type": "text", "text": text}
	if s.list == "contents" {
		block = map[string]string{"uri": "bobbin:note", "text": text}
	}
	said, _ := json.Marshal(block)
	s.rest[s.list], _ = json.Marshal(append(s.blocks, said))
	raw, _ := json.Marshal(s.rest)
	return raw
}

// spillID reports whether id has the form that spill gives: 12 digits of time, a dash, 26 random letters.
func spillID(id string) bool {
	return len(id) == 39 && id[12] == '-' && strings.Trim(id[:12], "0123456789abcdef") == "" && strings.Trim(id[13:], "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// spill keeps a whole result; the newest keptSpills stay.
func (t *thread) spill(ms int64, raw json.RawMessage) (string, error) {
	if len(raw) > maxSpilled {
		return "", fmt.Errorf("result of %d bytes is above the limit", len(raw))
	}
	dir, err := t.results()
	if err != nil {
		return "", err
	}
	defer dir.Close()
	id := fmt.Sprintf("%012x-%s", ms, rand.Text())
	if err := dir.Write(id, raw); err != nil {
		return "", err
	}
	list, err := dir.List()
	if err != nil {
		return id, nil
	}
	for n := 0; n < len(list)-keptSpills; n++ { // sorted by name, and names begin with the time
		_ = dir.Remove(list[n].Name())
	}
	return id, nil
}

func (t *thread) results() (*durable.Dir, error) {
	folder, err := t.folder()
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	return folder.Sub("results")
}

// Result gives a whole result that Call had to cut: as text where it is text alone, else the JSON object.
func (r *Registry) Result(ctx context.Context, id schemas.ThreadID, spilled string) (schemas.File, error) {
	gone := &schemas.Error{Code: schemas.CodeNotFound, Text: "this result is no longer kept"}
	if !spillID(spilled) {
		return schemas.File{}, gone
	}
	t, err := r.live(ctx, id)
	if err != nil {
		return schemas.File{}, err
	}
	dir, err := t.results()
	if err != nil {
		return schemas.File{}, &schemas.Error{Code: schemas.CodeInternal, Text: "the kept results cannot be read", Err: err}
	}
	defer dir.Close()
	raw, err := dir.Read(spilled, maxSpilled)
	if errors.Is(err, fs.ErrNotExist) {
		return schemas.File{}, gone
	} else if err != nil {
		return schemas.File{}, &schemas.Error{Code: schemas.CodeInternal, Text: "this result cannot be read", Err: err}
	}
	if text, ok := onlyText(raw); ok {
		return schemas.File{Name: "result.txt", MIME: "text/plain; charset=utf-8", Data: []byte(text)}, nil
	}
	return schemas.File{Name: "result.json", MIME: "application/json", Data: raw}, nil
}

func onlyText(raw []byte) (string, bool) {
	var res struct {
		Content []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"content"`
		Structured json.RawMessage `json:"structuredContent"`
	}
	if json.Unmarshal(raw, &res) != nil || len(res.Content) == 0 || res.Structured != nil {
		return "", false
	}
	var texts []string
	for _, b := range res.Content {
		texts = append(texts, b.Text)
	}
	other := slices.ContainsFunc(res.Content, func(b struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}) bool {
		return b.Type != "text"
	})
	return strings.Join(texts, "\n"), !other
}
