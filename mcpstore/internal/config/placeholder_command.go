package config

import (
	"cmp"
	"strings"

	"bobbin/internal/lazy"
	"bobbin/schemas"
)

// sampleCommand matches a command that only shows what to write there.
var sampleCommand = lazy.Regexp(`(?i)^your[-_ ](?:own[-_ ])?(?:command|server|program|binary|executable|mcp[-_ ]server)\b|^(?:command|program|executable)$|^(?:changeme|replace[-_]?me|placeholder|todo)$|(?:^|[/\\])path[/\\]to[/\\]`)

// command gives the program as it stands: a person confirms what is started, so no input ever stands for it. Only the folder
// that a client has open and a variable's own default are known here. A secret in it is taken out all the same, and such a
// server does not start.
func (r *reader) command(server string, b bit) string {
	s := gap{server: server, where: "the command", id: "VALUE", arg: true, shell: true, at: b.at, ptr: b.ptr}
	was := strings.TrimSpace(b.s)
	out := was
	if strings.ContainsAny(was, " =@?") || mayHoldSecret(was) {
		out = r.known(s, r.parts(s, was))
	}
	if r.stored {
		return out
	}
	if out != was {
		r.note(schemas.NoteRisk, server, b.at, "a secret stands in the command, where none can be filled in; the server cannot start until it is moved to args or env")
	}
	open := false
	out = references().ReplaceAllStringFunc(out, func(whole string) string {
		name := strings.Trim(whole, "${}% ")
		if strings.HasPrefix(name, "input:") || strings.HasPrefix(whole, "$(") {
			open = open || out == was
			return whole
		}
		name, def, _ := defaultOf(bareVariable(name))
		switch {
		case workspaceVariable(name):
			r.note(schemas.NotePath, server, b.at, "the command: %s is the workspace here", whole)
			return cmp.Or(r.up, ".")
		case machineVariable(name):
			r.note(schemas.NotePath, server, b.at, "the command: %s is a variable of one machine, left as it is; it must exist where the server runs", whole)
		case def != "":
			r.note(schemas.NoteMapped, server, b.at, "the command: %s is read as its default %s", whole, shownText(def))
			return def
		default:
			open = true
		}
		return whole
	})
	if open || bracedName().MatchString(out) || markerForm().MatchString(out) || pathHole().MatchString(out) || isSamplePath(out) || sampleCommand().MatchString(out) {
		r.note(schemas.NotePath, server, b.at, "the command %s is a placeholder; the server cannot start until the real one is written there", shownPath(out))
	}
	return out
}

// bareVariable gives the name of a variable without the word that says where another client takes it from.
func bareVariable(name string) string {
	for _, p := range []string{"env:", "user_config.", "env.", "process.env.", "secret:", "secrets.", "secrets:", "vault:", "config:", "config.", "command:", "ENV:"} {
		name = strings.TrimPrefix(name, p)
	}
	return strings.TrimSpace(name)
}

// defaultOf splits NAME:-default.
func defaultOf(name string) (bare, def string, ok bool) {
	bare, def, ok = strings.Cut(name, ":-")
	if !ok {
		bare, def, ok = strings.Cut(name, ":=")
	}
	return bare, def, ok
}
