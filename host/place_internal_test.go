package host

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"bobbin/schemas"
)

type runs struct{ launched int }

func (r *runs) Launch(context.Context, schemas.Launch) (io.ReadWriteCloser, error) {
	r.launched++
	return nil, errors.New("enough")
}
func (*runs) Place() schemas.Place {
	return schemas.Place{Available: true, Where: "this machine, as you. NOT isolated"}
}
func (*runs) Close() error { return nil }

func TestPlace_DiscordGetsNoProcessesUnlessNamed(t *testing.T) {
	const discord, desk = schemas.ThreadID("123456789012345678"), schemas.ThreadID("terminal-default")
	for _, c := range []struct {
		sandbox string
		thread  schemas.ThreadID
		may     bool
		where   string
	}{
		{"auto", discord, false, ""}, {"", discord, false, ""}, {"process", discord, true, "as the operator. NOT isolated"},
		{"auto", desk, true, "as you. NOT isolated"}, {"process", desk, true, "as you. NOT isolated"},
	} {
		r := &runs{}
		place := Options{Sandbox: c.sandbox}.place(r, &schemas.Error{Text: "no container engine answers at unix:///x"})
		p := place(c.thread)
		_, err := local{r, place}.Launch(t.Context(), schemas.Launch{Thread: c.thread})
		if p.Available != c.may || !strings.Contains(p.Where, c.where) || (r.launched == 1) != c.may {
			t.Errorf("--sandbox %q, thread %s: %+v, launched %d, %v", c.sandbox, c.thread, p, r.launched, err)
		}
		if !c.may && (schemas.CodeOf(err) != schemas.CodeMissing || p.Hint == "" || !strings.Contains(p.Why, "no container engine answers")) {
			t.Errorf("refused with %v, hint %q", err, p.Hint)
		}
	}
}
