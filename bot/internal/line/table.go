package line

import "bobbin/schemas"

func server(required bool) Arg {
	return Arg{Name: "name", Hint: "the server's name", Kind: "server", Required: required}
}

// serverVerbs bring, look at and change servers.
func serverVerbs() []Verb {
	const m, g = schemas.Member, schemas.Guest
	return []Verb{
		{"add", "add [name] [command line]", "Add a local server by answering questions",
			"Env values are KEY=VALUE, one a line; what looks like a secret goes to your vault.\nTyped in one line: `/mcp add NAME COMMAND ARGS…`", m,
			[]Arg{{Name: "name", Hint: "letters, digits, . _ -"}, {Name: "command", Hint: "command and arguments", Rest: true}}, false},
		{"add-json", "add-json [name] <json>", "Add servers from a config pasted as JSON",
			"Takes what Claude Desktop, Claude Code, VS Code, Cursor and others write, a bare map, or one definition with a name in front.", m,
			[]Arg{{Name: "name", Hint: "for a single definition"}, {Name: "json", Hint: "the config", Kind: "json", Required: true, Rest: true}}, false},
		{"upload", "upload <file>", "Add servers from a config file; others stay as they are",
			"At the terminal `/mcp upload PATH`; elsewhere attach the file or drop it on the page.", m,
			[]Arg{{Name: "file", Hint: "mcp.json", Kind: "file", Rest: true}}, false},
		{"download", "download [format]", "Get the config as a file, without any secret",
			"Formats: claude (as stored), vscode, cursor, remote (connectors), client (plugs this thread into your MCP client).", m,
			[]Arg{{Name: "format", Hint: "claude, vscode, cursor, remote or client", Options: Formats(), Rest: true}}, false},
		{"list", "list", "Show all servers and how they are", "", g, nil, false},
		{"show", "show <name>", "Show one server: definition, state, tools held, resources", "", g, []Arg{server(true)}, false},
		{"edit", "edit <name>", "Change a server in a form that holds what is set now", "", m, []Arg{server(true)}, false},
		{"remove", "remove <name>", "Remove a server and its values in the vault", "", m, []Arg{server(true)}, false},
		{"enable", "enable <name>", "Switch a server on; approve one that waits, or a held tool",
			"`/mcp enable SERVER.TOOL` shows the changed definition of a held tool.", m, []Arg{server(true)}, false},
		{"disable", "disable <name>", "Switch a server off and keep its entry", "", m, []Arg{server(true)}, false},
		{"connect", "connect [url|server] [name]", "Add a remote server by its address; sign in to one that is here",
			"https only; at your own machine http on loopback, too. Sign-in: none, an API key, or OAuth.\n`/mcp connect SERVER` signs in or out, lends your sign-in to the thread, or withdraws it.", m,
			[]Arg{{Name: "url", Hint: "https://…, or a server's name"}, {Name: "name", Hint: "what to call it"}}, false},
		{"reload", "reload [name]", "Read the files again, or start one server anew", "", m, []Arg{server(false)}, false},
		{"doctor", "doctor [name]", "Say what is wrong with a server and what to do next", "", m, []Arg{server(false)}, false},
	}
}

// useVerbs use what servers offer, and look back.
func useVerbs() []Verb {
	const m, g = schemas.Member, schemas.Guest
	return []Verb{
		{"tools", "tools [name]", "List tools, of one server or all; server.tool shows one whole", "", g, []Arg{server(false)}, false},
		{"call", "call <tool> [json]", "Call a tool by hand; without JSON its form is asked",
			"`/mcp call github.create_issue {\"title\":\"…\"}` · `/mcp call @server:uri` reads a resource.", m,
			[]Arg{{Name: "tool", Hint: "server.tool", Kind: "tool", Required: true}, {Name: "json", Hint: "arguments as a JSON object", Kind: "json", Rest: true}}, false},
		{"prompt", "prompt [server.prompt]", "List the servers' prompts, or fill one in", "", m,
			[]Arg{{Name: "name", Hint: "server.prompt"}}, false},
		{"audit", "audit [receipt|n|calls]", "Show what was called and changed, newest first", "`/mcp audit calls` leaves out all but calls; a receipt shows that call.", g,
			[]Arg{{Name: "which", Hint: "a receipt, how many lines, or calls"}}, false},
		{"history show", "history show [id]", "List the last changes of the config, or show one", "", m,
			[]Arg{{Name: "id", Hint: "a change's id"}}, true},
		{"history undo", "history undo [id]", "Put the config back as it was before a change", "Short: `/mcp undo`. Without an id the last change.", m,
			[]Arg{{Name: "id", Hint: "a change's id"}}, false},
	}
}

// ruleVerbs set rules and values.
func ruleVerbs() []Verb {
	const m, g = schemas.Member, schemas.Guest
	rule := []Arg{{Name: "pattern", Hint: "server.tool, with * and ?", Kind: "tool", Required: true}, {Name: "who", Hint: "me: for you alone", Options: []string{"me"}}}
	value := []Arg{{Name: "name", Hint: "such as GITHUB_TOKEN", Required: true}, {Name: "server", Hint: "of one server only", Kind: "server"}}
	all := []Verb{
		{"policy show", "policy show", "Show the rules about tools", "", m, nil, true},
		{"policy allow", "policy allow <pattern> [me]", "Let tools run without asking", "For the thread a manager has to confirm. With `me` it is your own list: tools not on it are hidden from you.", m, rule, false},
		{"policy ask", "policy ask <pattern> [me]", "Ask before each call of these tools", "", m, rule, false},
		{"policy deny", "policy deny <pattern> [me]", "Never call these tools", "", m, rule, false},
		{"policy forget", "policy forget <pattern> [me]", "Take a rule back, and what was allowed for a time", "", m, rule, false},
		{"secrets list", "secrets list", "List the names of your values in the vault", "", m, nil, true},
		{"secrets set", "secrets set <NAME> [server]", "Give or replace a value, where nobody else sees it", "", m, value, false},
		{"secrets delete", "secrets delete <NAME> [server]", "Delete a value from the vault", "", m, value, false},
	}
	all = append(all, rightVerbs()...)
	who := Arg{Name: "member", Hint: "a mention or an id; left out: you"}
	all = append(all,
		Verb{"sandbox status", "sandbox status", "Show your sandbox, and every lock that holds it", "", m, nil, true},
		Verb{"sandbox exec", "sandbox exec <command>", "Run a command in your sandbox, where a manager opened that to you", "It runs in /workspace, in a shell, for five minutes at most.", m,
			[]Arg{{Name: "command", Hint: "ls -la", Required: true, Rest: true}}, false},
		Verb{"sandbox stop", "sandbox stop [remove]", "Stop your sandbox; /workspace is kept", "`/mcp sandbox stop remove` deletes it, with everything in /workspace.", m,
			[]Arg{{Name: "what", Hint: "remove: delete /workspace, too", Options: []string{"remove"}}}, false},
		Verb{"sandbox grant", "sandbox grant [member] [time]", "Let a member run commands in their own sandbox for a time", "For one hour, unless a time such as 30m or 24h is given; 30 days at most.", m,
			[]Arg{who, {Name: "time", Hint: "30m, 1h, 24h"}}, false},
		Verb{"sandbox revoke", "sandbox revoke [member]", "Close that again", "", m, []Arg{who}, false},
	)
	all = append(all, installVerbs()...)
	all = append(all, adminVerbs()...)
	all = append(all, gatewayVerbs()...)
	return append(all, Verb{"help", "help [topic]", "Say what can be done, or more about one topic", "", g, []Arg{{Name: "topic", Rest: true}}, false})
}

// rightVerbs give and take what a manager allows to servers.
func rightVerbs() []Verb {
	name := Arg{Name: "name", Hint: "a server, * and ? stand for more", Kind: "server", Required: true}
	return []Verb{
		{"policy trust", "policy trust <server>", "Believe a server: its answers raise no new questions",
			"After an answer of another server, tools that write ask although a rule allows them. A manager confirms.", schemas.Member, []Arg{name}, false},
		{"policy untrust", "policy untrust <server>", "Take that back", "", schemas.Member, []Arg{name}, false},
		{"policy sampling", "policy sampling <server> [off]", "Let a server ask the thread's model for words",
			"The member whose call it is says yes each time. A manager confirms.", schemas.Member,
			[]Arg{name, {Name: "off", Hint: "off: not any more", Options: []string{"off"}}}, false},
	}
}

// installVerbs bring packages into the member's sandbox. A typed line puts all of it into the first argument.
func installVerbs() []Verb {
	const m = schemas.Member
	args := func(hint string) []Arg {
		return []Arg{{Name: "package", Hint: hint, Required: true, Rest: true}, {Name: "name", Hint: "what to call the server"},
			{Name: "args", Hint: "arguments for its program"}, {Name: "program", Hint: "which of its programs to start"},
			{Name: "start", Hint: "a command to start instead"}, {Name: "scripts", Hint: "may its own scripts run?", Options: []string{"yes"}}}
	}
	help := "`/mcp help install` has examples."
	options := " <package> [name:NAME] [program:NAME] [args…]"
	return []Verb{
		{"install npm", "install npm" + options, "Install an npm package into your sandbox, and add it", help, m, args("NAME or NAME@VERSION"), false},
		{"install pip", "install pip" + options, "Install a Python package into your sandbox, and add it", help, m, args("NAME or NAME==VERSION"), false},
		{"install git", "install git" + options, "Install a git repository into your sandbox, and add it", help, m, args("https://HOST/OWNER/REPO#TAG"), false},
		{"install upgrade", "install upgrade <name> [version]", "Install a newer version of a server; the old one runs until it is up", "", m,
			[]Arg{server(true), {Name: "version", Hint: "a version, tag or commit; else the newest"}}, false},
	}
}

func adminVerbs() []Verb {
	const m = schemas.Member
	name := func(kind string) []Arg {
		return []Arg{{Name: "name", Hint: "the server's name", Kind: kind, Required: true}}
	}
	return []Verb{
		{"admin list", "admin list", "List the operator's servers that this thread may use", "", m, nil, true},
		{"admin attach", "admin attach <name>", "Let this thread use one of the operator's servers", "Short: `/mcp attach`. Its calls run with the operator's credentials, under this thread's rules.", m, name("admin"), false},
		{"admin detach", "admin detach <name>", "Stop using one of the operator's servers here", "Short: `/mcp detach`.", m, name("server"), false},
	}
}

func gatewayVerbs() []Verb {
	const m = schemas.Member
	return []Verb{
		{"gateway token", "gateway token [name] [time]", "Make a token by which your MCP client uses this thread's tools", "It is shown once, to you alone. Calls with it run as you, under this thread's rules.\n`/mcp gateway token laptop 30d` makes one that ends after 30 days.", m,
			[]Arg{{Name: "name", Hint: "what to call it: laptop"}, {Name: "time", Hint: "12h, 30d; left out: until it is revoked"}}, false},
		{"gateway show", "gateway show", "List your tokens, and where clients reach this thread", "", m, nil, true},
		{"gateway revoke", "gateway revoke <id>", "End a token at once", "`/mcp gateway show` lists the ids.", m,
			[]Arg{{Name: "id", Hint: "from /mcp gateway show", Required: true}}, false},
	}
}

// chatVerbs are the assistant's own. Their names begin with "chat", which is their group in all doors.
func chatVerbs() []Verb {
	const m, g = schemas.Member, schemas.Guest
	return []Verb{
		{"chat model", "model [name]", "Show which models there are, or choose one for this thread", "A manager chooses.", m,
			[]Arg{{Name: "name", Hint: "such as anthropic/claude-sonnet-5", Kind: "model"}}, false},
		{"chat mode", "mode [mentioned|always|off]", "Show or choose when the assistant answers in this thread",
			"mentioned: when a message mentions it or replies to it. A manager chooses.", m,
			[]Arg{{Name: "mode", Hint: "mentioned, always or off", Options: modeNames()}}, false},
		{"chat usage", "usage", "Show what you and this thread spent on the model", "", m, nil, false},
		{"chat stop", "stop", "Stop the answer that is under way, with its tool calls", "Your own; a manager stops any.", m, nil, false},
		{"chat reset", "reset", "Forget the conversation of this thread; servers and rules stay", "A manager confirms.", m, nil, false},
		{"chat help", "help", "Say what the assistant can do", "", g, nil, false},
	}
}

func modeNames() []string {
	return []string{string(schemas.ChatMentioned), string(schemas.ChatAlways), string(schemas.ChatOff)}
}

// Formats are those of /mcp download.
func Formats() []string { return []string{"claude", "vscode", "cursor", "remote", "client"} }
