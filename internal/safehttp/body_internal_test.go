package safehttp

import (
	"testing"

	"pgregory.net/rapid"
)

// Counting by lines stops where counting by bytes does, however the stream is cut.
func TestEventBody_LinesAndBytesAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(1, 12).Draw(t, "limit")
		fast, slow := &eventBody{limit: limit}, &eventBody{limit: limit}
		for _, p := range rapid.SliceOf(rapid.SliceOf(rapid.SampledFrom([]byte("aaaa\n\n\r")))).Draw(t, "reads") {
			want := len(p)
			for i, c := range p {
				if slow.count(c); slow.size > limit {
					want = i
					break
				}
			}
			if got := fast.lines(p); got != want {
				t.Fatalf("%q: %d, want %d", p, got, want)
			}
			if want < len(p) {
				return
			}
			if fast.size != slow.size || fast.lineEmpty != slow.lineEmpty || fast.sawCR != slow.sawCR {
				t.Fatalf("%q: %+v, want %+v", p, fast, slow)
			}
		}
	})
}
