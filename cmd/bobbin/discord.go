package main

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"bobbin/bot/discord"
	"bobbin/host"
	"bobbin/internal/durable"
	"bobbin/internal/lazy"
	"bobbin/schemas"
)

// discordFlags are what serve is told about Discord.
type discordFlags struct {
	token, tokenFile, base string
	content                bool
	shards                 int
	shardIDs               string
	appID, clientSecret    string
	grace                  time.Duration
}

func (d *discordFlags) add(f *pflag.FlagSet) {
	d.addToken(f)
	f.StringVar(&d.base, "discord-api-base", "", "address in place of https://discord.com, such as a proxy's (BOBBIN_DISCORD_API_BASE or DISCORD_API_BASE)")
	f.BoolVar(&d.content, "discord-message-content", false, "read messages that do not mention the bot; switch the intent on in the developer portal first (BOBBIN_DISCORD_MESSAGE_CONTENT)")
	f.IntVar(&d.shards, "discord-shards", 0, "shards in all; 0 = as many as Discord recommends (BOBBIN_DISCORD_SHARDS)")
	f.StringVar(&d.shardIDs, "discord-shard-ids", "", "shards that run here, such as 0-3 or 0,2; empty = all (BOBBIN_DISCORD_SHARD_IDS)")
	f.StringVar(&d.appID, "discord-client-id", "", "application id for the login by which browsers prove whose they are; with DISCORD_CLIENT_SECRET (BOBBIN_DISCORD_CLIENT_ID)")
	f.StringVar(&d.clientSecret, "discord-client-secret", "", "its secret; prefer DISCORD_CLIENT_SECRET, since a flag is visible in the process list")
	f.DurationVar(&d.grace, "discord-grace", 168*time.Hour, "from a thread's deletion until its configuration and secrets are dropped (BOBBIN_DISCORD_GRACE)")
}

func (d *discordFlags) addToken(f *pflag.FlagSet) {
	f.StringVar(&d.token, "discord-token", "", "token of a Discord bot; prefer DISCORD_TOKEN or BOBBIN_DISCORD_TOKEN, since a flag is visible in the process list")
	f.StringVar(&d.tokenFile, "discord-token-file", "", "file that holds the token (BOBBIN_DISCORD_TOKEN_FILE)")
}

// tokenShape is that of every bot token: the id in base64, a time, a signature.
const tokenShape = `^[A-Za-z0-9_-]{4,100}={0,2}\.[A-Za-z0-9_-]{4,40}\.[A-Za-z0-9_-]{16,200}$`

// secret gives the token from the flag or its variable, the file, or DISCORD_TOKEN, in this order; "" when there is none. What it
// refuses it does not repeat.
func (d *discordFlags) secret() (string, error) {
	token, from := d.token, "--discord-token or BOBBIN_DISCORD_TOKEN"
	if token == "" && d.tokenFile != "" {
		from = "the file of --discord-token-file"
		f, err := os.Open(d.tokenFile)
		if err != nil {
			return "", &schemas.Error{Code: schemas.CodeInvalid, Text: from + " cannot be read", Hint: "check that " + d.tokenFile + " exists and belongs to you", Err: err}
		}
		content, err := io.ReadAll(io.LimitReader(f, 4<<10))
		if err = errors.Join(err, f.Close()); err != nil {
			return "", &schemas.Error{Code: schemas.CodeInvalid, Text: from + " cannot be read", Hint: "check that " + d.tokenFile + " is a file", Err: err}
		}
		if token = string(content); strings.TrimSpace(token) == "" {
			return "", noToken(from + " is empty")
		}
	}
	if token == "" {
		token, from = os.Getenv("DISCORD_TOKEN"), "DISCORD_TOKEN"
	}
	token = strings.TrimSpace(token)
	if kind, rest, ok := strings.Cut(token, " "); ok && strings.EqualFold(kind, "Bot") {
		token = strings.TrimSpace(rest)
	}
	if token != "" && !regexp.MustCompile(tokenShape).MatchString(token) {
		return "", noToken("what " + from + " holds is no bot token: that has three parts with dots between them")
	}
	return token, nil
}

func noToken(text string) error {
	return &schemas.Error{Code: schemas.CodeInvalid, Text: text,
		Hint: "copy the token in Discord's developer portal, page Bot, Reset Token; the client secret, the public key and the application's id are something else"}
}

// discordDoor makes the door to Discord; nil without a token.
func (m *Main) discordDoor(d *discordFlags, token string, h *host.Host, log *slog.Logger) (*discord.Door, error) {
	if token == "" {
		return nil, nil
	}
	ids, err := shardIDs(d.shardIDs)
	if err != nil {
		return nil, err
	}
	if d.shards < 0 || d.grace <= 0 {
		return nil, usagef("--discord-shards is 0 or more, --discord-grace is longer than 0")
	}
	data, err := durable.Open(m.Data)
	if err != nil {
		return nil, err
	}
	state, err := data.Sub("discord")
	if err != nil {
		return nil, err
	}
	return discord.New(discord.Options{
		Bot: h.Bot, Token: token, Base: d.address(), Content: d.content, Shards: d.shards, ShardID: ids,
		State: state, Threads: h.Store.Stored, Members: h.SignIns.Members, Grace: d.grace, Log: log, Version: version,
	})
}

func (d *discordFlags) address() string { return cmp.Or(d.base, os.Getenv("DISCORD_API_BASE")) }

// maxShards bounds how many shards one line may name.
const maxShards = 1000

// shardIDs reads 0-3, 0,2 or both.
func shardIDs(text string) ([]int, error) {
	var ids []int
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		from, to, span := strings.Cut(part, "-")
		a, err := strconv.Atoi(from)
		b := a
		if span && err == nil {
			b, err = strconv.Atoi(to)
		}
		if err != nil || a < 0 || b < a || b-a >= maxShards || len(ids) >= maxShards {
			return nil, usagef("--discord-shard-ids %q is no list like 0-3 or 0,2", text)
		}
		for ; a <= b; a++ {
			if !slices.Contains(ids, a) {
				ids = append(ids, a)
			}
		}
	}
	return ids, nil
}

func (m *Main) discordCommand() *cobra.Command {
	c := &cobra.Command{Use: "discord", Short: "Set up the bot on Discord", Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	c.AddCommand(m.inviteCommand())
	return c
}

// right is a permission that the bot asks for.
type right struct {
	Name string `json:"name"`
	Bit  uint64 `json:"bit"`
	Why  string `json:"why"`
}

// rights are all that the door needs (Discord, Permissions).
func rights() []right {
	return []right{
		{"View Channels", 1 << 10, "see the channels and threads that it works in"},
		{"Send Messages", 1 << 11, "tell a channel what happened there"},
		{"Send Messages in Threads", 1 << 38, "the same in threads and forum posts"},
		{"Attach Files", 1 << 15, "send downloads, and results too long for a message"},
		{"Read Message History", 1 << 16, "answer what was written while it was away"},
	}
}

func (m *Main) inviteCommand() *cobra.Command {
	var d discordFlags
	var client string
	var asJSON bool
	c := &cobra.Command{
		Use: "invite", Short: "Print the link that adds the bot to a Discord server", Args: cobra.NoArgs,
		Long: "Print the link that adds the bot to a Discord server, with the scopes and permissions that it needs and no others.\nThe id comes from --client-id, or else from the token. Nothing is sent to Discord.",
		RunE: func(*cobra.Command, []string) error {
			id, err := d.clientID(client)
			if err != nil {
				return err
			}
			return m.invite(id, asJSON)
		},
	}
	d.addToken(c.Flags())
	c.Flags().StringVar(&client, "client-id", "", "the application's id, from the developer portal; default: the one in the token (BOBBIN_CLIENT_ID)")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

var snowflake = lazy.Regexp(`^[0-9]{15,20}$`)

// clientID is the application's id: the one given, or the first part of the token, which is the bot's id in base64. The two are the
// same for every application made since 2016.
func (d *discordFlags) clientID(given string) (string, error) {
	if given != "" {
		if !snowflake().MatchString(given) {
			return "", usagef("--client-id %q is no application id: that is a number of 15 to 20 digits", given)
		}
		return given, nil
	}
	token, err := d.secret()
	if err != nil {
		return "", err
	}
	if token == "" {
		return "", &schemas.Error{Code: schemas.CodeInvalid, Text: "which application is it? there is neither an id nor a token",
			Hint: "bobbin discord invite --client-id ID, with the Application ID from the developer portal's page General Information; or set DISCORD_TOKEN"}
	}
	first, _, _ := strings.Cut(token, ".")
	id, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(first, "="))
	if err != nil || !snowflake().Match(id) {
		return "", &schemas.Error{Code: schemas.CodeInvalid, Text: "the token does not say which application it belongs to", Hint: "add --client-id ID, with the Application ID from the developer portal"}
	}
	return string(id), nil
}

func (m *Main) invite(id string, asJSON bool) error {
	all := rights()
	var sum uint64
	for _, r := range all {
		sum |= r.Bit
	}
	scopes := []string{"bot", "applications.commands"}
	link := fmt.Sprintf("https://discord.com/oauth2/authorize?client_id=%s&scope=%s&permissions=%d", id, strings.Join(scopes, "+"), sum)
	if asJSON {
		e := json.NewEncoder(m.Out)
		e.SetEscapeHTML(false)
		return e.Encode(map[string]any{"url": link, "client_id": id, "scopes": scopes, "permissions": strconv.FormatUint(sum, 10), "rights": all})
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Open this link as somebody who may manage the Discord server:\n\n  %s\n\nIt asks for (permissions %d):\n", link, sum)
	for _, r := range all {
		fmt.Fprintf(&b, "  %-26s%s\n", r.Name, r.Why)
	}
	b.WriteString("and for the scopes bot (it is a member) and applications.commands (/mcp is offered). Nothing else is needed, above all not Administrator.\n")
	_, err := io.WriteString(m.Out, b.String())
	return err
}
