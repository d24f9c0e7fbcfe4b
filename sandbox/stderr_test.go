package sandbox_test

import (
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"bobbin/sandbox"
)

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"":                          "",
		"\x1b[1;31mred\x1b[0m word": "red word",
		"10%\r50%\r100%\r\ndone":    "100%|done",
		"\x1b]0;title\x07text":      "text",
		"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\": "link",
		"\x1b]0;never ended\nnext":                 "next",
		"a\u202egnp.exe\u2066b\u200bc":             "agnp.exebc",
		"bad\xff\x00\x07utf8":                      "bad\ufffdutf8",
		"\n\n  x  \n\n":                            "  x",
		"key sk-0123456789 was refused":            "key *** was refused",
	} {
		if got := strings.Join(sandbox.Clean(in, "sk-0123456789"), "|"); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	long := sandbox.Clean(strings.Repeat("x", 9000) + "\n" + strings.Repeat("y\n", 100))
	if len(long) != 40 || long[0] != "y" {
		t.Errorf("%d lines", len(long))
	}
}

func FuzzClean(f *testing.F) {
	f.Add("\x1b[1mx\x1b]0;t\x07\r\n\u202e")
	f.Fuzz(func(t *testing.T, text string) {
		for _, line := range sandbox.Clean(text) {
			if !utf8.ValidString(line) || strings.ContainsFunc(line, unicode.IsControl) || utf8.RuneCountInString(line) > 401 {
				t.Errorf("%q", line)
			}
		}
	})
}

func TestTelling(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"listening on stdio", "listening on stdio"},
		{"Traceback (most recent call last):\n  File \"x.py\", line 1, in <module>\n    import foo\nModuleNotFoundError: No module named 'foo'", "ModuleNotFoundError: No module named 'foo'"},
		{"node:internal:1\n  throw err;\n  ^\n\nError: Cannot find module '/x'\n    at a (b:1)\n  code: 'MODULE_NOT_FOUND',\n}\n\nNode.js v20.1", "Error: Cannot find module '/x'"},
		{"TypeError [ERR_X]: The argument\n    at b", "TypeError [ERR_X]: The argument"},
		{"npm error code E404\nnpm error 404 Not Found - GET https://r/x - Not found\nnpm error A complete log of this run can be found in: /x", "npm error 404 Not Found - GET https://r/x - Not found"},
		{"npm error code E404\nnpm error 404 Not Found - GET https://r/x\nnpm error 404\nnpm error 404  The requested resource 'x@*' could not be found.\nnpm error 404\n" +
			"npm error 404 Note that you can also install from a\nnpm error 404 tarball, folder, http url, or git url.\nnpm error A complete log of this run can be found in: /x",
			"npm error 404  The requested resource 'x@*' could not be found."},
		{"panic: runtime error: index out of range\n\ngoroutine 1 [running]:\nmain.main()\n\t/x.go:3 +0x1\nexit status 2", "panic: runtime error: index out of range"},
		{"starting\nAPI_KEY is required\nbye", "API_KEY is required"},
		{"sh: 1: uvx: not found", "sh: 1: uvx: not found"},
		{"2026-11-20 ERROR: connection refused\nshutting down", "2026-11-20 ERROR: connection refused"},
		{"psycopg2.OperationalError: could not connect", "psycopg2.OperationalError: could not connect"},
	} {
		if got := sandbox.Telling(sandbox.Clean(c.text)); got != c.want {
			t.Errorf("%q: %q", c.text, got)
		}
	}
}

func TestChangesProgram(t *testing.T) {
	names := []string{"LD_PRELOAD", "LD_LIBRARY_PATH", "DYLD_X", "NODE_OPTIONS", "BASH_ENV", "ENV", "PYTHONSTARTUP", "PERL5OPT", "PERL5LIB", "RUBYOPT", "BASH_FUNC_x%%", "node_options"}
	for _, name := range append(slices.Clone(names), "PATH", "PYTHONPATH", "NODE_ENV", "MY_ENV", "API_KEY", "OLD_X", "KUBECONFIG") {
		if sandbox.ChangesProgram(name) != slices.Contains(names, name) {
			t.Error(name)
		}
	}
}
