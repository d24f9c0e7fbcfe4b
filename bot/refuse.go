package bot

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"

	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// refusal words an error for the person who asked; nobody else sees it. What is nobody's business but the operator's becomes
// a reference number that also stands in the log.
func (b *Bot) refusal(c schemas.Caller, err error) Reply {
	e, ok := errors.AsType[*schemas.Error](err)
	if ps, mistaken := errors.AsType[schemas.Problems](err); mistaken && !ok {
		return mistakes("the text", ps, "")
	}
	switch {
	case ok && e.Code != schemas.CodeInternal:
		r := bad(e.Code, words.Text(words.WithHint(e.Text, e.Hint)))
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

// mistakes draws all problems of a text at once.
func mistakes(name string, ps schemas.Problems, again string) Reply {
	head := fmt.Sprintf("%s has %d mistakes; nothing was changed", words.Clean(name), len(ps))
	if len(ps) == 1 {
		head = words.Clean(name) + " has a mistake; nothing was changed"
	}
	shown := make([]schemas.Problem, len(ps))
	for i, p := range ps {
		p.File, p.Server, p.Text, p.Hint, p.Excerpt = words.Clean(p.File), words.Clean(p.Server), words.Clean(p.Text), words.Clean(p.Hint), words.Clean(p.Excerpt)
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
