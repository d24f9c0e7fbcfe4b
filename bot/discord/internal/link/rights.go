package link

import (
	"context"
	"strconv"
	"sync"
	"time"

	"bobbin/bot/discord/internal/wire"
)

// rights keeps what was computed for a minute: a message does not say what its author may do, and asking costs three requests.
type rights struct {
	mu    sync.Mutex
	known map[string]right
}

type right struct {
	may   wire.Permission
	until time.Time
}

const (
	rightsFor = time.Minute
	maxRights = 4096
)

type overwrite struct {
	ID          string `json:"id"`
	Type        int    `json:"type"` // 0 role, 1 member
	Allow, Deny string
}

// Permissions computes what a member may do in a channel, for messages, whose events do not say it (Discord, Permission Overwrites).
// It is kept for a minute. In a thread the parent's overwrites count.
func (r *Rest) Permissions(ctx context.Context, guild, channel, user string) (wire.Permission, error) {
	key := guild + " " + channel + " " + user
	r.rights.mu.Lock()
	k, ok := r.rights.known[key]
	r.rights.mu.Unlock()
	if ok && time.Now().Before(k.until) {
		return k.may, nil
	}
	may, err := r.PermissionsNow(ctx, guild, channel, user)
	if err != nil {
		return 0, err
	}
	r.rights.mu.Lock()
	defer r.rights.mu.Unlock()
	if r.rights.known == nil || len(r.rights.known) >= maxRights {
		r.rights.known = map[string]right{}
	}
	r.rights.known[key] = right{may, time.Now().Add(rightsFor)}
	return may, nil
}

// PermissionsNow computes what a member may do at this moment, whatever was kept.
func (r *Rest) PermissionsNow(ctx context.Context, guild, channel, user string) (wire.Permission, error) {
	const all = ^wire.Permission(0)
	type role struct{ ID, Permissions string }
	g, err := get[struct {
		OwnerID string `json:"owner_id"`
		Roles   []role
	}](ctx, r, "/guilds/"+guild)
	if err != nil || g.OwnerID == user {
		return all, err
	}
	m, err := get[struct{ Roles []string }](ctx, r, "/guilds/"+guild+"/members/"+user)
	if err != nil {
		return 0, err
	}
	ch, err := get[struct {
		wire.Channel
		Overwrites []overwrite `json:"permission_overwrites"`
	}](ctx, r, "/channels/"+channel)
	if err == nil && ch.IsThread() && ch.ParentID != "" {
		ch, err = get[struct {
			wire.Channel
			Overwrites []overwrite `json:"permission_overwrites"`
		}](ctx, r, "/channels/"+ch.ParentID)
	}
	if err != nil {
		return 0, err
	}
	has := map[string]bool{guild: true} // the role of everyone has the guild's id
	for _, id := range m.Roles {
		has[id] = true
	}
	var may wire.Permission
	for _, one := range g.Roles {
		if has[one.ID] {
			may |= bits(one.Permissions)
		}
	}
	if may&wire.Administrator != 0 {
		return all, nil
	}
	apply := func(match func(overwrite) bool) {
		var allow, deny wire.Permission
		for _, o := range ch.Overwrites {
			if match(o) {
				allow, deny = allow|bits(o.Allow), deny|bits(o.Deny)
			}
		}
		may = may&^deny | allow
	}
	apply(func(o overwrite) bool { return o.Type == 0 && o.ID == guild })
	apply(func(o overwrite) bool { return o.Type == 0 && o.ID != guild && has[o.ID] })
	apply(func(o overwrite) bool { return o.Type == 1 && o.ID == user })
	return may, nil
}

func bits(s string) wire.Permission {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0
	}
	return wire.Permission(n)
}
