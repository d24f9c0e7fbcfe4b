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
	maxNamesSaid   = 8000 // bytes of tools' names in the description of the search
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
	servers, whole := t.overview(list)
	def := Tool{
		Name: searchName,
		Description: fmt.Sprintf("Finds tools of this thread's servers by what they do. There are %d tools, too many to show at once; those that are found can be called from your next step on. %s",
			len(list), whole),
		Input: json.RawMessage(`{"type":"object","properties":{"query":{"type":"string","description":"What the tool should do, in a few English words, with the server's name if it is known; or names of tools."}},"required":["query"]}`),
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
			return textResult("no tool fits these words; try others, or a server's name: " + servers), nil
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

// overview says what there is to find: servers with how many tools they have, and the whole with the tools' names, as long as they
// cost little: a model knows better than a search by words what it means.
func (t *turn) overview(list []schemas.Tool) (servers, whole string) {
	var counts, full []string
	room := min(maxNamesSaid, t.budget()*bytesPerToken/5)
	for n, server := range names(list) {
		if n == maxServersSaid {
			counts, room = append(counts, "and more"), 0
			break
		}
		var tools []string
		for _, tool := range list {
			if tool.Server != server {
				continue
			}
			name := strings.TrimPrefix(tool.Model, prefix(server))
			tools = append(tools, name)
			room -= len(name) + 1
		}
		counts = append(counts, fmt.Sprintf("%s (%d)", server, len(tools)))
		full = append(full, counts[n]+": "+strings.Join(tools, " "))
	}
	servers = strings.Join(counts, ", ")
	if room < 0 || len(full) < len(counts) {
		return servers, "Servers and how many tools they have: " + servers + "."
	}
	return servers, "You may search by name, too. Each name begins with ext_ and its server, such as " + list[0].Model + ":\n" + strings.Join(full, "\n")
}

// prefix is how names for models of a server's tools begin, as the registry makes them.
func prefix(server string) string {
	return "ext_" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, schemas.Slug(server)) + "_"
}

// textResult is a result of bobbin's own.
func textResult(text string) schemas.Result {
	raw, _ := json.Marshal(map[string]any{"content": []map[string]string{{"type": "text", "text": text}}}) // strings always marshal
	return schemas.Result{Raw: raw, Server: ownServer, Size: len(text)}
}
