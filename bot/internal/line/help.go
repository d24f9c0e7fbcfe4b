package line

import (
	"strings"

	"bobbin/bot/internal/view"
	"bobbin/bot/internal/words"
)

// Help says more about a topic or a verb, or, with "", what a person needs first. It fits a phone: short lines, one screen, topics for the rest.
func (t Table) Help(topic string) (view.Reply, error) {
	topic = strings.TrimPrefix(strings.ToLower(topic), "/mcp ")
	if topic == "" {
		return firstHelp(), nil
	}
	if text, ok := Topics()[topic]; ok {
		head, rest, _ := strings.Cut(text, "\n")
		return view.Reply{Blocks: []view.Block{{Text: head}, {Code: rest}}}, nil
	}
	if topic == "verbs" {
		tab := &view.Table{Columns: []string{"/mcp …", ""}}
		for _, v := range t.MCP {
			tab.Rows = append(tab.Rows, view.Row{Cells: []string{v.Usage, v.Summary}})
		}
		return view.Reply{Blocks: []view.Block{{Text: "every verb; `/mcp help VERB` says more"}, {Table: tab}}}, nil
	}
	var lines []string
	for _, v := range t.MCP {
		if v.Name == topic || strings.HasPrefix(v.Name, topic+" ") {
			line := "`/mcp " + v.Usage + "`\n" + v.Summary
			if v.Help != "" {
				line += "\n" + v.Help
			}
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		known := []string{"verbs"}
		for k := range Topics() {
			known = append(known, k)
		}
		for _, v := range t.MCP {
			known = append(known, v.Name)
		}
		return view.Reply{}, words.NotFound("help about", topic, known, "`/mcp help` lists the topics")
	}
	return view.Reply{Blocks: []view.Block{{Text: strings.Join(lines, "\n")}}}, nil
}

// firstHelp is what fits a phone: the verbs that a person needs first.
func firstHelp() view.Reply {
	tab := &view.Table{}
	for _, v := range [][2]string{
		{"add", "answer questions"}, {"add-json", "paste a config"}, {"upload", "give a file"}, {"connect", "a remote server"},
		{"list", "how they are"}, {"tools", "what they can do"}, {"call", "use one by hand"}, {"doctor", "what is wrong"}, {"undo", "take a change back"},
	} {
		tab.Rows = append(tab.Rows, view.Row{Cells: []string{"`/mcp " + v[0] + "`", v[1]}})
	}
	return view.Reply{Blocks: []view.Block{{Text: "bring tools into this thread, and use them"}, {Table: tab},
		{Text: "more: `/mcp help verbs` · `/mcp help policy` · `/mcp help secrets` · `/mcp help connect` · `/mcp help install` · `/mcp help model` · `/chat help`"}}}
}

// Topics is what there is help about besides verbs.
func Topics() map[string]string {
	return map[string]string{
		"model": `a model chats, and uses the tools for you
the operator sets its key, as an environment variable:
ANTHROPIC_API_KEY     Claude
OPENAI_API_KEY        OpenAI
GEMINI_API_KEY        Gemini
OPENROUTER_API_KEY    many others
or names it, and then starts bobbin again:
--model anthropic/claude-sonnet-5
--model ollama/qwen3          on your own machine, without a key
--model-url http://…          any server that speaks OpenAI's API
/chat model    which there are, and which answers here
/chat mode     when it answers
until then every tool works by hand: /mcp call server.tool`,
		"install": `a package becomes a server, in your own sandbox
/mcp install npm @modelcontextprotocol/server-everything
/mcp install npm @modelcontextprotocol/server-filesystem name:files /workspace
/mcp install pip mcp-server-time
/mcp install git https://github.com/blazickjp/arxiv-mcp-server
a card shows the exact version first; what was shown is what starts, ever after
npm NAME@1.2.3, pip NAME==1.2.3, git URL#TAG   that version
name:NAME program:NAME      what to call it, which program of it
start:"node dist/x.js"      a command of your own, in its folder
scripts:yes                 its install scripts may run
/mcp install upgrade NAME   a newer version
/mcp remove NAME            deletes its folder, too`,
		"policy": `who may call what
read-only tools run; tools that write ask first
shell, file and destructive tools are denied until a manager allows them
/mcp policy show
/mcp policy deny github.delete_*      a manager, for the thread
/mcp policy deny github.* me          for you alone
deny wins over ask and allow; your own list narrows, never widens
/mcp policy forget PATTERN            takes a rule back
after an answer of one server, the assistant asks again before another one writes
/mcp policy trust NAME                a manager: its answers are believed
/mcp policy sampling NAME             a manager: it may ask the model for words`,
		"secrets": `values that nobody sees
a config keeps ${input:NAME}; the value lies sealed in your vault
/mcp secrets list              names only
/mcp secrets set NAME          asks where nobody else sees it
/mcp secrets delete NAME
never type a value into a command`,
		"connect": `a remote server, by its address
/mcp connect https://mcp.example.com/mcp
nothing is sent before your first yes; then a card says what it is
sign-in: none, an API key for all, or OAuth, each member their own
/mcp connect NAME        sign in, sign out, lend yours, withdraw
lent: everybody here calls it as you, until a time or until you withdraw
a link to sign in is for you alone; tell its code to nobody`,
	}
}
