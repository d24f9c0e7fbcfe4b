package registry

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"bobbin/registry/internal/session"
	"bobbin/schemas"
)

func TestAsking_OnlyTheOneWhoseCallItIs(t *testing.T) {
	ann, bob := schemas.Caller{Member: "ann"}, schemas.Caller{Member: "bob"}
	var a asking
	if _, _, why := a.whose(); why == "" {
		t.Error("somebody is asked though nobody called")
	}
	_, _, end1 := a.call(t.Context(), schemas.Call{Caller: ann}, time.Minute)
	_, _, end2 := a.call(t.Context(), schemas.Call{Caller: ann}, time.Minute)
	if who, calls, why := a.whose(); why != "" || who.Member != "ann" || len(calls) != 2 {
		t.Errorf("%+v, %d calls, %q", who, len(calls), why)
	}
	_, _, end3 := a.call(t.Context(), schemas.Call{Caller: bob}, time.Minute)
	if who, _, why := a.whose(); why == "" {
		t.Errorf("%+v is asked though two members called", who)
	}
	end1()
	end2()
	if who, _, why := a.whose(); why != "" || who.Member != "bob" {
		t.Errorf("%+v, %q", who, why)
	}
	end3()
}

func TestAsking_TheClockStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a asking
		began := time.Now()
		ctx, _, end := a.call(t.Context(), schemas.Call{Caller: schemas.Caller{Member: "ann"}}, 10*time.Second)
		defer end()
		_, calls, _ := a.whose()
		time.Sleep(4 * time.Second)
		calls[0].pause()
		calls[0].pause() // a second question at the same time
		time.Sleep(time.Hour)
		calls[0].resume()
		time.Sleep(time.Hour)
		calls[0].resume()
		<-ctx.Done()
		if took := time.Since(began); took != 2*time.Hour+10*time.Second || context.Cause(ctx) != errSilent {
			t.Errorf("ended after %s with %v", took, context.Cause(ctx))
		}
	})
}

// Since 2026-07-28 a page has no name, and nothing says that it is done.
func TestQuestion_PageWithoutAName(t *testing.T) {
	params := []byte(`{"mode":"url","message":"Sign in","url":"https://example.com/x"}`)
	for version, why := range map[string]string{"2025-06-18": "it does not name the page", "2025-11-25": "it does not name the page", "2026-07-28": ""} {
		i := &instance{name: "s", info: session.Info{Protocol: version}}
		q, id, got := i.question(params)
		if got != why || id != "" || q.URL != "https://example.com/x" {
			t.Errorf("%s: %+v, %q", version, q, got)
		}
	}
	var a asking
	if done, closed := a.page(""); done != nil || closed == nil {
		t.Error("a page without a name waits for word of it")
	}
}
