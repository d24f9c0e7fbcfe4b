package operator_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"bobbin/operator"
	"bobbin/schemas"
)

func TestLoad_ByHand(t *testing.T) { // what editors and people make of the file: what cannot be read has its line, and the rest is read
	const noLinks = "anchors, aliases and merged keys (&, *, <<) are not followed (write it out)"
	for text, want := range map[string]string{
		"mcps:\n  - name: a\n\tbase_image: b\n":                                                   "mcps.yaml:3:1: is indented with a tab there (YAML takes spaces alone)",
		"mcps:\r  - name: a\r    base_image: b\r":                                                 "",
		"mcps:\n  - name: a\n    base_im":                                                         "mcps.yaml:3:5: is not valid YAML",
		"mcps:\n  - name: a\n    base_image: b\n    env:\n      K: \"half":                        "mcps.yaml:5:10: is not valid YAML",
		"mcps:\n  - name: a\n    base_image: b\n    env: {K: v":                                   "mcps.yaml:4:10: is not valid YAML",
		"mcps:\n  - name: a\n    name: b\n":                                                       "mcps.yaml:3:5: a key stands there twice",
		"- name: a\n":                                                                             "mcps.yaml:1:1: must be a mapping with the list mcps:",
		"mcps: {a: b}\n":                                                                          "mcps must be a list",
		"mcp:\n  - name: a\n    base_image: b\n":                                                  `mcps.yaml:1:1: unknown key "mcp" (did you mean "mcps"?)`,
		"mcpServers: {}\n":                                                                        `mcps.yaml:1:1: unknown key "mcpServers"`,
		"base: &base\n  base_image: b\nmcps:\n  - name: a\n    <<: *base\n":                       noLinks,
		"mcps:\n  - &one\n    name: a\n    base_image: b\n":                                       noLinks,
		"base: &env {K: v}\nmcps:\n  - name: a\n    base_image: b\n    env: *env\n":               "a: " + noLinks,
		"mcps: &x\n  - name: a\n    base_image: b\n    env: {K: *x}\n":                            "mcps must be a list",
		"mcps:\n  - name: a\n    base_image: *nope\n":                                             "mcps.yaml:3:17: a: " + noLinks,
		"defaults: {image: goose}\nmcps:\n  - name: a\n    base_image: b\n":                       "",
		"\ufeffmcps:\r\n  - name: a\r\n    base_image: b # why\r\n    env:\r\n      K: \"v\"\r\n": "",
	} {
		d := open(t, text)
		f, err := d.Load(t.Context())
		got := f.Problems.Error()
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) || want == "" && (got != "" || len(f.Servers) != 1) {
			t.Errorf("%q:\ngot  %s\nwant %s", text, got, want)
		}
		if strings.Contains(want, noLinks) && strings.Count(got, "mcps.yaml:") != 1 {
			t.Errorf("%q is said more than once: %s", text, got)
		}
	}
}

func TestChange_WindowsText(t *testing.T) { // a byte order mark, CRLF and comments stay, and secrets go to the vault
	const text = "\ufeff# ours\r\nmcps: # the list\r\n  - name: a # first\r\n    base_image: b\r\n    env:\r\n      K_TOKEN: \"canary-9\" # from the wiki\r\n"
	d := open(t, text)
	d.must(d.Seal(t.Context()))
	if diff := cmp.Diff(strings.Replace(text, `"canary-9"`, `"${input:K_TOKEN}"`, 1), d.text()); diff != "" {
		t.Error(diff)
	}
	before := d.text()
	d.must(put(t.Context(), d.Operator, operator.Server{Name: "c", BaseImage: "d"}))
	if n := len(d.load().Servers); n != 2 || !strings.HasPrefix(d.text(), before) {
		t.Errorf("%d servers in %q", n, d.text())
	}
	d.must(d.Remove(t.Context(), "c"))
	if diff := cmp.Diff(before, d.text()); diff != "" {
		t.Error(diff)
	}
}

func TestChange_Prefix(t *testing.T) { // K19: a file of cubbi keeps its names
	d := open(t, "prefix: cubbi\ndefaults: {image: goose}\nmcps: []\n")
	d.must(put(t.Context(), d.Operator, operator.Server{Name: "a", BaseImage: "b"}))
	if f := d.load(); f.Prefix != "cubbi" || len(f.Servers) != 1 || len(f.Problems) > 0 {
		t.Errorf("%+v", f)
	}
	d.write("prefix: Cubbi!\nmcps: []\n")
	if f := d.load(); f.Prefix != "bobbin" || !strings.Contains(f.Problems.Error(), "mcps.yaml:1:9: prefix must be a short word") {
		t.Errorf("%+v", f)
	}
}

func TestLoad_HalfWritten(t *testing.T) { // an editor that does not write at once: every beginning of a file is read, or refused with its place
	d := open(t, document)
	for i := range len(document) {
		d.write(document[:i])
		_, err := d.Load(t.Context())
		if err != nil && (schemas.CodeOf(err) != schemas.CodeUnreadable || !strings.Contains(err.Error(), "mcps.yaml:") || strings.Contains(err.Error(), "your-token")) {
			t.Fatalf("%d bytes: %v", i, err)
		}
	}
}

func TestSeal_BlockText(t *testing.T) { // a key over several lines, as PEM and JSON are pasted
	const text = "mcps:\n  - name: a\n    base_image: b\n    env:\n      A_KEY: | # pasted\n        -----BEGIN KEY-----\n\n        canary\n        -----END KEY-----\n      LOG: info\n" +
		"  - name: c\n    base_image: b\n    env:\n      C_TOKEN: >-\n        canary\n        too\n"
	d := open(t, text)
	d.must(d.Seal(t.Context()))
	want := "mcps:\n  - name: a\n    base_image: b\n    env:\n      A_KEY: \"${input:A_KEY}\" # pasted\n      LOG: info\n  - name: c\n    base_image: b\n    env:\n      C_TOKEN: \"${input:C_TOKEN}\"\n"
	if diff := cmp.Diff(want, d.text()); diff != "" {
		t.Error(diff)
	}
	var kept []string
	for _, v := range d.safe.values {
		kept = append(kept, v)
	}
	slices.Sort(kept)
	if diff := cmp.Diff([]string{"-----BEGIN KEY-----\n\ncanary\n-----END KEY-----\n", "canary too"}, kept); diff != "" {
		t.Error(diff)
	}
}
