package bot

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"bobbin/bot/internal/desk"
	"bobbin/bot/internal/line"
	"bobbin/schemas"
)

// What doors know of the verbs, to register, list or complete them.
type (
	Verb = line.Verb // one command
	Arg  = line.Arg  // one argument of it
)

// verb is what a command does.
type verb struct {
	run     func(context.Context, desk.Turn) (Reply, error)
	audited bool // the wish for it is written down: it changes something, or takes the config out of the thread
}

// runs gives each verb of the table what it does.
func (b *Bot) runs() map[string]verb {
	const audited = true
	return map[string]verb{
		"add":             {b.add, audited},
		"add-json":        {b.addJSON, audited},
		"upload":          {b.upload, audited},
		"download":        {b.download, audited},
		"list":            {b.list, false},
		"show":            {b.show, false},
		"edit":            {b.edit, audited},
		"remove":          {b.remove, audited},
		"enable":          {b.enable, audited},
		"disable":         {b.disable, audited},
		"connect":         {b.connect, audited},
		"reload":          {b.reload, audited},
		"doctor":          {b.doctor, false},
		"tools":           {b.tools, false},
		"call":            {b.call, false},
		"prompt":          {b.prompt, false},
		"audit":           {b.audit, false},
		"history show":    {b.history, false},
		"history undo":    {b.undo, audited},
		"policy show":     {b.rules.Show, false},
		"policy allow":    {b.rules.List("allow"), audited},
		"policy ask":      {b.rules.List("ask"), audited},
		"policy deny":     {b.rules.List("deny"), audited},
		"policy forget":   {b.rules.List("forget"), audited},
		"policy trust":    {b.rules.Trust(true), audited},
		"policy untrust":  {b.rules.Trust(false), audited},
		"policy sampling": {b.rules.Sampling, audited},
		"secrets list":    {b.secretList, false},
		"secrets set":     {b.secretSet, audited},
		"secrets delete":  {b.secretDelete, audited},
		"install npm":     {b.installVerb(schemas.NPM), audited},
		"install pip":     {b.installVerb(schemas.Pip), audited},
		"install git":     {b.installVerb(schemas.Git), audited},
		"install upgrade": {b.upgrade, audited},
		"sandbox status":  {b.sandboxStatus, false},
		"sandbox exec":    {b.sandboxExec, false},
		"sandbox stop":    {b.sandboxStop, audited},
		"sandbox grant":   {b.rules.Grant, audited},
		"sandbox revoke":  {b.rules.Revoke, audited},
		"admin list":      {b.adminList, false},
		"admin attach":    {b.adminAttach, audited},
		"admin detach":    {b.adminDetach, audited},
		"gateway token":   {b.gatewayToken, audited},
		"gateway show":    {b.gatewayShow, false},
		"gateway revoke":  {b.gatewayRevoke, audited},
		"help":            {b.help, false},
		"chat model":      {b.chatModel, false},
		"chat mode":       {b.chatMode, false},
		"chat usage":      {b.chatUsage, false},
		"chat stop":       {b.chatStop, audited},
		"chat reset":      {b.chatReset, audited},
		"chat help":       {b.chatHelp, false},
	}
}

// match panics where the table and what its verbs do are not about the same verbs: a mistake in the program.
func match(t line.Table, runs map[string]verb) {
	n := 0
	for _, all := range [][]Verb{t.MCP, t.Chat} {
		for _, v := range all {
			if runs[v.Name].run == nil {
				panic("bot: nothing runs " + v.Name)
			}
			n++
		}
	}
	if n != len(runs) {
		panic(fmt.Sprintf("bot: %d verbs can be typed, %d run", n, len(runs)))
	}
}

// Verbs lists the verbs of /mcp in the order of the help.
func (b *Bot) Verbs() []Verb { return slices.Clone(b.lines.MCP) }

// ChatVerbs lists the verbs of /chat in the order of its help, with names as they stand behind it: a Request's Verb has "chat " in
// front of them.
func (b *Bot) ChatVerbs() []Verb {
	all := slices.Clone(b.lines.Chat)
	for i := range all {
		all[i].Name = strings.TrimPrefix(all[i].Name, "chat ")
	}
	return all
}
