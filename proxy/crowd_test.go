package proxy_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"
)

// TestCrowd: programs beside the proxy hold a bounded number of its connections, and what they let go of can be had again.
func TestCrowd(t *testing.T) {
	w := open(t)
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- w.p.Serve(ctx, l) }()
	defer func() { cancel(); <-served }()
	var held []net.Conn
	defer func() {
		for _, c := range held {
			_ = c.Close()
		}
	}()
	kept := 0
	for range 200 {
		c, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
	}
	for _, c := range held {
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		if _, err := c.Read(make([]byte, 1)); err != io.EOF {
			kept++
		}
	}
	if kept != 128 {
		t.Errorf("%d of 200 connections are kept, not 128", kept)
	}
	for _, c := range held {
		_ = c.Close()
	}
	web := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", socket) }}}
	until(t, "there is room again", func() bool {
		resp, err := web.Get("http://s/healthz")
		if err == nil {
			_ = resp.Body.Close()
		}
		return err == nil && resp.StatusCode == http.StatusUnauthorized
	})
}
