package inspect_test

import (
	"strings"
	"testing"

	"bobbin/internal/browsertest"
)

func open(t *testing.T, s *site, width, height int64, dark bool) *browsertest.Tab {
	t.Helper()
	return browsertest.Open(t, s.url+"/?token="+token, browsertest.Options{
		Width: width, Height: height, Dark: dark, Ready: `document.body.dataset.ready === "" && document.querySelector(".things")`,
		Expected: func(text string) bool { return strings.Contains(text, "the server responded with a status of 4") }, // the page words it
	})
}
