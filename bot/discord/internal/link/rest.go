package link

import (
	"context"
	"log/slog"

	"github.com/bwmarrin/discordgo"

	"bobbin/bot/discord/internal/wire"
)

// Rest makes requests to Discord's API v10. It is safe for concurrent use. Every method obeys 429 answers within ctx, retries what can
// be sent twice without harm, and gives errors without tokens in them; see Error.
type Rest struct {
	session *discordgo.Session
	log     *slog.Logger
}

// Error is what Discord refused, with its JSON error code.
type Error struct {
	Status int    // HTTP status; 0 = no answer
	Code   int    // Discord's JSON error code, such as 10062; 0 = none
	Text   string // Discord's words, without tokens
}

func (e *Error) Error() string { return e.Text }

// Callback sends the first answer to an interaction.
func (r *Rest) Callback(ctx context.Context, i wire.Interaction, c wire.Callback) error {
	panic("stub")
}

// EditOriginal changes the first answer; it fills in a deferred one.
func (r *Rest) EditOriginal(ctx context.Context, i wire.Interaction, m wire.Outgoing) (wire.Sent, error) {
	panic("stub")
}

// DeleteOriginal takes the first answer back.
func (r *Rest) DeleteOriginal(ctx context.Context, i wire.Interaction) error { panic("stub") }

// Followup sends one more message of an interaction.
func (r *Rest) Followup(ctx context.Context, i wire.Interaction, m wire.Outgoing) (wire.Sent, error) {
	panic("stub")
}

// EditFollowup changes one.
func (r *Rest) EditFollowup(ctx context.Context, i wire.Interaction, id string, m wire.Outgoing) (wire.Sent, error) {
	panic("stub")
}

// Send posts a message as the bot. It sets a nonce, so that a retry never posts twice.
func (r *Rest) Send(ctx context.Context, channel string, m wire.Outgoing) (wire.Sent, error) {
	panic("stub")
}

// Edit changes a message of the bot.
func (r *Rest) Edit(ctx context.Context, channel, id string, m wire.Outgoing) error { panic("stub") }

// Typing shows that the bot is at work, for about ten seconds or until it posts.
func (r *Rest) Typing(ctx context.Context, channel string) error { panic("stub") }

// Channel asks for a channel or thread.
func (r *Rest) Channel(ctx context.Context, id string) (wire.Channel, error) { panic("stub") }

// Permissions computes what a member may do in a channel, for messages, whose events do not say it (Discord, Permission Overwrites).
// Guild roles, the member's roles and the channel's overwrites are asked for and kept for a minute.
func (r *Rest) Permissions(ctx context.Context, guild, channel, user string) (wire.Permission, error) {
	panic("stub")
}

// Messages gives up to 100 messages after an id, oldest first.
func (r *Rest) Messages(ctx context.Context, channel, after string) ([]wire.Message, error) {
	panic("stub")
}

// Register makes the commands the application's only global ones.
func (r *Rest) Register(ctx context.Context, app string, commands []wire.Command) error {
	panic("stub")
}

// Upsert adds or replaces one global command and leaves others alone.
func (r *Rest) Upsert(ctx context.Context, app string, command wire.Command) error { panic("stub") }

// Application asks who the bot is.
func (r *Rest) Application(ctx context.Context) (wire.Application, error) { panic("stub") }

// Download reads an attachment from Discord's CDN, at most limit bytes and one more, so that the caller sees that it is too large.
// Any other host is refused.
func (r *Rest) Download(ctx context.Context, url string, limit int64) ([]byte, error) { panic("stub") }
