package egress_test

import (
	"io"
	"net"
	"testing"
	"time"
)

// TestPace: whoever opens and closes connections without end is not answered without end.
func TestPace(t *testing.T) {
	w := open(t)
	began := time.Now()
	for range 1100 {
		c, err := net.Dial("tcp", w.addr)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.WriteString(c, "x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(c); err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
	}
	if took := time.Since(began); took < 2*time.Second {
		t.Errorf("1100 connections within %s", took)
	}
}
