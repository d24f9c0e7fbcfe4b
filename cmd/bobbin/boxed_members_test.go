//go:build linux

package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestSandbox_Pulled: a sandbox that is removed while its servers run takes them along and comes back empty, and so does one
// whose programs kill all that they can reach, over and over.
func TestSandbox_Pulled(t *testing.T) {
	b := newBoxed(t)
	ann := someone("ann")
	p := b.chat(ann)
	p.do("/mcp sandbox grant " + ann)
	p.do("/mcp sandbox exec " + writeEcho)
	p.do("/mcp sandbox exec mkdir -p /workspace/.local/bin && printf '#!/bin/sh\\necho fake\\n' >/workspace/.local/bin/git && chmod 755 /workspace/.local/bin/git")
	p.say(`/mcp add-json {"mcpServers":{"echo":{"command":"python3","args":["/workspace/echo.py"]}}}`, "1")
	p.within(time.Minute, `echo is ready`)
	for range 3 {
		p.do("/mcp sandbox exec kill -9 1; kill -9 -1")
		if !eventually(time.Minute, func() bool { return strings.Contains(p.do(`/mcp call echo.say {"text":"x"}`), "said x") }) {
			t.Fatal("it does not come back")
		}
	}
	box := b.list("ps", b.instance())
	p.say("/mcp sandbox stop remove")
	p.hear(`1\) Confirm`)
	p.say("1")
	p.within(time.Minute, "your sandbox is removed")
	if !eventually(30*time.Second, func() bool {
		now := b.list("ps", b.instance())
		return len(now) == 0 || now[0] != box[0]
	}) {
		t.Error("the container is left")
	}
	if out := p.do(`/mcp call echo.say {"text":"x"}`); strings.Contains(out, "said x") {
		t.Errorf("a server whose files are gone answers: %s", out)
	}
	shows(t, "the workspace", p.do("/mcp sandbox exec ls -A /workspace | wc -l"), `exit 0[^\n]* 0`)
	p.end()
}

// TestSandbox_Two: two members of one bobbin at once, each with a server of the same name for the engine to keep apart.
func TestSandbox_Two(t *testing.T) {
	b := newBoxed(t)
	for n, who := range []string{someone("ann"), someone("bob")} {
		p := b.chat(who)
		p.do("/mcp sandbox grant " + who)
		p.do("/mcp sandbox exec " + writeEcho)
		p.say(fmt.Sprintf(`/mcp add-json {"mcpServers":{"echo%d":{"command":"python3","args":["/workspace/echo.py"],"env":{"MARK":"mark-of-%d"}}}}`, n, n), "1")
		p.within(time.Minute, `echo\d is ready`)
		for m := range n + 1 {
			shows(t, "a call", p.do(fmt.Sprintf(`/mcp call echo%d.say {"text":"x"}`, m)), "said x")
		}
		if boxes := b.list("ps", b.instance()); len(boxes) != n+1 {
			t.Errorf("%d containers with %d members", len(boxes), n+1)
		}
		seen := p.do("/mcp sandbox exec cat /proc/[0-9]*/environ | tr '\\0' ' '")
		if strings.Contains(seen, fmt.Sprintf("mark-of-%d", 1-n)) {
			t.Errorf("%s sees the other's environment", who)
		}
		p.end()
	}
}
