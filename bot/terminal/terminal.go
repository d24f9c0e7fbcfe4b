// Package terminal is the door of `bobbin chat`: one line is one message or command, a form asks one field a line, choices are a
// numbered list that is answered by number or label. The same loop serves a person at a screen and a script on a pipe.
package terminal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"bobbin/bot"
	"bobbin/schemas"
)

// handler is the bot. Handle is called from one goroutine, one request at a time.
type handler interface {
	Handle(context.Context, bot.Request) bot.Reply
	Welcome(context.Context, schemas.Caller) bot.Reply
	Complete(context.Context, schemas.Caller, string) []string
}

// noticer tells what happens by itself in the thread.
type noticer interface {
	Subscribe(schemas.ThreadID, schemas.MemberID) (<-chan bot.Notice, func())
}

// lines is where a person's lines come from. ReadLine returns io.EOF at the end, errInterrupt at Ctrl-C; more is true while a paste goes on.
type lines interface {
	ReadLine(prompt string, secret bool) (line string, more bool, err error)
}

// Options of a Door. Bot, Notices, Caller, In and Out are required.
type Options struct {
	Bot     handler
	Notices noticer
	Caller  schemas.Caller
	In      io.Reader
	Out     io.Writer
	Color   bool
	Width   int  // columns to keep within; 0 = no limit
	Echo    bool // the input does not show by itself (a pipe): prompts end their line
	// Stop, if set, ends the request that is under way, and nothing else: Ctrl-C at a screen.
	Stop <-chan os.Signal
}

// Door is one conversation at a terminal or on a pipe.
type Door struct {
	opt  Options
	in   lines
	draw *drawing
	next string        // a command that was typed in place of an answer, and comes next
	stop chan struct{} // room for one: Ctrl-C at a question ends what asked it, too

	mu      sync.Mutex     // guards pending, busy, asking, live and out
	pending *bot.Reply     // the newest reply that waits for a choice
	busy    bool           // a request is under way
	asking  string         // the question whose answer is read; "" once it is settled by itself
	files   []bot.Block    // what the last reply with files brought
	live    *live          // the answer that is being drawn; nil: none
	asks    chan bot.Reply // questions that come in the middle of one
}

// New returns a Door; it panics on a missing dependency.
func New(opt Options) *Door {
	if opt.Bot == nil || opt.Notices == nil || opt.In == nil || opt.Out == nil {
		panic("terminal: Bot, Notices, In and Out are required")
	}
	return &Door{opt: opt, asks: make(chan bot.Reply, 8), stop: make(chan struct{}, 1), draw: &drawing{color: opt.Color, width: opt.Width, me: opt.Caller.Member}}
}

// Run talks until the input ends, /quit, or ctx ends; it is called once. It returns nil at the end of the input and of ctx.
// A read of the input that is under way when ctx ends cannot be interrupted: it is left behind and its line is lost.
func (d *Door) Run(ctx context.Context) error {
	d.in, d.opt.Out = newLines(ctx.Done(), d.opt, func(line string) []string { return d.opt.Bot.Complete(ctx, d.opt.Caller, line) })
	d.show(d.opt.Bot.Welcome(ctx, d.opt.Caller))
	notices, stop := d.opt.Notices.Subscribe(d.opt.Caller.Thread, d.opt.Caller.Member)
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := range notices {
			streams := n.Door != "" && (n.Door == d.opt.Caller.Door || n.Reply.Replace == "") // somebody else's answer is shown when it is whole
			if !streams && (len(n.Reply.Blocks) > 0 || n.Reply.Form != nil) {
				d.hear(n)
			}
		}
	})
	defer wg.Wait()
	defer stop()
	for ctx.Err() == nil {
		line, err := d.message()
		if errors.Is(err, io.EOF) || errors.Is(err, errInterrupt) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the input: %w", err)
		}
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if line == "/quit" || line == "/exit" {
			return nil
		}
		d.turn(ctx, line)
	}
	return nil
}

// message reads one line, or a whole paste or JSON text that a person typed over several lines. What Ctrl-C leaves is no message.
func (d *Door) message() (string, error) {
	text, more, err := d.next, false, error(nil)
	if d.next = ""; text == "" {
		text, more, err = d.in.ReadLine("> ", false)
	}
	prompt := "… "
	if d.opt.Echo {
		prompt = "> " // is not written, and the line not repeated: there may be secrets in it
	}
	for err == nil && (more || open(text)) && len(text) < 1<<20 {
		var next string
		next, more, err = d.in.ReadLine(prompt, false)
		switch {
		case err != nil:
			continue
		case d.opt.Echo && !continues(next): // a script goes on after a text that was never closed
			d.next = next
			return text, nil
		case next == "" && !more && !d.opt.Echo:
			return text, nil
		}
		text += "\n" + next
	}
	if errors.Is(err, errLeft) || text != "" && errors.Is(err, errInterrupt) {
		return "", nil
	}
	if text != "" && errors.Is(err, io.EOF) {
		err = nil
	}
	return text, err
}

// continues reports whether a line of a script can be the next one of a JSON text or of what encloses it, and is no command or answer.
func continues(line string) bool {
	trimmed := strings.TrimSpace(line)
	return trimmed == "" || line[0] == ' ' || line[0] == '\t' || strings.ContainsRune("{}[]\",`", rune(line[0])) || strings.HasPrefix(line, "//")
}

// open reports whether text is a JSON text whose braces are not closed yet, or a fence around one that is not.
func open(text string) bool {
	if strings.HasPrefix(text, "```") {
		return !strings.Contains(text[3:], "```")
	}
	start := strings.IndexByte(text, '{')
	if start < 0 || (start > 0 && !strings.HasPrefix(text, "/mcp ")) {
		return false
	}
	depth, inString := 0, false
	for i := start; i < len(text); i++ {
		switch c := text[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case !inString && c == '{':
			depth++
		case !inString && c == '}':
			depth--
		}
	}
	return depth > 0
}

// turn handles one line to its end, forms included.
func (d *Door) turn(ctx context.Context, line string) {
	req, after, ok := d.request(line)
	if !ok {
		return
	}
	for {
		req.Caller = d.opt.Caller
		req.Progress = func(s string) { d.print(d.draw.dim(clean(s)) + "\n") }
		reply := d.handle(ctx, req)
		if after != nil {
			after(&reply)
			after = nil
		}
		if reply.Bad && d.opt.Echo { // on a pipe, what follows a refused form is not its answer
			reply.Form = nil
		}
		d.show(reply)
		if reply.Form == nil {
			return
		}
		if reply.Bad && req.Action != nil {
			reply.Form.Fields = filled(reply.Form.Fields, req.Action.Values)
		}
		values, err := d.fill(*reply.Form)
		if err != nil {
			d.print("left as it was; nothing was sent\n")
			return
		}
		req = bot.Request{Action: &bot.Action{ID: reply.ID, Values: values}}
	}
}

// hear draws a notice. One that asks this person while a request is under way waits for an answer in the middle of it.
func (d *Door) hear(n bot.Notice) {
	d.mu.Lock()
	asks := d.busy && n.To != "" && (n.Reply.Form != nil || len(n.Reply.Choices) > 0)
	d.mu.Unlock()
	if asks {
		select {
		case d.asks <- n.Reply:
			return
		default:
		}
	}
	d.show(n.Reply)
}

// handle lets the bot answer, and this person what it asks meanwhile; Stop ends it early.
func (d *Door) handle(ctx context.Context, req bot.Request) bot.Reply {
	var l *live
	if !d.opt.Echo {
		l = &live{d: d}
		req.Stream = l.stream
	}
	d.forget()
	d.begin(true, l)
	defer d.end()
	replies := make(chan bot.Reply, 1)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { replies <- d.let(ctx, req) })
	for {
		select {
		case r := <-replies:
			return l.finish(r)
		case q := <-d.asks:
			l.hold(true)
			d.question(ctx, q)
			l.hold(false)
		}
	}
}

// forget drops what was pressed when there was nothing to stop any more.
func (d *Door) forget() {
	for {
		select {
		case <-d.opt.Stop:
		case <-d.stop:
		default:
			return
		}
	}
}

func (d *Door) begin(busy bool, l *live) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.busy, d.live = busy, l
}

// end shows what was asked too late to be answered in the middle of the request.
func (d *Door) end() {
	d.begin(false, nil)
	for {
		select {
		case q := <-d.asks:
			d.show(q)
		default:
			return
		}
	}
}

// request reads a line as an answer to the open choices, a command with a file, or plain text.
func (d *Door) request(line string) (req bot.Request, after func(*bot.Reply), ok bool) {
	if a := d.answer(line); a != nil {
		return bot.Request{Action: a}, nil, true
	}
	words := strings.Fields(line)
	if words[0] == "/save" {
		d.keep(line)
		return bot.Request{}, nil, false
	}
	if len(words) >= 2 && words[0] == "/mcp" {
		switch words[1] {
		case "upload":
			return d.upload(line)
		case "download":
			return d.download(words)
		}
	}
	if strings.HasPrefix(line, "/") {
		return bot.Request{Text: line}, nil, true
	}
	files, ok := d.attached(line)
	return bot.Request{Text: line, Files: files}, nil, ok
}

// command reports whether a line is one of ours, whatever was asked for.
func command(line string) bool {
	first, _, _ := strings.Cut(line, " ")
	return slices.Contains([]string{"/mcp", "/chat", "/help", "/save", "/quit", "/exit"}, first) && !strings.Contains(line, "\n")
}

// show draws a reply and keeps its choices open.
func (d *Door) show(r bot.Reply) {
	text := d.draw.reply(r)
	d.mu.Lock()
	defer d.mu.Unlock()
	if files := slices.DeleteFunc(slices.Clone(r.Blocks), func(b bot.Block) bool { return b.File == nil }); len(files) > 0 {
		d.files = files
	}
	switch {
	case len(r.Choices) > 0:
		d.pending = &r
	case d.pending != nil && r.Replace == d.pending.ID:
		d.pending = nil
	}
	if r.Replace != "" && r.Replace == d.asking { // the line that is read has nothing to answer any more
		d.asking = ""
		text += d.draw.dim("press Enter to go on") + "\n"
	}
	d.write(text)
}

func (d *Door) print(s string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.write(s)
}

// write writes whole lines, below a line of an answer that is open. The caller holds mu.
func (d *Door) write(s string) {
	if d.live != nil && s != "" {
		d.live.end()
	}
	_, _ = io.WriteString(d.opt.Out, s)
}
