package agent

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"bobbin/schemas"
)

const (
	maxParallel = 5
	maxCalls    = 32 // of one step
	maxRepeats  = 5  // of one call with one result
	repeatSteps = 10 // in so many steps
	maxArgs     = 1 << 20
)

// perform runs the calls of a step and gives their results in the order of the calls: neighbours that only read at once, the
// others one by one. When ctx ends, what has not begun does not run; every call has a result.
func (t *turn) perform(ctx context.Context, calls []Call, o *offer) Message {
	results, answered := make([]Result, len(calls)), make([][]string, len(calls))
	jobs := make([]job, len(calls))
	for i, c := range calls {
		jobs[i] = t.job(c, o)
		if u := o.byName[c.Name]; u != nil && u.hidden {
			t.find(c.Name)
		}
	}
	for i := 0; i < len(jobs); {
		n := i + 1
		for n < len(jobs) && n-i < maxParallel && jobs[i].readOnly && jobs[n].readOnly {
			n++
		}
		var wg sync.WaitGroup
		for k := i; k < n; k++ {
			if k >= maxCalls {
				jobs[k].do = nil
				jobs[k].problem = fmt.Sprintf("it did not run: at most %d calls at once", maxCalls)
			}
			j := jobs[k]
			if ctx.Err() != nil {
				results[k] = t.never(ctx, j)
				continue
			}
			place := t.board.begin(schemas.Step{Tool: j.name, State: schemas.StepRunning, RunsAs: t.caller.Member, Args: t.masked(j.call).Args})
			wg.Go(func() { results[k], answered[k] = t.execute(ctx, j, place) })
		}
		wg.Wait()
		i = n
	}
	t.remember(calls, results)
	m := Message{Role: User, At: t.a.opt.Now()}
	for i := range results {
		m.Parts = append(m.Parts, Part{Result: &results[i]})
	}
	for _, servers := range answered {
		t.heard(servers...)
	}
	return m
}

// job is one call with what it means here.
type job struct {
	call     Call
	name     string // for people
	from     string // who answers
	readOnly bool
	problem  string   // why it cannot run, for the model
	servers  []string // whose words it may bring
	do       func(ctx context.Context, waiting func(string)) (schemas.Result, error)
}

// heard notes that the model reads words of servers.
func (t *turn) heard(servers ...string) {
	for _, s := range servers {
		if s != "" && !slices.Contains(t.answered, s) {
			t.answered = append(t.answered, s)
		}
	}
}

// job looks a call up.
func (t *turn) job(c Call, o *offer) job {
	j := job{call: c, name: first(label(c.Name), 128), from: "bobbin", readOnly: true}
	u := o.byName[c.Name]
	switch {
	case u == nil:
		j.problem = o.unknown(c.Name)
		return j
	case c.Bad != "" || !object(c.Args):
		j.name = u.name
		j.problem = "the arguments are no JSON object, so it did not run; send one object that fits this schema: " + first(string(u.input), 2000)
		return j
	case len(c.Args) > maxArgs:
		j.name = u.name
		j.problem = "the arguments are too large, so it did not run"
		return j
	}
	j.name, j.from, j.readOnly = u.name, u.from, u.readOnly
	if u.whose != nil {
		j.servers = u.whose(c.Args)
	}
	if u.reads && len(j.servers) > 0 {
		j.from = cmp.Or(label(j.servers[0]), j.from)
	}
	caller, wary := t.caller, slices.Clone(t.answered)
	j.do = func(ctx context.Context, waiting func(string)) (schemas.Result, error) {
		return u.do(ctx, caller, c.Args, wary, waiting)
	}
	return j
}

// never is the result of a call that did not begin before the answer was stopped.
func (t *turn) never(ctx context.Context, j job) Result {
	why := whyEnded(ctx)
	t.board.begin(schemas.Step{Tool: j.name, State: schemas.StepStopped, Why: why, Args: t.masked(j.call).Args})
	return Result{ID: j.call.ID, Name: j.call.Name, Text: bracketed(why + "; it did not run"), Failed: true}
}

// execute runs one call and words what came of it; servers is whose words are in it.
func (t *turn) execute(ctx context.Context, j job, place int) (out Result, servers []string) {
	out = Result{ID: j.call.ID, Name: j.call.Name, Failed: true}
	if j.do == nil {
		out.Text = bracketed(j.problem)
		t.board.step(place, func(s *schemas.Step) { s.State, s.Why = schemas.StepFailed, first(j.problem, 200) })
		return out, nil
	}
	began, pause := time.Now(), t.pause(place)
	r, err := j.do(ctx, pause.tell)
	waited := pause.end()
	took := cmp.Or(r.Took, time.Since(began)-waited)
	if err == nil {
		got := read(r, int(t.room.Load()))
		t.room.Add(-int32(len(got.images)))
		out.Text, out.Images, out.Failed = fenced(j.from, got.text), got.images, got.failed
		t.board.step(place, func(s *schemas.Step) {
			s.State, s.Took, s.Size, s.Receipt, s.Result = schemas.StepDone, took, max(r.Size, len(r.Raw)), r.Receipt, got.text
			s.RunsAs = cmp.Or(r.RunsAs, s.RunsAs)
			if got.failed {
				s.State, s.Why = schemas.StepFailed, "the tool says that it failed"
			}
		})
		return out, j.servers
	}
	state, words, receipt := worded(err)
	if ctx.Err() != nil {
		state = schemas.StepStopped
		said := "it did not run"
		if c := schemas.CodeOf(err); c == schemas.CodeUnknown || c == schemas.CodeInternal {
			said = "whether it ran is unknown"
		}
		words = whyEnded(ctx) + "; " + said
		out.Text = bracketed(words)
	} else {
		out.Text = fenced(j.from, words) // it may hold a server's own words
		if c := schemas.CodeOf(err); c == schemas.CodeFailed || c == schemas.CodeNotReady {
			servers = j.servers
		}
	}
	t.board.step(place, func(s *schemas.Step) { s.State, s.Took, s.Why, s.Receipt = state, took, first(words, 500), receipt })
	return out, servers
}

// worded gives the state and the words of a call that has no result.
func worded(err error) (state schemas.StepState, words, receipt string) {
	if ps, ok := errors.AsType[schemas.Problems](err); ok {
		return schemas.StepFailed, "it did not run, the arguments are wrong:\n" + first(schemas.Clean(ps.Named().Error(), false), 4000), ""
	}
	e, ok := errors.AsType[*schemas.Error](err)
	if !ok {
		return schemas.StepFailed, "something went wrong on bobbin's side", ""
	}
	words = schemas.Clean(e.Text, false)
	if e.Hint != "" {
		words += " (" + schemas.Clean(e.Hint, false) + ")"
	}
	switch e.Code {
	case schemas.CodeDenied, schemas.CodeAsk, schemas.CodeExpired, schemas.CodeHeld, schemas.CodePending:
		return schemas.StepDenied, words, e.Ref
	case schemas.CodeInternal:
		words = "something went wrong on bobbin's side, reference " + cmp.Or(e.Ref, "none")
	}
	return schemas.StepFailed, words, e.Ref
}

// waiting is what one call tells about people that it waits for.
type waiting struct {
	t     *turn
	place int
	mu    sync.Mutex
	now   string
	since time.Time
	total time.Duration
	over  bool
}

func (t *turn) pause(place int) *waiting { return &waiting{t: t, place: place} }

// tell is schemas.Call.Waiting.
func (w *waiting) tell(why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	why = first(schemas.Clean(why, true), 300)
	if w.over || why == w.now {
		return
	}
	switch {
	case w.now == "":
		w.since = time.Now()
		w.t.clock.pause()
	case why == "":
		w.total += time.Since(w.since)
		w.t.clock.resume()
	}
	w.t.board.wait(w.place, w.now, why)
	w.now = why
}

// end stops waiting, and gives how long people were waited for.
func (w *waiting) end() time.Duration {
	w.tell("")
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	return w.total
}

// remember notes the calls of a step with what came of them.
func (t *turn) remember(calls []Call, results []Result) {
	var sums [][sha256.Size]byte
	for i, c := range calls {
		text := results[i].Text
		if _, body, ok := strings.Cut(text, "\n"); ok { // without the fence, whose code differs each time
			text = body[:max(0, strings.LastIndexByte(body, '\n'))]
		}
		raw, _ := json.Marshal([]string{c.Name, string(c.Args), text}) // strings always marshal
		sums = append(sums, sha256.Sum256(raw))
	}
	t.steps = append(t.steps, sums)
	if len(t.steps) > repeatSteps {
		t.steps = t.steps[1:]
	}
}

// repeats reports whether the same call gave the same result too often.
func (t *turn) repeats() bool {
	count := map[[sha256.Size]byte]int{}
	for _, sums := range t.steps {
		for _, s := range sums {
			if count[s]++; count[s] > maxRepeats {
				return true
			}
		}
	}
	return false
}
