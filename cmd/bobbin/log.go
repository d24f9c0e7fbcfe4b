package main

import (
	"io"
	"log/slog"

	"bobbin/observe"
)

// logger writes lines as --log-format says, without anything that looks like a secret.
func (m *Main) logger(w io.Writer) *slog.Logger {
	var h slog.Handler = slog.NewTextHandler(w, nil)
	if m.LogFormat == "json" {
		h = slog.NewJSONHandler(w, nil)
	}
	return slog.New(observe.Redact(h))
}

func checkLogFormat(format string) error {
	if format != "text" && format != "json" {
		return usagef("--log-format is text or json, not %q", format)
	}
	return nil
}
