package observe

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
)

const masked = "***"

// secretForms are what keys and tokens look like. Group 1 and 2, where there are some, stay.
var secretForms = []*regexp.Regexp{
	regexp.MustCompile(`(?i)(\b(?:proxy-)?authorization["']?\s*[:=]\s*["']?(?:bearer|basic|bot)?\s*|\b(?:bearer|basic|bot)\s+)[A-Za-z0-9._~+/=-]{8,}`),
	regexp.MustCompile(`(?i)((?:[?&;]|\b)(?:[a-z_-]*(?:token|secret|passw(?:or)?d|passphrase|api[_-]?key|credential|signature)|code|state|key)["']?\s*[=:]\s*["']?)[^\s"'&;,)}\]]{6,}`),
	regexp.MustCompile(`([a-z][a-z0-9+.-]*://)[^\s/@:]*:[^\s/@]+(@)`),
	regexp.MustCompile(`\b(?:gh[pousr]_|github_pat_|glpat-|sk-|pk-|rk_|sk_|xox[abeoprs]-|npm_|pypi-|hf_|ya29\.|AIza|AKIA|ASIA)[A-Za-z0-9_./+-]{12,}`),
	regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`),                 // RFC 7519
	regexp.MustCompile(`\b[A-Za-z0-9_-]{18,40}={0,2}\.[A-Za-z0-9_-]{5,12}\.[A-Za-z0-9_-]{25,60}\b`), // Discord's
	regexp.MustCompile(`\bbobbin_[a-z2-7]{8}_[A-Z2-7]{26,}`),                                        // a gateway's
	regexp.MustCompile(`\b[A-Z2-7]{26,}\b`), // crypto/rand.Text
	regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*(?:-----END [A-Z ]*PRIVATE KEY-----)?`),
}

var secretKey = regexp.MustCompile(`(?i)(?:token|secret|passw(?:or)?d|passphrase|api_?-?key|credential|authorization|cookie)$`)

// Redact gives a handler that masks what looks like a secret before h writes a line, in messages and in values. Rooms do not log
// secrets; this is for what comes with somebody else's error.
func Redact(h slog.Handler) slog.Handler { return redactor{h} }

type redactor struct{ slog.Handler }

func (r redactor) Handle(ctx context.Context, rec slog.Record) error {
	out := slog.NewRecord(rec.Time, rec.Level, redacted(rec.Message), rec.PC)
	rec.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(redactedAttr(a))
		return true
	})
	return r.Handler.Handle(ctx, out)
}

func (r redactor) WithAttrs(attrs []slog.Attr) slog.Handler {
	own := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		own[i] = redactedAttr(a)
	}
	return redactor{r.Handler.WithAttrs(own)}
}

func (r redactor) WithGroup(name string) slog.Handler { return redactor{r.Handler.WithGroup(name)} }

func redactedAttr(a slog.Attr) slog.Attr {
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindGroup:
		group := v.Group()
		own := make([]slog.Attr, len(group))
		for i, g := range group {
			own[i] = redactedAttr(g)
		}
		return slog.Attr{Key: a.Key, Value: slog.GroupValue(own...)}
	case slog.KindString, slog.KindAny:
		text := v.String()
		if e, ok := v.Any().(error); ok {
			text = e.Error()
		} else if v.Kind() == slog.KindAny {
			text = fmt.Sprintf("%+v", v.Any())
		}
		if secretKey.MatchString(a.Key) && text != "" {
			return slog.String(a.Key, masked)
		}
		if clean := redacted(text); clean != text {
			return slog.String(a.Key, clean)
		}
	}
	return slog.Attr{Key: a.Key, Value: v}
}

// redacted masks what looks like a secret in a text.
func redacted(text string) string {
	for _, form := range secretForms {
		switch form.NumSubexp() {
		case 0:
			text = form.ReplaceAllString(text, masked)
		case 1:
			text = form.ReplaceAllString(text, "${1}"+masked)
		default:
			text = form.ReplaceAllString(text, "${1}"+masked+"${2}")
		}
	}
	return text
}
