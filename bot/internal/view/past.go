package view

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// MaxTail is how many records are looked through.
const MaxTail = 1000

// trace is one line of what people read of the log: a record, or the two of a call.
type trace struct {
	schemas.Record
	open bool // a call without an end
}

// joined makes one of the two records of a call, newest first.
func joined(rs []schemas.Record) []trace {
	begins, ended := map[string]schemas.Record{}, map[string]bool{}
	for _, r := range rs {
		switch r.Event {
		case schemas.EventCallBegin:
			begins[r.Receipt] = r
		case schemas.EventCallEnd:
			ended[r.Receipt] = true
		}
	}
	var ts []trace
	for _, r := range rs {
		switch r.Event {
		case schemas.EventCallBegin:
			if ended[r.Receipt] && r.Receipt != "" {
				continue
			}
			ts = append(ts, trace{Record: r, open: true})
			continue
		case schemas.EventCallEnd:
			if r.Args == "" {
				r.Args = begins[r.Receipt].Args
			}
		}
		ts = append(ts, trace{Record: r})
	}
	return ts
}

// Log lists the newest n records, or calls alone; rs is newest first.
func Log(rs []schemas.Record, n int, calls bool) Reply {
	tab := &Table{Columns: []string{"time (UTC)", "who", "what", "outcome", "detail"}}
	for _, x := range joined(rs) {
		if len(tab.Rows) < n && (!calls || x.isCall()) {
			tab.Rows = append(tab.Rows, Row{Cells: x.cells()})
		}
	}
	r := Reply{Private: true, Blocks: []Block{{Text: words.Count(len(tab.Rows), "record", "records") + ", newest first"}, {Table: tab}}}
	switch {
	case len(tab.Rows) > 0:
	case calls:
		r.Blocks = []Block{{Text: "nothing has been called here lately"}}
	default:
		r.Blocks = []Block{{Text: "nothing has happened here yet"}}
	}
	return r
}

// Receipt shows one call or record whole; a receipt may be cut to its first four letters.
func Receipt(rs []schemas.Record, which string) (Reply, error) {
	ts := slices.DeleteFunc(joined(rs), func(x trace) bool {
		cut := len(which) >= 4 && strings.HasPrefix(x.Receipt, strings.ToLower(which))
		return !cut && x.Receipt != which && strconv.FormatInt(x.Seq, 10) != which
	})
	if len(ts) == 0 {
		return Reply{}, &schemas.Error{Code: schemas.CodeNotFound, Text: "the last " + words.Thousands(MaxTail) + " records have no such receipt", Hint: "`/mcp audit` shows the newest"}
	}
	r := Reply{Private: true}
	for _, x := range ts[:min(len(ts), 5)] {
		cells := x.cells()
		fs := []Fact{{Label: "when", Value: cells[0], Note: "UTC"}, {Label: "who", Value: cells[1], Note: strings.TrimSpace(words.InDoor(x.Door))}, {Label: "outcome", Value: cells[3]}, {Label: "detail", Value: cells[4]}}
		if x.RunsAs != "" {
			fs = append(fs, Fact{Label: "ran as", Value: words.At(x.RunsAs, "")})
		}
		if x.Origin != "" && x.isCall() {
			fs = append(fs, Fact{Label: "wish of", Value: "the " + string(x.Origin)})
		}
		fs = slices.DeleteFunc(fs, func(f Fact) bool { return f.Value == "" })
		r.Blocks = append(r.Blocks, Block{Text: cells[2]}, Block{Facts: fs})
	}
	return r, nil
}

func (x trace) isCall() bool {
	return x.Event == schemas.EventCallBegin || x.Event == schemas.EventCallEnd || x.Event == schemas.EventRefused
}

// cells is time, who, what, outcome and detail.
func (x trace) cells() []string {
	verbs := map[schemas.Event]string{schemas.EventCallBegin: "called", schemas.EventCallEnd: "called", schemas.EventRefused: "refused", schemas.EventCommit: "changed",
		schemas.EventApprove: "approved", schemas.EventPolicy: "rule", schemas.EventSecret: "value", schemas.EventOutside: "edited outside", schemas.EventElicit: "question of"}
	what, ok := verbs[x.Event]
	if !ok {
		what = string(x.Event)
	}
	if x.Tool != "" {
		what += " " + strings.TrimPrefix(x.Server+"."+strings.TrimPrefix(x.Tool, x.Server+"."), ".")
	} else if x.Server != "" {
		what += " " + x.Server
	}
	outcome := string(x.Outcome)
	if x.open {
		outcome = "no end yet"
	}
	var more []string
	if x.Ms > 0 {
		more = append(more, words.Took(time.Duration(x.Ms*float64(time.Millisecond))))
	}
	if x.Bytes > 0 {
		more = append(more, words.Size(x.Bytes))
	}
	if x.Args != "" {
		more = append(more, "args "+x.Args)
	}
	if x.Detail != "" {
		more = append(more, x.Detail)
	}
	if x.Receipt != "" {
		more = append(more, "receipt "+x.Receipt)
	}
	who := ""
	if x.Member != "" {
		who = words.At(x.Member, x.Name)
	}
	return []string{x.At.UTC().Format(time.DateTime), who, words.Clean(what), outcome, words.Short(words.Clean(strings.Join(more, " · ")), 200)}
}

// RevBy says who made a revision.
func RevBy(r schemas.Revision) string {
	if r.By == "" {
		return "outside of chat"
	}
	return words.At(r.By, r.ByName)
}
