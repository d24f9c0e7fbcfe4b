package config

import (
	"slices"
	"strings"
	"unicode"

	"bobbin/internal/lazy"
	"bobbin/schemas"
)

// inputID makes a valid input id of a name, keeping its spelling where it can.
func inputID(name string) string {
	var b strings.Builder
	for _, c := range name {
		switch {
		case c < 128 && (unicode.IsLetter(c) || unicode.IsDigit(c)) || c == '_' || c == '.' || c == '-':
			b.WriteRune(c)
		default:
			b.WriteByte('_')
		}
	}
	id := strings.TrimFunc(b.String(), func(c rune) bool { return strings.ContainsRune("_.-", c) })
	if id != "" && unicode.IsDigit(rune(id[0])) {
		id = "_" + id
	}
	id = strings.TrimRight(id[:min(len(id), 64)], "_.-")
	if !schemas.ValidInput(id) {
		return "VALUE"
	}
	return id
}

// upperSnake turns a flag or sample text such as "--api-key" into API_KEY.
func upperSnake(name string) string {
	return inputID(strings.ToUpper(strings.Join(words(name), "_")))
}

var (
	sampleWords = lazy.Regexp(`(?i)(?:^|[^a-z])your(?:$|[-_.]|api|key|token|secret|pass|user|access|client|account|project|org|host|domain|url|server|database|name|id|own|actual|real)` +
		`|^your\b|\byour (?:\S+ ){0,3}(?:key|token|secret|password|id|url|name|here|file|path|folder|directory)\b|(?-i:(?:^|[a-z])Your[A-Z]|[a-z]Here$)` +
		`|(?:^|[-_ ])(?:replace|change|insert|paste|enter|put|add|set|fill)[-_ ]?(?:(?:in|with|it)[-_ ])?(?:me|this|your|here|yours)(?:$|[^a-z])` +
		`|[-_ ]here$|^(?:todo|tbd|fixme|placeholder|redacted|dummy|changeme|replaceme|example|sample|none-yet|secret-here)$` +
		`|(?:^|[-_ ])(?:placeholder|redacted|changeme)(?:$|[-_ ])` +
		`|^my[-_ ]?(?:\w+[-_ ])*(?:key|token|secret|password)$|^(?:\w+[-_])?(?:dummy|fake|sample|example)[-_](?:\w+[-_])*(?:key|token|secret|password)s?$` +
		`|^(?:the|an?|some)[-_ ](?:\w+[-_ ])*(?:key|token|secret|password)$`)
	sampleFilled = lazy.Regexp(`(?i)x{4,}|^x{3,}$|^[*•·.…-]{3,}$|\*{3,}|•{3,}|\.\.\.$|…|(?-i:EXAMPLE(?:KEY)?)$`)
	sampleOther  = lazy.Regexp(`(?i)^(?:TU|SU|VOTRE|TON|TA|DEIN|DEINE|DEINEN|IHR|IHRE|SEU|SUA|TUO|TUA|VOSTRO|JOUW|UW|TWOJ|TWÓJ|TWOJE|VAS|VASA|VAŠA|VÁŠ|VAŠE|DIN|DITT|SENIN|VASH)[-_ ]` +
		`|(?:tua|sua|tu|su|votre|dein|deine|ihr|ihren|tuo|twoj)[-_ ]?(?:chave|clave|llave|clé|schlüssel|schluessel|token|api|chiave|klucz)|(?:^|[-_ ])(?:AQUI|AQUÍ|ICI|HIER|AQUI|QUI|TUTAJ|SEM|CLAVE|LLAVE|CHAVE|CHIAVE|CLÉ|SCHLÜSSEL|KĽÚČ|KLÍČ|KLUCZ)$`)
	sampleScript = lazy.Regexp(`(?i)ключ|токен|пароль|ваш|キー|トークン|パスワード|あなた|密钥|密鑰|令牌|密码|密碼|您的|你的|填|替换|여기|당신|키를|열쇠|토큰|비밀번호|مفتاح|आपक`)
	variableName = lazy.Regexp(`^(?:COPILOT_MCP_[A-Z0-9_]+|[A-Z]+[A-Z0-9]*(?:_[A-Z0-9]+)+)$`)
	markerForm   = lazy.Regexp(`^(?:<{1,2}[^<>=]{1,80}>{1,2}|\{\{?\s*[\pL_][\w .:-]{0,60}\s*\}?\}|\[[\pL_][\pL\w -]{1,60}\]|__[A-Z][A-Z0-9_]+__|@@?[A-Z_]+@@?|\(\(\s*\w+\s*\)\))$`)
)

// sample reports whether a value only shows what to write there. Under a secret-looking name less is needed to say so.
func sample(v string, secret bool) bool {
	if markerForm().MatchString(v) {
		return true
	}
	if pathLike(v) || len(v) > 200 {
		return false
	}
	foreign := sampleOther().MatchString(v) && (secret || v == strings.ToUpper(v)) // ton-api is a package, TON_TOKEN is none
	if strings.Count(v, " ") <= 6 && (sampleWords().MatchString(v) || foreign) || sampleFilled().MatchString(v) && !strings.Contains(v, " ") && (secret || len(v) < 60 && !strings.Contains(v, "/")) {
		return true
	}
	if sampleScript().MatchString(v) && strings.Count(v, " ") <= 4 {
		return true
	}
	if !secret {
		return false
	}
	if strings.ContainsFunc(v, func(r rune) bool { return r > 127 }) {
		return true // credentials are ASCII
	}
	if variableName().MatchString(v) && secretName(v) {
		return true // the name of a variable stands where its value should
	}
	w := strings.Join(words(v), "")
	return slices.Contains([]string{"apikey", "token", "accesstoken", "secret", "password", "key", "apitoken", "xxx", "authtoken", "clientsecret", "githubtoken",
		"personalaccesstoken", "apikeyhere", "string"}, w)
}

var references = lazy.Regexp(`\$\{(input:[^}]*|[^{}]*)\}|\{env:([A-Za-z_]\w*)\}|\$?\{\{\s*([A-Za-z_][\w.-]*)\s*\}\}|%([A-Za-z_]\w*)%|\$env:([A-Za-z_]\w*)|\$([A-Z_][A-Z0-9_]{2,})\b|\$\(([^()]*)\)`)

// machineVariable reports whether a variable only tells how the author's machine is set up. It is not asked for.
func machineVariable(name string) bool {
	switch strings.ToUpper(name) {
	case "HOME", "USERHOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "PROGRAMFILES", "PROGRAMDATA", "SYSTEMROOT", "HOMEPATH", "HOMEDRIVE", "PATH", "PWD", "USER", "USERNAME",
		"TMPDIR", "TEMP", "TMP", "SHELL", "LANG", "LOGNAME", "DESKTOP", "DOCUMENTS", "DOWNLOADS", "__DIRNAME", "/", "PATHSEPARATOR", "CLAUDE_PLUGIN_ROOT", "CLAUDE_PLUGIN_DATA",
		"PLUGIN_ROOT", "EXTENSIONPATH", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "NODE_PATH", "EXECPATH", "VIRTUAL_ENV":
		return true
	}
	return false
}

// workspaceVariable reports whether a variable stands for the folder that a client has open.
func workspaceVariable(name string) bool {
	name, _, _ = strings.Cut(name, ":")
	switch strings.ToLower(name) {
	case "workspacefolder", "workspaceroot", "workspace", "projectroot", "project_root", "workspacefolderbasename", "cwd", "worktree", "zed_worktree_root", "workspace_root",
		"workspacedir", "projectdir", "project_dir", "workspace_folder", "rootdir", "claude_project_dir":
		return true
	}
	return false
}
