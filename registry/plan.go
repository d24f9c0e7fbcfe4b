package registry

import (
	"strings"

	"bobbin/schemas"
)

// verb of an action.
type verb string

const (
	start   verb = "start"   // begin now; nothing of that name runs
	replace verb = "replace" // start beside the running one, swap when it answered, drain the old
	keep    verb = "keep"    // leave process, tools and calls in flight alone
	park    verb = "park"    // no process: off, pending, needs, idle …
	stop    verb = "stop"    // gone from the configuration: end at once
)

// action is what the owner does with one server. For park and for keep with needs, state, why and needs are shown.
type action struct {
	server string
	verb   verb
	state  schemas.State
	why    string
	needs  []string
}

// identity tells running definitions apart: the fingerprint, and a keyed hash of the secret values that went in.
type identity struct{ fingerprint, values string }

// want is one entry of the configuration with its inputs looked up.
type want struct {
	schemas.Entry
	def   schemas.Server // what may run, if runs
	runs  bool
	id    identity
	needs []string // inputs without a value
	fault string   // why it can never start as it is
}

// have is what the owner knows about a server that it has.
type have struct {
	target   identity // the definition it was last told to run
	serving  identity // the one that runs, if up; older than target while a replacement starts or failed
	up       bool
	starting bool
	parked   bool // without a process for a reason that the configuration gave
	failed   bool
	unsigned bool // failed for want of a sign-in, which may have happened meanwhile
	known    bool // its tools are known
}

// plan compares what a thread wants with what it has: one action for each wanted server, in order, then the stops. With
// eager false (somebody looks for the first time) nothing starts.
func plan(wanted []want, has map[string]have, eager bool) []action {
	var actions []action
	named := map[string]bool{}
	for _, w := range wanted {
		if w.Shadowed {
			actions = append(actions, action{w.Name, park, schemas.ShadowedState, "an entry earlier in the load order has this name", nil})
			continue
		}
		named[w.Name] = true
		h, old := has[w.Name]
		actions = append(actions, decide(w, h, old, eager))
	}
	for name := range has {
		if !named[name] {
			actions = append(actions, action{server: name, verb: stop})
		}
	}
	return actions
}

func decide(w want, h have, old, eager bool) action {
	parked := func(state schemas.State, why string) action { return action{w.Name, park, state, why, w.needs} }
	switch {
	case !w.Enabled:
		return parked(schemas.Off, "")
	case !w.runs:
		return parked(schemas.PendingState, "")
	case w.fault != "":
		return parked(schemas.Failed, w.fault)
	case len(w.needs) > 0 && h.up && h.serving.fingerprint != w.id.fingerprint:
		return action{w.Name, keep, schemas.Ready, "the new definition needs " + strings.Join(w.needs, ", ") + "; the one before runs on", w.needs}
	case len(w.needs) > 0:
		return parked(schemas.Needs, "")
	case old && eager && h.unsigned && !h.parked:
		return action{server: w.Name, verb: start}
	case old && h.up && (h.serving == w.id || h.target == w.id):
		return action{server: w.Name, verb: keep}
	case old && h.up:
		return action{server: w.Name, verb: replace}
	case old && !h.parked && !h.starting && !h.failed && !h.known && eager:
		return action{server: w.Name, verb: start}
	case old && !h.parked && h.target == w.id:
		return action{server: w.Name, verb: keep}
	case old && !h.parked && !h.starting && !h.failed && h.target.fingerprint == w.id.fingerprint:
		return parked(schemas.Idle, "") // only a secret changed and nothing runs: the next start uses it
	case eager:
		return action{server: w.Name, verb: start}
	}
	return parked(schemas.Idle, "")
}
