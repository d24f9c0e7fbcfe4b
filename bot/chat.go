package bot

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"bobbin/bot/internal/desk"
	"bobbin/bot/internal/view"
	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// Limits of what is said to the assistant.
const (
	maxFiles    = 10 // of one message
	maxOneFile  = 5 << 20
	maxAttach   = 20 << 20 // bytes of all files of one message
	noticeEvery = 500 * time.Millisecond
)

// ErrStopped is the cause with which a door ends the context of a request that its own member stopped.
var ErrStopped = errors.New("stopped")

// stoppedBy is the cause of an answer that ends by its button.
type stoppedBy struct{ who string }

func (s stoppedBy) Error() string { return "stopped by " + s.who }

// message answers what is no command: the assistant does, if there is one and it is to answer here. Where people speak with each
// other, what is not for it is passed over in silence.
func (b *Bot) message(ctx context.Context, t desk.Turn, text string) (Reply, error) {
	overheard := t.Caller.Door == schemas.DoorDiscord && !t.Mentioned
	ms, err := b.models(ctx, t.Caller.Thread)
	if err != nil {
		return Reply{}, err
	}
	if len(ms) == 0 {
		return silent(overheard, view.Refused(schemas.CodeMissing, noModel)), nil
	}
	if rest, ok := called(text); ok {
		text, t.Mentioned = rest, true
	}
	mode, err := b.modeOf(ctx, t.Caller.Thread)
	switch {
	case err != nil:
		return Reply{}, err
	case t.Caller.Role < schemas.Member:
		return silent(overheard, view.Refused(schemas.CodeDenied, "guests may look here, not speak with the assistant · ask a member of the thread")), nil
	case mode == schemas.ChatOff:
		return silent(overheard, view.Refused(schemas.CodeMissing, modeWords(mode)+" · a manager turns it on with `/chat mode always`")), nil
	case mode == schemas.ChatMentioned && !t.Mentioned:
		return silent(overheard, Reply{Private: true, Blocks: []Block{{Text: "not answered: here the assistant answers when it is mentioned · begin with `@bobbin`, or a manager can `/chat mode always`"}}}), nil
	}
	if err := bounded(t.Files); err != nil {
		return Reply{}, err
	}
	return b.say(ctx, t, schemas.Said{Caller: t.Caller, Text: text, Files: t.Files})
}

func silent(is bool, r Reply) Reply {
	if is {
		return Reply{}
	}
	return r
}

// called takes the assistant's name off the front of a text.
func called(text string) (rest string, ok bool) {
	const name = "@bobbin"
	if len(text) < len(name) || !strings.EqualFold(text[:len(name)], name) {
		return text, false
	}
	rest = text[len(name):]
	if r, _ := utf8.DecodeRuneInString(rest); rest != "" && !strings.ContainsRune(" \t\n,:;.?-", r) {
		return text, false
	}
	return strings.TrimLeft(rest, " \t\n,:"), true
}

func bounded(files []schemas.File) error {
	total := 0
	for _, f := range files {
		if total += len(f.Data); len(f.Data) > maxOneFile {
			return &schemas.Error{Code: schemas.CodeTooLarge, Text: words.Short(words.Clean(f.Name), 80) + " is " + words.Size(len(f.Data)) + "; at most " + words.Size(maxOneFile)}
		}
	}
	if len(files) > maxFiles || total > maxAttach {
		return &schemas.Error{Code: schemas.CodeTooLarge, Text: "these are " + words.Count(len(files), "file", "files") + ", " + words.Size(total),
			Hint: "at most " + words.Count(maxFiles, "file", "files") + " and " + words.Size(maxAttach) + " with one message"}
	}
	return nil
}

// stage is where a turn is shown: to the one who asked by their door, to the others of the thread by notices.
type stage struct {
	b     *Bot
	said  schemas.Said
	reply Reply // with the card that stops the turn
	show  func(Reply)

	mu   sync.Mutex
	over bool
	last time.Time // of the notice before
}

// running draws a state that is not the last. It is heard from until the turn is over.
func (s *stage) running(a schemas.Answering) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	a.Done = false
	r := s.reply
	r.Blocks = []Block{{Answer: &a}}
	s.show(r)
	blank := a.Text == "" && len(a.Steps) == 0 && a.Status == ""
	if now := s.b.opt.Now(); !a.Joined && !blank && (s.last.IsZero() || now.Sub(s.last) >= noticeEvery) {
		s.last = now
		s.tell(r, a)
	}
}

// tell shows the others of the thread how far the answer is: what tools were given and gave is for the one who asked.
func (s *stage) tell(r Reply, a schemas.Answering) {
	a.Steps = slices.Clone(a.Steps)
	for i := range a.Steps {
		a.Steps[i].Args, a.Steps[i].Result = nil, ""
	}
	c := s.said.Caller
	head := words.At(c.Member, c.Name) + words.InDoor(c.Door) + ": " + words.Short(words.Clean(s.said.Text), 500)
	if n := len(s.said.Files); n > 0 {
		head += " · " + words.Count(n, "file", "files")
	}
	r.Blocks = []Block{{Text: head}, {Answer: &a}}
	s.b.desk.Publish(Notice{Thread: c.Thread, Reply: r, Door: c.Door}, "")
}

// end draws the last state, which settles the card. There is nothing to draw of a message that went into another answer.
func (s *stage) end(a schemas.Answering) Reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	a.Done, a.Status = true, ""
	r := Reply{Blocks: []Block{{Answer: &a}}, Replace: s.reply.ID}
	switch {
	case !a.Joined:
		s.tell(r, a)
	case a.Why == "":
		r.Blocks = nil
	}
	return r
}

// say has one turn with the assistant, which keeps the order of a thread's turns.
func (b *Bot) say(ctx context.Context, t desk.Turn, said schemas.Said) (Reply, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &stage{b: b, said: said, show: t.Stream, reply: b.stopCard(t.Caller, cancel)}
	defer b.desk.Drop(s.reply.ID)
	if s.show == nil {
		s.show = func(Reply) {}
	}
	s.running(schemas.Answering{})
	answer, err := b.opt.Assistant.Say(ctx, said, s.running)
	if ctx.Err() != nil && (err != nil || answer.Why != "") {
		var by stoppedBy
		switch cause := context.Cause(ctx); {
		case errors.As(cause, &by):
			answer.Why, err = by.Error(), nil
		case errors.Is(cause, ErrStopped):
			answer.Why, err = stoppedBy{words.At(t.Caller.Member, t.Caller.Name)}.Error(), nil
		}
	}
	if err == nil {
		return s.end(answer), nil
	}
	refused := b.desk.Refusal(t.Caller, err)
	answer.Why = cmp.Or(answer.Why, refused.Blocks[0].Text)
	r := s.end(answer)
	if answer.Text == "" && len(answer.Steps) == 0 {
		refused.Replace = r.Replace
		return refused, nil
	}
	r.Bad, r.Code = true, refused.Code
	return r, nil
}

// stopCard is the button on a running answer to somebody. It stops this one turn, never a later one.
func (b *Bot) stopCard(by schemas.Caller, stop context.CancelCauseFunc) Reply {
	c := &desk.Card{By: by, Role: schemas.Member, Ttl: editedTTL, Look: []string{"stop"}, May: func(c schemas.Caller) error {
		if c.Member == by.Member || c.Manages() {
			return nil
		}
		return &schemas.Error{Code: schemas.CodeDenied, Text: "only " + words.At(by.Member, by.Name) + " can stop this answer, or a manager of the thread"}
	}}
	c.Act = func(ctx context.Context, t desk.Turn, _ Action) (Reply, error) {
		stop(stoppedBy{words.At(t.Caller.Member, t.Caller.Name)})
		b.desk.Noted(ctx, t.Caller, schemas.Record{Event: schemas.EventAsked, Detail: "/chat stop"})
		return Reply{}, nil
	}
	r := b.desk.Deal(c, Reply{Choices: []Choice{{Key: "stop", Label: "Stop"}}})
	r.Expires = time.Time{} // it ends with the answer
	return r
}

// brought picks the one file of a message that is a config to add, not something to talk about: it says so itself, or there is not a
// word with it, or nobody to talk to.
func (b *Bot) brought(ctx context.Context, t desk.Turn, text string) *schemas.File {
	if t.File != nil || len(t.Files) == 0 {
		return t.File
	}
	ms, err := b.models(ctx, t.Caller.Thread)
	alone := err == nil && len(ms) == 0 || text == ""
	var found []schemas.File
	for _, f := range t.Files {
		if isUpload(f, alone) {
			found = append(found, f)
		}
	}
	if len(found) != 1 || alone && len(ms) > 0 && len(t.Files) > 1 {
		return nil
	}
	return &found[0]
}

func isUpload(f schemas.File, alone bool) bool {
	name := strings.ToLower(f.Name)
	ends := func(with ...string) bool {
		return slices.ContainsFunc(with, func(end string) bool { return strings.HasSuffix(name, end) })
	}
	if ends(".mcpb", ".dxt") {
		return true
	}
	says := strings.Contains(string(f.Data), "mcpServers") || strings.Contains(string(f.Data), "mcp_servers")
	return utf8.Valid(f.Data) && (says || alone && ends(".json", ".jsonc", ".toml", ".yaml", ".yml"))
}
