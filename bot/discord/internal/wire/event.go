package wire

import "time"

// Channel is a channel, thread or direct message; the partial one of an interaction lacks fields.
type Channel struct {
	ID            string          `json:"id"`
	Type          int             `json:"type"`
	GuildID       string          `json:"guild_id"`
	ParentID      string          `json:"parent_id"`
	OwnerID       string          `json:"owner_id"` // of a thread: who made it
	Name          string          `json:"name"`
	LastMessageID string          `json:"last_message_id"`
	Thread        *ThreadMetadata `json:"thread_metadata"`
}

// ThreadMetadata is what only threads have.
type ThreadMetadata struct {
	Archived bool `json:"archived"`
	Locked   bool `json:"locked"`
}

// Kinds of channels.
const (
	DirectMessage      = 1
	AnnouncementThread = 10
	PublicThread       = 11
	PrivateThread      = 12
)

// IsThread reports whether the channel is a thread or a post of a forum.
func (c Channel) IsThread() bool { return c.Type >= AnnouncementThread && c.Type <= PrivateThread }

// Message is a message as Discord sends it; content and attachments are empty without the message-content intent, unless it is
// a direct message, mentions the bot, or is the bot's own.
type Message struct {
	ID          string       `json:"id"`
	ChannelID   string       `json:"channel_id"`
	GuildID     string       `json:"guild_id"`
	Author      User         `json:"author"`
	Member      *Member      `json:"member"` // without user and, in events, without permissions
	WebhookID   string       `json:"webhook_id"`
	Content     string       `json:"content"`
	Timestamp   time.Time    `json:"timestamp"`
	Type        int          `json:"type"`
	Flags       int          `json:"flags"`
	Mentions    []User       `json:"mentions"`
	Attachments []Attachment `json:"attachments"`
	Referenced  *struct {
		Author User `json:"author"`
	} `json:"referenced_message"`
}

// Guild is the part of GUILD_CREATE and GUILD_DELETE that the door reads.
type Guild struct {
	ID          string    `json:"id"`
	Unavailable bool      `json:"unavailable"`
	Channels    []Channel `json:"channels"`
	Threads     []Channel `json:"threads"` // active ones
}

// Application is the bot's own.
type Application struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Bot  *User  `json:"bot"`
}

// Snowflake is the id of the moment t: greater than every id made before it (Discord, Snowflake ID Format).
func Snowflake(t time.Time) uint64 {
	ms := t.UnixMilli() - 1420070400000
	if ms < 0 {
		return 0
	}
	return uint64(ms) << 22
}
