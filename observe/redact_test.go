package observe_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"bobbin/observe"
	"bobbin/schemas"
)

// What looks like a secret is in no line, wherever it comes in; what does not, stays.
func TestRedact(t *testing.T) {
	secrets := map[string]string{
		"GitHub":         "ghp_1234567890abcdefghij1234567890abcdef",
		"Anthropic":      "sk-ant-api03-AbCdEfGhIjKlMnOpQrSt",
		"Slack":          "xoxb-123456789012-abcdefABCDEF",
		"JWT":            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
		"Discord":        "MTIzNDU2Nzg5MDEyMzQ1Njc4.GabCDe.abcdefghijklmnopqrstuvwxyz0123456789AB",
		"page":           "3JQ4ZT6YB2LMNOPQRSTUVWXYZ2",
		"gateway":        "bobbin_abcd2345_3JQ4ZT6YB2LMNOPQRSTUVWXYZ23JQ4ZT6YB2LMNOPQRSTUVWXYZ2",
		"AWS":            "AKIAIOSFODNN7EXAMPLE1",
		"Google":         "AIzaSyA1234567890abcdefghijklmnopqrs",
		"of a connector": "hunter2-hunter2",
	}
	for name, s := range secrets {
		var out bytes.Buffer
		for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
			log := slog.New(observe.Redact(h))
			if name != "of a connector" {
				log.Info("it said " + s)
				log.Info("x", "err", errors.New("bad key "+s))
				log.Info("x", "value", struct{ A string }{s})
			}
			log.Info("x", "err", fmt.Errorf(`Get "https://example.com/cb?code=%s&state=abc": refused`, s))
			log.Info("x", "url", "https://user:"+s+"@example.com/x")
			log.Info("x", "header", "Authorization: Bearer "+s)
			log.Info("x", "err", &schemas.Error{Code: schemas.CodeFailed, Text: "no", Err: errors.New(`{"access_token":"` + s + `"}`)})
			log.With("api_key", s).WithGroup("g").Info("x", slog.Group("h", "password", s, "note", "api_key="+s))
		}
		if strings.Contains(out.String(), s) {
			t.Errorf("%s is told:\n%s", name, out.String())
		}
	}
	var out bytes.Buffer
	log := slog.New(observe.Redact(slog.NewTextHandler(&out, nil)))
	plain := []string{"bobbin_mcp_inspector", "123456789012345678", "web-default", "github.create_issue", "/srv/bobbin/data/users", "7f3a0001", "https://mcp.example.com/mcp", "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}
	for _, p := range plain {
		log.Info("the server "+p+" is ready", "thread", p, "tokens", 17, "err", errors.New("cannot reach "+p))
	}
	for _, p := range plain {
		if strings.Count(out.String(), p) != 3 {
			t.Errorf("%q was masked:\n%s", p, out.String())
		}
	}
	if strings.Count(out.String(), "tokens=17") != len(plain) {
		t.Error(out.String())
	}
}
