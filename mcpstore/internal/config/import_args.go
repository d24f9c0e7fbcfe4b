package config

import (
	"fmt"
	"slices"
	"strings"

	"bobbin/internal/lazy"
	"bobbin/schemas"
)

var (
	flagValue   = lazy.Regexp(`^(--?[A-Za-z][\w.-]*)=(.*)$`)
	nameValue   = lazy.Regexp(`^([A-Za-z_][A-Za-z0-9_]*)=(.*)$`)
	headerValue = lazy.Regexp(`^([A-Za-z][A-Za-z0-9-]*)(:\s*)(\S.*)$`)
	// userPassword is name:password as for HTTP basic authentication, and no host:port or image:tag.
	userPassword = lazy.Regexp(`^[^:@/\s$]+:[^:/\s$]*[^:/\s$\d][^:/\s$]*$`)
	flagOnly     = lazy.Regexp(`^--?[A-Za-z][\w.-]*$`)
)

// fillArgs takes the values out of the arguments, one by one; their boundaries stay.
func (r *reader) fillArgs(e *entry, s *schemas.Server) {
	previous := ""
	login := slices.ContainsFunc(e.args, func(b bit) bool { return slices.Contains([]string{"-u", "-U", "--user", "--username"}, b.s) })
	for i, b := range e.args {
		where := fmt.Sprintf("args %d", i+1)
		if !e.shell {
			b.s = e.ownValues(b.s)
		}
		in := gap{login: login, program: program(e.command.s), server: e.name, where: where, id: fmt.Sprintf("VALUE_%d", i+1), arg: true, shell: e.shell, at: b.at, ptr: b.ptr}
		s.Args = append(s.Args, r.fillArg(in, previous, b.s))
		previous = b.s
	}
	for i, b := range e.args {
		if strings.TrimSpace(b.s) == "" {
			e.say(schemas.NoteOther, b.at, "args %d is empty; if it stands for a value, put that in before you confirm", i+1)
		}
	}
	for i := range e.args { // what is remarked on them must not show a secret
		e.args[i].s = s.Args[i]
	}
}

// ownValues fills in variables whose plain values stand in the entry's own env.
func (e *entry) ownValues(text string) string {
	if !strings.Contains(text, "$") {
		return text
	}
	for _, v := range e.env {
		if whole := strings.HasPrefix(v.s, "${") && references().FindString(v.s) == v.s; whole && strings.Contains(text, "$"+v.key) {
			text = strings.ReplaceAll(text, "$"+v.key, v.s) // asked for once
			continue
		}
		if strings.TrimSpace(v.s) == "" || strings.ContainsAny(v.s, "${}<>%") || secretName(v.key) || hasSecret(v.s) || sample(v.s, false) || isSamplePath(v.s) {
			continue
		}
		text = strings.ReplaceAll(text, "${"+v.key+"}", v.s)
		if i := strings.Index(text, "$"+v.key); i >= 0 && wordLen([]byte(text[i+1+len(v.key):])) == 0 {
			text = strings.Replace(text, "$"+v.key, v.s, 1)
		}
	}
	return text
}

var ownSetting = lazy.Regexp(`\$?\{\{?\s*(?:config|settings|user_config)\.(\w+)\s*\}?\}`)

// ownSettings fills in ${config.X} from the entry's own "config" beside it.
func (e *entry) ownSettings() {
	own := map[string]string{}
	for _, key := range []string{"config", "settings", "user_config"} {
		for _, m := range e.node.get(key).membersOf() {
			if m.value.is(textNode) || m.value.is(numberNode) || m.value.is(boolNode) {
				own[m.key] = m.value.text
			}
		}
	}
	used := false
	for _, list := range [][]bit{e.args, e.env, e.headers} {
		for i := range list {
			list[i].s = ownSetting().ReplaceAllStringFunc(list[i].s, func(whole string) string {
				if v := own[ownSetting().FindStringSubmatch(whole)[1]]; strings.TrimSpace(v) != "" {
					used = true
					return v
				}
				return whole
			})
		}
	}
	switch c := e.node.get("config"); {
	case !used && c.is(objectNode):
		e.say(schemas.NoteIgnored, c.at, "\"config\" is ignored")
	case used:
		e.say(schemas.NoteMapped, e.at, "values of its \"config\" are filled in where they are named")
	}
}

// passedOn asks for the variables that docker run -e NAME takes from the client's own environment.
func (e *entry) passedOn() {
	for i, b := range e.env { // GitHub's coding agent writes the name of its secret as the value
		if name, ok := strings.CutPrefix(b.s, "COPILOT_MCP_"); ok && envName().MatchString(b.s) {
			e.env[i].s = "${" + name + "}"
		}
	}
	if p := program(e.command.s); p != "docker" && p != "podman" {
		return
	}
	for i, b := range e.args {
		name, joined := strings.CutPrefix(b.s, "--env=")
		if !joined {
			if i == 0 || e.args[i-1].s != "-e" && e.args[i-1].s != "--env" {
				continue
			}
			name = b.s
		}
		known := slices.ContainsFunc(e.env, func(o bit) bool { return o.key == name })
		if envName().MatchString(name) && !known && !machineVariable(name) {
			e.env = append(e.env, bit{name, "${" + name + "}", b.at, b.ptr})
			e.say(schemas.NoteMapped, b.at, "%s came from the environment of the client; you are asked for it", name)
		}
	}
}

// fillArg knows the forms --flag value, --flag=value, NAME=value, "Header: value" and plain text.
func (r *reader) fillArg(in gap, previous, text string) string {
	previous = strings.TrimSpace(previous)
	if r.stored && !strings.HasPrefix(previous, "-") && !strings.ContainsAny(text, "=:$%{@?") && !mayHoldSecret(text) {
		return text
	}
	head, value := "", text
	header := previous == "--header" || previous == "-H" || previous == "--headers"
	switch {
	case header || !strings.Contains(text, "://") && headerValue().MatchString(text) && likelyHeader(text):
		if m := headerValue().FindStringSubmatch(text); m != nil {
			head, value = m[1]+m[2], m[3]
			in.id, in.secret, in.where = inputID(m[1]), secretName(m[1]), in.where+", header "+m[1]
		}
	case flagValue().MatchString(text):
		m := flagValue().FindStringSubmatch(text)
		head, value = m[1]+"=", m[2]
		in.id, in.secret = upperSnake(strings.TrimPrefix(m[1], "--env.")), secretName(m[1])
		if n := nameValue().FindStringSubmatch(value); n != nil && (m[1] == "-e" || m[1] == "--env") {
			head, value = head+n[1]+"=", n[2]
			in.id, in.secret = n[1], secretName(n[1])
		} else if n := headerValue().FindStringSubmatch(value); n != nil && m[1] == "--header" {
			head, value = head+n[1]+n[2], n[3]
			in.id, in.secret, in.where = inputID(n[1]), secretName(n[1]), in.where+", header "+n[1]
		}
	case nameValue().MatchString(text) && !(in.shell && strings.Contains(text, " ")):
		m := nameValue().FindStringSubmatch(text)
		head, value = m[1]+"=", m[2]
		in.id, in.secret = m[1], secretName(m[1])
	case flagOnly().MatchString(text):
		return text
	case (previous == "-u" || previous == "--user") && in.program != "docker" && in.program != "podman" && userPassword().MatchString(text):
		head, value, _ = strings.Cut(text, ":")
		head += ":"
		in.id, in.secret = "PASSWORD", true
	case previous == "-p" && in.login && len(text) > 3 && !allDigits(text) && !pathLike(text):
		in.id, in.secret = "PASSWORD", true
	case len(previous) == 2 && strings.Contains("-k-t-a-s", previous) && (randomLooking(text) || previous == "-k" && keyRun().MatchString(text) && strings.ContainsAny(text, "0123456789") && !pathLike(text)):
		in.id, in.secret = "KEY", true
	case flagOnly().MatchString(previous) && len(previous) > 2:
		in.id, in.secret = upperSnake(previous), secretName(previous)
	}
	if head != "" && value == "" {
		return text
	}
	if n := len(value); n > 1 && head != "" && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
		return head + value[:1] + r.fill(in, value[1:n-1]) + value[n-1:]
	}
	return head + r.fill(in, value)
}

func allDigits(s string) bool { return strings.Trim(s, "0123456789") == "" }

// likelyHeader reports whether "Name: value" is a header and no other text with a colon.
func likelyHeader(text string) bool {
	name, _, _ := strings.Cut(text, ":")
	return strings.EqualFold(name, "authorization") || strings.HasPrefix(strings.ToLower(name), "x-") || secretName(name) && strings.Contains(name, "-")
}

// loaderVariable reports whether a variable changes which code a program loads or where its traffic goes.
func loaderVariable(name string) bool {
	switch strings.ToUpper(name) {
	case "PATH", "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "NODE_OPTIONS", "NODE_PATH", "NODE_EXTRA_CA_CERTS", "NODE_TLS_REJECT_UNAUTHORIZED", "LD_PRELOAD", "LD_LIBRARY_PATH",
		"DYLD_INSERT_LIBRARIES", "DYLD_LIBRARY_PATH", "VIRTUAL_ENV", "RUBYOPT", "RUBYLIB", "PERL5LIB", "PERL5OPT", "JAVA_TOOL_OPTIONS", "CLASSPATH", "BASH_ENV", "ENV", "HTTP_PROXY", "HTTPS_PROXY",
		"ALL_PROXY", "NPM_CONFIG_REGISTRY", "UV_INDEX_URL", "UV_DEFAULT_INDEX", "UV_EXTRA_INDEX_URL", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "DOCKER_HOST", "GIT_SSH_COMMAND", "SSL_CERT_FILE":
		return true
	}
	return false
}
