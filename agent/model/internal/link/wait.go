package link

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// after is how long the provider wants to be left alone: Retry-After (RFC 9110, 10.2.3), retry-after-ms of OpenAI and
// Anthropic, and otherwise when the limit that is used up begins anew.
func after(h http.Header, now time.Time) (time.Duration, bool) {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms >= 0 {
		return bounded(ms, time.Millisecond)
	}
	if v := h.Get("Retry-After"); v != "" {
		if s, err := strconv.ParseFloat(v, 64); err == nil && s >= 0 {
			return bounded(s, time.Second)
		}
		if at, err := http.ParseTime(v); err == nil {
			return max(at.Sub(now), time.Millisecond), true
		}
	}
	var most time.Duration
	for name := range h {
		low := strings.ToLower(name)
		if !strings.Contains(low, "ratelimit-") || !strings.Contains(low, "remaining") || strings.TrimSpace(h.Get(name)) != "0" {
			continue
		}
		most = max(most, reset(h.Get(strings.Replace(low, "remaining", "reset", 1)), h.Get(resetLast(low)), now))
	}
	return most, most > 0
}

// resetLast turns Anthropic's order of words, "anthropic-ratelimit-tokens-remaining", into the name of its time.
func resetLast(remaining string) string { return strings.TrimSuffix(remaining, "remaining") + "reset" }

// reset reads a duration ("6m0s"), a date, or seconds or milliseconds since 1970.
func reset(a, b string, now time.Time) time.Duration {
	v := a
	if v == "" {
		v = b
	}
	if d, err := time.ParseDuration(v); err == nil {
		return max(d, 0)
	}
	if at, err := time.Parse(time.RFC3339, v); err == nil {
		return max(at.Sub(now), 0)
	}
	n, err := strconv.ParseInt(v, 10, 64)
	switch {
	case err != nil || n < 0:
		return 0
	case n > 1e11:
		return max(time.UnixMilli(n).Sub(now), 0)
	case n > 1e9:
		return max(time.Unix(n, 0).Sub(now), 0)
	}
	d, _ := bounded(float64(n), time.Second)
	return d
}

func bounded(n float64, unit time.Duration) (time.Duration, bool) {
	const most = 24 * time.Hour
	if n > float64(most/unit) {
		return most, true
	}
	return max(time.Duration(n*float64(unit)), time.Millisecond), true
}
