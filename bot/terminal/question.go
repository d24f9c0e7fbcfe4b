package terminal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"bobbin/bot"
)

// question asks in the middle of a request, until it is answered. /cancel on a form, Ctrl-C and the end of the input take the last of its
// choices, such as Decline: what runs must not wait for somebody who is gone. Ctrl-C then stops what runs, too.
func (d *Door) question(ctx context.Context, q bot.Reply) {
	broken := false
	defer func() {
		if broken {
			select {
			case d.stop <- struct{}{}:
			default:
			}
		}
	}()
	for {
		way := bot.Action{ID: q.ID}
		last := ""
		if len(q.Choices) > 0 {
			last = q.Choices[len(q.Choices)-1].Key
		}
		if q.Form != nil {
			choices := q.Choices
			q.Choices = nil
			d.show(q)
			if last != "" {
				d.print(fmt.Sprintf("  /cancel: %s\n", clean(choices[len(choices)-1].Label)))
			}
			var err error
			if way.Values, err = d.fill(*q.Form); err != nil {
				way.Values, way.Choice, broken = nil, last, errors.Is(err, errInterrupt)
			}
		} else {
			d.reading(q.ID)
			d.show(q)
			line, _, err := d.in.ReadLine("> ", false)
			if d.reading("") != q.ID {
				broken = errors.Is(err, errInterrupt)
				return
			}
			a := d.answer(strings.TrimSpace(line))
			switch {
			case a != nil:
				way = *a
			case err != nil:
				way.Choice, broken = last, errors.Is(err, errInterrupt)
			default:
				d.print("that is none of these: type a number, or the words behind it\n")
				q.Blocks = nil
				continue
			}
		}
		if way.Values == nil && way.Choice == "" {
			return
		}
		r := d.let(ctx, bot.Request{Caller: d.opt.Caller, Action: &way})
		if !r.Bad || r.Form == nil {
			d.show(r)
			return
		}
		r.Form.Fields = filled(r.Form.Fields, way.Values)
		q = r
	}
}

// reading notes the question whose answer is read, and gives the one before.
func (d *Door) reading(id string) (before string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before, d.asking = d.asking, id
	return before
}

// let has the bot answer one request.
func (d *Door) let(ctx context.Context, req bot.Request) bot.Reply {
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)
	wg.Go(func() {
		select {
		case <-d.opt.Stop:
			cancel(bot.ErrStopped)
		case <-d.stop:
			cancel(bot.ErrStopped)
		case <-ctx.Done():
		}
	})
	return d.opt.Bot.Handle(ctx, req)
}

// filled gives the fields with what was typed before, except secrets.
func filled(fields []bot.Field, values map[string]string) []bot.Field {
	fields = slices.Clone(fields)
	for i, f := range fields {
		if v := values[f.Name]; v != "" && f.Kind != "secret" {
			fields[i].Default = v
		}
	}
	return fields
}

// answer gives the action for a number or label of the open choices, or for a plain yes or no to a card that is one; nil if the line is
// none.
func (d *Door) answer(line string) *bot.Action {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pending == nil {
		return nil
	}
	id := d.pending.ID
	if n, err := strconv.Atoi(line); err == nil && n >= 1 && n <= len(d.pending.Choices) {
		return &bot.Action{ID: id, Choice: d.pending.Choices[n-1].Key}
	}
	plain := map[string]string{"y": "confirm", "yes": "confirm", "n": "cancel", "no": "cancel"}[strings.ToLower(line)]
	for _, word := range []string{line, plain} {
		for _, c := range d.pending.Choices {
			if strings.EqualFold(word, c.Label) || strings.EqualFold(word, c.Key) {
				return &bot.Action{ID: id, Choice: c.Key}
			}
		}
	}
	return nil
}

// fill asks for each field of a form on a line of its own. An error means that the person gave up.
func (d *Door) fill(f bot.Form) (map[string]string, error) {
	values := make(map[string]string, len(f.Fields))
	for _, field := range f.Fields {
		v, err := d.ask(field)
		if err != nil {
			return nil, err
		}
		values[field.Name] = v
	}
	return values, nil
}

func (d *Door) ask(f bot.Field) (string, error) {
	for i, o := range f.Options {
		d.print(fmt.Sprintf("    %d) %s\n", i+1, clean(o)))
	}
	hide := f.Kind == "secret" || d.opt.Echo && f.Kind == "multiline" // env lines may hold secrets, and a pipe's output is often kept
	line, more, err := d.in.ReadLine(d.draw.prompt(f), hide)
	for err == nil && more {
		var next string
		next, more, err = d.in.ReadLine("", hide)
		line += "\n" + next
	}
	if err != nil && line == "" && (f.Required || !errors.Is(err, io.EOF)) {
		return "", err
	}
	if line := strings.TrimSpace(line); line == "/cancel" || command(line) {
		d.next = strings.TrimPrefix(line, "/cancel")
		return "", errors.New("given up")
	}
	switch {
	case line == "":
		return f.Default, nil
	case line == "-" && f.Default != "" && !f.Required:
		return "", nil
	}
	if n, err := strconv.Atoi(line); err == nil && n >= 1 && n <= len(f.Options) {
		return f.Options[n-1], nil
	}
	if f.Kind == "multiline" {
		line = strings.ReplaceAll(line, `\n`, "\n")
	}
	return line, nil
}
