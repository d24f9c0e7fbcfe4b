package form

import (
	"testing"
)

func FuzzForm(f *testing.F) {
	f.Add(`{"type":"string"}`)
	f.Fuzz(func(t *testing.T, s string) {
		for _, p := range []string{`{"a":` + s + `}`, s} {
			_ = Of([]byte(`{"properties":` + p + `}`))
		}
	})
}
