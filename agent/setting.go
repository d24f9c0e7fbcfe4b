package agent

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"bobbin/internal/durable"
	"bobbin/schemas"
)

const (
	fileSettings = "settings.json"
	maxSettings  = 256 << 10
)

// settings is what a thread chose, and what its conversation found.
type settings struct {
	Model string           `json:"model,omitempty"`
	Mode  schemas.ChatMode `json:"mode,omitempty"`
	Found []string         `json:"found,omitempty"` // names for models of tools that a search found, the oldest first
}

// readSettings reads them; what cannot be read is as good as not set.
func readSettings(dir *durable.Dir) (s settings) {
	raw, err := dir.Read(fileSettings, maxSettings)
	if err != nil || json.Unmarshal(raw, &s) != nil {
		return settings{}
	}
	return s
}

func (s settings) write(dir *durable.Dir) error {
	raw, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	if err := dir.Write(fileSettings, append(raw, '\n')); err != nil && !errors.Is(err, durable.ErrUnsynced) {
		return err
	}
	return nil
}

// folder opens a thread's folder; the caller closes it.
func (a *Agent) folder(id schemas.ThreadID) (*durable.Dir, error) {
	if !id.Valid() {
		return nil, &schemas.Error{Code: schemas.CodeInvalid, Text: "this is not a thread id"}
	}
	dir, err := a.opt.Chats.Sub(string(id))
	if err != nil {
		return nil, &schemas.Error{Code: schemas.CodeUnreadable, Text: "this thread's conversation cannot be opened", Err: err}
	}
	return dir, nil
}

func (a *Agent) settings(id schemas.ThreadID) (settings, error) {
	if !a.opt.Chats.Has(string(id)) {
		return settings{}, nil
	}
	dir, err := a.folder(id)
	if err != nil {
		return settings{}, err
	}
	defer dir.Close()
	return readSettings(dir), nil
}

// manage sets something for a thread, which its managers may.
func (a *Agent) manage(ctx context.Context, c schemas.Caller, fn func(*settings)) error {
	if !c.Manages() {
		return &schemas.Error{Code: schemas.CodeDenied, Text: "only a manager of the thread can change this"}
	}
	dir, err := a.folder(c.Thread)
	if err != nil {
		return err
	}
	defer dir.Close()
	return change(ctx, dir, fn)
}

// change reads a thread's settings, lets fn set something and writes them.
func change(ctx context.Context, dir *durable.Dir, fn func(*settings)) error {
	ctx, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	unlock, err := dir.Lock(ctx, fileSettings)
	if err != nil {
		return &schemas.Error{Code: schemas.CodeNotReady, Text: "the thread's settings are being changed just now", Err: err}
	}
	defer unlock()
	s := readSettings(dir)
	fn(&s)
	if err := s.write(dir); err != nil {
		return &schemas.Error{Code: schemas.CodeInternal, Text: "the setting could not be kept", Err: err}
	}
	return nil
}

// chosen is the model of a thread: the one it chose while the operator allows it, else the first.
func (a *Agent) chosen(s settings) Choice {
	if i := a.choice(s.Model); i >= 0 {
		return a.opt.Models[i]
	}
	return a.opt.Models[0]
}

func (a *Agent) choice(name string) int {
	return slices.IndexFunc(a.opt.Models, func(c Choice) bool { return c.Name == name })
}

// Models lists what the operator allows, with the thread's choice marked; none: nobody can answer.
func (a *Agent) Models(_ context.Context, id schemas.ThreadID) ([]schemas.Model, error) {
	if len(a.opt.Models) == 0 {
		return nil, nil
	}
	s, err := a.settings(id)
	if err != nil {
		return nil, err
	}
	chosen := a.chosen(s).Name
	var list []schemas.Model
	for _, m := range a.opt.Models {
		list = append(list, schemas.Model{Name: m.Name, Window: m.Window, Chosen: m.Name == chosen, Tools: maxTools, ToolTokens: m.toolTokens()})
	}
	return list, nil
}

// Choose sets the thread's model, by its name or by what of it follows a slash where one model alone is called so. Managers may.
func (a *Agent) Choose(ctx context.Context, c schemas.Caller, name string) error {
	i := a.choice(name)
	var known []string
	for n, m := range a.opt.Models {
		known = append(known, m.Name)
		if i < 0 && strings.HasSuffix(m.Name, "/"+name) && name != "" {
			i = n
		}
	}
	if i < 0 || a.opt.Models[i].Name != name && slices.ContainsFunc(known[i+1:], func(k string) bool { return strings.HasSuffix(k, "/"+name) }) {
		e := &schemas.Error{Code: schemas.CodeNotFound, Text: "no one model here is called " + first(label(name), 100), Hint: "`/chat model` lists them"}
		if near := schemas.Nearest(name, known); near != "" {
			e.Hint = "did you mean " + near + "?"
		}
		return e
	}
	return a.manage(ctx, c, func(s *settings) { s.Model = a.opt.Models[i].Name })
}

// Mode says when the assistant answers in a thread.
func (a *Agent) Mode(_ context.Context, id schemas.ThreadID) (schemas.ChatMode, error) {
	s, err := a.settings(id)
	if err != nil {
		return schemas.ChatOff, err
	}
	switch {
	case s.Mode != "":
		return s.Mode, nil
	case id.IsSnowflake():
		return schemas.ChatMentioned, nil
	}
	return schemas.ChatAlways, nil
}

// SetMode sets it. Managers may.
func (a *Agent) SetMode(ctx context.Context, c schemas.Caller, m schemas.ChatMode) error {
	if m != schemas.ChatMentioned && m != schemas.ChatAlways && m != schemas.ChatOff {
		return &schemas.Error{Code: schemas.CodeInvalid, Text: "the mode is mentioned, always or off"}
	}
	return a.manage(ctx, c, func(s *settings) { s.Mode = m })
}

// Reset forgets the conversation of the thread; what it spent and chose stays. Managers may. An answer on its way is stopped first.
func (a *Agent) Reset(ctx context.Context, c schemas.Caller) error {
	if !c.Manages() {
		return &schemas.Error{Code: schemas.CodeDenied, Text: "only a manager of the thread can make the assistant forget its conversation"}
	}
	dir, err := a.folder(c.Thread)
	if err != nil {
		return err
	}
	defer dir.Close()
	if _, err := a.Stop(ctx, c); err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	unlock, err := dir.Lock(wait, lockTurn)
	if err != nil {
		return &schemas.Error{Code: schemas.CodeConflict, Text: "an answer is still on its way", Hint: "try again in a moment", Err: err}
	}
	defer unlock()
	if err := dir.Remove(fileTranscript); err != nil {
		return &schemas.Error{Code: schemas.CodeInternal, Text: "the conversation could not be deleted", Err: err}
	}
	return change(ctx, dir, func(s *settings) { s.Found = nil })
}

// Drop deletes all that is kept of a thread: it is gone on its platform. An answer on its way is stopped first.
func (a *Agent) Drop(ctx context.Context, id schemas.ThreadID) error {
	if !id.Valid() || !a.opt.Chats.Has(string(id)) {
		return nil
	}
	dir, err := a.folder(id)
	if err != nil {
		return err
	}
	defer dir.Close()
	a.mu.Lock()
	if th := a.threads[id]; th != nil {
		for _, t := range append([]*turn{th.running}, th.behind...) {
			t.cancel(&stopped{"the thread is gone"})
		}
	}
	a.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	unlock, err := dir.Lock(ctx, lockTurn)
	if err != nil {
		return &schemas.Error{Code: schemas.CodeConflict, Text: "an answer is still on its way", Err: err}
	}
	defer unlock()
	if err := a.opt.Chats.RemoveAll(string(id)); err != nil {
		return &schemas.Error{Code: schemas.CodeInternal, Text: "the conversation could not be deleted", Err: err}
	}
	return nil
}
