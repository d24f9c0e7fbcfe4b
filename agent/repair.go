package agent

import (
	"encoding/json"
	"reflect"
	"slices"
)

// repair makes a conversation one that providers accept, whatever a crash or an editor did to it: it begins with a member's
// message; every call has its result, in a message of its own right after it, in the order of the calls; nothing has a result
// without a call; roles take turns, but for a member's message after results; and it ends with an answer.
func repair(read []Message) []Message {
	var out []Message
	for n := 0; n < len(read); n++ {
		m := read[n]
		m.Parts = slices.Clone(m.Parts)
		for i, p := range m.Parts {
			m.Parts[i] = single(p)
		}
		m.Parts = slices.DeleteFunc(m.Parts, empty)
		switch {
		case m.Role == Assistant:
			m.Parts = slices.DeleteFunc(m.Parts, func(p Part) bool { return p.Result != nil || p.Image != nil })
			if len(m.Parts) == 0 || len(out) == 0 || out[len(out)-1].Role == Assistant {
				continue // an answer to nothing
			}
			m = tidy(m)
			out = append(out, m)
			calls := callsOf(m)
			if len(calls) == 0 {
				continue
			}
			var given Message
			if n+1 < len(read) && hasResults(read[n+1]) {
				n++
				given = read[n]
			}
			out = append(out, paired(m, calls, given))
		case hasResults(m):
			continue // of no call
		default:
			m.Parts = slices.DeleteFunc(m.Parts, func(p Part) bool { return p.Call != nil || p.Reasoning != "" })
			if len(m.Parts) == 0 {
				continue
			}
			if len(out) > 0 && out[len(out)-1].Role == User && !hasResults(out[len(out)-1]) {
				out = append(out, note(out[len(out)-1], wordsRestarted))
			}
			out = append(out, m)
		}
	}
	if len(out) > 0 && out[len(out)-1].Role == User {
		out = append(out, note(out[len(out)-1], wordsRestarted))
	}
	return out
}

// note is bobbin's own end of an answer, after a message.
func note(after Message, why string) Message {
	return Message{Role: Assistant, At: after.At, Parts: []Part{{Text: bracketed(why)}}}
}

func bracketed(why string) string { return "[" + why + "]" }

// paired gives the results of calls in their order; a missing one says so.
func paired(m Message, calls []Call, given Message) Message {
	out := Message{Role: User, At: m.At}
	if !given.At.IsZero() {
		out.At = given.At
	}
	for _, c := range calls {
		i := slices.IndexFunc(given.Parts, func(p Part) bool { return p.Result != nil && p.Result.ID == c.ID })
		if i >= 0 {
			out.Parts = append(out.Parts, Part{Result: given.Parts[i].Result})
			continue
		}
		out.Parts = append(out.Parts, Part{Result: &Result{ID: c.ID, Name: c.Name, Text: bracketed(wordsRestarted + "; whether it ran is unknown"), Failed: true}})
	}
	return out
}

// tidy makes the calls of an answer ones that can be sent back: objects, under ids that differ.
func tidy(m Message) Message {
	seen := map[string]bool{}
	m.Parts = slices.DeleteFunc(m.Parts, func(p Part) bool {
		twice := p.Call != nil && (seen[p.Call.ID] || p.Call.ID == "" || p.Call.Name == "")
		if p.Call != nil {
			seen[p.Call.ID] = true
		}
		return twice
	})
	for i, p := range m.Parts {
		if p.Call != nil && !object(p.Call.Args) {
			c := *p.Call
			c.Args = json.RawMessage("{}")
			m.Parts[i].Call = &c
		}
	}
	if len(m.Parts) == 0 {
		m.Parts = []Part{{Text: bracketed(wordsRestarted)}}
	}
	return m
}

func object(raw json.RawMessage) bool {
	var o map[string]json.RawMessage
	return json.Unmarshal(raw, &o) == nil && o != nil
}

func callsOf(m Message) (calls []Call) {
	for _, p := range m.Parts {
		if p.Call != nil {
			calls = append(calls, *p.Call)
		}
	}
	return calls
}

func hasResults(m Message) bool {
	return m.Role == User && slices.ContainsFunc(m.Parts, func(p Part) bool { return p.Result != nil })
}

func empty(p Part) bool {
	return p.Text == "" && p.Reasoning == "" && p.Image == nil && p.Call == nil && p.Result == nil && p.Opaque == nil
}

// single leaves one thing of a part that an editor made two.
func single(p Part) Part {
	switch {
	case p.Call != nil:
		return Part{Call: p.Call, Opaque: p.Opaque}
	case p.Result != nil:
		return Part{Result: p.Result}
	case p.Image != nil:
		return Part{Image: p.Image}
	case p.Text != "":
		return Part{Text: p.Text, Opaque: p.Opaque}
	}
	return p
}

func same(a, b []Message) bool { return reflect.DeepEqual(a, b) }

// dropImages puts words in the place of all pictures but the newest few, of at most so many bytes together.
func dropImages(messages []Message, keep, size int) (dropped bool) {
	fits := func(i Image) bool {
		keep--
		size -= len(i.Data)
		return keep >= 0 && size >= 0
	}
	for n := len(messages) - 1; n >= 0; n-- {
		for i := len(messages[n].Parts) - 1; i >= 0; i-- {
			p := &messages[n].Parts[i]
			if p.Image != nil && !fits(*p.Image) {
				*p, dropped = Part{Text: "[a picture that is no longer kept]"}, true
			}
			if p.Result == nil || len(p.Result.Images) == 0 {
				continue
			}
			r := *p.Result
			if r.Images = slices.DeleteFunc(slices.Clone(r.Images), func(i Image) bool { return !fits(i) }); len(r.Images) < len(p.Result.Images) {
				r.Text, dropped = r.Text+"\n[pictures that are no longer kept]", true
			}
			p.Result = &r
		}
	}
	return dropped
}
