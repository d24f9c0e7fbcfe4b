package agent

import (
	"context"
	"errors"
	"strings"

	"bobbin/schemas"
)

const samplePrompt = "You write a text for a program that a member of a chat thread uses. You have no tools, and know nothing of the thread."

// Sample has the thread's model write a text for a server, on behalf of the member who said yes to it. It sees nothing but what the
// server gave. What it costs is the member's. An error is a *schemas.Error.
func (a *Agent) Sample(ctx context.Context, s schemas.Sampling) (schemas.Sampled, error) {
	if len(a.opt.Models) == 0 {
		return schemas.Sampled{}, &schemas.Error{Code: schemas.CodeMissing, Text: "no model is set"}
	}
	dir, err := a.folder(s.Caller.Thread)
	if err != nil {
		return schemas.Sampled{}, err
	}
	defer dir.Close()
	if why := a.overBudget(dir, s.Caller); why != "" {
		return schemas.Sampled{}, &schemas.Error{Code: schemas.CodeTooLarge, Text: why}
	}
	choice := a.chosen(readSettings(dir))
	r := Request{Model: choice.Model, System: strings.TrimSpace(samplePrompt + "\n\n" + s.System), MaxTokens: s.MaxTokens}
	for _, m := range s.Messages {
		role := User
		if m.Role == string(Assistant) {
			role = Assistant
		}
		r.Messages = append(r.Messages, Message{Role: role, At: a.opt.Now(), Parts: []Part{{Text: m.Text}}})
	}
	text, end, err := once(ctx, choice.Provider, r)
	a.spend(ctx, dir, s.Caller, schemas.Usage{Tokens: end.Tokens})
	if err != nil {
		return schemas.Sampled{}, known(err)
	}
	return schemas.Sampled{Text: schemas.Clean(text, false), Model: choice.Name, Cut: end.Stop == StopLength}, nil
}

// once gives the text of an answer to a request without tools, and how it ended.
func once(ctx context.Context, p Provider, r Request) (string, Event, error) {
	var m Message
	var pending strings.Builder
	var end Event
	for e, err := range p.Stream(ctx, r) {
		switch {
		case err != nil:
			return "", end, err
		case e.Kind == EventText:
			if pending.Len() > maxAnswer {
				return "", end, errors.New("the model does not end its answer")
			}
			pending.WriteString(e.Text)
		case e.Kind == EventPart && e.Part != nil && e.Part.Text != "" && len(m.Parts) < maxParts:
			pending.Reset()
			m.Parts = append(m.Parts, *e.Part)
		case e.Kind == EventEnd:
			end = e
		}
	}
	if ctx.Err() != nil {
		return "", end, ctx.Err()
	}
	return textOf(withPending(m, &pending)), end, nil
}
