package form

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"bobbin/bot/internal/view"
	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// Asked is what somebody says yes or no to before a call: the tool, why it asks, and all its arguments.
func Asked(ask schemas.Ask) []view.Block {
	blocks := []view.Block{{Text: "asks to use " + words.Clean(ask.Tool.Full()) + " · " + words.Clean(ask.Why)}}
	facts, whole := argFacts(ask.Args)
	if len(facts) > 0 {
		blocks = append(blocks, view.Block{Facts: facts})
	}
	if len(ask.Args) > 0 && !whole {
		blocks = append(blocks, view.Block{Code: words.Lines(view.Indent(ask.Args))})
	}
	return blocks
}

// argFacts shows arguments on one line each. whole: that is all of them, exactly; else the JSON has to stand below.
func argFacts(raw json.RawMessage) (fs []view.Fact, whole bool) {
	var args map[string]json.RawMessage
	if json.Unmarshal(raw, &args) != nil || len(args) > 12 {
		return nil, false
	}
	var compact, again bytes.Buffer
	out := json.NewEncoder(&again)
	out.SetEscapeHTML(false)
	whole = out.Encode(args) == nil && json.Compact(&compact, raw) == nil && compact.Len()+1 == again.Len() // a key that stands there twice is lost in one
	for _, k := range slices.Sorted(maps.Keys(args)) {
		f := view.Fact{Label: words.Short(words.Clean(k), 40), Value: words.Short(words.Clean(Typed(args[k])), 120)}
		whole = whole && f.Label == k && k == strings.Join(strings.Fields(k), " ") && f.Value == Typed(args[k]) && plainArg(args[k])
		fs = append(fs, f)
	}
	return fs, whole
}

// plainArg reports whether a value without its quotes is not mistaken for another: a number, true or false, or a text that does not
// look like either and holds no edge or row of spaces.
func plainArg(raw json.RawMessage) bool {
	s := Typed(raw)
	switch {
	case s == "" || raw[0] == '{' || raw[0] == '[' || string(raw) == "null":
		return false
	case raw[0] == '"':
		return !json.Valid([]byte(s)) && s == strings.Join(strings.Fields(s), " ")
	}
	return true
}

// Wrong draws all mistakes of a call that was not made; each names its argument.
func Wrong(name string, ps schemas.Problems) view.Reply {
	r := view.Mistakes("the arguments", ps.Named(), "`/mcp call "+words.Clean(name)+"` without JSON asks for them")
	r.Blocks[0].Text = "the arguments of " + words.Clean(name) + " have " + words.Count(len(ps), "mistake", "mistakes") + "; it was not called"
	return r
}
