package bot_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"bobbin/bot"
	"bobbin/schemas"
)

func TestHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(o *bot.Options) { o.Now = time.Now })
		const thread, mine = schemas.ThreadID("1234567890123456789"), schemas.ThreadID("web-x")
		if w.bot.Here(t.Context(), thread, "u1") || !w.bot.Here(t.Context(), mine, "u1") {
			t.Error("without a door: on Discord nobody is known to be there, at this machine everybody is")
		}
		asked, role, here, fault := 0, schemas.Manager, true, error(nil)
		stop := w.bot.Roster(schemas.ThreadID.IsSnowflake, func(context.Context, schemas.ThreadID, schemas.MemberID) (schemas.Role, bool, error) {
			asked++
			return role, here, fault
		})
		for range 3 {
			if !w.bot.Here(t.Context(), thread, "u1") {
				t.Fatal("not here")
			}
		}
		if asked != 1 {
			t.Errorf("asked %d times within half a minute", asked)
		}
		fault = errors.New("Discord is away")
		time.Sleep(2 * time.Minute)
		if !w.bot.Here(t.Context(), thread, "u1") {
			t.Error("an outage of minutes ended a loan")
		}
		time.Sleep(10 * time.Minute)
		if w.bot.Here(t.Context(), thread, "u1") {
			t.Error("still here although nobody could say so for twelve minutes")
		}
		fault, role = nil, schemas.Guest
		if now, here := w.bot.Standing(t.Context(), thread, "u1"); now != schemas.Guest || !here {
			t.Errorf("who became a guest is %v, here %v", now, here)
		}
		time.Sleep(time.Minute)
		here = false
		if w.bot.Here(t.Context(), thread, "u1") {
			t.Error("here although they left")
		}
		stop()
		stop()
		here = true
		if w.bot.Here(t.Context(), thread, "u1") {
			t.Error("a door that is closed still answers")
		}
	})
}
