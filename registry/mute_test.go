package registry_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"bobbin/schemas"
)

func TestStatus_SaysWhatAMuteServerPrinted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, map[string]script{"noisy": {Mute: true, Garbage: 1}, "mute": {Mute: true}})
		defer h.stop()
		h.set(one, entry("n", "noisy"), entry("m", "mute"))
		changes, stop := h.Watch(one)
		defer stop()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_ = h.Apply(ctx, one)
		if st := h.status(one, "n"); st.State != schemas.Starting || st.Why != "" {
			t.Errorf("within 3 s: %+v", st)
		}
		for len(changes) > 0 {
			<-changes
		}
		time.Sleep(2 * time.Second)
		if len(changes) == 0 {
			t.Error("no tick when there is something to say")
		}
		if st := h.status(one, "n"); st.State != schemas.Starting || !strings.HasPrefix(st.Why, "has printed, but nothing that is MCP: listening on port 1") {
			t.Errorf("%+v", st)
		}
		if st := h.status(one, "m"); st.State != schemas.Starting || st.Why != "" {
			t.Errorf("%+v", st)
		}
		time.Sleep(26500 * time.Millisecond)
		if st := h.status(one, "n"); st.State != schemas.Failed || !strings.Contains(st.Why, "what it printed is not MCP") {
			t.Errorf("in the end: %+v", st)
		}
		time.Sleep(5500 * time.Millisecond) // it is tried again
		if st := h.status(one, "n"); st.State != schemas.Starting || strings.Count(st.Why, "listening on port 1") != 1 {
			t.Errorf("again: %+v", st)
		}
	})
}
