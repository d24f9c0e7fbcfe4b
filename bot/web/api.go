package web

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"bobbin/bot"
	"bobbin/schemas"
)

const (
	bodyTime  = 30 * time.Second // to send a request's body
	writeTime = 10 * time.Second // for one write of a stream
	heartbeat = 15 * time.Second
)

// asked is the body of a request; exactly one of Text, Verb and Action is set.
type asked struct {
	Text   string            `json:"text"`
	Verb   string            `json:"verb"`
	Args   map[string]string `json:"args"`
	Action *struct {
		ID     string            `json:"id"`
		Choice string            `json:"choice"`
		Values map[string]string `json:"values"`
	} `json:"action"`
	// Aside keeps the request out of the conversation: the answer is for a panel.
	Aside bool   `json:"aside"`
	Tag   string `json:"tag"`

	file  *schemas.File
	files []schemas.File // that came with a text
}

var errShape = errors.New("exactly one of text, verb and action is wanted")

func (d *Door) inThread(next func(http.ResponseWriter, *http.Request, schemas.ThreadID)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id := schemas.ThreadID(r.PathValue("id"))
		if !id.Valid() {
			refuse(w, http.StatusNotFound, schemas.CodeNotFound, "there is no such thread", "")
			return
		}
		next(w, r, id)
	}
}

func (d *Door) inRoom(next func(http.ResponseWriter, *http.Request, *room)) http.HandlerFunc {
	return d.inThread(func(w http.ResponseWriter, r *http.Request, id schemas.ThreadID) {
		rm, err := d.enter(r.Context(), id)
		switch {
		case errors.Is(err, errFull):
			refuse(w, http.StatusServiceUnavailable, schemas.CodeTooLarge, "too many threads are open", "close a page and try again")
		case err != nil:
			refuse(w, http.StatusServiceUnavailable, schemas.CodeNotReady, "bobbin is starting or stopping", "try again in a moment")
		default:
			next(w, r, rm)
		}
	})
}

// request hands one request to the bot and answers when the bot has. It goes on when the page is closed meanwhile; the
// reply is then in the conversation when the page comes back.
func (d *Door) request(w http.ResponseWriter, r *http.Request, rm *room) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime))
	limit := int64(maxBody)
	if strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/form-data") {
		limit = maxUpload
	}
	r.Body = http.MaxBytesReader(w, r.Body, limit)
	in, err := read(r)
	if err != nil {
		refuseBody(w, err)
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})

	ctx, end := context.WithTimeout(context.WithoutCancel(r.Context()), longest)
	defer end()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	cancel := func() { stop(bot.ErrStopped) }
	req := bot.Request{Caller: d.caller(rm.thread), Text: in.Text, Verb: in.Verb, Args: in.Args, File: in.file, Files: in.files}
	if in.Action != nil {
		req.Action = &bot.Action{ID: in.Action.ID, Choice: in.Action.Choice, Values: in.Action.Values}
	}
	if in.Aside {
		out, _ := drawn(d.opt.Bot.Handle(ctx, req), req.Caller.Member)
		answer(w, http.StatusOK, entry{Kind: "reply", At: time.Now(), Reply: out})
		return
	}
	n, ok := rm.begin(in.said(), in.Tag, cancel)
	if !ok {
		refuse(w, http.StatusTooManyRequests, schemas.CodeTooLarge, "too many requests are running in this thread", "wait for one to end")
		return
	}
	req.Progress = func(line string) { rm.progress(n, line) }
	req.Stream = func(r bot.Reply) { rm.answering(n, r) }
	var chosen string
	if req.Action != nil {
		chosen = rm.chosen(*req.Action)
	}
	answer(w, http.StatusOK, rm.finish(n, d.inTurn(ctx, rm, req), chosen))
}

// inTurn keeps the order of what is typed. Answers to cards go ahead: what runs may be waiting for them. What the assistant answers is
// kept in order by the bot, so that a command does not wait for it.
func (d *Door) inTurn(ctx context.Context, rm *room, req bot.Request) bot.Reply {
	if req.Action == nil {
		select {
		case rm.turn <- struct{}{}:
			leave := sync.OnceFunc(func() { <-rm.turn })
			defer leave()
			stream := req.Stream
			req.Stream = func(r bot.Reply) {
				leave()
				stream(r)
			}
		case <-ctx.Done():
			return problem(schemas.CodeNotReady, "stopped before it began; nothing was done", "")
		}
	}
	return d.opt.Bot.Handle(ctx, req)
}

func (d *Door) cancel(w http.ResponseWriter, r *http.Request, rm *room) {
	n, err := strconv.Atoi(r.PathValue("n"))
	if err != nil {
		refuse(w, http.StatusNotFound, schemas.CodeNotFound, "there is no such request", "")
		return
	}
	rm.cancel(n)
	w.WriteHeader(http.StatusNoContent)
}

func read(r *http.Request) (asked, error) {
	var in asked
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return in, http.ErrNotSupported
	}
	switch kind {
	case "application/json":
		dec := json.NewDecoder(r.Body)
		dec.DisallowUnknownFields()
		if err := dec.Decode(&in); err != nil {
			return in, err
		}
		if _, err := dec.Token(); err != io.EOF {
			return in, errShape
		}
	case "multipart/form-data":
		if err := in.readFile(r); err != nil {
			return in, err
		}
	default:
		return in, http.ErrNotSupported
	}
	set := 0
	for _, is := range []bool{in.Text != "", in.Verb != "", in.Action != nil} {
		if is {
			set++
		}
	}
	if len(in.files) > 0 && set == 0 {
		set = 1
	}
	if set != 1 || len(in.Tag) > 32 || in.Args != nil && in.Verb == "" || !utf8.ValidString(in.Text) {
		return in, errShape
	}
	return in, nil
}

// readFile takes an upload: one part named "file" to add, or a part "text" and files with it, and maybe a tag.
func (in *asked) readFile(r *http.Request) error {
	parts, err := r.MultipartReader()
	if err != nil {
		return err
	}
	said := false
	for range maxFiles + 3 {
		p, err := parts.NextPart()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		data, err := io.ReadAll(p)
		if err != nil {
			return err
		}
		switch {
		case p.FormName() == "tag":
			in.Tag = string(data)
		case p.FormName() == "text" && !said:
			in.Text, said = string(data), true
		case p.FormName() == "file" && p.FileName() != "" && len(in.files) < maxFiles:
			in.files = append(in.files, schemas.File{Name: cut(p.FileName(), 100), MIME: p.Header.Get("Content-Type"), Data: data})
		default:
			return errShape
		}
	}
	switch {
	case len(in.files) == 0:
		return errShape
	case said:
		return nil
	case len(in.files) > 1:
		return errShape
	case len(in.files[0].Data) >= maxBody && len(in.files[0].Data) > bot.MaxUpload(in.files[0].Name):
		return &http.MaxBytesError{Limit: maxBody}
	}
	in.Verb, in.file, in.files = "upload", &in.files[0], nil
	return nil
}

// events is the stream of a thread (Server-Sent Events, WHATWG HTML section 9.2): "history", "entry",
// "answer" (an entry that grows), "progress", "board".
func (d *Door) events(w http.ResponseWriter, r *http.Request, rm *room) {
	if !rm.join() {
		refuse(w, http.StatusServiceUnavailable, schemas.CodeTooLarge, "too many pages are open on this thread", "close one and try again")
		return
	}
	defer rm.leave()
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	ctl := http.NewResponseController(w)
	send := func(text string) bool {
		_ = ctl.SetWriteDeadline(time.Now().Add(writeTime))
		if _, err := io.WriteString(w, text); err != nil {
			return false
		}
		return ctl.Flush() == nil
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	at := r.Header.Get("Last-Event-ID")
	if at == "" {
		at = r.URL.Query().Get("after")
	}
	if !send("retry: 1000\n\n") {
		return
	}
	for {
		batch, more := rm.since(at)
		for _, e := range batch {
			if e.data == nil {
				continue
			}
			at = rm.epoch + "-" + strconv.FormatUint(e.seq, 10)
			if !send("id: " + at + "\nevent: " + e.kind + "\ndata: " + string(e.data) + "\n\n") {
				return
			}
		}
		select {
		case <-more:
		case <-beat.C:
			if !send(": still here\n\n") {
				return
			}
		case <-r.Context().Done():
			return
		case <-rm.quit:
			return
		}
	}
}

func (d *Door) board(w http.ResponseWriter, r *http.Request, id schemas.ThreadID) {
	ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
	defer cancel()
	caller := d.caller(id)
	b, err := d.opt.Bot.Board(ctx, caller)
	if err != nil {
		d.opt.Log.Warn("web: board", "thread", id, "err", err)
		refuse(w, http.StatusInternalServerError, schemas.CodeOf(err), "the list of servers could not be read", "try /mcp list")
		return
	}
	answer(w, http.StatusOK, boardOf(caller, b))
}

func (d *Door) welcome(w http.ResponseWriter, r *http.Request, id schemas.ThreadID) {
	ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
	defer cancel()
	out, _ := drawn(d.opt.Bot.Welcome(ctx, d.caller(id)), "")
	answer(w, http.StatusOK, entry{Kind: "notice", At: time.Now(), Reply: out})
}

// complete gives at most 8 lines that continue ?line=….
func (d *Door) complete(w http.ResponseWriter, r *http.Request, id schemas.ThreadID) {
	lines := []string{}
	if line := r.URL.Query().Get("line"); line != "" && len(line) <= 200 {
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel()
		lines = append(lines, d.opt.Bot.Complete(ctx, d.caller(id), line)...)
	}
	answer(w, http.StatusOK, lines[:min(len(lines), 40)])
}

// file sends a block's file as an attachment: never as something that the browser would render.
func (d *Door) file(w http.ResponseWriter, r *http.Request, rm *room) {
	n, errN := strconv.Atoi(r.PathValue("n"))
	i, errI := strconv.Atoi(r.PathValue("block"))
	var f *file
	var data []byte
	if errN == nil && errI == nil {
		f, data = rm.fileOf(n, i)
	}
	if f == nil {
		refuse(w, http.StatusNotFound, schemas.CodeNotFound, "this file is no longer kept", "ask for it again")
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": f.Name}))
	_, _ = w.Write(data)
}

func answer(w http.ResponseWriter, status int, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		http.Error(w, "the answer could not be written", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(data)
}

func refuse(w http.ResponseWriter, status int, code schemas.Code, text, hint string) {
	out, _ := drawn(problem(code, text, hint), "")
	answer(w, status, entry{Kind: "reply", At: time.Now(), Reply: out})
}

func refuseBody(w http.ResponseWriter, err error) {
	over, large := errors.AsType[*http.MaxBytesError](err)
	switch {
	case large && over.Limit == maxUpload:
		refuse(w, http.StatusRequestEntityTooLarge, schemas.CodeTooLarge, "these files are larger than 20 MiB together", "at most 10 files, of 5 MiB each")
	case large:
		refuse(w, http.StatusRequestEntityTooLarge, schemas.CodeTooLarge, "that is larger than 1 MiB", "a config is at most 256 KiB")
	case errors.Is(err, http.ErrNotSupported):
		refuse(w, http.StatusUnsupportedMediaType, schemas.CodeInvalid, "a request is application/json or multipart/form-data", "")
	default:
		refuse(w, http.StatusBadRequest, schemas.CodeInvalid, "the request is not in the form that the page sends", "reload the page")
	}
}
