package registry

import (
	"context"

	"bobbin/schemas"
)

// guest is a member's own session with a connector that runs as the one who asks. The owner's session gives the tools, or another's
// while the owner has none; the others start when their member calls, and each ends by itself when it is not used.
type guest struct {
	inst  *instance
	next  *instance
	tries int // ended sessions so far
	down  schemas.State
	fault string
}

// guestNeed asks for a member's session.
type guestNeed struct {
	server string
	member schemas.MemberID
}

func (e guestNeed) handle(t *thread) {
	s := t.slots[e.server]
	if s == nil || s.state != "" || s.entry.Owner == e.member {
		return
	}
	g := s.guests[e.member]
	if g.inst != nil || g.next != nil {
		return
	}
	g.next = newInstance(t, s, nil)
	g.next.member = e.member
	s.setGuest(e.member, g)
	t.changed = true
	t.wg.Go(g.next.supervise)
}

// setGuest replaces the map, which snapshots share.
func (s *slot) setGuest(m schemas.MemberID, g guest) {
	all := make(map[schemas.MemberID]guest, len(s.guests)+1)
	for k, v := range s.guests {
		all[k] = v
	}
	all[m] = g
	s.guests = all
}

// guestReady reports whether the instance is a guest's, and takes it in. As long as nobody knows the tools, its list is the one.
func (t *thread) guestReady(s *slot, e readyEvent) bool {
	g, ok := s.guests[e.inst.member]
	if !ok || g.next != e.inst {
		return false
	}
	s.setGuest(e.inst.member, guest{inst: e.inst, tries: g.tries})
	if s.tools == nil && e.inst.id.fingerprint == s.id.fingerprint {
		t.adopt(s, e)
	}
	t.changed = true
	return true
}

// gives reports whether the tools follow a guest's list: there is no owner's, and it is of the definition that they are known for.
func (s *slot) gives(i *instance) bool {
	return s.inst == nil && s.next == nil && s.guests[i.member].inst == i && s.toolsFor == i.id.fingerprint
}

func (t *thread) guestEnded(s *slot, e endEvent) {
	g, ok := s.guests[e.inst.member]
	if !ok || g.inst != e.inst && g.next != e.inst {
		return
	}
	s.setGuest(e.inst.member, guest{tries: g.tries + 1, down: e.state, fault: e.why})
	t.changed = true
}

// dismiss ends all guests of a slot: at once, or after their calls.
func (s *slot) dismiss(atOnce bool) {
	for _, g := range s.guests {
		for _, i := range []*instance{g.inst, g.next} {
			switch {
			case i == nil:
			case atOnce || i == g.next:
				i.stop()
			default:
				i.drain()
			}
		}
	}
	s.guests = nil
}

// signedOut asks to end the sessions that use a member's sign-in; an empty server means all of them.
type signedOut struct {
	server string
	member schemas.MemberID
	reply  chan<- struct{}
}

func (e signedOut) handle(t *thread) {
	for name, s := range t.slots {
		if e.server != "" && e.server != name || !signsIn(s) {
			continue
		}
		var used []*instance
		if s.entry.Owner == e.member {
			used = append(used, s.inst, s.next)
		}
		g := s.guests[e.member]
		for _, i := range append(used, g.inst, g.next) {
			if i != nil {
				i.stop()
			}
		}
	}
	e.reply <- struct{}{}
}

// signsIn reports whether sessions of the slot use somebody's sign-in.
func signsIn(s *slot) bool {
	return ownSignIn(s.entry) || s.def.Auth != nil && s.def.Auth.Type == "oauth"
}

// SignedOut ends the sessions that use a member's sign-in to a server, or to all of the thread's with an empty one, at once: calls
// in flight lose their answer, and when it returns no call can take such a session any more. It is called after the sign-in itself
// was ended, and never waits for the servers.
func (r *Registry) SignedOut(ctx context.Context, id schemas.ThreadID, member schemas.MemberID, server string) error {
	if _, live := r.threads.Load(id); !live {
		return nil
	}
	reply := make(chan struct{}, 1)
	t, err := r.post(ctx, id, signedOut{server, member, reply})
	if err != nil {
		return err
	}
	select {
	case <-reply:
	case <-t.done: // everything of the thread has ended
	case <-ctx.Done():
		return gaveUp(ctx.Err())
	}
	return nil
}

func (s *slot) hasGuests() bool {
	for _, g := range s.guests {
		if g.inst != nil || g.next != nil {
			return true
		}
	}
	return false
}

// seat is what serves a member's calls at this moment, what starts for them, and how to ask for it.
type seat struct {
	inst, starting *instance
	state          schemas.State
	why            string
	tries          int
}

// owners reports whether those who act as m use the owner's session.
func (v *view) owners(m schemas.MemberID) bool { return m == v.entry.Owner || !ownSignIn(v.entry) }

// need asks for what seat is about to be started.
func (v *view) need(m schemas.MemberID) event {
	if v.owners(m) {
		return needEvent{server: v.entry.Name}
	}
	return guestNeed{v.entry.Name, m}
}

// seat of those who act as m: the owner's session, or a member's own.
func (v *view) seat(m schemas.MemberID) seat {
	if v.owners(m) {
		return seat{inst: v.inst, starting: v.starting, state: v.status.State, why: v.status.Why}
	}
	g := v.guests[m]
	st := seat{inst: g.inst, starting: g.next, state: v.status.State, why: v.status.Why, tries: g.tries}
	if v.parked {
		return st
	}
	switch {
	case g.inst != nil:
		st.state = schemas.Ready
	case g.next != nil:
		st.state = schemas.Starting
	case g.fault != "":
		st.state, st.why = g.down, g.fault
	default:
		st.state = schemas.Idle
	}
	return st
}
