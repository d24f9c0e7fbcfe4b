package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"bobbin/schemas"
)

const (
	maxParts     = 512
	maxReasoning = 1 << 20 // bytes in one step
)

// ask sends one step to the model and gives its answer. With an error, or when ctx ended, the message holds what had come.
func (t *turn) ask(ctx context.Context, o *offer) (Message, Stop, error) {
	for cuts, shortened := 0, false; ; {
		m, stop, err := t.stream(ctx, o)
		if err == nil || ctx.Err() != nil {
			t.board.settle(textOf(m))
			return m, stop, err
		}
		f, ok := errors.AsType[*Failure](err)
		switch {
		case ok && f.TooLong && !shortened:
			shortened = true
			t.board.settle("")
			if err := t.compact(ctx, o, true); err != nil {
				return Message{}, "", known(err)
			}
		case ok && f.Cut && cuts < maxCut:
			cuts++
			t.board.settle("")
			t.board.status("the answer was cut off, asks again")
			wait(ctx, cutWait)
		default:
			t.a.opt.Log.Warn("a model gave no whole answer", "thread", t.caller.Thread, "model", t.choice.Name, "err", err, "cause", errors.Unwrap(err))
			t.board.settle(textOf(m))
			return m, stop, known(err)
		}
	}
}

// stream reads one answer of the model.
func (t *turn) stream(ctx context.Context, o *offer) (m Message, stop Stop, err error) {
	m = Message{Role: Assistant, At: t.a.opt.Now(), Model: t.choice.Name}
	var pending strings.Builder // text that is in no part yet
	reasoning := 0
	// Part texts replace the pieces that announced them.
	for e, err := range t.choice.Provider.Stream(ctx, Request{
		Model: t.choice.Model, System: t.prompt(), Messages: request(t.talk.messages, t.choice.Name), Tools: o.list,
	}) {
		if err != nil {
			return withPending(m, &pending), "", err
		}
		switch e.Kind {
		case EventText:
			pending.WriteString(e.Text)
			if !t.board.say(e.Text) {
				return withPending(m, &pending), StopLength, nil
			}
		case EventReasoning:
			if reasoning += len(e.Text); reasoning > maxReasoning {
				return withPending(m, &pending), StopLength, nil
			}
			t.board.status("thinks")
		case EventCall:
			if e.Call != nil {
				t.board.status("prepares " + o.nameOf(e.Call.Name))
			}
		case EventPart:
			if e.Part == nil || empty(*e.Part) || e.Part.Result != nil || len(m.Parts) == maxParts {
				continue
			}
			if e.Part.Text != "" {
				pending.Reset()
			}
			m.Parts = append(m.Parts, *e.Part)
		case EventRetry:
			t.board.status(fmt.Sprintf("%s, again in %s", retryWords(e.Text), span(e.Wait)))
		case EventEnd:
			t.count(ctx, &m, e.Tokens)
			stop = e.Stop
		}
	}
	if ctx.Err() != nil {
		return withPending(m, &pending), "", ctx.Err()
	}
	if stop == "" {
		return withPending(m, &pending), "", &Failure{Text: "the model's answer ended in the middle", Cut: true}
	}
	m = withPending(m, &pending)
	m = unique(m)
	if len(m.Parts) == 0 {
		m.Parts = []Part{{Text: bracketed("no words")}}
	}
	return m, stop, nil
}

func retryWords(text string) string {
	if text = first(schemas.Clean(text, true), 200); text == "" {
		return "the model is busy"
	}
	return text
}

// withPending adds text that came in pieces alone.
func withPending(m Message, pending *strings.Builder) Message {
	if pending.Len() > 0 {
		m.Parts = append(m.Parts, Part{Text: pending.String()})
		pending.Reset()
	}
	return m
}

// unique gives calls ids where they have none or share one.
func unique(m Message) Message {
	seen := map[string]bool{}
	for i, p := range m.Parts {
		if p.Call == nil {
			continue
		}
		c := *p.Call
		if c.ID == "" || seen[c.ID] {
			c.ID = "call_" + reference()
		}
		if !object(c.Args) {
			if c.Bad == "" {
				c.Bad = first(string(c.Args), 2000)
			}
			if c.Bad == "" {
				c.Bad = "nothing"
			}
			c.Args = []byte("{}")
		}
		seen[c.ID] = true
		m.Parts[i].Call = &c
	}
	return m
}

// count adds what a step cost.
func (t *turn) count(ctx context.Context, m *Message, n schemas.Tokens) {
	m.Tokens = n
	t.spent += n.In + n.Out
	t.board.change(func(s *schemas.Answering) {
		s.Tokens.In += n.In
		s.Tokens.Cached += n.Cached
		s.Tokens.Out += n.Out
	})
	t.a.spend(ctx, t.talk.dir, t.caller, schemas.Usage{Tokens: n})
}

func textOf(m Message) string {
	var texts []string
	for _, p := range m.Parts {
		if p.Text != "" {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "")
}

// nameOf is what people call the tool that a model names.
func (o *offer) nameOf(name string) string {
	if u := o.byName[name]; u != nil {
		return u.name
	}
	return first(label(name), 128)
}
