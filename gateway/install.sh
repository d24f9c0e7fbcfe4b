#!/bin/sh
# Plugs a thread of bobbin into an MCP client on this machine. It holds no token: make one with /mcp gateway token in the thread.
# usage: install.sh [claude-desktop|claude-code|vscode|cursor]
set -eu
client=${1:-@CLIENT@}
name='@NAME@'

say() { printf '%s\n' "$*" >&2; }

entry() {
	case $1 in
	@ENTRIES@
	*)
		say "usage: install.sh claude-desktop|claude-code|vscode|cursor"
		exit 2
		;;
	esac
}

# A download that was cut off does nothing: what is done stands in a function, which is called at the very end.
main() {
config=${XDG_CONFIG_HOME:-$HOME/.config}
if [ "$(uname -s)" = Darwin ]; then
	config="$HOME/Library/Application Support"
fi
case $client in
claude-desktop)
	file="$config/Claude/claude_desktop_config.json"
	next="open $file, put the token in place of PASTE-THE-TOKEN, and start Claude Desktop again"
	;;
claude-code)
	file="$HOME/.claude.json"
	next="export BOBBIN_GATEWAY_TOKEN=… before you start claude"
	;;
vscode)
	file="$config/Code/User/mcp.json"
	next="VS Code asks for the token when it connects first, and keeps it"
	;;
cursor)
	file="$HOME/.cursor/mcp.json"
	next="export BOBBIN_GATEWAY_TOKEN=… where Cursor is started"
	;;
*)
	say "usage: install.sh claude-desktop|claude-code|vscode|cursor"
	exit 2
	;;
esac

mkdir -p "$(dirname "$file")"
new=$(entry "$client")
if [ ! -s "$file" ]; then
	(umask 077 && printf '%s\n' "$new" >"$file")
elif command -v python3 >/dev/null 2>&1; then
	BOBBIN_NEW=$new python3 - "$file" <<'MERGE'
import json, os, sys, tempfile
path = os.path.realpath(sys.argv[1])
new = json.loads(os.environ["BOBBIN_NEW"])
try:
    with open(path, encoding="utf-8") as f:
        old = json.load(f)
    if not isinstance(old, dict) or any(not isinstance(old.get(key, value), type(value)) for key, value in new.items()):
        raise ValueError
except ValueError:
    sys.exit("bobbin: %s is not plain JSON of that client; put this into it yourself:\n%s" % (path, json.dumps(new, indent=2)))
for key, value in new.items():
    have = old.setdefault(key, type(value)())
    if isinstance(value, list):
        have.extend(v for v in value if v not in have)
        continue
    for name, entry in value.items():  # a token that was put into it stays
        was = have.get(name)
        if "env" in entry and isinstance(was, dict) and isinstance(was.get("env"), dict):
            entry["env"].update(was["env"])
        have[name] = entry
fd, tmp = tempfile.mkstemp(dir=os.path.dirname(path))
with os.fdopen(fd, "w", encoding="utf-8") as f:
    json.dump(old, f, indent=2, ensure_ascii=False)
    f.write("\n")
os.chmod(tmp, os.stat(path).st_mode & 0o777)
os.replace(tmp, path)
MERGE
elif command -v node >/dev/null 2>&1; then
	BOBBIN_NEW=$new node - "$file" <<'MERGE'
const fs = require("fs");
const path = fs.realpathSync(process.argv[2]), add = JSON.parse(process.env.BOBBIN_NEW);
const kind = (v) => (Array.isArray(v) ? "list" : v === null ? "null" : typeof v);
let old;
try {
	old = JSON.parse(fs.readFileSync(path, "utf8"));
	if (kind(old) !== "object" || Object.entries(add).some(([key, value]) => kind(key in old ? old[key] : value) !== kind(value))) throw 0;
} catch {
	console.error(`bobbin: ${path} is not plain JSON of that client; put this into it yourself:\n${JSON.stringify(add, null, 2)}`);
	process.exit(1);
}
for (const [key, value] of Object.entries(add)) {
	if (Array.isArray(value)) {
		old[key] ??= [];
		for (const v of value) if (!old[key].some((o) => o?.id === v.id)) old[key].push(v);
		continue;
	}
	old[key] ??= {};
	for (const [name, entry] of Object.entries(value)) {
		if (entry.env) entry.env = { ...entry.env, ...old[key][name]?.env }; // a token that was put into it stays
		old[key][name] = entry;
	}
}
const tmp = `${path}.bobbin-${process.pid}`;
fs.writeFileSync(tmp, JSON.stringify(old, null, 2) + "\n", { mode: fs.statSync(path).mode & 0o777 });
fs.renameSync(tmp, path);
MERGE
else
	say "bobbin: $file exists, and neither python3 nor node is here to change it; put this into it:"
	printf '%s\n' "$new"
	exit 1
fi
say "$name is in $file"
say "next: $next"
}

main
