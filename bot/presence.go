package bot

import (
	"context"
	"sync"
	"time"

	"bobbin/bot/internal/desk"
	"bobbin/schemas"
)

const (
	hereFor  = 30 * time.Second // what a door said is believed
	trustFor = 10 * time.Minute // that somebody was here, while the door cannot say
	hereWait = 5 * time.Second
	maxHere  = 10_000 // members whose presence is remembered
)

// roster is what a door knows of who is in its threads.
type roster struct {
	match func(schemas.ThreadID) bool
	stand func(context.Context, schemas.ThreadID, schemas.MemberID) (schemas.Role, bool, error)
}

// presence is who was in a thread when somebody looked.
type presence struct {
	mu      sync.Mutex
	rosters map[*roster]struct{}
	seen    map[holder]sight
}

type sight struct {
	role schemas.Role
	here bool
	at   time.Time
}

// Roster lets a door say who is still in the threads that match, and what they may do there: stand answers false only for who is
// certainly not there, and an error when it cannot say. Of the role it matters whether it is below a member's. It is called at most
// twice a minute for a member. stop ends it and may be called twice.
func (b *Bot) Roster(match func(schemas.ThreadID) bool, stand func(context.Context, schemas.ThreadID, schemas.MemberID) (role schemas.Role, here bool, err error)) (stop func()) {
	r := &roster{match, stand}
	b.here.mu.Lock()
	defer b.here.mu.Unlock()
	b.here.rosters[r] = struct{}{}
	return func() {
		b.here.mu.Lock()
		defer b.here.mu.Unlock()
		delete(b.here.rosters, r)
	}
}

// Here reports whether a member is in a thread, as far as what they lent to it may be used: who sits at this machine never leaves,
// and of the others somebody must know. That a member left is acted on as [Bot.Left] says.
func (b *Bot) Here(ctx context.Context, thread schemas.ThreadID, member schemas.MemberID) bool {
	_, here := b.Standing(ctx, thread, member)
	return here
}

// Standing is Here with what the member may do in the thread now, at most half a minute ago: whoever sits at this machine owns its threads.
func (b *Bot) Standing(ctx context.Context, thread schemas.ThreadID, member schemas.MemberID) (role schemas.Role, here bool) {
	k, now := holder{thread: thread, member: member}, b.opt.Now()
	b.here.mu.Lock()
	var door *roster
	for r := range b.here.rosters {
		if r.match(thread) {
			door = r
		}
	}
	last, known := b.here.seen[k]
	b.here.mu.Unlock()
	switch {
	case door == nil:
		if thread.IsSnowflake() {
			return schemas.Guest, false
		}
		return schemas.Owner, true
	case known && now.Sub(last.at) < hereFor:
		return last.role, last.here
	}
	ask, cancel := context.WithTimeout(ctx, hereWait)
	defer cancel()
	role, here, err := door.stand(ask, thread, member)
	if err != nil {
		b.opt.Log.Warn("whether a member is still in a thread is not known", "thread", thread, "member", member, "err", err)
		return last.role, known && last.here && now.Sub(last.at) < trustFor
	}
	b.here.mu.Lock()
	if len(b.here.seen) >= maxHere {
		clear(b.here.seen)
	}
	b.here.seen[k] = sight{role, here, now}
	b.here.mu.Unlock()
	if !here {
		b.desk.Beside(desk.MaxLate, func(ctx context.Context) {
			if err := b.Left(ctx, thread, member); err != nil {
				b.opt.Log.Error("not all of a member who left was removed", "thread", thread, "member", member, "err", err)
			}
		})
	}
	return role, here
}
