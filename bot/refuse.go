package bot

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"bobbin/schemas"
)

func invalid(text, hint string) error {
	return &schemas.Error{Code: schemas.CodeInvalid, Text: text, Hint: hint}
}

// refusal words an error for the person who asked; nobody else sees it. What is nobody's business but the operator's becomes
// a reference number that also stands in the log.
func (b *Bot) refusal(c schemas.Caller, err error) Reply {
	e, ok := errors.AsType[*schemas.Error](err)
	if ps, mistaken := errors.AsType[schemas.Problems](err); mistaken && !ok {
		return mistakes("the text", ps, "")
	}
	switch {
	case ok && e.Code != schemas.CodeInternal:
		r := bad(e.Code, cleanText(joinHint(e.Text, e.Hint)))
		return r
	case !ok && errors.Is(err, context.DeadlineExceeded):
		return bad(schemas.CodeFailed, "that took longer than I wait; nothing more is known · `/mcp list` shows how things are")
	case !ok && errors.Is(err, context.Canceled):
		return bad(schemas.CodeFailed, "that was cancelled")
	}
	ref := reference()
	if ok && e.Ref != "" {
		ref = e.Ref
	}
	b.opt.Log.Error("request failed", "ref", ref, "thread", c.Thread, "member", c.Member, "err", err)
	return bad(schemas.CodeInternal, "something went wrong on my side, reference "+ref+"; the operator can find it in the log. Your config is unchanged")
}

func bad(code schemas.Code, text string) Reply {
	return Reply{Private: true, Bad: true, Code: code, Blocks: []Block{{Text: text}}}
}

func joinHint(text, hint string) string {
	if hint == "" {
		return text
	}
	return text + " · " + hint
}

// mistakes draws all problems of a text at once.
func mistakes(name string, ps schemas.Problems, again string) Reply {
	head := fmt.Sprintf("%s has %d mistakes; nothing was changed", clean(name), len(ps))
	if len(ps) == 1 {
		head = clean(name) + " has a mistake; nothing was changed"
	}
	shown := make([]schemas.Problem, len(ps))
	for i, p := range ps {
		p.File, p.Server, p.Text, p.Hint, p.Excerpt = clean(p.File), clean(p.Server), clean(p.Text), clean(p.Hint), clean(p.Excerpt)
		shown[i] = p
	}
	r := bad(schemas.CodeInvalid, head)
	r.Blocks = append(r.Blocks, Block{Problems: shown})
	if again != "" {
		r.Blocks = append(r.Blocks, Block{Text: again})
	}
	return r
}

func reference() string {
	var b [2]byte
	_, _ = rand.Read(b[:]) // never fails since Go 1.24
	return hex.EncodeToString(b[:])
}

// notFound says that there is no such thing and offers the nearest one that the caller may see.
func notFound(what, name string, known []string, hint string) error {
	n := schemas.Nearest(name, known)
	if i := slices.IndexFunc(known, func(k string) bool { return name != "" && strings.HasSuffix(k, "."+name) }); n == "" && i >= 0 {
		n = known[i] // a tool without its server
	}
	if n != "" {
		hint = "did you mean " + clean(n) + "?"
	}
	return &schemas.Error{Code: schemas.CodeNotFound, Text: strings.TrimSpace("there is no " + what + " " + short(clean(name), 60)), Hint: hint}
}
