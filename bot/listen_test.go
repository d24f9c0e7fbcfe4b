package bot_test

import (
	"testing"
	"testing/synctest"

	"bobbin/bot"
	"bobbin/schemas"
)

// A door that listens to its threads hears all of them and none of another door's; a question it cannot show is not asked.
func TestListen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		other := question()
		other.Caller.Thread = "other"
		ch, stop := w.bot.Listen(func(id schemas.ThreadID) bool { return id != other.Caller.Thread })
		w.bot.Changed("A")
		w.bot.Changed("B")
		w.bot.Changed(other.Caller.Thread)
		if a, b := hear(t, ch), hear(t, ch); a.Thread != "A" || b.Thread != "B" || len(ch) != 0 {
			t.Errorf("%v %v, %d more", a.Thread, b.Thread, len(ch))
		}
		if _, err := w.bot.Ask(t.Context(), other); schemas.CodeOf(err) != schemas.CodeAsk {
			t.Errorf("a thread that nobody listens to: %v", err)
		}
		done := make(chan schemas.Answer)
		go func() {
			got, _ := w.bot.Ask(t.Context(), question())
			done <- got
		}()
		synctest.Wait()
		n := hear(t, ch)
		again, stopAgain := w.bot.Listen(func(schemas.ThreadID) bool { return true }) // a door that connected again
		if told := hear(t, again); n.To != "alice" || told.Reply.ID != n.Reply.ID {
			t.Errorf("%+v\n%+v", n, told)
		}
		w.press(alice(), n.Reply, "Once")
		if got := <-done; got != schemas.AnswerOnce {
			t.Errorf("answer %q", got)
		}
		stop()
		stop()
		stopAgain()
		w.bot.Changed("A")
		var last bot.Notice
		for last = range ch {
		}
		if last.Thread == "A" {
			t.Error("a notice after stop")
		}
	})
}
