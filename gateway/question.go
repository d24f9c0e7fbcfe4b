package gateway

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"

	"bobbin/schemas"
)

const (
	maxWritten = 256 << 10 // bytes of an answer to a question
	maxShown   = 2000      // characters of a call's arguments in a question
)

// question gives the way by which this client is asked for input; nil when it cannot be, then the chat is.
func (x *exchange) question() func(context.Context, schemas.Elicit) (schemas.Elicited, error) {
	if x.ask == nil || x.able&(canForm|canURL) == 0 {
		return nil
	}
	return func(ctx context.Context, q schemas.Elicit) (schemas.Elicited, error) {
		if q.URL != "" && x.able&canURL == 0 || q.URL == "" && x.able&canForm == 0 {
			return schemas.Elicited{}, &schemas.Error{Code: schemas.CodeAsk, Text: "this client cannot be asked that"}
		}
		ctx, cancel := context.WithTimeout(ctx, x.g.opt.Patience)
		defer cancel()
		id := ""
		if q.URL != "" && !x.modern() {
			id = rand.Text()
		}
		if q.Done != nil { // done with the page before the client said so: that is a yes
			var finish context.CancelFunc
			ctx, finish = context.WithCancel(ctx)
			defer finish()
			stop := make(chan struct{})
			defer close(stop)
			x.g.spawn(func() {
				select {
				case <-q.Done:
					finish()
				case <-stop:
				}
			})
		}
		raw, err := x.ask(ctx, q.Key, "elicitation/create", asked(q, id))
		if q.Done != nil {
			select {
			case <-q.Done:
				if id != "" {
					x.tell("notifications/elicitation/complete", fmt.Appendf(nil, `{"elicitationId":%s}`, quote(id)))
				}
				return schemas.Elicited{Action: "accept"}, nil
			default:
			}
		}
		if err != nil {
			return schemas.Elicited{}, err
		}
		return answered(q, raw)
	}
}

// permission gives the way by which a client on this machine has its user say yes to a call, where nobody is in the chat; nil when it
// cannot. MCP has a person answer a form, not the model (2025-11-25, Elicitation); what accepts forms by itself says no, which is what
// the form says as it is.
func (x *exchange) permission() func(context.Context, schemas.Ask) (schemas.Answer, error) {
	if !x.local() || x.ask == nil || x.able&canForm == 0 {
		return nil
	}
	return func(ctx context.Context, q schemas.Ask) (schemas.Answer, error) {
		ctx, cancel := context.WithTimeout(ctx, x.g.opt.Patience)
		defer cancel()
		args := []rune(schemas.Clean(string(q.Args), false))
		if len(args) > maxShown {
			args = append(args[:maxShown], '…')
		}
		raw, err := x.ask(ctx, "", "elicitation/create", asked(schemas.Elicit{
			Server: "bobbin", Message: "may " + q.Tool.Full() + " run this once? " + q.Why + "\n" + string(args),
			Schema: json.RawMessage(`{"type":"object","properties":{"run":{"type":"boolean","title":"Run it this once","default":false}},"required":["run"]}`),
		}, ""))
		var in struct {
			Action  string
			Content struct{ Run bool }
		}
		if err != nil || len(raw) > maxWritten || json.Unmarshal(raw, &in) != nil || in.Action != "accept" || !in.Content.Run {
			return schemas.AnswerDeny, err
		}
		return schemas.AnswerOnce, nil
	}
}

// client gives what else this client can answer; nil: nothing.
func (x *exchange) client() *schemas.Client {
	if x.ask == nil || x.able&(canSample|canRoots) == 0 {
		return nil
	}
	return &schemas.Client{Sampling: x.able&canSample != 0, Roots: x.able&canRoots != 0, Ask: func(ctx context.Context, method, key string, params json.RawMessage) (json.RawMessage, error) {
		ctx, cancel := context.WithTimeout(ctx, x.g.opt.Patience)
		defer cancel()
		if len(params) == 0 {
			params = json.RawMessage("{}")
		}
		raw, err := x.ask(ctx, key, method, params)
		if err == nil && len(raw) > maxWritten {
			return nil, &schemas.Error{Code: schemas.CodeTooLarge, Text: "the client's answer is too large"}
		}
		return raw, err
	}}
}

// asked are the params of elicitation/create. Who asks is said, since all servers of the thread speak through one connection.
func asked(q schemas.Elicit, id string) []byte {
	type params struct {
		Mode    string          `json:"mode,omitempty"`
		Message string          `json:"message"`
		Schema  json.RawMessage `json:"requestedSchema,omitempty"`
		URL     string          `json:"url,omitempty"`
		ID      string          `json:"elicitationId,omitempty"`
	}
	p := params{Mode: "form", Message: q.Server + " asks: " + q.Message, Schema: q.Schema}
	if q.URL != "" {
		p = params{Mode: "url", Message: q.Server + " asks: " + q.Message, URL: q.URL, ID: id}
	}
	return encode(p)
}

// answered reads what the client's user said.
func answered(q schemas.Elicit, raw json.RawMessage) (schemas.Elicited, error) {
	var e schemas.Elicited
	if len(raw) > maxWritten || json.Unmarshal(raw, &e) != nil {
		return schemas.Elicited{}, &schemas.Error{Code: schemas.CodeInvalid, Text: "the client's answer cannot be read"}
	}
	switch e.Action {
	case "accept":
		if q.URL != "" {
			return schemas.Elicited{Action: e.Action}, nil
		}
		if len(e.Content) == 0 {
			e.Content = json.RawMessage("{}")
		}
		if q.Check != nil {
			if ps := q.Check(e.Content); len(ps) > 0 {
				return schemas.Elicited{}, ps
			}
		}
		return e, nil
	case "decline", "cancel":
		return schemas.Elicited{Action: e.Action}, nil
	}
	return schemas.Elicited{}, &schemas.Error{Code: schemas.CodeInvalid, Text: "the client's answer has no action"}
}

// spawn runs fn on a goroutine that Run waits for. fn must end soon after what it belongs to.
func (g *Gateway) spawn(fn func()) bool {
	life, done := g.running()
	if life == nil {
		return false
	}
	go func() {
		defer done()
		fn()
	}()
	return true
}
