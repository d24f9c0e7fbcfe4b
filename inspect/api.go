package inspect

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"bobbin/schemas"
)

// refused is what the API says in place of an answer.
type refused struct {
	Code     schemas.Code     `json:"code"`
	Text     string           `json:"text,omitempty"`
	Hint     string           `json:"hint,omitempty"`
	Ref      string           `json:"ref,omitempty"`
	Problems schemas.Problems `json:"problems,omitempty"`
}

// refusal words an error for the page: nothing of an operator's chain is in it.
func refusal(err error) map[string]refused {
	out := refused{Code: schemas.CodeOf(err)}
	if ps, ok := errors.AsType[schemas.Problems](err); ok {
		out.Text, out.Problems = "the arguments do not fit", ps
	} else if e, ok := errors.AsType[*schemas.Error](err); ok {
		out.Text, out.Hint, out.Ref = e.Text, e.Hint, e.Ref
	}
	return map[string]refused{"error": out}
}

// refuse answers with an error; one that has no words is only a reference to the log.
func (p *Page) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if schemas.CodeOf(err) == schemas.CodeInternal {
		ref := rand.Text()[:6]
		p.opt.Log.Error("inspect", "ref", ref, "path", r.URL.Path, "err", err)
		err = &schemas.Error{Code: schemas.CodeInternal, Text: "something went wrong on my side, reference " + ref, Ref: ref}
	}
	status := http.StatusUnprocessableEntity
	switch schemas.CodeOf(err) {
	case schemas.CodeNotFound:
		status = http.StatusNotFound
	case schemas.CodeDenied:
		status = http.StatusForbidden
	case schemas.CodeInternal:
		status = http.StatusInternalServerError
	}
	answer(w, status, refusal(err))
}

var errNoThread = &schemas.Error{Code: schemas.CodeInvalid, Text: "the address names no thread", Hint: "add ?thread=NAME"}

func (p *Page) listed(list func(context.Context, schemas.Caller) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, ok := p.caller(r)
		if !ok {
			p.refuse(w, r, errNoThread)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), listTime)
		defer cancel()
		v, err := list(ctx, c)
		if err != nil {
			p.refuse(w, r, err)
			return
		}
		answer(w, http.StatusOK, v)
	}
}

// server is a schemas.Status as the page needs it.
type server struct {
	Name      string            `json:"name"`
	Title     string            `json:"title,omitempty"`
	Kind      schemas.Kind      `json:"kind"`
	Transport schemas.Transport `json:"transport,omitempty"`
	Owner     string            `json:"owner,omitempty"`
	State     schemas.State     `json:"state"`
	Why       string            `json:"why,omitempty"`
	Needs     []string          `json:"needs,omitempty"`
	Tools     int               `json:"tools"`
	Tokens    int               `json:"tokens"`
	Calls     int               `json:"calls"`
	PID       int               `json:"pid,omitempty"`
	Protocol  string            `json:"protocol,omitempty"`
	Since     *time.Time        `json:"since,omitempty"`
	StartMs   float64           `json:"startMs,omitempty"`
	Resources bool              `json:"resources"`
	Prompts   bool              `json:"prompts"`
	Software  string            `json:"software,omitempty"`
	Guide     string            `json:"guide,omitempty"` // the server's instructions
	Stderr    string            `json:"stderr,omitempty"`
}

func (p *Page) servers(ctx context.Context, c schemas.Caller) (any, error) {
	list, err := p.opt.Live.Status(ctx, c.Thread)
	out := make([]server, len(list))
	for i, s := range list {
		out[i] = server{
			Name: s.Name, Title: s.Title, Kind: s.Kind, Transport: s.Transport, Owner: s.OwnerName, State: s.State, Why: s.Why, Needs: s.Needs, Tools: s.Tools, Tokens: s.Tokens,
			Calls: s.Calls, PID: s.PID, Protocol: s.Protocol, StartMs: ms(s.Took), Resources: s.Resources, Prompts: s.Prompts, Software: s.Software, Guide: s.Instructions, Stderr: s.Stderr,
		}
		if !s.Since.IsZero() {
			out[i].Since = &s.Since
		}
	}
	return map[string]any{"servers": out}, err
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

type tool struct {
	Server      string          `json:"server"`
	Name        string          `json:"name"`
	Full        string          `json:"full"`
	Title       string          `json:"title,omitempty"`
	Description string          `json:"description,omitempty"`
	Input       json.RawMessage `json:"input,omitempty"`
	Output      json.RawMessage `json:"output,omitempty"`
	Writes      bool            `json:"writes"`
	Risk        string          `json:"risk,omitempty"`
	Tokens      int             `json:"tokens"`
}

func (p *Page) tools(ctx context.Context, c schemas.Caller) (any, error) {
	list, err := p.opt.Lists.Tools(ctx, c)
	out := make([]tool, len(list))
	for i, t := range list {
		out[i] = tool{t.Server, t.Name, t.Full(), t.Title, t.Description, t.Input, t.Output, t.Writes, t.Risk, t.Tokens}
	}
	return map[string]any{"tools": out}, err
}

type resource struct {
	Server      string `json:"server"`
	URI         string `json:"uri"`
	Name        string `json:"name,omitempty"`
	MIME        string `json:"mime,omitempty"`
	Description string `json:"description,omitempty"`
	Template    bool   `json:"template,omitempty"`
}

func (p *Page) resources(ctx context.Context, c schemas.Caller) (any, error) {
	list, err := p.opt.Lists.Resources(ctx, c)
	out := make([]resource, len(list))
	for i, s := range list {
		out[i] = resource{s.Server, s.URI, s.Name, s.MIME, s.Description, s.Template}
	}
	return map[string]any{"resources": out}, err
}

type argument struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Required    bool   `json:"required,omitempty"`
}

type prompt struct {
	Server      string     `json:"server"`
	Name        string     `json:"name"`
	Description string     `json:"description,omitempty"`
	Arguments   []argument `json:"arguments"`
}

func (p *Page) prompts(ctx context.Context, c schemas.Caller) (any, error) {
	list, err := p.opt.Lists.Prompts(ctx, c)
	out := make([]prompt, len(list))
	for i, s := range list {
		out[i] = prompt{s.Server, s.Name, s.Description, make([]argument, len(s.Arguments))}
		for n, a := range s.Arguments {
			out[i].Arguments[n] = argument(a)
		}
	}
	return map[string]any{"prompts": out}, err
}

// wish is what a request wants of a server: Tool with Args, URI, or Name with Args of texts.
type wish struct {
	Server string          `json:"server"`
	Tool   string          `json:"tool"`
	URI    string          `json:"uri"`
	Name   string          `json:"name"`
	Args   json.RawMessage `json:"args"`
}

// result is what came of it. Result is the object as the server sent it.
type result struct {
	Result  json.RawMessage `json:"result"`
	IsError bool            `json:"isError,omitempty"`
	Ms      float64         `json:"ms"`
	Receipt string          `json:"receipt"`
	RunsAs  string          `json:"runsAs,omitempty"`
	Size    int             `json:"size"`
	Spilled bool            `json:"spilled,omitempty"` // the whole was longer
}

func (p *Page) used(use func(context.Context, schemas.Caller, wish) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, ok := p.caller(r)
		if !ok {
			p.refuse(w, r, errNoThread)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		var in wish
		if err != nil || json.Unmarshal(body, &in) != nil {
			p.refuse(w, r, &schemas.Error{Code: schemas.CodeInvalid, Text: "the request is not JSON of at most 1 MiB"})
			return
		}
		select {
		case p.calls <- struct{}{}:
			defer func() { <-p.calls }()
		default:
			p.refuse(w, r, &schemas.Error{Code: schemas.CodeNotReady, Text: fmt.Sprintf("%d calls of this page are on their way; it did not run", maxCalls), Hint: "wait for one of them, or cancel it"})
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), longest)
		defer cancel()
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(longest + time.Minute))
		v, err := use(ctx, c, in)
		if err != nil {
			p.refuse(w, r, err)
			return
		}
		if res, ok := v.(schemas.Result); ok {
			v = result{res.Raw, res.IsError, ms(res.Took), res.Receipt, string(res.RunsAs), res.Size, res.Spilled != ""}
		}
		answer(w, http.StatusOK, v)
	}
}

func (p *Page) call(ctx context.Context, c schemas.Caller, in wish) (any, error) {
	return p.opt.Use.Call(ctx, schemas.Call{
		Caller: c, Origin: schemas.ByPerson, Tool: in.Server + "." + in.Tool, Args: in.Args, Whole: true,
		Progress: func(json.RawMessage) {}, // asked for so that it is among the messages
	})
}

func (p *Page) read(ctx context.Context, c schemas.Caller, in wish) (any, error) {
	return p.opt.Use.ReadResource(ctx, c, in.Server, in.URI)
}

func (p *Page) prompt(ctx context.Context, c schemas.Caller, in wish) (any, error) {
	var args map[string]string
	if len(in.Args) > 0 && json.Unmarshal(in.Args, &args) != nil {
		return nil, &schemas.Error{Code: schemas.CodeInvalid, Text: "the arguments of a prompt are texts"}
	}
	return p.opt.Use.Prompt(ctx, c, in.Server, in.Name, args)
}

func (p *Page) restart(ctx context.Context, c schemas.Caller, in wish) (any, error) {
	return struct{}{}, p.opt.Live.Restart(ctx, c.Thread, in.Server)
}
