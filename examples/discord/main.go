// Command discord is a Discord bot of its own, with a command of its own, that lets its members bring MCP servers with /mcp.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/bwmarrin/discordgo"

	"bobbin/bot/discord"
	"bobbin/host"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	session, err := discordgo.New("Bot " + os.Getenv("DISCORD_TOKEN"))
	if err == nil {
		err = run(ctx, "./data", session, discord.Options{})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run is the bot until ctx ends. This program starts nothing of its members' on its own machine.
func run(ctx context.Context, folder string, session *discordgo.Session, opt discord.Options) error {
	h, err := host.Open(ctx, host.Options{Data: folder, Sandbox: "off"})
	if err != nil {
		return err
	}
	opt.Bot, opt.Threads = h.Bot, h.Store.Stored
	door, err := discord.Attach(session, opt)
	if err != nil {
		return err
	}
	session.AddHandler(ping)
	if err := session.Open(); err != nil {
		return err
	}
	defer func() { _ = session.Close() }()
	own := &discordgo.ApplicationCommand{Name: "ping", Description: "Say pong"}
	if _, err := session.ApplicationCommandCreate(session.State.User.ID, "", own); err != nil {
		return err
	}
	return h.Run(ctx, door.Run)
}

// ping is the bot's own command. It looks at the type first: modals and buttons come here, too.
func ping(s *discordgo.Session, i *discordgo.InteractionCreate) {
	if i.Type != discordgo.InteractionApplicationCommand || i.ApplicationCommandData().Name != "ping" {
		return
	}
	answer := &discordgo.InteractionResponseData{Content: "pong", AllowedMentions: &discordgo.MessageAllowedMentions{Parse: []discordgo.AllowedMentionType{}}}
	if err := s.InteractionRespond(i.Interaction, &discordgo.InteractionResponse{Type: discordgo.InteractionResponseChannelMessageWithSource, Data: answer}); err != nil {
		fmt.Fprintln(os.Stderr, "ping:", err)
	}
}
