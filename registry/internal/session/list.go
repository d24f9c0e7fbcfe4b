package session

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"bobbin/internal/jsonscan"

	"github.com/mark3labs/mcp-go/mcp"
)

const (
	maxPages     = 20
	maxItems     = 512
	maxListBytes = 8 << 20
)

// MaxSchema bounds the input and output schema of one tool together, in bytes.
const MaxSchema = 64 << 10

// List is what a server lists, each item as the server sent it.
type List struct {
	Items   []json.RawMessage
	Refused []Refusal
}

// Refusal is an item that was left out, or the end of a list that was cut; then Name is empty.
type Refusal struct {
	Name, Reason string
}

// ListTools returns the server's tools, at most 512 from at most 20 pages,
// as raw Tool objects with a name of their own. A tool with more than
// [MaxSchema] of schema, or with x-mcp-header annotations that break SEP-2243, is refused.
func (s *Session) ListTools(ctx context.Context) (List, error) {
	all, err := s.pages(ctx, string(mcp.MethodToolsList), "tools")
	if err != nil {
		return List{}, err
	}
	kept := all.Items[:0]
	seen := map[string]bool{}
	for _, item := range all.Items {
		name, reason := s.inspect(item)
		if reason == "" && seen[name] {
			reason = "listed twice"
		}
		if reason != "" {
			all.Refused = append(all.Refused, Refusal{name, reason})
			continue
		}
		seen[name] = true
		kept = append(kept, item)
	}
	all.Items = kept
	s.shown.Range(func(name, _ any) bool {
		if !seen[name.(string)] {
			s.shown.Delete(name)
		}
		return true
	})
	return all, nil
}

// inspect returns a tool's name and why it cannot be used.
func (s *Session) inspect(item json.RawMessage) (name, reason string) {
	var named, input, output jsonscan.Span
	err := jsonscan.Pick(item, jsonscan.All(item), jsonscan.Want{Name: "name", At: &named},
		jsonscan.Want{Name: "inputSchema", At: &input}, jsonscan.Want{Name: "outputSchema", At: &output})
	name, _ = jsonscan.Text(named.Of(item))
	size := len(input.Of(item)) + len(output.Of(item))
	switch {
	case err != nil || name == "":
		return "", "not a tool with a name"
	case size > MaxSchema:
		return name, fmt.Sprintf("its schemas take %d bytes, the limit is %d", size, MaxSchema)
	}
	if _, http := s.link.(*web); !http || !s.modern() || !bytes.Contains(item, []byte("x-mcp-header")) {
		return name, ""
	}
	var tool mcp.Tool
	if err := json.Unmarshal(item, &tool); err != nil {
		return name, "its definition cannot be read"
	}
	if err := mcp.ValidateParamHeaderAnnotations(&tool); err != nil {
		s.shown.Delete(name)
		return name, "its x-mcp-header annotations are not valid"
	}
	s.shown.Store(name, &tool)
	return name, ""
}

// ListResources returns raw Resource objects.
func (s *Session) ListResources(ctx context.Context) (List, error) {
	return s.pages(ctx, string(mcp.MethodResourcesList), "resources")
}

// ListResourceTemplates returns raw ResourceTemplate objects.
func (s *Session) ListResourceTemplates(ctx context.Context) (List, error) {
	return s.pages(ctx, string(mcp.MethodResourcesTemplatesList), "resourceTemplates")
}

// ListPrompts returns raw Prompt objects.
func (s *Session) ListPrompts(ctx context.Context) (List, error) {
	return s.pages(ctx, string(mcp.MethodPromptsList), "prompts")
}

// pages follows nextCursor. A list that does not end is cut, and the cut reported.
func (s *Session) pages(ctx context.Context, method, member string) (List, error) {
	var all List
	cut := func(reason string) (List, error) {
		all.Refused = append(all.Refused, Refusal{Reason: reason})
		return all, nil
	}
	seen := map[string]bool{}
	var params []byte
	size := 0
	for range maxPages {
		result, err := s.link.roundTrip(ctx, &request{method: method, params: params})
		if err != nil {
			return List{}, err
		}
		items, cursor, err := page(result, member)
		if err != nil {
			return List{}, lost(err)
		}
		for _, item := range items {
			if size += len(item); size > maxListBytes {
				return cut(fmt.Sprintf("the list is longer than %d bytes; the rest is left out", maxListBytes))
			}
			if len(all.Items) == maxItems {
				return cut(fmt.Sprintf("the server lists more than %d; the rest is left out", maxItems))
			}
			all.Items = append(all.Items, item)
		}
		if cursor == "" {
			return all, nil
		}
		if seen[cursor] {
			return cut("the server's pages run in a circle; what came twice is left out")
		}
		seen[cursor] = true
		params = fmt.Appendf(nil, `{"cursor":%s}`, quote(cursor))
	}
	return cut(fmt.Sprintf("the server lists more than %d pages; the rest is left out", maxPages))
}

// page reads one page of a list.
func page(result []byte, member string) (items []json.RawMessage, cursor string, err error) {
	var list, next jsonscan.Span
	err = jsonscan.Pick(result, jsonscan.All(result), jsonscan.Want{Name: member, At: &list}, jsonscan.Want{Name: "nextCursor", At: &next})
	if err == nil && !list.Absent() {
		err = json.Unmarshal(list.Of(result), &items)
	}
	if err == nil && !next.Absent() {
		err = json.Unmarshal(next.Of(result), &cursor)
	}
	if err != nil {
		return nil, "", fmt.Errorf("%w: no list of %s", ErrGarbage, member)
	}
	return items, cursor, nil
}
