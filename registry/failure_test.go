package registry_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"bobbin/schemas"
)

func TestCrash_BackoffAndBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, map[string]script{"crash": {Crash: "boom"}, "a": plainScript("whoami")})
		h.set(one, entry("c", "crash"), entry("s", "a"))
		h.apply(one)
		if st := h.status(one, "c"); st.State != schemas.Failed || !strings.Contains(st.Why, "exited with 1: boom") {
			t.Fatalf("%+v", st)
		}
		_, err := h.call(by(one, "c.x", ""))
		wantCode(t, err, schemas.CodeNotReady, "c failed: exited with 1: boom", "/mcp doctor c")
		time.Sleep(5 * time.Minute)
		if n := h.servers.count() - 1; n > 6 || n < 3 {
			t.Fatalf("%d starts in 5 min", n)
		}
		time.Sleep(time.Hour)
		n := h.servers.count()
		if n > 7 {
			t.Fatalf("%d starts in an hour", n)
		}
		if st := h.status(one, "c"); st.State != schemas.Failed {
			t.Fatalf("%+v", st)
		}
		h.apply(one)
		if h.servers.count() != n {
			t.Fatal("Apply without a change tried again")
		}
		h.servers.mu.Lock()
		h.servers.scripts["crash"] = plainScript("whoami")
		h.servers.mu.Unlock()
		if err := h.Restart(background(), one, "c"); err != nil {
			t.Fatal(err)
		}
		if st := h.status(one, "c"); st.State != schemas.Ready || st.Why != "" {
			t.Fatalf("%+v", st)
		}
		wantCode(t, h.Restart(background(), one, "cc"), schemas.CodeNotFound, `did you mean "c"?`)
	})
}

func TestCrash_ReadyServerComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, map[string]script{"a": plainScript("die", "whoami")})
		h.set(one, entry("s", "a"))
		h.apply(one)
		_, err := h.call(by(one, "s.die", ""))
		wantCode(t, err, schemas.CodeUnknown, "s ended during the call; whether it ran is unknown")
		time.Sleep(10 * time.Second)
		if st := h.status(one, "s"); st.State != schemas.Ready {
			t.Fatalf("%+v", st)
		}
		if n := h.servers.saw("tools/call"); n != 1 {
			t.Fatalf("the call was sent %d times", n)
		}
	})
}

func TestMute_FailsAfterConnectTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, map[string]script{"mute": {Mute: true}})
		h.set(one, entry("s", "mute"))
		began := time.Now()
		h.apply(one)
		st := h.status(one, "s")
		if took := time.Since(began); took < 29*time.Second || took > 31*time.Second {
			t.Errorf("took %v", took)
		}
		if st.State != schemas.Failed || !strings.Contains(st.Why, "did not answer initialize within 30 s") {
			t.Fatalf("%+v", st)
		}
	})
}

func TestFailed_Words(t *testing.T) {
	h := newHouse(t, map[string]script{"refuse": {Refuse: "bad token sk-very-secret \x1b[31m"}})
	h.vault.put(one, "r", "KEY", "sk-very-secret")
	h.set(one, entry("r", "refuse", func(e *schemas.Entry) { e.Env = map[string]string{"TOKEN": "${input:KEY}"} }), entry("m", "missing"))
	h.apply(one)
	if st := h.status(one, "m"); st.State != schemas.Failed || st.Why[:len("missing is not installed here")] != "missing is not installed here" {
		t.Errorf("%+v", st)
	}
	if st := h.status(one, "m"); st.Fix != "install it" {
		t.Errorf("the launcher's next step is lost: %+v", st)
	}
	st := h.status(one, "r")
	if st.State != schemas.Failed || !strings.Contains(st.Why, "bad token ***") || strings.Contains(st.Why, "\x1b") {
		t.Errorf("%+v", st)
	}
}

func TestRestart_LastGoodServesMeanwhile(t *testing.T) {
	h := newHouse(t, map[string]script{"good": plainScript("whoami"), "bad": {Crash: "boom"}})
	h.set(one, entry("s", "good"))
	h.apply(one)
	pid := h.status(one, "s").PID
	if err := h.Restart(background(), one, "s"); err != nil {
		t.Fatal(err)
	}
	again := h.status(one, "s")
	if again.PID == pid || again.State != schemas.Ready {
		t.Fatalf("%+v", again)
	}
	h.set(one, entry("s", "bad"))
	h.apply(one)
	if err := h.Restart(background(), one, "s"); err != nil {
		t.Fatal(err)
	}
	if st := h.status(one, "s"); st.PID != again.PID || !strings.Contains(st.Why, "boom") {
		t.Fatalf("%+v", st)
	}
	if _, err := h.call(by(one, "s.whoami", "")); err != nil {
		t.Fatal(err)
	}
}
