package config

import (
	"path"
	"slices"
	"strings"

	"github.com/mattn/go-shellwords"

	"bobbin/internal/lazy"
	"bobbin/schemas"
)

// program gives the bare name of a command: npx of C:\node\npx.cmd.
func program(command string) string {
	base := path.Base(strings.ReplaceAll(strings.TrimSpace(command), `\`, "/"))
	for _, ext := range []string{".exe", ".cmd", ".bat", ".ps1"} {
		if strings.HasSuffix(strings.ToLower(base), ext) {
			base = base[:len(base)-len(ext)]
		}
	}
	return strings.ToLower(base)
}

// launcher reports whether a program is known to start other people's servers.
func launcher(name string) bool {
	return slices.Contains([]string{"npx", "npm", "node", "pnpm", "pnpx", "yarn", "bun", "bunx", "deno", "tsx", "ts-node", "uvx", "uv", "python", "python3", "py", "pip", "pipx", "docker", "podman",
		"cmd", "bash", "sh", "zsh", "powershell", "pwsh", "env", "java", "dotnet", "dnx", "go", "cargo", "php", "ruby", "perl", "nix", "pixi", "poetry", "conda", "rye", "hatch", "wsl", "npx.cmd"}, name)
}

func shellProgram(command string) bool {
	return slices.Contains([]string{"bash", "sh", "zsh", "dash", "fish", "cmd", "powershell", "pwsh", "wsl"}, program(command))
}

// shellWords splits a line as a shell would, without expanding anything; ok is false when a shell would do more with it.
func shellWords(line string) (out []string, ok bool) {
	if strings.ContainsAny(line, "|&;<>`\n*?") || strings.Contains(line, "$(") {
		return nil, false
	}
	p := shellwords.NewParser()
	p.ParseEnv, p.ParseBacktick, p.ParseComment = false, false, false
	out, err := p.Parse(line)
	return out, err == nil && len(out) > 0
}

// splitCommand reads "npx -y pkg" in one text as command and arguments.
func (e *entry) splitCommand() {
	c := strings.TrimSpace(e.command.s)
	if m := cdFirst().FindStringSubmatch(c); m != nil && e.cwd.s == "" && !strings.ContainsAny(m[1], "$`*~") {
		e.cwd = bit{"cwd", strings.Trim(m[1], `"'`), e.command.at, e.command.ptr}
		if list, ok := shellWords(m[2]); ok {
			e.replaceRun(list, e.args)
			e.say(schemas.NoteMapped, e.command.at, "the command was one line; it is split into cwd, command and args")
			return
		}
		e.cwd = bit{}
	}
	first, _, more := strings.Cut(c, " ")
	if strings.Contains(c, " && ") || strings.Contains(c, " | ") {
		e.say(schemas.NoteRisk, e.command.at, "the command is a line for a shell; it is not split and will not start")
		return
	}
	if !more || !launcher(program(first)) {
		return
	}
	list, ok := shellWords(c)
	if !ok {
		e.say(schemas.NoteRisk, e.command.at, "the command is a line for a shell; it is not split and will not start")
		return
	}
	e.replaceRun(list, e.args)
	e.say(schemas.NoteMapped, e.command.at, "the command was one line; it is split into command and args")
}

// replaceRun sets command and leading arguments, keeping the place of the command.
func (e *entry) replaceRun(list []string, rest []bit) {
	at := e.command
	e.command.s = list[0]
	args := make([]bit, 0, len(list)+len(rest))
	for _, w := range list[1:] {
		args = append(args, bit{"", w, at.at, at.ptr})
	}
	e.args = append(args, rest...)
}

// unwrap takes away shells and env in front of one plain command, so that what really runs is shown.
func (e *entry) unwrap() {
	for range 3 {
		before := program(e.command.s)
		var done bool
		switch before {
		case "cmd":
			done = e.unwrapCmd()
		case "bash", "sh", "zsh":
			done = e.unwrapShell()
		case "env":
			done = e.unwrapEnv()
		case "powershell", "pwsh":
			e.say(schemas.NoteRisk, e.command.at, "a PowerShell line is run; read it before you confirm")
		}
		if !done {
			e.innerShell()
			return
		}
		e.say(schemas.NoteMapped, e.command.at, "it was started by way of %s; that is left out", before)
	}
}

// unwrapCmd reads cmd /c X ….
func (e *entry) unwrapCmd() bool {
	i := 0
	for i < len(e.args) && len(e.args[i].s) == 2 && e.args[i].s[0] == '/' && !strings.EqualFold(e.args[i].s, "/c") {
		i++
	}
	if i+1 >= len(e.args) || !strings.EqualFold(e.args[i].s, "/c") {
		return false
	}
	rest := e.cdBefore(e.args[i+1:])
	for _, b := range rest {
		if strings.Contains(b.s, "%") && len(references().FindString(b.s)) > 2 || b.s == "&&" || b.s == "|" || b.s == ">" || b.s == "&" {
			e.say(schemas.NoteRisk, b.at, "a line for the Windows shell is run; it does not work outside of it")
			return false
		}
	}
	list := []string{rest[0].s}
	if strings.Contains(strings.TrimSpace(list[0]), " ") && len(rest) == 1 || strings.Contains(strings.TrimSpace(list[0]), " ") && launcher(program(strings.Fields(list[0])[0])) {
		split, ok := shellWords(strings.ReplaceAll(list[0], `\`, `\\`))
		if !ok {
			e.say(schemas.NoteRisk, rest[0].at, "a line for the Windows shell is run; it does not work outside of it")
			return false
		}
		list = split
	}
	if strings.HasSuffix(strings.ToLower(list[0]), ".bat") {
		e.say(schemas.NoteRisk, rest[0].at, "a batch file for Windows is run")
		return false
	}
	if slices.Contains([]string{"echo", "set", "cd", "call", "start", "type", "dir"}, strings.ToLower(list[0])) {
		e.say(schemas.NoteRisk, rest[0].at, "a line for the Windows shell is run; it does not work outside of it")
		return false
	}
	e.command.at = rest[0].at
	e.replaceRun(list, rest[1:])
	return true
}

// cdBefore takes the folder out of cmd's "cd FOLDER && …", written in one argument or in several.
func (e *entry) cdBefore(rest []bit) []bit {
	if e.cwd.s != "" || !strings.EqualFold(firstWord(rest[0].s), "cd") {
		return rest
	}
	dir, after := bit{}, []bit{}
	if at := slices.IndexFunc(rest, func(b bit) bool { return b.s == "&&" }); at > 1 && at+1 < len(rest) && (at == 2 || at == 3 && strings.EqualFold(rest[1].s, "/d")) {
		dir, after = rest[at-1], rest[at+1:]
	} else if m := cdFirst().FindStringSubmatch(cdDrive().ReplaceAllString(rest[0].s, "cd ")); m != nil && len(rest) == 1 {
		dir, after = rest[0], []bit{{"", m[2], rest[0].at, rest[0].ptr}}
		dir.s = m[1]
	}
	if len(after) == 0 || strings.Contains(dir.s, "%") || slices.ContainsFunc(after, func(b bit) bool { return strings.ContainsAny(b.s, "&|<>") }) {
		return rest
	}
	e.cwd = bit{"cwd", strings.Trim(dir.s, `"`), dir.at, dir.ptr}
	return after
}

func firstWord(s string) string {
	w, _, _ := strings.Cut(strings.TrimSpace(s), " ")
	return w
}

var cdDrive = lazy.Regexp(`(?i)^\s*cd\s+/d\s+`)

var cdFirst = lazy.Regexp(`^\s*cd\s+("[^"]+"|'[^']+'|[^\s;&|]+)\s*&&\s*(.+)$`)

// shellNote is said once about a line that a shell reads.
const shellNote = "a line for a shell is run; read it before you confirm"

// innerShell remarks on a line for a shell behind another program: wsl bash -c "…".
func (e *entry) innerShell() {
	for i := 0; i+2 < len(e.args); i++ {
		if flag := e.args[i+1].s; slices.Contains([]string{"bash", "sh", "zsh"}, program(e.args[i].s)) && strings.HasPrefix(flag, "-") && strings.HasSuffix(flag, "c") && strings.Contains(strings.TrimSpace(e.args[i+2].s), " ") {
			e.say(schemas.NoteRisk, e.args[i+2].at, shellNote)
			return
		}
	}
}

// unwrapShell reads bash -c "one plain command", also with a leading cd.
func (e *entry) unwrapShell() bool {
	if len(e.args) == 0 || !strings.HasPrefix(e.args[0].s, "-") || !strings.HasSuffix(e.args[0].s, "c") {
		return false
	}
	if len(e.args) != 2 {
		e.say(schemas.NoteRisk, e.args[0].at, shellNote)
		return false
	}
	line, dir := strings.TrimPrefix(strings.TrimSpace(e.args[1].s), "exec "), ""
	if m := cdFirst().FindStringSubmatch(line); m != nil && e.cwd.s == "" && !strings.ContainsAny(m[1], "$`*~") {
		dir, line = strings.Trim(m[1], `"'`), strings.TrimPrefix(m[2], "exec ")
	}
	list, ok := shellWords(line)
	if !ok || strings.ContainsAny(strings.NewReplacer("${input:", "").Replace(line), "$(){}~\\") || strings.Contains(list[0], "=") || slices.Contains([]string{"source", ".", "eval", "export", "set", "cd", "echo"}, list[0]) {
		e.say(schemas.NoteRisk, e.args[1].at, shellNote)
		return false
	}
	if dir != "" {
		e.cwd = bit{"cwd", dir, e.args[1].at, e.args[1].ptr}
	}
	e.command.at = e.args[1].at
	e.replaceRun(list, nil)
	return true
}

// unwrapEnv reads env A=b X ….
func (e *entry) unwrapEnv() bool {
	i := 0
	if i < len(e.args) && e.args[i].s == "-S" && len(e.args) == 2 {
		list, ok := shellWords(e.args[1].s)
		if !ok {
			return false
		}
		e.replaceRun(append([]string{"env"}, list...), nil)
	}
	var env []bit
	for ; i < len(e.args); i++ {
		k, v, ok := strings.Cut(e.args[i].s, "=")
		if !ok || !envName().MatchString(k) {
			break
		}
		env = append(env, bit{k, v, e.args[i].at, e.args[i].ptr})
	}
	if i >= len(e.args) || strings.HasPrefix(e.args[i].s, "-") {
		return false
	}
	e.env = append(e.env, env...)
	e.command.at = e.args[i].at
	e.replaceRun([]string{e.args[i].s}, e.args[i+1:])
	return true
}

// installer reports a package that sets something up and ends.
func (e *entry) installer() {
	var words []bit
	for _, a := range e.args {
		if !strings.HasPrefix(a.s, "-") {
			words = append(words, a)
		}
	}
	if packageRunner(program(e.command.s)) && len(words) > 1 && slices.Contains([]string{"install", "setup", "init", "add", "configure"}, words[1].s) {
		e.say(schemas.NoteRisk, words[1].at, "%s %s sets something up and ends; it is no MCP server", shownText(words[0].s), words[1].s)
	}
}

var mcpRemote = lazy.Regexp(`^(?:@geelen/)?mcp-remote(?:@[\w.^~-]+)?$`)

// toRemote turns npx mcp-remote URL into the remote server that it stands for.
func (e *entry) toRemote() bool {
	if !slices.Contains([]string{"npx", "bunx", "pnpm", "pnpx", "yarn", "bun", "npm", "deno", "mcp-remote", "node"}, program(e.command.s)) {
		return false
	}
	at := slices.IndexFunc(e.args, func(b bit) bool { return mcpRemote().MatchString(strings.TrimPrefix(b.s, "npm:")) })
	if program(e.command.s) == "mcp-remote" {
		at = -1
	} else if at < 0 || slices.ContainsFunc(e.args[:at], func(b bit) bool {
		return !strings.HasPrefix(b.s, "-") && !slices.Contains([]string{"dlx", "exec", "x", "run"}, b.s)
	}) {
		return false
	}
	var address bit
	var dropped []string
	rest := e.args[at+1:]
	for i := 0; i < len(rest); i++ {
		b := rest[i]
		flag, value, joined := strings.Cut(b.s, "=")
		next := func() bit {
			if joined {
				return bit{"", value, b.at, b.ptr}
			}
			if i+1 < len(rest) {
				i++
				return rest[i]
			}
			return bit{at: b.at}
		}
		switch {
		case flag == "--header" || flag == "-H":
			e.remoteHeader(next())
		case flag == "--transport":
			if strings.HasPrefix(next().s, "sse") {
				e.word, e.typed = "sse", true
			}
		case flag == "--allow-http" || flag == "--debug" || flag == "--silent":
		case slices.Contains([]string{"--host", "--auth-timeout", "--ignore-tool", "--resource", "--static-oauth-client-info", "--static-oauth-client-metadata", "--callback-port", "--timeout"}, flag):
			next()
			dropped = append(dropped, flag)
		case strings.HasPrefix(b.s, "-"):
			dropped = append(dropped, flag)
		case address.s == "":
			address = b
		}
	}
	if !strings.Contains(address.s, "://") && !strings.HasPrefix(address.s, "$") {
		return false
	}
	e.url = bit{"url", address.s, address.at, address.ptr}
	e.say(schemas.NoteMapped, e.command.at, "mcp-remote is not needed here; it is read as the remote server that it reaches")
	if len(dropped) > 0 {
		e.say(schemas.NoteIgnored, e.command.at, "flags of mcp-remote are left out: %s", strings.Join(dropped, ", "))
	}
	e.command, e.args = bit{}, nil
	e.env = slices.DeleteFunc(e.env, func(b bit) bool { return slices.Contains(e.spent, b.key) })
	if e.word != "sse" {
		e.word, e.typed = "", false
	}
	return true
}

// remoteHeader reads "Name: value" whose ${X} come from the entry's own env, as mcp-remote fills them in.
func (e *entry) remoteHeader(b bit) {
	name, value, ok := strings.Cut(b.s, ":")
	if !ok || !headerName().MatchString(strings.TrimSpace(name)) {
		return
	}
	for _, v := range e.env {
		if ref := "${" + v.key + "}"; strings.Contains(value, ref) {
			if strings.TrimSpace(v.s) != "" && !sample(v.s, true) {
				value = strings.ReplaceAll(value, ref, v.s)
			}
			e.spent = append(e.spent, v.key)
		}
	}
	h := bit{strings.TrimSpace(name), strings.TrimSpace(value), b.at, b.ptr}
	if e.checkPair(h, "headers", true) {
		e.headers = append(e.headers, h)
	}
}
