package registry

import (
	"encoding/json"
	"maps"
	"time"

	"bobbin/schemas"
)

// slot is one server of the configuration.
type slot struct {
	entry  schemas.Entry
	def    schemas.Server // what it was last told to run
	id     identity
	values map[string]schemas.Secret

	state schemas.State // why it has no process, "" when it may have one
	why   string
	needs []string

	inst *instance // serves
	next *instance // starts, perhaps beside inst

	guests map[schemas.MemberID]guest // never changed, only replaced

	tools    *toolset // of inst, or from the cache; nil: unknown
	toolsFor string   // the fingerprint they belong to
	pins     map[string]string
	settle   time.Time // until then new tools are pinned, not held
	approved map[string]json.RawMessage

	toldHeld string    // waitingKey of what was told last
	toldAt   time.Time // when
	tellAt   time.Time // when what waits now is told; zero: no need

	fails  int
	broken bool
	retry  time.Time
	fault  string // why the last start or run failed
	down   schemas.State
	fix    string // the next step, as the one who refused named it
	stderr string
	meter  *meter
}

func (s *slot) have() have {
	h := have{target: s.id, up: s.inst != nil, starting: s.next != nil, parked: s.state != "", known: s.tools != nil}
	h.unsigned = s.down == schemas.NeedsConnect && !h.starting
	h.failed = s.fault != "" && !h.up && !h.starting
	if h.up {
		h.serving = s.inst.id
	}
	return h
}

// adopt takes over what changes without a restart. New pins, or a new approval without pins, replace those in use; while
// a replacement is on its way the old definition keeps its own.
func (s *slot) adopt(w want, settle time.Duration) {
	renewed := s.entry.Approval == nil || w.Approval == nil || !s.entry.Approval.At.Equal(w.Approval.At)
	if s.toolsFor == "" || s.toolsFor == w.id.fingerprint {
		if w.Pins != nil || renewed {
			s.pins = maps.Clone(w.Pins)
		}
		if s.pins == nil && s.inst != nil {
			s.firstPins(settle)
		}
	}
	s.entry = w.Entry
}

// target sets what the slot is to run.
func (s *slot) target(w want, values map[string]schemas.Secret) {
	s.def, s.id, s.values = w.def, w.id, values
	s.state, s.why, s.needs = "", "", nil
	s.unlearn()
}

// unlearn forgets tools of a definition that neither runs nor is to run.
func (s *slot) unlearn() {
	if s.inst == nil && s.toolsFor != s.id.fingerprint {
		s.tools, s.toolsFor, s.approved = nil, "", nil
	}
}

// heal forgets failures.
func (s *slot) heal() {
	s.fails, s.broken, s.fault, s.fix, s.retry, s.down, s.stderr = 0, false, "", "", time.Time{}, "", ""
}

// end stops what runs at once, calls in flight included.
func (s *slot) end() {
	for _, i := range []*instance{s.inst, s.next} {
		if i != nil {
			i.stop()
		}
	}
	s.inst, s.next = nil, nil
	s.dismiss(true)
}

// firstPins takes the first complete list after an approval as approved, and what appears within the settling time.
func (s *slot) firstPins(settle time.Duration) {
	s.pins, s.settle = map[string]string{}, time.Now().Add(settle)
	s.pin()
}

// pin takes in the tools that have no pin yet.
func (s *slot) pin() {
	for _, tool := range s.tools.list {
		if _, ok := s.pins[tool.Name]; !ok {
			s.pins[tool.Name] = tool.Pin
		}
	}
}
