package discord

import (
	"cmp"

	"bobbin/bot/discord/internal/wire"
	"bobbin/schemas"
)

// caller is who interacts, from Discord's own payload: it resolves a member's permissions for the channel, anew each time.
func (d *Door) caller(i wire.Interaction) schemas.Caller {
	c := schemas.Caller{Thread: schemas.ThreadID(i.ChannelID), Door: schemas.DoorDiscord}
	author := i.Author()
	if author == nil {
		return c
	}
	c.Member, c.Name = schemas.MemberID(author.ID), memberName(i.Member, *author)
	if i.Member == nil {
		if i.Direct() { // it has nobody else in it
			c.Role = schemas.Owner
		}
		return c
	}
	var ch wire.Channel
	if i.Channel != nil {
		ch = *i.Channel
	}
	if known, ok := d.known.find(i.ChannelID); ok && ch.OwnerID == "" { // a partial channel may not say who made it
		ch.OwnerID, ch.Type = known.OwnerID, known.Type
	}
	var may wire.Permission
	if bits, ok := i.Member.Bits(); ok {
		may = bits
	}
	c.Role = roleOf(ch.IsThread() && ch.OwnerID == author.ID, ch.IsThread(), may)
	return c
}

// roleOf is what somebody may do in a thread or channel.
func roleOf(made, thread bool, may wire.Permission) schemas.Role {
	has := func(p wire.Permission) bool { return may&(wire.Administrator|p) != 0 }
	send := wire.SendMessages
	if thread {
		send = wire.SendMessagesInThreads
	}
	switch {
	case made && has(send):
		return schemas.Owner
	case has(wire.ManageThreads), !thread && has(wire.ManageChannels):
		return schemas.Manager
	case has(send):
		return schemas.Member
	}
	return schemas.Guest
}

// memberName is what people call somebody here.
func memberName(m *wire.Member, u wire.User) string {
	name := u.Name()
	if m != nil && m.Nick != "" {
		name = m.Nick
	}
	name = schemas.Clean(name, true)
	if r := []rune(name); len(r) > 64 {
		name = string(r[:64])
	}
	return cmp.Or(name, u.ID)
}
