package bot

import (
	"strings"
	"time"

	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// StepLine words a step of an answer as one line for every door: "github.create_issue · 310 ms · as you · receipt 7f3a". me is who
// reads it.
func StepLine(s schemas.Step, me schemas.MemberID) string {
	parts := []string{words.Short(words.Clean(s.Tool), 120)}
	switch s.State {
	case schemas.StepWaiting:
		parts = append(parts, "waits for a person")
	case schemas.StepRunning:
		parts = append(parts, "runs")
	case schemas.StepFailed, schemas.StepDenied, schemas.StepStopped:
		parts = append(parts, string(s.State))
	}
	if s.Why != "" {
		parts[len(parts)-1] += ": " + words.Short(words.Bare(strings.TrimPrefix(s.Why, s.Tool+" ")), 300)
	}
	nothing := s.State == schemas.StepDenied || s.State == schemas.StepFailed && s.Receipt == "" && s.Took < time.Millisecond // ran
	if s.Took > 0 && !nothing {
		parts = append(parts, words.Took(s.Took))
	}
	switch {
	case s.RunsAs == "" || nothing:
	case s.RunsAs == me:
		parts = append(parts, "as you")
	default:
		parts = append(parts, "as "+words.At(s.RunsAs, ""))
	}
	if s.Receipt != "" {
		parts = append(parts, "receipt "+words.Short(words.Clean(s.Receipt), 40))
	}
	return strings.Join(parts, " · ")
}

// Over reports whether a step goes on no longer.
func Over(s schemas.Step) bool {
	return s.State != schemas.StepWaiting && s.State != schemas.StepRunning
}
