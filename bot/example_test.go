package bot_test

import (
	"context"
	"fmt"

	"bobbin/bot"
	"bobbin/schemas"
)

// chatProgram stands for a bot that exists already. It knows who speaks where, and can send text.
type chatProgram struct {
	mcp  *bot.Bot
	send func(to schemas.MemberID, text string)
}

// onMessage is the program's own hook. Identity comes from the platform's event, never from the text.
func (p *chatProgram) onMessage(ctx context.Context, thread schemas.ThreadID, who schemas.MemberID, text string) {
	p.draw(who, p.mcp.Handle(ctx, bot.Request{Text: text, Caller: schemas.Caller{Thread: thread, Member: who, Door: "irc", Role: schemas.Member}}))
}

// onButton is called when a member presses what draw showed: the reply's ID and the choice's key come back.
func (p *chatProgram) onButton(ctx context.Context, thread schemas.ThreadID, who schemas.MemberID, id, key string) {
	p.draw(who, p.mcp.Handle(ctx, bot.Request{Action: &bot.Action{ID: id, Choice: key}, Caller: schemas.Caller{Thread: thread, Member: who, Door: "irc", Role: schemas.Member}}))
}

// draw turns a reply into the program's own messages; a program with buttons and tables draws those.
func (p *chatProgram) draw(who schemas.MemberID, r bot.Reply) {
	for _, block := range r.Blocks {
		if block.Text != "" {
			p.send(who, block.Text)
		}
	}
}

// A program that talks already gets bobbin by passing on messages and presses, and by drawing replies.
func Example() {
	w := &world{vault: map[schemas.SecretKey]schemas.Secret{}, failWith: map[string]error{}}
	program := &chatProgram{send: func(_ schemas.MemberID, text string) { fmt.Println(text) }}
	// In a real program the dependencies are a mcpstore.Store, a registry.Registry, a vault.Vault and an audit.Log.
	program.mcp = bot.New(bot.Options{Config: w, Past: w, Rules: w, Tools: w, Live: w, Held: w, Resources: w, Prompts: w, Secrets: w, Forget: w, Drop: w,
		Journal: w, Import: fakeImport, Place: func(schemas.ThreadID) schemas.Place { return schemas.Place{Available: true} }})
	program.onMessage(context.Background(), "T1", "alice", "/mcp list")
	program.onButton(context.Background(), "T1", "alice", "an-old-card", "confirm")
	// Output:
	// No MCP servers configured
	// Paste a config with `/mcp add-json {…}`, give me a file with `/mcp upload PATH`, answer questions with `/mcp add`, or `/mcp connect` a remote one.
	// this card is no longer open: it was answered, or its time is over · run the command again, or see `/mcp list`
}
