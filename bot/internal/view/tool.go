package view

import (
	"strings"
	"time"

	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// Fulls is the full names of tools.
func Fulls(ts []schemas.Tool) []string {
	all := make([]string, len(ts))
	for i, x := range ts {
		all[i] = x.Full()
	}
	return all
}

// Mark says in a word or two what a call of the tool would meet.
func Mark(cfg schemas.Config, c schemas.Caller, x schemas.Tool, now time.Time) string {
	if x.Held != "" {
		return "held: " + x.Held
	}
	d := cfg.Policy.Decide(x, c.Member, now)
	switch {
	case d.Verb == schemas.Deny && x.Risk != "" && d.Rule == "":
		return "blocked: " + x.Risk
	case d.Verb == schemas.Deny:
		return "denied"
	case d.Verb == schemas.AskVerb:
		return "asks"
	}
	return "runs"
}

// OneTool shows a tool whole.
func OneTool(cfg schemas.Config, c schemas.Caller, x schemas.Tool, now time.Time) Reply {
	d := cfg.Policy.Decide(x, c.Member, now)
	why := Mark(cfg, c, x, now)
	if d.Why != "" {
		why += " · " + d.Why
	}
	facts := []Fact{{Label: "call", Value: why}, {Label: "for models", Value: words.Clean(x.Model)}, {Label: "cost", Value: words.About(x.Tokens) + " tokens"}}
	r := Reply{Blocks: []Block{{Text: words.Clean(x.Full())}, {Facts: facts}}}
	if x.Description != "" {
		r.Blocks = append(r.Blocks, Block{Code: words.Lines(x.Description)})
	}
	return With(r, Block{Code: words.Lines(Indent(x.Input))})
}

// maxFirst is how many tools stand on a card by name.
const maxFirst = 8

// Names names the first tools of a server.
func Names(ts []schemas.Tool) string {
	var ns []string
	for _, x := range ts[:min(len(ts), maxFirst)] {
		ns = append(ns, words.Short(words.Clean(x.Name), 40))
	}
	if more := len(ts) - maxFirst; more > 0 {
		ns = append(ns, "and "+words.Thousands(more)+" more")
	}
	return strings.Join(ns, ", ")
}

// HeldHead says that tools of a server are held.
func HeldHead(server string, tools []schemas.HeldTool) string {
	return words.Count(len(tools), "tool of ", "tools of ") + words.Clean(server) + " changed after approval, so " +
		map[bool]string{true: "it is held", false: "they are held"}[len(tools) == 1]
}

// HeldBlocks shows what changed, with the names and pins of what is shown.
func HeldBlocks(tools []schemas.HeldTool) (blocks []Block, names, pins []string) {
	for _, h := range tools {
		names, pins = append(names, h.Tool.Name), append(pins, h.Tool.Pin)
		blocks = append(blocks, Block{Text: words.Clean(h.Tool.Full()) + " · " + words.Clean(h.Why)}, Block{Diff: words.Diff(h.Diff)})
	}
	return blocks, names, pins
}

// PromptList lists the servers' prompts.
func PromptList(ps []schemas.Prompt) Reply {
	if len(ps) == 0 {
		return Reply{Blocks: []Block{{Text: "no server here offers prompts"}}}
	}
	tab := &Table{Columns: []string{"prompt", "what it is for", "asks for"}}
	for _, p := range ps {
		var args []string
		for _, a := range p.Arguments {
			args = append(args, words.Clean(a.Name))
		}
		tab.Rows = append(tab.Rows, Row{Cells: []string{words.Clean(p.Server + "." + p.Name), words.FirstLine(p.Description, 90), strings.Join(args, ", ")}})
	}
	return Reply{Blocks: []Block{{Text: words.Count(len(ps), "prompt", "prompts") + "; `/mcp prompt server.prompt` fills one in"}, {Table: tab}}}
}
