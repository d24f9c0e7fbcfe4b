package bot

import (
	"context"

	"bobbin/bot/internal/desk"
	"bobbin/schemas"
)

// Verb describes one command for doors that register or list commands.
type Verb struct {
	Name    string // "add-json", "history show"
	Usage   string // what stands behind /mcp
	Summary string // one line, at most 100 characters
	Help    string // more lines, for /mcp help NAME; may be empty
	Role    schemas.Role
	Args    []Arg
}

// Arg is one argument of a Verb, by the name that Request.Args uses.
type Arg struct {
	Name     string
	Hint     string
	Kind     string // "", "server", "tool", "file" (Request.File carries the content), "json"
	Options  []string
	Required bool // asked for with a form when it is missing
	Rest     bool // takes the remainder of a typed line as it stands
}

func (a Arg) field() string {
	if a.Kind == "json" {
		return "multiline"
	}
	return ""
}

type verb struct {
	Verb
	bare    bool // of a group: runs when only the group's name was typed
	audited bool // the wish for it is written down: it changes something, or takes the config out of the thread
	run     func(context.Context, desk.Turn) (Reply, error)
}

// Verbs lists the verb table in the order of the help.
func (b *Bot) Verbs() []Verb {
	all := make([]Verb, len(b.verbs))
	for i, v := range b.verbs {
		all[i] = v.Verb
	}
	return all
}

func server(required bool) Arg {
	return Arg{Name: "name", Hint: "the server's name", Kind: "server", Required: required}
}

func (b *Bot) table() []verb {
	all := append(b.serverVerbs(), b.useVerbs()...)
	return append(all, b.ruleVerbs()...)
}

// serverVerbs bring, look at and change servers.
func (b *Bot) serverVerbs() []verb {
	const m, g = schemas.Member, schemas.Guest
	return []verb{
		{Verb{"add", "add [name] [command line]", "Add a local server by answering questions",
			"Env values are KEY=VALUE, one a line; what looks like a secret goes to your vault.\nTyped in one line: `/mcp add NAME COMMAND ARGS…`", m,
			[]Arg{{Name: "name", Hint: "letters, digits, . _ -"}, {Name: "command", Hint: "command and arguments", Rest: true}}}, false, true, b.add},
		{Verb{"add-json", "add-json [name] <json>", "Add servers from a config pasted as JSON",
			"Takes what Claude Desktop, Claude Code, VS Code, Cursor and others write, a bare map, or one definition with a name in front.", m,
			[]Arg{{Name: "name", Hint: "for a single definition"}, {Name: "json", Hint: "the config", Kind: "json", Required: true, Rest: true}}}, false, true, b.addJSON},
		{Verb{"upload", "upload <file>", "Add servers from a config file; others stay as they are",
			"At the terminal `/mcp upload PATH`; elsewhere attach the file or drop it on the page.", m,
			[]Arg{{Name: "file", Hint: "mcp.json", Kind: "file", Rest: true}}}, false, true, b.upload},
		{Verb{"download", "download [format]", "Get the config as a file, without any secret",
			"Formats: claude (as stored), vscode, cursor, remote (connectors), client (plugs this thread into your MCP client).", m,
			[]Arg{{Name: "format", Hint: "claude, vscode, cursor, remote or client", Options: formats(), Rest: true}}}, false, true, b.download},
		{Verb{"list", "list", "Show all servers and how they are", "", g, nil}, false, false, b.list},
		{Verb{"show", "show <name>", "Show one server: definition, state, tools held, resources", "", g, []Arg{server(true)}}, false, false, b.show},
		{Verb{"edit", "edit <name>", "Change a server in a form that holds what is set now", "", m, []Arg{server(true)}}, false, true, b.edit},
		{Verb{"remove", "remove <name>", "Remove a server and its values in the vault", "", m, []Arg{server(true)}}, false, true, b.remove},
		{Verb{"enable", "enable <name>", "Switch a server on; approve one that waits, or a held tool",
			"`/mcp enable SERVER.TOOL` shows the changed definition of a held tool.", m, []Arg{server(true)}}, false, true, b.enable},
		{Verb{"disable", "disable <name>", "Switch a server off and keep its entry", "", m, []Arg{server(true)}}, false, true, b.disable},
		{Verb{"connect", "connect [url|server] [name]", "Add a remote server by its address; sign in to one that is here",
			"https only; at your own machine http on loopback, too. Sign-in: none, an API key, or OAuth.\n`/mcp connect SERVER` signs in or out, lends your sign-in to the thread, or withdraws it.", m,
			[]Arg{{Name: "url", Hint: "https://…, or a server's name"}, {Name: "name", Hint: "what to call it"}}}, false, true, b.connect},
		{Verb{"reload", "reload [name]", "Read the files again, or start one server anew", "", m, []Arg{server(false)}}, false, true, b.reload},
		{Verb{"doctor", "doctor [name]", "Say what is wrong with a server and what to do next", "", m, []Arg{server(false)}}, false, false, b.doctor},
	}
}

// useVerbs use what servers offer, and look back.
func (b *Bot) useVerbs() []verb {
	const m, g = schemas.Member, schemas.Guest
	return []verb{
		{Verb{"tools", "tools [name]", "List tools, of one server or all; server.tool shows one whole", "", g, []Arg{server(false)}}, false, false, b.tools},
		{Verb{"call", "call <tool> [json]", "Call a tool by hand; without JSON its form is asked",
			"`/mcp call github.create_issue {\"title\":\"…\"}` · `/mcp call @server:uri` reads a resource.", m,
			[]Arg{{Name: "tool", Hint: "server.tool", Kind: "tool", Required: true}, {Name: "json", Hint: "arguments as a JSON object", Kind: "json", Rest: true}}}, false, false, b.call},
		{Verb{"prompt", "prompt [server.prompt]", "List the servers' prompts, or fill one in", "", m,
			[]Arg{{Name: "name", Hint: "server.prompt"}}}, false, false, b.prompt},
		{Verb{"audit", "audit [receipt|n|calls]", "Show what was called and changed, newest first", "`/mcp audit calls` leaves out all but calls; a receipt shows that call.", g,
			[]Arg{{Name: "which", Hint: "a receipt, how many lines, or calls"}}}, false, false, b.audit},
		{Verb{"history show", "history show [id]", "List the last changes of the config, or show one", "", m,
			[]Arg{{Name: "id", Hint: "a change's id"}}}, true, false, b.history},
		{Verb{"history undo", "history undo [id]", "Put the config back as it was before a change", "Short: `/mcp undo`. Without an id the last change.", m,
			[]Arg{{Name: "id", Hint: "a change's id"}}}, false, true, b.undo},
	}
}

// ruleVerbs set rules and values.
func (b *Bot) ruleVerbs() []verb {
	const m, g = schemas.Member, schemas.Guest
	rule := []Arg{{Name: "pattern", Hint: "server.tool, with * and ?", Kind: "tool", Required: true}, {Name: "who", Hint: "me: for you alone", Options: []string{"me"}}}
	value := []Arg{{Name: "name", Hint: "such as GITHUB_TOKEN", Required: true}, {Name: "server", Hint: "of one server only", Kind: "server"}}
	all := []verb{
		{Verb{"policy show", "policy show", "Show the rules about tools", "", m, nil}, true, false, b.policy},
		{Verb{"policy allow", "policy allow <pattern> [me]", "Let tools run without asking", "For the thread a manager has to confirm. With `me` it is your own list: tools not on it are hidden from you.", m, rule}, false, true, b.ruleVerb("allow")},
		{Verb{"policy ask", "policy ask <pattern> [me]", "Ask before each call of these tools", "", m, rule}, false, true, b.ruleVerb("ask")},
		{Verb{"policy deny", "policy deny <pattern> [me]", "Never call these tools", "", m, rule}, false, true, b.ruleVerb("deny")},
		{Verb{"policy forget", "policy forget <pattern> [me]", "Take a rule back, and what was allowed for a time", "", m, rule}, false, true, b.ruleVerb("forget")},
		{Verb{"secrets list", "secrets list", "List the names of your values in the vault", "", m, nil}, true, false, b.secretList},
		{Verb{"secrets set", "secrets set <NAME> [server]", "Give or replace a value, where nobody else sees it", "", m, value}, false, true, b.secretSet},
		{Verb{"secrets delete", "secrets delete <NAME> [server]", "Delete a value from the vault", "", m, value}, false, true, b.secretDelete},
	}
	all = append(all, b.rightVerbs()...)
	who := Arg{Name: "member", Hint: "a mention or an id; left out: you"}
	all = append(all,
		verb{Verb{"sandbox status", "sandbox status", "Show your sandbox, and every lock that holds it", "", m, nil}, true, false, b.sandboxStatus},
		verb{Verb{"sandbox exec", "sandbox exec <command>", "Run a command in your sandbox, where a manager opened that to you", "It runs in /workspace, in a shell, for five minutes at most.", m,
			[]Arg{{Name: "command", Hint: "ls -la", Required: true, Rest: true}}}, false, false, b.sandboxExec},
		verb{Verb{"sandbox stop", "sandbox stop [remove]", "Stop your sandbox; /workspace is kept", "`/mcp sandbox stop remove` deletes it, with everything in /workspace.", m,
			[]Arg{{Name: "what", Hint: "remove: delete /workspace, too", Options: []string{"remove"}}}}, false, true, b.sandboxStop},
		verb{Verb{"sandbox grant", "sandbox grant [member] [time]", "Let a member run commands in their own sandbox for a time", "For one hour, unless a time such as 30m or 24h is given; 30 days at most.", m,
			[]Arg{who, {Name: "time", Hint: "30m, 1h, 24h"}}}, false, true, b.sandboxGrant},
		verb{Verb{"sandbox revoke", "sandbox revoke [member]", "Close that again", "", m, []Arg{who}}, false, true, b.sandboxRevoke},
	)
	all = append(all, b.installVerbs()...)
	all = append(all, b.adminVerbs()...)
	all = append(all, b.gatewayVerbs()...)
	return append(all, verb{Verb{"help", "help [topic]", "Say what can be done, or more about one topic", "", g, []Arg{{Name: "topic", Rest: true}}}, false, false, b.help})
}

// installVerbs bring packages into the member's sandbox. A typed line puts all of it into the first argument.
func (b *Bot) installVerbs() []verb {
	const m = schemas.Member
	args := func(hint string) []Arg {
		return []Arg{{Name: "package", Hint: hint, Required: true, Rest: true}, {Name: "name", Hint: "what to call the server"},
			{Name: "args", Hint: "arguments for its program"}, {Name: "program", Hint: "which of its programs to start"},
			{Name: "start", Hint: "a command to start instead"}, {Name: "scripts", Hint: "may its own scripts run?", Options: []string{"yes"}}}
	}
	help := "`/mcp help install` has examples."
	options := " <package> [name:NAME] [program:NAME] [args…]"
	return []verb{
		{Verb{"install npm", "install npm" + options, "Install an npm package into your sandbox, and add it", help, m, args("NAME or NAME@VERSION")}, false, true, b.installVerb(schemas.NPM)},
		{Verb{"install pip", "install pip" + options, "Install a Python package into your sandbox, and add it", help, m, args("NAME or NAME==VERSION")}, false, true, b.installVerb(schemas.Pip)},
		{Verb{"install git", "install git" + options, "Install a git repository into your sandbox, and add it", help, m, args("https://HOST/OWNER/REPO#TAG")}, false, true, b.installVerb(schemas.Git)},
		{Verb{"install upgrade", "install upgrade <name> [version]", "Install a newer version of a server; the old one runs until it is up", "", m,
			[]Arg{server(true), {Name: "version", Hint: "a version, tag or commit; else the newest"}}}, false, true, b.upgrade},
	}
}

func formats() []string { return []string{"claude", "vscode", "cursor", "remote", "client"} }
