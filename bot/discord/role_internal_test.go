package discord

import (
	"strconv"
	"testing"

	"bobbin/bot/discord/internal/wire"
	"bobbin/schemas"
)

func TestCaller_RoleIsWhatDiscordSaysNow(t *testing.T) {
	const send, inThread = wire.SendMessages, wire.SendMessagesInThreads
	thread := &wire.Channel{ID: "5", Type: wire.PublicThread, OwnerID: "1"}
	one, two := 1, 2
	for name, c := range map[string]struct {
		i    wire.Interaction
		may  wire.Permission
		want schemas.Role
	}{
		"made the thread":              {wire.Interaction{GuildID: "9", Channel: thread}, inThread, schemas.Owner},
		"made it, may no longer write": {wire.Interaction{GuildID: "9", Channel: thread}, send, schemas.Guest},
		"manages threads":              {wire.Interaction{GuildID: "9", Channel: &wire.Channel{Type: wire.PublicThread, OwnerID: "7"}}, wire.ManageThreads, schemas.Manager},
		"is an administrator":          {wire.Interaction{GuildID: "9", Channel: &wire.Channel{Type: wire.PublicThread, OwnerID: "7"}}, wire.Administrator, schemas.Manager},
		"manages channels, in one":     {wire.Interaction{GuildID: "9", Channel: &wire.Channel{}}, wire.ManageChannels, schemas.Manager},
		"manages channels, in thread":  {wire.Interaction{GuildID: "9", Channel: &wire.Channel{Type: wire.PublicThread}}, wire.ManageChannels, schemas.Guest},
		"may write in threads":         {wire.Interaction{GuildID: "9", Channel: &wire.Channel{Type: wire.PublicThread}}, inThread, schemas.Member},
		"may write, not in threads":    {wire.Interaction{GuildID: "9", Channel: &wire.Channel{Type: wire.PublicThread}}, send, schemas.Guest},
		"may write in a channel":       {wire.Interaction{GuildID: "9", Channel: &wire.Channel{}}, send, schemas.Member},
		"may look":                     {wire.Interaction{GuildID: "9", Channel: &wire.Channel{}}, wire.ViewChannel, schemas.Guest},
		"a direct message":             {wire.Interaction{Channel: &wire.Channel{Type: wire.DirectMessage}, Context: &one}, 0, schemas.Owner},
		"a group":                      {wire.Interaction{Channel: &wire.Channel{Type: 3}, Context: &two}, 0, schemas.Guest},
		"a guild, without a member":    {wire.Interaction{GuildID: "9", Channel: &wire.Channel{Type: wire.PublicThread, OwnerID: "1"}}, 0, schemas.Guest},
	} {
		i, u := c.i, &wire.User{ID: "1", Username: "ann\u202e"}
		i.ChannelID = "5"
		if i.GuildID == "" || c.may == 0 {
			i.User = u
		} else {
			i.Member = &wire.Member{User: u, Permissions: strconv.FormatUint(uint64(c.may), 10)}
		}
		got := (&Door{}).caller(i)
		if got.Role != c.want || got.Operator || got.Door != schemas.DoorDiscord || got.Member != "1" || got.Name != "ann" {
			t.Errorf("%s: %+v, want %v", name, got, c.want)
		}
	}
	for _, broken := range []wire.Interaction{{}, {Member: &wire.Member{}}, {GuildID: "9", Member: &wire.Member{User: &wire.User{ID: "1"}, Permissions: "all of them"}}} {
		if got := (&Door{}).caller(broken); got.Role != schemas.Guest {
			t.Errorf("%+v is %v", broken, got.Role)
		}
	}
}

func TestFields_SurviveWhatNobodyKnows(t *testing.T) {
	for raw, want := range map[string]string{
		`[{"type":18,"component":{"type":4,"custom_id":"f0","value":"x"}}]`:                           "x",
		`[{"type":1,"components":[{"type":4,"custom_id":"f0","value":"x"}]}]`:                         "x",
		`[{"type":99,"component":{"type":98,"custom_id":"f0","values":["x"]}},{"type":77,"odd":[1]}]`: "x",
		`[{"type":18,"component":{"type":23,"custom_id":"f0","value":true}}]`:                         "true",
		`{"broken`: "", `null`: "", `[[[[[[[[[[[[[]]]]]]]]]]]]]`: "", `[1,"x",null]`: "",
	} {
		got := wire.InteractionData{Components: []byte(raw)}.Fields()["f0"]
		if len(got) > 0 && got[0] != want || len(got) == 0 && want != "" {
			t.Errorf("%s gave %q", raw, got)
		}
	}
}
