package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// unscored is what fails in the suites and counts for no revision, with the reason. docs/ROUGH_EDGES.md lists the same names.
var unscored = map[string]string{
	"auth/client-credentials-jwt":               "machine accounts: every member signs in as themselves here",
	"auth/client-credentials-basic":             "machine accounts: every member signs in as themselves here",
	"auth/enterprise-managed-authorization":     "a company's identity provider that signs in for its people",
	"auth/cross-app-access-complete-flow":       "the same under its older name",
	"auth/dpop":                                 "tokens bound to a key",
	"auth/dpop-nonce":                           "tokens bound to a key",
	"auth/wif-jwt-bearer":                       "workload identities of clouds",
	"json-schema-2020-12-preservation":          "tests what a client shows of a schema; ours drops keywords that reach outside of it",
	"auth/2025-03-26-oauth-metadata-backcompat": "the suite's server names another issuer than its own, which is refused",
	"auth/2025-03-26-oauth-endpoint-fallback":   "endpoints that nobody published are not guessed",
	"sep-2640-client-no-prefetch":               "skills: not offered",
	"sep-2640-client-verify-digest":             "skills: not offered",
	"sep-2640-client-verify-size":               "skills: not offered",
	"sep-2640-client-verify-frontmatter":        "skills: not offered",
}

// TestConformance runs the official suites against bobbin's own client code. `make conformance` shows the lines.
func TestConformance(t *testing.T) {
	long(t)
	linuxOnly(t)
	modules, err := filepath.Abs(filepath.Join("..", "..", "testdata", "conformance", "node_modules"))
	if err != nil {
		t.Fatal(err)
	}
	node := suiteNode(t)
	client, err := exec.LookPath("conformant")
	if err != nil {
		t.Fatal(err)
	}
	for _, need := range []string{node, filepath.Join(modules, "conformance-0.2")} {
		if !exists(need) {
			missing(t, "the conformance suite is not installed; scripts/tools installs it")
		}
	}
	// Its servers listen on all interfaces, so it gets a network of its own.
	if out, err := exec.Command("unshare", "-rn", "true").CombinedOutput(); err != nil {
		missing(t, fmt.Sprintf("no network of its own for the suite: %s", out))
	}
	for _, run := range []struct {
		name, suite string
		args        []string
		scored      int
	}{
		{"client 2025-11-25", "conformance-0.2", []string{"--requirements", "2025-11-25"}, 18},
		{"client 2026-07-28", "conformance-0.2", []string{"--requirements", "2026-07-28"}, 32},
		{"client 0.1", "conformance-0.1", []string{"--suite", "all"}, 21},
	} {
		t.Run(run.name, func(t *testing.T) {
			t.Parallel()
			out := t.TempDir()
			suite := strings.Join(append([]string{node, filepath.Join(modules, run.suite, "dist", "index.js"), "client", "--command", "'" + client + "'", "-o", out}, run.args...), " ")
			said, err := exec.Command("unshare", "-rn", "sh", "-c", "ip link set lo up && exec "+suite).CombinedOutput()
			passed, failed := outcomes(string(said))
			if len(passed)+len(failed) == 0 {
				t.Fatalf("the suite said nothing: %v\n%s", err, said)
			}
			for _, name := range slices.Sorted(maps.Keys(failed)) {
				if unscored[name] == "" {
					t.Errorf("%s: %s\n%s", name, failed[name], why(out, name))
				}
			}
			good := 0
			for name, checks := range passed {
				switch {
				case unscored[name] != "":
				case checks == 0:
					t.Errorf("%s passed without a check", name)
				default:
					good++
				}
			}
			t.Logf("%s: %d of %d", run.name, good, run.scored)
			if good != run.scored {
				t.Errorf("%d scenarios passed, want %d", good, run.scored)
			}
		})
	}
}

var verdict = regexp.MustCompile(`(?m)^([✓✗]) (\S+): (\d+) passed, (\d+) failed`)

// outcomes reads the suite's summary: scenarios that passed, with how many checks, and those that failed.
func outcomes(said string) (passed map[string]int, failed map[string]string) {
	passed, failed = map[string]int{}, map[string]string{}
	for _, m := range verdict.FindAllStringSubmatch(said, -1) {
		if m[1] == "✓" {
			n := 0
			_, _ = fmt.Sscan(m[3], &n)
			passed[m[2]] = n
			continue
		}
		failed[m[2]] = m[3] + " checks passed, " + m[4] + " failed"
	}
	return passed, failed
}

// why gives the failed checks of a scenario and what the client printed.
func why(out, name string) string {
	var b strings.Builder
	dirs, _ := filepath.Glob(filepath.Join(out, name+"-*"))
	for _, dir := range dirs {
		var checks []struct{ ID, Status, Description, ErrorMessage string }
		raw, _ := os.ReadFile(filepath.Join(dir, "checks.json"))
		_ = json.Unmarshal(raw, &checks)
		for _, c := range checks {
			if c.Status != "SUCCESS" && c.Status != "INFO" {
				fmt.Fprintf(&b, "  %s %s: %s %s\n", c.Status, c.ID, c.Description, c.ErrorMessage)
			}
		}
		said, _ := os.ReadFile(filepath.Join(dir, "stderr.txt"))
		b.Write(said[max(0, len(said)-2000):])
	}
	return string(bytes.TrimSpace([]byte(b.String())))
}

// missing skips a test for want of a part; in CI nothing may be missing.
func missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(what)
	}
	t.Skip(what)
}
