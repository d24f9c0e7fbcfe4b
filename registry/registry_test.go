package registry_test

import (
	"context"
	"slices"
	"testing"

	"bobbin/schemas"

	"go.uber.org/goleak"
)

func TestCall_OverStdio(t *testing.T) {
	h := newHouse(t, map[string]script{"fake": {Tools: tools(echoTool())}})
	h.set(one, entry("s", "fake"))
	h.apply(one)
	if st := h.status(one, "s"); st.State != schemas.Ready || st.Tools != 1 || st.PID == 0 || st.Protocol != "2025-11-25" {
		t.Fatalf("status %+v", st)
	}
	if got := h.tools(one); !slices.Equal(got, []string{"s.echo"}) {
		t.Fatalf("tools %v", got)
	}
	for _, name := range []string{"s.echo", "ext_s_echo"} {
		res, err := h.call(by(one, name, `{"text":"hi"}`))
		if err != nil || text(t, res) != `{"text":"hi"}` || res.RunsAs != "ann" || len(res.Receipt) < 4 {
			t.Fatalf("%s: %+v, %v", name, res, err)
		}
	}
	if r := h.journal.last(); r.Event != schemas.EventCallEnd || r.Outcome != schemas.OutcomeOK || r.Bytes == 0 {
		t.Fatalf("audit %+v", r)
	}
	for name, want := range map[string]string{"s.ecko": "s.echo", "ext_s_ecko": "ext_s_echo", "echo": "s.echo"} { // in the caller's own way to name them
		_, err := h.call(by(one, name, `{}`))
		wantCode(t, err, schemas.CodeNotFound, `did you mean "`+want+`"?`)
	}
}

func TestMain(m *testing.M) {
	if runChild() || runWeb() {
		return
	}
	goleak.VerifyTestMain(m)
}

func background() context.Context { return context.Background() }
