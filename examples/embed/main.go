// Command embed is a chat program of its own that lets its members bring MCP servers. Its chat is standard input: each line is
// "thread member text", and "thread member !ID KEY" presses a choice.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"bobbin/bot"
	"bobbin/host"
	"bobbin/schemas"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, "./data", os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run chats until the input or ctx ends. This program starts nothing of its members' on its own machine.
func run(ctx context.Context, folder string, in io.Reader, out io.Writer) error {
	h, err := host.Open(ctx, host.Options{Data: folder, Sandbox: "off"})
	if err != nil {
		return err
	}
	return h.Run(ctx, func(ctx context.Context) error { return chat(ctx, h.Bot, in, out) })
}

// chat is the host program's own loop: whom its platform vouches for goes into Caller, and a reply is drawn its own way.
func chat(ctx context.Context, b *bot.Bot, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	for lines.Scan() && ctx.Err() == nil {
		parts := strings.SplitN(lines.Text(), " ", 3)
		if len(parts) < 3 {
			continue
		}
		r := bot.Request{Text: parts[2], Caller: schemas.Caller{Thread: schemas.ThreadID(parts[0]), Member: schemas.MemberID(parts[1]), Door: "embed", Role: schemas.Member}}
		if id, key, ok := strings.Cut(strings.TrimPrefix(parts[2], "!"), " "); ok && strings.HasPrefix(parts[2], "!") {
			r.Text, r.Action = "", &bot.Action{ID: id, Choice: key}
		}
		reply := b.Handle(ctx, r)
		for _, block := range reply.Blocks {
			if text := block.Text + block.Warning + block.Diff + block.Code; text != "" {
				_, _ = fmt.Fprintln(out, text)
			}
		}
		for _, c := range reply.Choices {
			_, _ = fmt.Fprintf(out, "!%s %s  %s\n", reply.ID, c.Key, c.Label)
		}
	}
	return lines.Err()
}
