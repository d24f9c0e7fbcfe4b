package bot

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"bobbin/bot/internal/line"
	"bobbin/bot/internal/view"
	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// Board is a thread's servers as data, for a page's column.
type Board struct {
	Thread   schemas.ThreadID
	Servers  []BoardServer // in load order
	Problems schemas.Problems
}

// BoardServer is one server with the tools that the caller may see.
type BoardServer struct {
	Status schemas.Status
	Mine   bool // the caller may change it
	// Connect says that the caller can sign in to it with "/mcp connect NAME", and did not yet.
	Connect bool
	Tools   []BoardTool
}

// BoardTool is a tool and what a call of it would meet: "runs", "asks", "denied", "blocked: shell", "held: changed".
type BoardTool struct {
	Tool schemas.Tool
	Mark string
}

// boardWait bounds how long a board waits for tools of servers that start.
const boardWait = 2 * time.Second

// Board gives the thread's servers with their states, and tools as far as they are known within 2 s.
func (b *Bot) Board(ctx context.Context, c schemas.Caller) (Board, error) {
	if !c.Thread.Valid() || !c.Member.Valid() {
		return Board{}, words.Invalid("this thread or member has no usable id", "")
	}
	cfg, err := b.opt.Config.Load(ctx, c.Thread)
	if err != nil {
		return Board{}, err
	}
	ss, err := b.opt.Tools.Status(ctx, c.Thread)
	if err != nil {
		return Board{}, err
	}
	ss = b.viewed(ctx, c, ss)
	board := Board{Thread: c.Thread, Problems: cfg.Problems}
	var ts []schemas.Tool
	if slices.ContainsFunc(ss, func(s schemas.Status) bool { return s.Tools > 0 }) {
		wait, cancel := context.WithTimeout(ctx, boardWait)
		defer cancel()
		if ts, err = b.opt.Tools.Tools(wait, c); err != nil {
			b.opt.Log.Warn("board without tools", "thread", c.Thread, "err", err)
		}
	}
	for _, s := range ss {
		if c.Role == schemas.Guest {
			s.Stderr = ""
		}
		e, ok := cfg.Find(s.Name)
		one := BoardServer{Status: s, Mine: ok && mayChange(c, e) == nil && c.Role > schemas.Guest,
			Connect: s.State == schemas.NeedsConnect && b.opt.SignIns != nil && c.Role > schemas.Guest}
		for _, x := range ts {
			if x.Server == s.Name && s.State != schemas.ShadowedState {
				one.Tools = append(one.Tools, BoardTool{Tool: x, Mark: view.Mark(cfg, c, x, b.opt.Now())})
			}
		}
		board.Servers = append(board.Servers, one)
	}
	return board, nil
}

// Complete gives whole lines that the typed one may go on to: verbs, then server and tool names as the verb takes them. It
// waits 1 s at most and starts nothing that was not approved.
func (b *Bot) Complete(ctx context.Context, c schemas.Caller, line string) []string {
	if len(line) > 200 || !c.Thread.Valid() {
		return nil
	}
	if strings.HasPrefix("/mcp ", line) && line != "/mcp " {
		return []string{"/mcp "}
	}
	rest, ok := strings.CutPrefix(line, "/mcp ")
	if !ok {
		return b.completeChat(ctx, c, line)
	}
	cut := strings.LastIndexByte(rest, ' ') + 1
	head, last := rest[:cut], rest[cut:]
	var found []string
	for _, w := range b.candidates(ctx, c, strings.Fields(head)) {
		if strings.HasPrefix(w, last) && !slices.Contains(found, "/mcp "+head+w) {
			found = append(found, "/mcp "+head+w)
		}
	}
	slices.Sort(found)
	return found
}

// completeChat is Complete for /chat.
func (b *Bot) completeChat(ctx context.Context, c schemas.Caller, line string) (found []string) {
	if strings.HasPrefix("/chat ", line) && len(line) > 1 && line != "/chat " {
		return []string{"/chat "}
	}
	rest, ok := strings.CutPrefix(line, "/chat ")
	if !ok {
		return nil
	}
	typed, last, after := strings.Cut(rest, " ")
	for _, v := range b.ChatVerbs() {
		switch {
		case c.Role < v.Role:
		case !after && strings.HasPrefix(v.Name, typed):
			found = append(found, "/chat "+v.Name)
		case after && v.Name == typed && len(v.Args) > 0:
			options := v.Args[0].Options
			if v.Args[0].Kind == "model" {
				options = b.modelNames(ctx, c.Thread)
			}
			for _, w := range options {
				if strings.HasPrefix(w, last) {
					found = append(found, "/chat "+typed+" "+w)
				}
			}
		}
	}
	return found
}

// candidates are the words that may follow those typed already.
func (b *Bot) candidates(ctx context.Context, c schemas.Caller, before []string) []string {
	var all []string
	for _, v := range b.lines.MCP {
		ws := strings.Fields(v.Name)
		if c.Role < v.Role || len(before) >= len(ws) || !slices.Equal(ws[:len(before)], before) {
			continue
		}
		all = append(all, ws[len(before)])
	}
	v, given := b.lines.Find(before)
	if v == nil || len(before) == 0 || c.Role < v.Role {
		return all
	}
	if v.Name == "help" && len(given) == 0 {
		return append(slices.Sorted(maps.Keys(line.Topics())), "verbs")
	}
	if len(given) >= len(v.Args) {
		return all
	}
	a := v.Args[len(given)]
	return append(append(all, a.Options...), b.known(ctx, c, a.Kind)...)
}

// known is the names of a kind of argument.
func (b *Bot) known(ctx context.Context, c schemas.Caller, kind string) []string {
	wait, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	switch kind {
	case "server":
		cfg, err := b.opt.Config.Load(wait, c.Thread)
		if err != nil {
			return nil
		}
		return names(cfg)
	case "admin":
		return b.attachable(wait, c)
	case "tool":
		ss, err := b.opt.Tools.Status(wait, c.Thread)
		if err != nil || !slices.ContainsFunc(ss, func(s schemas.Status) bool { return s.Tools > 0 }) {
			return nil
		}
		ts, err := b.opt.Tools.Tools(wait, c)
		if err != nil {
			return nil
		}
		return view.Fulls(ts)
	}
	return nil
}
