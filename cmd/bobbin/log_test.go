package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// A line of JSON is one object, and nothing that looks like a secret is in a line of either form.
func TestLogger(t *testing.T) {
	const secret = "ghp_1234567890abcdefghij1234567890abcdef"
	for _, format := range []string{"text", "json"} {
		var out bytes.Buffer
		m := &Main{LogFormat: format}
		m.logger(&out).With("thread", "t1").Warn("a server said "+secret, "err", errors.New("401: Bearer "+secret), "token", secret)
		if strings.Contains(out.String(), secret) || !strings.Contains(out.String(), "t1") {
			t.Errorf("%s: %s", format, out.String())
		}
		var line map[string]any
		if err := json.Unmarshal(out.Bytes(), &line); (err == nil) != (format == "json") {
			t.Errorf("%s: %s", format, out.String())
		}
	}
	var out, errs bytes.Buffer
	if code := NewMain(strings.NewReader(""), &out, &errs).Run(t.Context(), []string{"version", "--log-format", "xml"}); code != 2 || !strings.Contains(errs.String(), "text or json") {
		t.Errorf("%d %s", code, errs.String())
	}
}
