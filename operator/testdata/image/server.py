"""An MCP server over stdio for the tests: it shows its environment, ends when told to, and tries to reach others."""
import json
import os
import socket
import sys

print("started as", sys.argv[1:], "with", os.environ.get("A_TOKEN"), file=sys.stderr, flush=True)
while sys.argv[1:] == ["rubbish"]:
    print("x" * 1000)
if sys.argv[1:] == ["flood"]:
    import threading

    def flood():
        while True:
            print("y" * 1000, file=sys.stderr)

    threading.Thread(target=flood, daemon=True).start()
if sys.argv[1:] == ["fail"]:
    print("Error: I cannot work", file=sys.stderr, flush=True)
    sys.exit(3)


def call(name, args):
    if name == "env":
        return os.environ.get(args["name"], "unset")
    if name == "pid":
        return str(os.getpid())
    if name == "crash":
        os._exit(7)
    if name == "write":
        open(args["path"], "w").write("x")
        return "written"
    if name == "reach":
        try:
            socket.create_connection((args["host"], args["port"]), 3).close()
            return "reached"
        except OSError as e:
            return "not reached: %s" % e
    raise ValueError(name)


for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m:
        continue
    answer = {"jsonrpc": "2.0", "id": m["id"]}
    if m["method"] == "initialize":
        answer["result"] = {"protocolVersion": m["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "test", "version": "1"}}
    elif m["method"] == "tools/list":
        answer["result"] = {"tools": [{"name": n, "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}} for n in ("env", "pid", "crash", "write", "reach")]}
    elif m["method"] == "tools/call":
        try:
            answer["result"] = {"content": [{"type": "text", "text": call(m["params"]["name"], m["params"].get("arguments", {}))}]}
        except Exception as e:
            answer["result"] = {"content": [{"type": "text", "text": repr(e)}], "isError": True}
    else:
        answer["error"] = {"code": -32601, "message": "no such method"}
    print(json.dumps(answer), flush=True)
