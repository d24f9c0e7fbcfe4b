// Package wire is what Discord's API v10 sends and takes, as far as the door uses it. It decodes by hand what discordgo v0.29.0
// cannot: a type that it does not know never costs the rest of an event.
package wire

import (
	"encoding/json"
	"strconv"
)

// InteractionType tells what a member did (Discord, Interaction Type).
type InteractionType int

// The interaction types that the door answers.
const (
	Pinged    InteractionType = 1
	Commanded InteractionType = 2
	Pressed   InteractionType = 3 // a button or a select menu
	Typing    InteractionType = 4 // wants an autocompletion
	Submitted InteractionType = 5 // a modal
)

// Interaction is one INTERACTION_CREATE. Its token is a secret for 15 minutes.
type Interaction struct {
	ID             string          `json:"id"`
	ApplicationID  string          `json:"application_id"`
	Type           InteractionType `json:"type"`
	Token          string          `json:"token"`
	GuildID        string          `json:"guild_id"`
	ChannelID      string          `json:"channel_id"`
	Channel        *Channel        `json:"channel"` // partial
	Member         *Member         `json:"member"`  // in a guild
	User           *User           `json:"user"`    // in a direct message
	Message        *Message        `json:"message"` // the one a component is on
	Locale         string          `json:"locale"`
	Context        *int            `json:"context"`
	AttachmentSize int             `json:"attachment_size_limit"` // bytes
	Data           InteractionData `json:"data"`
}

// Author is who did it, nil in a payload that lacks both.
func (i Interaction) Author() *User {
	if i.Member != nil {
		return i.Member.User
	}
	return i.User
}

// Direct reports whether it came from the direct messages between a user and the bot, and not from a group's.
func (i Interaction) Direct() bool {
	return i.GuildID == "" && (i.Channel == nil || i.Channel.Type == DirectMessage) && (i.Context == nil || *i.Context == 1)
}

// InteractionData holds what belongs to each type.
type InteractionData struct {
	Name     string   `json:"name"`
	Options  []Option `json:"options"`
	Resolved struct {
		Attachments map[string]Attachment `json:"attachments"`
	} `json:"resolved"`
	CustomID   string          `json:"custom_id"`
	Values     []string        `json:"values"`
	Components json.RawMessage `json:"components"` // of a modal; see Fields
}

// Option is one given option of a command; a group or subcommand has options of its own.
type Option struct {
	Name    string          `json:"name"`
	Type    int             `json:"type"`
	Value   json.RawMessage `json:"value"`
	Focused bool            `json:"focused"`
	Options []Option        `json:"options"`
}

// Text is the value as a member would type it.
func (o Option) Text() string {
	var s string
	if json.Unmarshal(o.Value, &s) == nil {
		return s
	}
	return string(o.Value)
}

// Fields gives the values of a modal by custom id, whatever the components are wrapped in (Label, action row, or something
// newer). A text input gives one value, a select any number, a file upload ids of Resolved.Attachments.
func (d InteractionData) Fields() map[string][]string {
	found := map[string][]string{}
	var walk func(raw json.RawMessage, depth int)
	walk = func(raw json.RawMessage, depth int) {
		var many []json.RawMessage
		if depth > 8 {
			return
		}
		if json.Unmarshal(raw, &many) == nil {
			for _, one := range many {
				walk(one, depth+1)
			}
			return
		}
		var c struct {
			CustomID   string          `json:"custom_id"`
			Value      json.RawMessage `json:"value"`
			Values     []string        `json:"values"`
			Component  json.RawMessage `json:"component"`
			Components json.RawMessage `json:"components"`
		}
		if json.Unmarshal(raw, &c) != nil {
			return
		}
		switch {
		case c.CustomID == "":
		case len(c.Value) > 0 && string(c.Value) != "null":
			found[c.CustomID] = []string{Option{Value: c.Value}.Text()}
		default:
			found[c.CustomID] = c.Values
		}
		for _, inner := range []json.RawMessage{c.Component, c.Components} {
			if len(inner) > 0 {
				walk(inner, depth+1)
			}
		}
	}
	walk(d.Components, 0)
	return found
}

// User is a Discord account.
type User struct {
	ID         string `json:"id"`
	Username   string `json:"username"`
	GlobalName string `json:"global_name"`
	Bot        bool   `json:"bot"`
}

// Name is what people see.
func (u User) Name() string {
	if u.GlobalName != "" {
		return u.GlobalName
	}
	return u.Username
}

// Member is a user in a guild.
type Member struct {
	User        *User  `json:"user"`
	Nick        string `json:"nick"`
	Permissions string `json:"permissions"` // resolved for the channel; a number in a string
}

// Bits are the member's permissions as a set; false when the payload has none.
func (m Member) Bits() (Permission, bool) {
	bits, err := strconv.ParseUint(m.Permissions, 10, 64)
	return Permission(bits), err == nil
}

// Permission is a set of Discord's permission bits.
type Permission uint64

// The permissions that the door looks at or asks for.
const (
	Administrator         Permission = 1 << 3
	ManageChannels        Permission = 1 << 4
	ViewChannel           Permission = 1 << 10
	SendMessages          Permission = 1 << 11
	AttachFiles           Permission = 1 << 15
	ReadMessageHistory    Permission = 1 << 16
	ManageThreads         Permission = 1 << 34
	SendMessagesInThreads Permission = 1 << 38
)

// Attachment is a file of a message or an option. Its type and name are what the member says, its URL is signed and expires.
type Attachment struct {
	ID          string `json:"id"`
	Filename    string `json:"filename"`
	Size        int    `json:"size"`
	URL         string `json:"url"`
	ContentType string `json:"content_type"`
}
