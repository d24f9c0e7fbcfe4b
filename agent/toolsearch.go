package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"bobbin/schemas"
)

const (
	maxTools       = 25      // of servers, that a model gets without searching
	unknownWindow  = 100_000 // tokens that a window is taken for where it is unknown
	toolShare      = 10      // 1/toolShare of the window is for servers' tools
	hits           = 5       // of one search
	searchName     = "tool_search"
	maxServersSaid = 40
)

// budget is how many tokens servers' tools may cost.
func (t *turn) budget() int { return t.choice.toolTokens() }

func (c Choice) toolTokens() int {
	window := c.Window
	if window <= 0 {
		window = unknownWindow
	}
	return window / toolShare
}

// tooMany reports whether the model has to search for tools.
func (t *turn) tooMany(list []schemas.Tool) bool {
	tokens := 0
	for _, tool := range list {
		tokens += toolTokens(tool)
	}
	return len(list) > maxTools || tokens > t.budget()
}

// toolTokens estimates what a tool costs as it is sent.
func toolTokens(t schemas.Tool) int {
	s := shown(t)
	return (len(s.Name)+len(s.Description)+len(s.Input))/bytesPerToken + 8
}

// foundTools are those that searches found, in the order of finding; of too many the oldest are left out.
func (t *turn) foundTools(list []schemas.Tool) (tools []Tool) {
	byModel := map[string]schemas.Tool{}
	for _, tool := range list {
		byModel[tool.Model] = tool
	}
	left, keep := t.budget(), len(t.found)
	for keep > 0 && len(t.found)-keep < maxTools {
		tool, ok := byModel[t.found[keep-1]]
		if ok {
			if left -= toolTokens(tool); left < 0 {
				break
			}
		}
		keep--
	}
	for _, name := range t.found[keep:] {
		if tool, ok := byModel[name]; ok {
			tools = append(tools, shown(tool))
		}
	}
	return tools
}

// find notes a tool as found: it is offered from the next step on.
func (t *turn) find(name string) {
	if slices.Contains(t.found, name) {
		return
	}
	t.found = append(t.found, name)
	t.newFound = true
	if over := len(t.found) - 2*maxTools; over > 0 {
		t.found = t.found[over:]
	}
}

// searchTool is the tool that finds the others.
func (t *turn) searchTool(o *offer, list []schemas.Tool) (Tool, *usable) {
	var said []string
	for n, server := range names(list) {
		if n == maxServersSaid {
			said = append(said, "and more")
			break
		}
		count := 0
		for _, tool := range list {
			if tool.Server == server {
				count++
			}
		}
		said = append(said, fmt.Sprintf("%s (%d)", server, count))
	}
	def := Tool{
		Name: searchName,
		Description: fmt.Sprintf("Finds tools of this thread's servers by what they do. There are %d tools, too many to show at once; those that are found can be called from your next step on. Servers and how many tools they have: %s.",
			len(list), strings.Join(said, ", ")),
		Input: json.RawMessage(`{"type":"object","properties":{"query":{"type":"string","description":"What the tool should do, in a few English words, with the server's name if it is known."}},"required":["query"]}`),
	}
	return def, &usable{name: searchName, from: ownServer + "." + searchName, input: def.Input, do: func(_ context.Context, _ schemas.Caller, args json.RawMessage, _ []string, _ func(string)) (schemas.Result, error) {
		var in struct {
			Query string `json:"query"`
		}
		if json.Unmarshal(args, &in) != nil || strings.TrimSpace(in.Query) == "" {
			return schemas.Result{}, &schemas.Error{Code: schemas.CodeInvalid, Text: `query is missing: say in a few words what the tool should do`}
		}
		found := o.search().find(in.Query, hits)
		if len(found) == 0 {
			return textResult("no tool fits these words; try others, or a server's name: " + strings.Join(said, ", ")), nil
		}
		var b strings.Builder
		b.WriteString("can be called from the next step on:\n")
		for _, tool := range found {
			t.find(tool.Model)
			fmt.Fprintf(&b, "- %s: %s\n", tool.Model, first(strings.Join(strings.Fields(describe(tool.Description)), " "), 240))
		}
		return textResult(b.String()), nil
	}}
}

// textResult is a result of bobbin's own.
func textResult(text string) schemas.Result {
	raw, _ := json.Marshal(map[string]any{"content": []map[string]string{{"type": "text", "text": text}}}) // strings always marshal
	return schemas.Result{Raw: raw, Server: ownServer, Size: len(text)}
}
