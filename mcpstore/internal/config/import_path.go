package config

import (
	"fmt"
	"slices"
	"strings"

	"bobbin/internal/lazy"
	"bobbin/schemas"
)

var (
	windowsPath = lazy.Regexp(`^[A-Za-z]:[\\/]|^\\\\`)
	scriptFile  = lazy.Regexp(`\.(?:js|mjs|cjs|ts|py|rb|php|sh|bat|ps1|jar|dll|exe|wasm)$`)
	samplePath  = lazy.Regexp(`(?i)(?:^|[/\\])path[/\\_-]to(?:[/\\_-]|$)|(?:^|[/\\])(?:caminho|camino|ruta|chemin|pfad|percorso|pad|cesta|sciezka|ścieżka|путь)[/\\_-](?:para|completo|completa|absoluto|absoluta|do|da|a|al|hasta|hacia|vers|zu|zum|zur|al|naar|k|ke|do|к|до)(?:[/\\_-]|$)|路径|路徑|경로|パス[/\\]|你的|您的|用户名|ユーザー名|사용자|^/(?:absolute|full|your)[/_-]|^(?:/Users|/home|[A-Z]:[/\\]Users)[/\\](?:user_?name|you|your[-_]?\w*|my_?user(?:name)?|<[^>]+>|\{[^}]+\}|\[[^\]]+\])(?:[/\\]|$)`)
	pathRun     = lazy.Regexp(`(?:\b[A-Za-z]:)?[/\\~][^\s,;:"'=|]*`)
	pathHole    = lazy.Regexp(`<[\pL][\pL\pN_ .-]{0,60}>`)
	wholeDrive  = lazy.Regexp(`^(?:/|[A-Za-z]:[\\/]*|/mnt/[a-z]/?|/Users/?|/home/?|/Volumes/?|/mnt/?|~/?|/root/?)$`)
	exactNumber = lazy.Regexp(`^v?\d+\.\d+[\w.+-]*$`)
)

// isSamplePath reports whether a path only shows what to write there.
func isSamplePath(s string) bool {
	return (strings.HasPrefix(s, "/") || strings.HasPrefix(s, "<") && strings.Contains(s, ">/") || strings.HasPrefix(s, "path/to/") || strings.HasPrefix(s, "./path/to/") || strings.HasPrefix(s, "~") || windowsPath().MatchString(s)) && !strings.Contains(s, "://") &&
		(samplePath().MatchString(s) || pathHole().MatchString(s))
}

// foreignPath says what kind of path of one machine a text is, "" for none.
func foreignPath(s string) string {
	switch {
	case isSamplePath(s):
		return "a sample path"
	case windowsPath().MatchString(s):
		return "a Windows path"
	case strings.HasPrefix(s, "file://"):
		return foreignPath(strings.TrimPrefix(s, "file://"))
	case strings.HasPrefix(s, "/usr/bin/"), strings.HasPrefix(s, "/bin/"), strings.HasPrefix(s, "/dev/null"), strings.HasPrefix(s, "/tmp"), s == "/workspace", strings.HasPrefix(s, "/workspace/"):
		return ""
	case strings.HasPrefix(s, "/") && pathLike(s), strings.HasPrefix(s, "~"), strings.HasPrefix(s, "$HOME/"):
		return "a path"
	case s == ".", s == "..", strings.HasPrefix(s, "./"), strings.HasPrefix(s, "../"), strings.HasPrefix(s, `.\`), strings.HasPrefix(s, `..\`):
		return "a relative path"
	}
	return ""
}

// pathNote remarks on a value that is a path.
func (e *entry) pathNote(s, where string, at int) {
	if kind := foreignPath(s); kind != "" && !strings.HasPrefix(s, "${input:") && !e.pathSaid(where, at) {
		e.say(schemas.NotePath, at, "%s is %s: %s; it must exist where the server runs", where, kind, shownPath(s))
	}
}

// pathSaid reports whether something was said already about this path.
func (e *entry) pathSaid(where string, at int) bool {
	line, col := e.src.place(at)
	return slices.ContainsFunc(e.notes, func(n schemas.Note) bool {
		return n.Kind == schemas.NotePath && n.Server == e.name && n.Line == line && n.Col == col && strings.HasPrefix(n.Text, where)
	})
}

// packageRunner reports whether a program fetches and starts packages.
func packageRunner(prog string) bool {
	return slices.Contains([]string{"npx", "bunx", "pnpx", "uvx", "pipx", "dnx"}, prog)
}

// local remarks on what is started.
func (e *entry) local(command string) {
	e.pathNote(command, "the command", e.command.at)
	switch program(command) {
	case "npx", "bunx", "pnpx", "uvx", "pipx", "dnx", "pnpm", "yarn", "npm", "bun", "uv", "deno":
		e.packageNote(program(command))
		e.installer()
	case "docker", "podman", "nerdctl":
		e.dockerNotes()
	case "curl", "wget", "echo", "printf", "true", "cat", "ls":
		e.say(schemas.NoteRisk, e.command.at, "%s is no MCP server; it runs once and ends", program(command))
	case "wsl", "osascript", "open":
		e.say(schemas.NotePath, e.command.at, "%s is a program of one kind of machine; it must exist where the server runs", program(command))
	}
}

// packageNote names a package without an exact version: tomorrow's code may differ.
func (e *entry) packageNote(prog string) {
	sub := !packageRunner(prog)
	skip := map[string]bool{"dlx": sub, "exec": sub, "x": sub, "run": prog != "npm" && prog != "yarn" && prog != "bun" && prog != "pnpm", "tool": sub}
	valued := []string{"-p", "--package", "--from", "--with", "--python", "--directory", "--project", "--registry", "--index-url", "--cache", "-c", "--call"}
	for i := 0; i < len(e.args); i++ {
		a := e.args[i].s
		switch {
		case prog == "uvx" && a == "-p":
			i++ // the version of Python
		case a == "--from" || a == "-p" || a == "--package":
			if i+1 < len(e.args) {
				e.pinNote(e.args[i+1])
			}
			return
		case strings.HasPrefix(a, "--from="), strings.HasPrefix(a, "--package="):
			_, v, _ := strings.Cut(a, "=")
			e.pinNote(bit{"", v, e.args[i].at, ""})
			return
		case slices.Contains(valued, a):
			i++
		case strings.HasPrefix(a, "-"), skip[a]:
		case strings.Contains(a, "${") && i > 0 && strings.HasPrefix(e.args[i-1].s, "--"): // the value of a flag
		case strings.Contains(a, "${"), i > 0 && len(e.args[i-1].s) == 2 && e.args[i-1].s[0] == '-' && !strings.Contains("-y-q-s-U", e.args[i-1].s):
			return // not known, or perhaps the value of a flag
		default:
			if prog == "uv" || (prog == "npm" || prog == "yarn" || prog == "bun" || prog == "pnpm") && i == 0 || scriptFile().MatchString(a) {
				return // a script of a project
			}
			e.pinNote(e.args[i])
			return
		}
	}
}

func (e *entry) pinNote(b bit) {
	if v := versionOf(b.s); exactNumber().MatchString(v) || foreignPath(b.s) != "" || strings.TrimSpace(b.s) == "" {
		return
	}
	e.say(schemas.NoteUnpinned, b.at, "%s has no exact version; tomorrow's code may differ", shownText(b.s))
}

// versionOf gives what stands behind the @, == or : of a package or image.
func versionOf(pkg string) string {
	if _, v, ok := strings.Cut(pkg, "=="); ok {
		return v
	}
	if i := strings.LastIndex(pkg, "@"); i > 0 {
		return pkg[i+1:]
	}
	return ""
}

// stripVersion gives a package without its version.
func stripVersion(pkg string) string {
	pkg, _, _ = strings.Cut(pkg, "==")
	if i := strings.LastIndex(pkg, "@"); i > 0 {
		pkg = pkg[:i]
	}
	return pkg
}

// dockerValued reports whether a flag of docker run takes a value.
func dockerValued(flag string) bool {
	return slices.Contains([]string{"-e", "--env", "--env-file", "--name", "-p", "--publish", "--network", "--net", "-w", "--workdir", "-u", "--user", "--entrypoint", "--platform", "-l", "--label",
		"--add-host", "-m", "--memory", "--cpus", "-h", "--hostname", "--pull", "--ip", "--restart", "--gpus", "--device", "--cap-add", "--cap-drop", "--security-opt", "--pid", "--ipc", "--ulimit",
		"--tmpfs", "--shm-size"}, flag)
}

// dockerNotes remarks on mounts, the engine's socket, and the image's tag.
func (e *entry) dockerNotes() {
	for i := 0; i < len(e.args); i++ {
		a := e.args[i]
		flag, value, joined := strings.Cut(a.s, "=")
		if flag == "-v" || flag == "--volume" || flag == "--mount" {
			if !joined && i+1 < len(e.args) {
				i++
				a, value = e.args[i], e.args[i].s
			}
			e.mountNote(value, a.at)
			continue
		}
		switch {
		case flag == "--privileged", (flag == "--network" || flag == "--net" || flag == "--pid" || flag == "--ipc") && (value == "host" || i+1 < len(e.args) && e.args[i+1].s == "host"),
			flag == "--cap-add", flag == "--device", flag == "--security-opt":
			e.say(schemas.NoteRisk, a.at, "docker %s reaches out of the container", flag)
		}
		switch {
		case dockerValued(flag):
			if !joined {
				i++
			}
		case strings.HasPrefix(a.s, "-"), a.s == "run", a.s == "container":
		case slices.Contains([]string{"compose", "exec", "mcp", "start", "ai", "scout"}, a.s):
			e.say(schemas.NotePath, a.at, "docker %s uses what is set up on one machine; it must exist where the server runs", a.s)
			return
		default:
			_, tag, tagged := strings.Cut(a.s[strings.LastIndex(a.s, "/")+1:], ":")
			if !strings.Contains(a.s, "@sha256:") && (!tagged || tag == "latest" || !strings.ContainsAny(tag, "0123456789")) {
				e.say(schemas.NoteUnpinned, a.at, "image %s has no exact version; tomorrow's code may differ", shownText(a.s))
			}
			return
		}
	}
}

func (e *entry) mountNote(m string, at int) {
	switch {
	case strings.HasPrefix(m, "${input:"), strings.Contains(m, "src=${input:"), strings.Contains(m, "source=${input:"): // asked for
	case strings.Contains(m, "docker.sock"), strings.Contains(m, "docker_engine"), strings.Contains(m, "podman.sock"), strings.Contains(m, "containerd.sock"):
		e.say(schemas.NoteRisk, at, "docker gets the engine's own socket, which is full power over the machine")
	case e.pathSaid("args", at):
	default:
		e.say(schemas.NotePath, at, "docker mounts a path: %s; it must exist where the server runs", shownPath(m))
	}
}

// folderFlag reports whether a flag is followed by a folder or file of a project.
func folderFlag(flag string) bool {
	return slices.Contains([]string{"--project", "--directory", "--dir", "--cwd", "--prefix", "--root"}, flag)
}

// pathNotes remarks on paths among the arguments.
func (e *entry) pathNotes(s *schemas.Server) {
	inside := slices.Contains([]string{"docker", "podman", "nerdctl"}, program(s.Command)) // paths of the container
	for i, a := range s.Args {
		if inside {
			break
		}
		at := e.args[min(i, len(e.args)-1)].at
		value := a
		if m := flagValue().FindStringSubmatch(a); m != nil {
			value = m[2]
		}
		if wholeDrive().MatchString(value) && value != "~" && !(program(s.Command) == "cmd" && len(value) == 2) {
			e.say(schemas.NoteRisk, at, "args %d opens a whole drive or all homes: %s", i+1, value)
			continue
		}
		if strings.HasPrefix(value, "/") && len(value) == 2 {
			continue // a switch of Windows
		}
		kind := foreignPath(value)
		if kind == "" && i > 0 && folderFlag(s.Args[i-1]) && strings.Contains(value, "/") && !strings.Contains(value, "://") && !strings.HasPrefix(value, "@") {
			kind = "a relative path"
		}
		if kind == "" && scriptFile().MatchString(value) && !packageRunner(program(s.Command)) && !strings.Contains(value, "://") && i < 3 && !strings.HasPrefix(value, "@") && !strings.Contains(value, " ") {
			kind = "a relative path"
			if strings.HasPrefix(value, "/") {
				kind = "a path"
			}
		}
		if kind != "" && !strings.HasPrefix(value, "${input:") && !e.pathSaid(fmt.Sprintf("args %d", i+1), at) {
			e.say(schemas.NotePath, at, "args %d is %s: %s; it must exist where the server runs", i+1, kind, shownPath(value))
		}
	}
}
