package main

import (
	"context"
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
	"time"

	"github.com/goccy/go-yaml"
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
	"auth/2025-03-26-oauth-metadata-backcompat": "the suite's server names another issuer than its own, which is refused",
	"auth/2025-03-26-oauth-endpoint-fallback":   "endpoints that nobody published are not guessed",
}

// timed are scenarios that judge by the wall clock, to 200 ms. The suite starts all of its scenarios at once, a process each, so they
// are judged by a run of their own, and by a second and third one where the machine was late.
var timed = []string{"sse-retry"}

// suiteRun is one run of one suite: the scenarios of a revision, or all that it has.
type suiteRun struct {
	name, pkg, revision string
	scored              int
}

// suite drives the installed suites with the test binary as the client.
type suite struct{ node, modules, client string }

// TestConformance runs the official suites against bobbin's own client code. `make conformance` shows the lines.
func TestConformance(t *testing.T) {
	long(t)
	linuxOnly(t)
	modules, err := filepath.Abs(filepath.Join("..", "..", "testdata", "conformance", "node_modules"))
	if err != nil {
		t.Fatal(err)
	}
	client, err := exec.LookPath("conformant")
	if err != nil {
		t.Fatal(err)
	}
	s := suite{node: suiteNode(t), modules: modules, client: client}
	for _, need := range []string{s.node, filepath.Join(modules, "conformance-0.1"), filepath.Join(modules, "conformance-0.2")} {
		if !exists(need) {
			missing(t, "the conformance suite is not installed; scripts/tools installs it")
		}
	}
	// Its servers listen on all interfaces, so it gets a network of its own.
	if out, err := exec.Command("unshare", "-rn", "ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		missing(t, fmt.Sprintf("no network of its own for the suite: %v: %s", err, out))
	}
	runs := []suiteRun{
		{"client 2025-11-25", "conformance-0.2", "2025-11-25", 18},
		{"client 2026-07-28", "conformance-0.2", "2026-07-28", 32},
		{"client 0.1", "conformance-0.1", "", 21},
	}
	fails, done := map[string]bool{}, 0
	for _, run := range runs {
		t.Run(run.name, func(t *testing.T) {
			for name := range s.judge(t, run) {
				fails[name] = true
			}
			done++
		})
	}
	if done < len(runs) {
		return // some were left out by -run, or ended early
	}
	for name := range unscored {
		if !fails[name] {
			t.Errorf("%s is listed as failing and does not fail: take it off the list and out of docs/ROUGH_EDGES.md", name)
		}
	}
}

// judge runs a suite, fails the test for every scored scenario that did not pass with checks, and gives what else failed.
func (s suite) judge(t *testing.T, run suiteRun) map[string]string {
	out := t.TempDir()
	args := []string{"--suite", "all"}
	if run.revision != "" {
		args = []string{"--requirements", run.revision}
	}
	said, err := s.start(t, run.pkg, out, args...)
	passed, failed := outcomes(said)
	if len(passed)+len(failed) == 0 {
		t.Fatalf("the suite said nothing: %v\n%s", err, said)
	}
	scored := s.scored(t, run)
	if scored == nil { // all that ran
		for _, name := range slices.Concat(slices.Collect(maps.Keys(passed)), slices.Collect(maps.Keys(failed))) {
			if unscored[name] == "" {
				scored = append(scored, name)
			}
		}
	}
	good := 0
	for _, name := range slices.Sorted(slices.Values(scored)) {
		checks, ok := passed[name]
		switch {
		case unscored[name] != "":
			t.Errorf("%s is scored, and the list excuses it", name)
		case slices.Contains(timed, name):
			if s.alone(t, run, name) {
				good++
			}
		case !ok && failed[name] == "":
			t.Errorf("%s did not run", name)
		case !ok:
			t.Errorf("%s: %s\n%s", name, failed[name], why(out, name))
		case checks == 0:
			t.Errorf("%s passed without a check", name)
		default:
			good++
		}
		delete(failed, name)
	}
	t.Logf("%s: %d of %d", run.name, good, run.scored)
	if good != run.scored || len(scored) != run.scored {
		t.Errorf("%d of %d scored scenarios passed, want %d", good, len(scored), run.scored)
	}
	for _, name := range slices.Sorted(maps.Keys(failed)) {
		if unscored[name] == "" {
			t.Errorf("%s is not scored, and not on the list of what may fail: %s\n%s", name, failed[name], why(out, name))
		}
	}
	return failed
}

// alone judges one scenario by a run of its own.
func (s suite) alone(t *testing.T, run suiteRun, name string) bool {
	args := []string{"--scenario", name}
	if run.revision != "" {
		args = append(args, "--spec-version", run.revision)
	}
	for try := 1; ; try++ {
		out := t.TempDir()
		said, err := s.start(t, run.pkg, out, args...)
		checks := checksOf(out, name)
		good := slices.ContainsFunc(checks, func(c check) bool { return c.Status == "SUCCESS" })
		bad := slices.ContainsFunc(checks, check.bad)
		switch {
		case err == nil && good && !bad:
			return true
		case try == 3:
			t.Errorf("%s by itself, three times: %v\n%s", name, err, why(out, name))
			if len(checks) == 0 {
				t.Log(said)
			}
			return false
		}
		t.Logf("%s by itself, try %d: %v\n%s", name, try, err, why(out, name))
	}
}

func (s suite) start(t *testing.T, pkg, out string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	args = slices.Concat([]string{"-rn", "sh", "-c", `ip link set lo up && exec "$@"`, "sh",
		s.node, filepath.Join(s.modules, pkg, "dist", "index.js"), "client", "--command", "'" + s.client + "'", "-o", out}, args)
	cmd := exec.CommandContext(ctx, "unshare", args...)
	cmd.WaitDelay = 5 * time.Second // its clients may hold its output
	said, err := cmd.CombinedOutput()
	return string(said), err
}

// scored is what the suite's own frozen list asks of a client of the run's revision; nil for a run without one.
func (s suite) scored(t *testing.T, run suiteRun) []string {
	if run.revision == "" {
		return nil
	}
	raw, err := os.ReadFile(filepath.Join(s.modules, run.pkg, "requirements", run.revision+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var list struct{ Client []string }
	if err := yaml.Unmarshal(raw, &list); err != nil || len(list.Client) == 0 {
		t.Fatalf("the suite's requirements: %v: %v", list, err)
	}
	return list.Client
}

// TestConformance_ListedInRoughEdges holds what docs/ROUGH_EDGES.md says of the suites to what the test excuses.
func TestConformance_ListedInRoughEdges(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "ROUGH_EDGES.md"))
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, m := range regexp.MustCompile("`(auth/[^`]+)`").FindAllStringSubmatch(string(text), -1) {
		told = append(told, m[1])
	}
	slices.Sort(told)
	if want := slices.Sorted(maps.Keys(unscored)); !slices.Equal(told, want) {
		t.Errorf("docs/ROUGH_EDGES.md names %q, the test excuses %q", told, want)
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

// check is one check of a scenario.
type check struct{ ID, Status, Description, ErrorMessage string }

func (c check) bad() bool { return c.Status == "FAILURE" || c.Status == "WARNING" }

// scenarioDirs are the result folders of a scenario: its name and the time, since other names begin with it.
func scenarioDirs(out, name string) []string {
	dirs, _ := filepath.Glob(filepath.Join(out, name+"-[0-9][0-9][0-9][0-9]-*Z"))
	return dirs
}

func checksOf(out, name string) []check {
	var all []check
	for _, dir := range scenarioDirs(out, name) {
		var checks []check
		raw, _ := os.ReadFile(filepath.Join(dir, "checks.json"))
		_ = json.Unmarshal(raw, &checks)
		all = append(all, checks...)
	}
	return all
}

// why gives the failed checks of a scenario and what the client printed.
func why(out, name string) string {
	var b strings.Builder
	for _, c := range checksOf(out, name) {
		if c.bad() {
			fmt.Fprintf(&b, "  %s %s: %s %s\n", c.Status, c.ID, c.Description, c.ErrorMessage)
		}
	}
	for _, dir := range scenarioDirs(out, name) {
		said, _ := os.ReadFile(filepath.Join(dir, "stderr.txt"))
		b.Write(said[max(0, len(said)-2000):])
	}
	return strings.TrimSpace(b.String())
}

// missing skips a test for want of a part; in CI nothing may be missing.
func missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(what)
	}
	t.Skip(what)
}
