package audit

import (
	"errors"
	"testing"

	"bobbin/schemas"
)

// Whether a record waits for others to join it is about who else is on the way.
func TestArrive(t *testing.T) {
	var th thread
	for n, step := range []struct {
		event schemas.Event
		err   error
		alone bool
	}{
		{schemas.EventCallEnd, nil, true}, // of a call that began in another process
		{schemas.EventCallBegin, nil, true},
		{schemas.EventRefused, nil, false}, // that call is under way
		{schemas.EventCallBegin, nil, false},
		{schemas.EventCallEnd, nil, false},
		{schemas.EventCallEnd, nil, true},
		{schemas.EventCallBegin, errors.New("full"), true}, // it has no end
		{schemas.EventRefused, nil, true},
	} {
		if alone := th.arrive(step.event); alone != step.alone {
			t.Errorf("step %d, %s: alone %v", n, step.event, alone)
		}
		th.depart(step.event, step.err)
	}
	th.arrive(schemas.EventRefused)
	if th.arrive(schemas.EventRefused) {
		t.Error("alone beside one who is still writing")
	}
}
