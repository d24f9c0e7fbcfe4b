package view

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// ServerRow is a server's line of the list.
func ServerRow(c schemas.Caller, s schemas.Status, now time.Time) Row {
	state := string(s.State)
	if s.State == schemas.Needs {
		state = "needs " + words.Clean(strings.Join(s.Needs, ", "))
	}
	ts := words.Count(s.Tools, "tool", "tools")
	if s.Tools == 0 && s.State != schemas.Ready && s.State != schemas.Failed {
		ts = ""
	}
	return Row{State: s.State, Cells: []string{words.Clean(s.Name), state, ts, OwnerText(c, s), RowNote(c, s, now)}}
}

// OwnerText says whose a server is.
func OwnerText(c schemas.Caller, s schemas.Status) string {
	switch {
	case s.Kind == schemas.Admin:
		return "the operator's"
	case s.Owner == "":
		return "nobody's"
	case s.Owner == c.Member:
		return "yours"
	}
	return words.At(s.Owner, s.OwnerName)
}

// RowNote is what to know about a server besides its state: how long it is up, or the next step.
func RowNote(c schemas.Caller, s schemas.Status, now time.Time) string {
	var notes []string
	add := func(ns ...string) { notes = append(notes, ns...) }
	name := words.Clean(s.Name)
	if s.RunsAs != "" && s.Kind == schemas.Connector {
		as := words.Clean(s.RunsAs)
		if as == words.At(c.Member, c.Name) {
			as = "you"
		}
		add("runs as " + as)
	}
	switch s.State {
	case schemas.Ready:
		up := "up " + words.Took(now.Sub(s.Since))
		switch {
		case s.Since.IsZero():
			up = ""
		case now.Sub(s.Since) < time.Second:
			up = "just started"
		}
		if s.Calls > 0 {
			up = strings.TrimPrefix(up+", "+words.Count(s.Calls, "call", "calls"), ", ")
		}
		if up != "" {
			add(up)
		}
	case schemas.Starting:
		if s.Why != "" {
			add(words.Short(words.Clean(s.Why), 160), "`/mcp doctor "+name+"`")
		}
	case schemas.Idle:
		add("starts when it is needed")
	case schemas.Needs:
		if s.Owner != c.Member && s.Owner != "" {
			add("ask " + words.At(s.Owner, s.OwnerName) + " to give it")
		} else {
			add("`/mcp secrets set " + words.Clean(strings.Join(s.Needs[:min(1, len(s.Needs))], "")) + "`")
		}
	case schemas.Failed:
		add(words.Short(words.Clean(s.Why), 160), "`/mcp doctor "+name+"`")
	case schemas.PendingState:
		add("`/mcp enable " + name + "` shows it")
	case schemas.Off:
		add("`/mcp enable " + name + "`")
	case schemas.NeedsConnect:
		add("`/mcp connect " + name + "`")
	case schemas.ShadowedState:
		add("a server above has the same name")
	}
	if s.Pending && s.State != schemas.PendingState {
		add("a change waits for approval, the approved one goes on · `/mcp enable " + name + "`")
	}
	if len(s.HeldTools) > 0 {
		add(words.Count(len(s.HeldTools), "tool", "tools") + " held: " + words.Short(words.Clean(strings.Join(s.HeldTools, ", ")), 80) + " · `/mcp enable " + name + "`")
	}
	return strings.Join(notes, " · ")
}

// Became is the line that a confirmed server ends in.
func Became(c schemas.Caller, s schemas.Status) string {
	name := words.Clean(s.Name)
	switch s.State {
	case schemas.Ready:
		line := name + " is ready"
		if s.Took > 0 {
			line += " in " + words.Took(s.Took)
		}
		line += " · " + words.Count(s.Tools, "tool", "tools")
		if s.Tokens > 0 {
			line += ", " + words.About(s.Tokens) + " tokens"
		}
		if s.Asking > 0 && s.Tools == 1 {
			line += " · it writes: I ask before each call"
		} else if s.Asking > 0 {
			line += " · " + OfThem(s.Asking, "writes", "write") + ": I ask before each"
		}
		if s.Blocked > 0 && s.Tools == 1 {
			line += " · it is denied until a manager allows it: `/mcp tools " + name + "`"
		} else if s.Blocked > 0 {
			line += " · " + words.Count(s.Blocked, "is denied until a manager allows it", "are denied until a manager allows them") + ": `/mcp tools " + name + "`"
		}
		if len(s.HeldTools) > 0 {
			line += " · " + heldText(s)
		}
		return line
	case schemas.Starting:
		return StillStarting(s) + "; `/mcp list` shows when it is ready"
	case schemas.Idle:
		return name + " is set; it starts when it is needed"
	case schemas.Failed:
		return name + " failed: " + words.Short(words.Text(s.Why), 400) + " · `/mcp doctor " + name + "`"
	case schemas.Needs:
		return name + " " + needsText(c, s)
	case schemas.NeedsConnect:
		return name + " needs you to sign in · `/mcp connect " + name + "`"
	case schemas.PendingState:
		return name + " waits for approval · `/mcp enable " + name + "`"
	case schemas.Held:
		return name + ": " + heldText(s)
	case schemas.Off:
		return name + " is saved, and off · `/mcp enable " + name + "`"
	}
	return name + " is " + string(s.State)
}

// StillStarting says that a server is starting, and what it waits for.
func StillStarting(s schemas.Status) string {
	text := words.Clean(s.Name) + " is still starting"
	if s.Why != "" {
		text += ": " + words.Short(words.Text(s.Why), 200)
	}
	return text
}

// OfThem counts some of what was named before.
func OfThem(n int, one, many string) string {
	if n == 1 {
		return "1 of them " + one
	}
	return words.Thousands(n) + " of them " + many
}

func heldText(s schemas.Status) string {
	return words.Count(len(s.HeldTools), "tool", "tools") + " held, since the definition changed: " +
		words.Short(words.Clean(strings.Join(s.HeldTools, ", ")), 200) + " · `/mcp enable " + words.Clean(s.Name) + ".TOOL` shows the change"
}

func needsText(c schemas.Caller, s schemas.Status) string {
	text := "needs " + words.Clean(strings.Join(s.Needs, ", "))
	switch {
	case s.Owner == "":
		return text + "; it has no owner yet"
	case s.Owner != c.Member:
		return text + " · ask " + words.At(s.Owner, s.OwnerName) + " to give it"
	}
	return text
}

// Tally says in one line how several servers are: "2 ready, 1 needs a value".
func Tally(ss []schemas.Status) string {
	var parts []string
	for len(ss) > 0 {
		state := ss[0].State
		n := len(ss)
		ss = slices.DeleteFunc(ss, func(s schemas.Status) bool { return s.State == state })
		n -= len(ss)
		text := map[schemas.State]string{schemas.Needs: words.Count(n, "needs a value", "need a value"), schemas.Starting: words.Count(n, "still starting", "still starting"),
			schemas.Idle: words.Count(n, "starts when needed", "start when needed")}
		parts = append(parts, cmp.Or(text[state], words.Thousands(n)+" "+string(state)))
	}
	return strings.Join(parts, ", ")
}

// Findings is what the doctor found out about a server.
func Findings(e schemas.Entry, s schemas.Status, p schemas.Place) []Fact {
	def := "approved"
	switch {
	case e.Approval == nil:
		def = "never approved"
	case e.Pending():
		def = "changed since approval; the approved one runs on"
	}
	fs := []Fact{{Label: "definition", Value: def}}
	if !e.Remote() {
		where := words.Clean(p.Where)
		if !p.Available {
			where = words.Clean(words.WithHint(NoPlace(p), p.Hint))
		}
		fs = append(fs, Fact{Label: "where", Value: where})
	}
	if len(s.Needs) > 0 {
		fs = append(fs, Fact{Label: "needs", Value: words.Clean(strings.Join(s.Needs, ", "))})
	} else {
		fs = append(fs, Fact{Label: "needs", Value: "nothing"})
	}
	if s.RunsAs != "" && SignsIn(e.Server) {
		fs = append(fs, Fact{Label: "runs as", Value: words.Clean(s.RunsAs)})
	}
	if s.Took > 0 {
		fs = append(fs, Fact{Label: "handshake", Value: words.Thousands(int(s.Took.Milliseconds())) + " ms", Note: words.Clean(s.Protocol)})
	}
	tools := words.Count(s.Tools, "tool", "tools")
	if len(s.HeldTools) > 0 {
		tools += ", " + words.Count(len(s.HeldTools), "held", "held")
	}
	return append(fs, Fact{Label: "tools", Value: tools})
}

// Next is the one thing to do now.
func Next(c schemas.Caller, e schemas.Entry, s schemas.Status) string {
	name := words.Clean(e.Name)
	switch s.State {
	case schemas.Ready:
		if len(s.HeldTools) > 0 {
			return "`/mcp enable " + name + "` shows what changed in the held tools"
		}
		return "nothing; `/mcp tools " + name + "` lists what it can do"
	case schemas.Needs:
		if s.Owner != c.Member {
			return "ask " + words.At(s.Owner, s.OwnerName) + " to give " + words.Clean(strings.Join(s.Needs, ", "))
		}
		return "give " + words.Clean(strings.Join(s.Needs, ", "))
	case schemas.Failed:
		if s.Fix != "" { // the command is not to blame
			return words.Text(s.Fix) + ", then `/mcp reload " + name + "`"
		}
		if e.Remote() {
			return "check the address and the key with `/mcp edit " + name + "`, then `/mcp reload " + name + "`"
		}
		if s.Stderr == "" {
			return "see that this command starts an MCP server on standard input and output: `/mcp edit " + name + "`"
		}
		return "put right what its last lines say: `/mcp edit " + name + "` if it is the command, else mend it and `/mcp reload " + name + "`"
	case schemas.NeedsConnect:
		return "sign in with `/mcp connect " + name + "`"
	case schemas.PendingState, schemas.Off, schemas.Held:
		return "`/mcp enable " + name + "`"
	case schemas.Idle:
		return "nothing; it starts with the first call"
	case schemas.ShadowedState:
		return "a server above it in the list has the same name; remove or rename one of them"
	case schemas.Starting:
		if s.Why != "" && !e.Remote() {
			return "if it stays so, see that this command starts an MCP server on standard input and output: `/mcp edit " + name + "`"
		}
		return "wait a little, then `/mcp doctor " + name + "` again"
	}
	return "`/mcp show " + name + "`"
}

// NoPlace says why programs cannot run here.
func NoPlace(p schemas.Place) string {
	if strings.HasPrefix(p.Why, "local servers ") {
		return p.Why
	}
	return "local servers cannot run here: " + p.Why
}
