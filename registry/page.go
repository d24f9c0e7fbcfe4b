package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"

	"bobbin/internal/safehttp"
	"bobbin/registry/internal/session"
	"bobbin/schemas"
)

// Bounds of the pages that a server wants a member to open.
const (
	maxPageID     = 256 // bytes of an elicitationId
	maxPages      = 3   // in one refusal of a call
	maxPageRounds = 2   // refusals of one call

	pageRequired = -32042       // URLElicitationRequiredError (MCP 2025-11-25, Elicitation)
	unnamedPages = "2026-07-28" // the first revision without elicitationId
)

// page checks the address of a page that only a person's own press will open: https to a public host, or this machine for a connector
// that is on it. An address that carries a secret of the definition goes nowhere.
func (i *instance) page(raw string) (address, why string) {
	u, err := safehttp.CheckURL(raw, i.local())
	if err != nil {
		return "", "the address of its page cannot be used"
	}
	plain, err := url.PathUnescape(raw)
	if err != nil || i.veil(raw) != raw || i.veil(plain) != plain {
		return "", "the address of its page holds a secret"
	}
	return u.String(), ""
}

// local reports whether the server is a connector on this machine.
func (i *instance) local() bool {
	if !i.def.Remote() {
		return false
	}
	address := substitute(i.def.URL, i.values)
	_, asLocal := safehttp.CheckURL(address, true)
	_, asPublic := safehttp.CheckURL(address, false)
	return asLocal == nil && asPublic != nil
}

// page notes that a page is asked for; done is nil without an id. closed is nil when that id is open already, else it ends the note.
func (a *asking) page(id string) (done <-chan struct{}, closed func()) {
	if id == "" {
		return nil, func() {}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, twice := a.pages[id]; twice {
		return nil, nil
	}
	if a.pages == nil {
		a.pages = map[string]chan struct{}{}
	}
	ch := make(chan struct{})
	a.pages[id] = ch
	return ch, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.pages, id)
	}
}

// complete hears that a member is done with a page; what is not open is ignored, as the specification asks.
func (a *asking) complete(params json.RawMessage) {
	var in struct {
		ID string `json:"elicitationId"`
	}
	if json.Unmarshal(params, &in) != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if ch := a.pages[in.ID]; ch != nil {
		select {
		case <-ch:
		default:
			close(ch)
		}
	}
}

// paged makes a call, and makes it again when the server refused to run it before the member has opened pages, and they did.
func (c *call) paged(ctx context.Context, try func() (json.RawMessage, error)) (json.RawMessage, error) {
	for round := 0; ; round++ {
		raw, err := try()
		rpc, ok := errors.AsType[*session.RPCError](err)
		if !ok || rpc.Code != pageRequired || c.r.opt.Ask == nil {
			return raw, err
		}
		data := rpc.Data
		rpc = &session.RPCError{Code: pageRequired, Message: "a page is to be opened first"} // without the server's words, which may hold an address
		refuse := func(code schemas.Code, why, hint string) (json.RawMessage, error) {
			return nil, &schemas.Error{Code: code, Text: c.tool.Full() + " wants a page opened first, " + why + "; it did not run", Hint: hint, Err: rpc}
		}
		if round == maxPageRounds {
			return refuse(schemas.CodeFailed, fmt.Sprintf("and wants it again after %d times", round), "/mcp audit "+c.receipt)
		}
		as := c.as
		switch action, err := c.open(ctx, data); {
		case err != nil:
			c.inst.decline(ctx, c.Caller, "nobody could be asked")
			return refuse(schemas.CodeAsk, "and nobody could be asked", "call it in a chat door")
		case action == "decline":
			return refuse(schemas.CodeDenied, "and that was declined", "call it again to open the page")
		case action != "accept":
			return refuse(schemas.CodeExpired, "and nobody answered", "call it again to open the page")
		}
		err = c.recheck(ctx) // that took its time
		if err == nil && c.as != as {
			c.as = as // the request that ended was theirs
			err = &schemas.Error{Code: schemas.CodeNotReady, Text: "whose sign-in " + c.tool.Server + " uses changed meanwhile; the call did not run"}
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", err, rpc)
		}
	}
}

// open puts the pages that a refusal names to the one whose call it is, one after the other. The answer is "accept" if all of them were
// accepted. Waiting is not call time.
func (c *call) open(ctx context.Context, data json.RawMessage) (action string, err error) {
	questions, why := c.inst.required(data)
	if why != "" {
		c.inst.decline(ctx, c.Caller, why)
		return "decline", nil
	}
	resume, ok := pause([]*patience{c.clock})
	defer resume()
	if !ok {
		c.inst.decline(ctx, c.Caller, "it asked too often in one call")
		return "decline", nil
	}
	for n, p := range questions {
		done, closed := c.inst.asking.page(p.id)
		if closed == nil {
			c.inst.decline(ctx, c.Caller, "it asks for one page twice")
			return "decline", nil
		}
		defer closed()
		questions[n].Done, questions[n].Caller = done, c.Caller
	}
	for _, p := range questions {
		answer, err := c.inst.put(ctx, p.Elicit, []*patience{c.clock})
		if err != nil || answer.Action != "accept" {
			return answer.Action, err
		}
	}
	return "accept", nil
}

// required is a page that a refusal names.
type required struct {
	schemas.Elicit
	id string
}

// required reads the pages that a refusal names; why says why they cannot be put to anybody.
func (i *instance) required(data json.RawMessage) (list []required, why string) {
	var in struct {
		Elicitations []json.RawMessage `json:"elicitations"`
	}
	if json.Unmarshal(data, &in) != nil || len(in.Elicitations) == 0 {
		return nil, "it does not say which page"
	}
	if len(in.Elicitations) > maxPages {
		return nil, fmt.Sprintf("it wants more than %d pages opened at once", maxPages)
	}
	for _, raw := range in.Elicitations {
		q, id, why := i.question(raw)
		if why == "" && q.URL == "" {
			why = "it does not say which page"
		}
		if why != "" {
			return nil, why
		}
		list = append(list, required{q, id})
	}
	return list, ""
}
