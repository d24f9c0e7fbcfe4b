package bobbin_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestOperations_Limits compares the table of limits with the code: each row names a file, and texts that stand in it.
func TestOperations_Limits(t *testing.T) {
	text, err := os.ReadFile("docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "## Limits")
	table, _, _ = strings.Cut(table, "\n## ")
	span, space := regexp.MustCompile("`([^`]+)`"), regexp.MustCompile(`\s+`)
	rows := 0
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		if len(cells) != 5 || strings.Contains(row, "in the code") || strings.Contains(row, "---") {
			continue
		}
		rows++
		file, code := "", ""
		for _, m := range span.FindAllStringSubmatch(cells[3], -1) {
			if strings.HasSuffix(m[1], ".go") {
				content, err := os.ReadFile(m[1])
				if err != nil {
					t.Fatal(err)
				}
				file, code = m[1], space.ReplaceAllString(string(content), " ")
				continue
			}
			if !regexp.MustCompile(regexp.QuoteMeta(m[1]) + `(?:[^0-9A-Za-z_]|$)`).MatchString(code) {
				t.Errorf("%s: %s has no %s", strings.TrimSpace(cells[1]), file, m[1])
			}
		}
		if file == "" {
			t.Errorf("%s: no place in the code", strings.TrimSpace(cells[1]))
		}
	}
	if rows < 20 {
		t.Errorf("the table has %d rows", rows)
	}
}

// TestOperations_Metrics: every count that the guide names is registered, and the other way round.
func TestOperations_Metrics(t *testing.T) {
	text, err := os.ReadFile("docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile("observe/observe.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`Name: "([a-z_]+)", Help: [^\n]*\[\]string\{([^}]*)\}`).FindAllStringSubmatch(string(code), -1) {
		row := "| `" + m[1] + "` | " + strings.ReplaceAll(m[2], `"`, "") + " |"
		if !strings.Contains(string(text), row) {
			t.Errorf("docs/operations.md has no row %s", row)
		}
	}
}
