package bot

import (
	"strings"
)

// plain is what stands in a reply, for a model.
func plain(r Reply) string {
	var lines []string
	for _, x := range r.Blocks {
		if s := strings.TrimSpace(x.Text + x.Warning); s != "" {
			lines = append(lines, s)
		}
	}
	return strings.Join(lines, "\n")
}
