package bobbin_test

import (
	"go/ast"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestSecurity_NamedTestsExist holds docs/SECURITY.md to what it says: each test that it names exists and may run, and each of
// the ten promises has one.
func TestSecurity_NamedTestsExist(t *testing.T) {
	text, err := os.ReadFile("docs/SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, f := range goFiles(t) {
		if !f.test {
			continue
		}
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && len(fn.Body.List) > 0 {
				known[fn.Name.Name] = true
			}
		}
	}
	span := regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9_]+)`")
	named := span.FindAllStringSubmatch(string(text), -1)
	if len(named) < 50 {
		t.Errorf("only %d tests are named", len(named))
	}
	for _, m := range named {
		if !known[m[1]] {
			t.Errorf("docs/SECURITY.md names %s, which does not exist", m[1])
		}
	}
	var held []string
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(line, "|"); len(cells) == 5 && span.MatchString(cells[3]) {
			for _, n := range strings.Split(cells[1], ",") {
				held = append(held, strings.TrimSpace(n))
			}
		}
	}
	for _, promise := range []string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10"} {
		if !slices.Contains(held, promise) {
			t.Errorf("no test holds promise %s", promise)
		}
	}
}
