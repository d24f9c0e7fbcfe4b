package discord

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"bobbin/bot"
	"bobbin/bot/discord/internal/wire"
	"bobbin/schemas"
)

// Limits of what is fetched with a message for the assistant.
const (
	maxFiles    = 10
	maxOneFile  = 5 << 20
	maxAllFiles = 20 << 20
)

// bringsConfig reports whether what came with a message is to be added, not talked about: a config without a word, or a bundle.
func bringsConfig(m wire.Message, text string) bool {
	bundle := len(m.Attachments) == 1 && bot.MaxUpload(m.Attachments[0].Filename) > maxOneFile
	return bundle || text == "" && slices.ContainsFunc(m.Attachments, func(a wire.Attachment) bool { return isConfig(a.Filename) })
}

// files fetches what came with a message for the assistant: from Discord's own hosts, and not more than fits. What it is, is read from
// its bytes.
func (d *Door) files(ctx context.Context, m wire.Message) (all []schemas.File, refusal *bot.Reply) {
	refuse := func(format string, a ...any) ([]schemas.File, *bot.Reply) {
		r := no(fmt.Sprintf(format, a...))
		return nil, &r
	}
	if len(m.Attachments) > maxFiles {
		return refuse("these are %d files; at most %d with one message", len(m.Attachments), maxFiles)
	}
	total := 0
	for _, a := range m.Attachments {
		name := cleanFile(a.Filename)
		if total += a.Size; a.Size > maxOneFile || total > maxAllFiles {
			return refuse("%s is too much · at most 5 MiB a file, and 20 MiB with one message", name)
		}
		data, err := d.rest.Download(ctx, a.URL, maxOneFile)
		if err != nil {
			d.opt.Log.Debug("discord: an attachment cannot be read", "channel", m.ChannelID, "err", err)
			return refuse("%s could not be read from Discord; nothing was done · attach it again", name)
		}
		if total += max(0, len(data)-a.Size); len(data) > maxOneFile || total > maxAllFiles {
			return refuse("%s is too much · at most 5 MiB a file, and 20 MiB with one message", name)
		}
		all = append(all, schemas.File{Name: name, MIME: http.DetectContentType(data), Data: data})
	}
	return all, nil
}

// config fetches the config file that came with a message. refusal says why one could not be taken.
func (d *Door) config(ctx context.Context, m wire.Message, text string) (file *schemas.File, refusal *bot.Reply) {
	refuse := func(format string, a ...any) (*schemas.File, *bot.Reply) {
		r := no(fmt.Sprintf(format, a...))
		return nil, &r
	}
	var found []wire.Attachment
	for _, a := range m.Attachments {
		if isConfig(a.Filename) {
			found = append(found, a)
		}
	}
	switch {
	case len(m.Attachments) == 0, len(found) == 0 && text != "" && !strings.HasPrefix(text, "/mcp upload"):
		return nil, nil
	case len(found) == 0:
		return refuse("%s is not a config file · I read .json, .jsonc, .toml, .yaml, .yml, .txt, .mcpb and .dxt", cleanFile(m.Attachments[0].Filename))
	case len(found) > 1:
		return refuse("that is %d files; one at a time, so that each can be looked at · send them one by one", len(found))
	}
	a := found[0]
	name, limit := cleanFile(a.Filename), bot.MaxUpload(a.Filename)
	large := func() (*schemas.File, *bot.Reply) {
		if limit > 1<<20 {
			return refuse("%s is larger than %d MiB, too large for a bundle · install the package by its name", name, limit>>20)
		}
		return refuse("%s is larger than %d KiB, too large for a config · attach the config alone", name, limit>>10)
	}
	if a.Size > limit {
		return large()
	}
	data, err := d.rest.Download(ctx, a.URL, int64(limit))
	switch {
	case err != nil:
		d.opt.Log.Debug("discord: an attachment cannot be read", "channel", m.ChannelID, "err", err)
		return refuse("%s could not be read from Discord; nothing was changed · attach it again", name)
	case len(data) > limit:
		return large()
	}
	return &schemas.File{Name: name, MIME: "text/plain", Data: data}, nil
}

func cleanFile(name string) string {
	name = strings.ReplaceAll(schemas.Clean(name, true), "`", "'")
	if r := []rune(name); len(r) > 80 {
		name = string(r[:79]) + "…"
	}
	return name
}

func isConfig(name string) bool {
	name = strings.ToLower(name)
	for _, end := range []string{".json", ".jsonc", ".toml", ".yaml", ".yml", ".txt", ".mcpb", ".dxt"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}
