package sandbox

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"bobbin/schemas"
)

const (
	execTime    = 60 * time.Second
	maxExecTime = time.Hour
	execGrace   = 10 * time.Second // beyond a command's own time
	maxOutput   = 1 << 20          // bytes kept of each stream
	maxStep     = 1 << 20          // bytes of one piece as the sandbox sends it
)

// command is what the program inside is told of an Exec. Env holds values.
type command struct {
	Args      []string          `json:"args"`
	Dir       string            `json:"dir"`
	Env       map[string]string `json:"env,omitempty"`
	TimeoutMs int64             `json:"timeoutMs"`
}

// step is one line of its answer: a piece of output, or, with Code, the end.
type step struct {
	Out      string `json:"out"`
	Err      string `json:"err"`
	Code     *int   `json:"code"`
	TimedOut bool   `json:"timedOut"`
	Cut      bool   `json:"cut"`
	Error    string `json:"error"`
}

// Exec runs one command in the member's sandbox and waits for its end. x.Output is called from the caller's own goroutine. What the
// command prints of x.Env's values is masked. Errors are *schemas.Error: CodeUnknown when the command may have run.
func (d *Docker) Exec(ctx context.Context, x schemas.Exec) (schemas.Executed, error) {
	c, err := commandOf(x)
	if err != nil {
		return schemas.Executed{}, err
	}
	return d.run(ctx, x, c)
}

func (d *Docker) run(ctx context.Context, x schemas.Exec, c command) (schemas.Executed, error) {
	label := "exec-" + strings.ToLower(rand.Text()[:12])
	c.Env = labelled(c.Env, label)
	b, in, done, err := d.use(ctx, "", label, schemas.Contact{Thread: x.Thread, Member: x.Member, Install: x.Install})
	if err != nil {
		return schemas.Executed{}, err
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, time.Duration(c.TimeoutMs)*time.Millisecond+execGrace)
	defer cancel()
	req, err := in.request(ctx, http.MethodPost, "/exec", c)
	if err != nil {
		return schemas.Executed{}, err
	}
	resp, err := in.http.Do(req)
	if err != nil {
		return schemas.Executed{}, b.unsure(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
		return schemas.Executed{}, unstarted(c.Args[0], refusedWith(resp.StatusCode, text))
	}
	r := reader{hide: maskable(x.Env), show: x.Output}
	if err := r.read(resp.Body); err != nil {
		return r.result(), b.unsure(err)
	}
	if r.failed != "" {
		return r.result(), unstarted(c.Args[0], &refused{http.StatusUnprocessableEntity, shorten(schemas.Clean(r.failed, true), maxWords)})
	}
	return r.result(), nil
}

func commandOf(x schemas.Exec) (command, error) {
	if len(x.Args) == 0 {
		return command{}, refusal(schemas.CodeInvalid, "there is no command", "name a program")
	}
	l := schemas.Launch{Owner: x.Member, Command: x.Args[0], Args: x.Args[1:], Env: x.Env, Cwd: x.Dir}
	def, err := contained(l)
	if err != nil {
		return command{}, err
	}
	if _, set := def.Env["PATH"]; x.Install && !set {
		def.Env["PATH"] = plainPath // the image's own tools, not what a package left under their names
	}
	limit := x.Timeout
	if limit <= 0 {
		limit = execTime
	}
	return command{Args: x.Args, Dir: def.Cwd, Env: def.Env, TimeoutMs: min(limit, maxExecTime).Milliseconds()}, nil
}

func (b *box) unsure(err error) error {
	e := &schemas.Error{Code: schemas.CodeUnknown, Text: "the sandbox was lost while the command ran", Hint: "look at what it did before you run it again", Err: err}
	if errors.Is(err, context.DeadlineExceeded) {
		e.Text = "the sandbox did not say in time how the command ended"
	}
	if why := b.why.Load(); why != nil {
		e.Text = "the sandbox was stopped while the command ran: " + *why
	}
	return e
}

// reader takes the answer apart.
type reader struct {
	hide        []string
	show        func(string)
	out, err    strings.Builder
	line        [2]string // that has no end yet, of each stream
	end         step
	failed      string
	overflowing bool
}

func (r *reader) read(body io.Reader) error {
	in := bufio.NewScanner(body)
	in.Buffer(nil, maxStep+maxStep/2)
	for in.Scan() {
		var s step
		if err := json.Unmarshal(in.Bytes(), &s); err != nil {
			return fmt.Errorf("sandbox: %w", err)
		}
		r.add(&r.out, 0, s.Out)
		r.add(&r.err, 1, s.Err)
		if s.Error != "" {
			r.failed = s.Error
			return nil
		}
		if s.Code != nil {
			r.end = s
			r.say(r.line[0])
			r.say(r.line[1])
			return nil
		}
	}
	if err := in.Err(); err != nil {
		return err
	}
	return io.ErrUnexpectedEOF
}

func (r *reader) add(all *strings.Builder, stream int, text string) {
	if room := maxOutput - all.Len(); len(text) > room {
		text, r.overflowing = text[:room], true
	}
	all.WriteString(text)
	if r.show == nil {
		return
	}
	lines := strings.Split(r.line[stream]+text, "\n")
	r.line[stream] = lines[len(lines)-1]
	for _, l := range lines[:len(lines)-1] {
		r.say(l)
	}
	if len(r.line[stream]) > maxArg { // no line is that long for anybody who watches
		r.say(r.line[stream])
		r.line[stream] = ""
	}
}

func (r *reader) say(line string) {
	if r.show == nil {
		return
	}
	for _, l := range clean(line, r.hide) {
		r.show(l)
	}
}

func (r *reader) result() schemas.Executed {
	e := schemas.Executed{Code: -1, Stdout: masked(r.out.String(), r.hide), Stderr: masked(r.err.String(), r.hide), TimedOut: r.end.TimedOut, Cut: r.end.Cut || r.overflowing}
	if r.end.Code != nil {
		e.Code = *r.end.Code
	}
	return e
}

// masked gives a text as it may be shown, whole.
func masked(text string, hide []string) string {
	for _, v := range hide {
		text = strings.ReplaceAll(text, v, "***")
	}
	return schemas.Clean(text, false)
}
