// Command embed is a chat program of its own that lets its members bring MCP servers. Its chat is standard input: each line is
// "thread member text", and "thread member !ID KEY" presses a choice.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"

	"bobbin/audit"
	"bobbin/bot"
	"bobbin/internal/durable"
	"bobbin/internal/safehttp"
	"bobbin/mcpstore"
	"bobbin/registry"
	"bobbin/sandbox"
	"bobbin/schemas"
	"bobbin/vault"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, "./data", os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// asker breaks the circle between the registry, which asks and tells, and the bot, which is made after it.
type asker struct{ bot *bot.Bot }

func (a *asker) Ask(ctx context.Context, q schemas.Ask) (schemas.Answer, error) {
	return a.bot.Ask(ctx, q)
}

func (a *asker) Held(ctx context.Context, thread schemas.ThreadID, server string, tools []schemas.HeldTool) {
	a.bot.Held(ctx, thread, server, tools)
}

// run wires the rooms, runs what must run beside the bot, and chats until the input or ctx ends.
func run(ctx context.Context, folder string, in io.Reader, out io.Writer) error {
	data, err := durable.Open(folder)
	if err != nil {
		return err
	}
	users, err1 := data.Sub("users")
	sealed, err2 := data.Sub("vault")
	cache, err3 := data.Sub("cache")
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	store, err1 := mcpstore.Open(users, mcpstore.Options{})
	journal, err2 := audit.Open(users, audit.Options{})
	secrets, err3 := vault.Open(sealed)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	programs := sandbox.NewOff("this program starts no local servers", "add a remote one with /mcp connect")
	web, gate := safehttp.New(safehttp.Options{}), &asker{}
	live, err := registry.New(registry.Options{Wishes: store, Launcher: programs, Secrets: secrets, Journal: journal, Gate: gate, Tell: gate,
		Cache: cache, HTTP: func(schemas.Server) *http.Client { return web }})
	if err != nil {
		return err
	}
	gate.bot = bot.New(bot.Options{Config: store, Past: store, Rules: store, Tools: live, Live: live, Held: live, Resources: live, Prompts: live,
		Secrets: secrets, Forget: secrets, Journal: journal, Import: mcpstore.Import, Place: func(schemas.Door) schemas.Place { return programs.Place() }})

	ctx, cancel := context.WithCancel(ctx)
	var beside sync.WaitGroup
	defer beside.Wait()
	defer cancel()
	for _, part := range []func(context.Context) error{journal.Run, live.Run, gate.bot.Run, func(ctx context.Context) error { return store.Run(ctx, gate.bot.Edited) }} {
		beside.Go(func() {
			if err := part(ctx); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		})
	}
	return chat(ctx, gate.bot, in, out)
}

// chat is the host program's own loop.
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
				fmt.Fprintln(out, text)
			}
		}
		for _, c := range reply.Choices {
			fmt.Fprintf(out, "!%s %s  %s\n", reply.ID, c.Key, c.Label)
		}
	}
	return lines.Err()
}
