package install_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"bobbin/install"
	"bobbin/schemas"
)

// wheel builds a pure wheel (PEP 427) by hand.
func wheel(t *testing.T, name, version, requires, script string) []byte {
	t.Helper()
	info := fmt.Sprintf("%s-%s.dist-info", name, version)
	meta := fmt.Sprintf("Metadata-Version: 2.1\nName: %s\nVersion: %s\nLicense: MIT\n%s\n\n# %s\n\"env\": {\"ACME_KEY\": \"x\"}\n", name, version, requires, name)
	parts := [][2]string{{name + ".py", "def main():\n    print('it is " + version + "')\n"}, {info + "/METADATA", meta},
		{info + "/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}}
	if script != "" {
		parts = append(parts, [2]string{info + "/entry_points.txt", "[console_scripts]\n" + script + " = " + name + ":main\n"})
	}
	record := info + "/RECORD,,\n"
	for _, p := range parts {
		record = p[0] + ",,\n" + record
	}
	return zipped(t, append(parts, [2]string{info + "/RECORD", record})...)
}

func zipped(t *testing.T, parts ...[2]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, p := range parts {
		w, err := z.Create(p[0])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(p[1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// index serves wheels as PEP 503 says, on loopback.
func index(t *testing.T, wheels map[string][]byte) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name, ok := strings.CutPrefix(r.URL.Path, "/files/"); ok {
			_, _ = w.Write(wheels[name])
			return
		}
		project := strings.ReplaceAll(strings.Trim(strings.TrimPrefix(r.URL.Path, "/simple/"), "/"), "-", "_")
		w.Header().Set("Content-Type", "text/html")
		any := false
		for name, data := range wheels {
			if strings.HasPrefix(name, project+"-") {
				any = true
				fmt.Fprintf(w, "<a href=\"/files/%s#sha256=%x\">%s</a>\n", name, sha256.Sum256(data), name)
			}
		}
		if !any {
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func TestReal_Pip(t *testing.T) {
	_, l := here(t, "python3")
	if exec.CommandContext(t.Context(), "python3", "-m", "pip", "--version").Run() != nil {
		t.Skip("pip is not on this machine")
	}
	wheels := map[string][]byte{
		"acme_weather-1.0.0-py3-none-any.whl": wheel(t, "acme_weather", "1.0.0", "Requires-Dist: acme-dep", "acme-weather"),
		"acme_weather-1.1.0-py3-none-any.whl": wheel(t, "acme_weather", "1.1.0", "Requires-Dist: acme-dep", "acme-weather"),
		"acme_dep-2.0-py3-none-any.whl":       wheel(t, "acme_dep", "2.0", "", ""),
	}
	site := index(t, wheels)
	l.env = []string{"PIP_INDEX_URL=" + site.URL + "/simple/", "PIP_EXTRA_INDEX_URL=", "PIP_NO_INDEX=0", "PIP_CONFIG_FILE=/dev/null", "PIP_NO_CACHE_DIR=1", "NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1"}
	in := install.New(l, l, install.Options{Workspace: l.root})
	p, err := in.Resolve(t.Context(), thread, member, schemas.Package{Kind: schemas.Pip, Spec: "acme-weather==1.0.0"})
	if err != nil {
		t.Fatal(err)
	}
	sum := fmt.Sprintf("sha256:%x", sha256.Sum256(wheels["acme_weather-1.0.0-py3-none-any.whl"]))
	if p.Version != "1.0.0" || p.Integrity != sum || p.License != "MIT" || p.Packages != 2 || strings.Join(p.Env, " ") != "ACME_KEY" || p.Spec.Name != "acme-weather" {
		t.Errorf("%+v", p)
	}
	if !strings.Contains(text(p.Notes), "pip takes it from "+strings.TrimPrefix(site.URL, "http://")) {
		t.Error(text(p.Notes))
	}
	log, err := in.Install(t.Context(), thread, member, p, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, log.Text)
	}
	if out, err := exec.CommandContext(t.Context(), log.Server.Command, log.Server.Args...).Output(); err != nil || string(out) != "it is 1.0.0\n" {
		t.Errorf("%q %v", out, err)
	}
	up, err := in.Upgrade(t.Context(), thread, member, log.Server, "")
	if err != nil || up.Same || up.Plan.Version != "1.1.0" || up.Plan.Folder != p.Folder+"-2" || len(up.NewEnv) != 0 {
		t.Errorf("%v %+v", err, up)
	}
	// The index gives out another file of the same version than was confirmed.
	wheels["acme_dep-2.0-py3-none-any.whl"] = wheel(t, "acme_dep", "2.0", "Keywords: evil", "")
	if log, err := in.Install(t.Context(), thread, member, up.Plan, nil); schemas.CodeOf(err) != schemas.CodeFailed || !strings.Contains(log.Text, "HASH") {
		t.Errorf("%v %s", err, log.Text)
	}
	if _, err := os.Stat(up.Plan.Folder); err == nil {
		t.Error("the folder is left")
	}
	for spec, want := range map[string]schemas.Code{"acme-none": schemas.CodeNotFound, "acme-weather==9": schemas.CodeNotFound, "acme-dep": schemas.CodeInvalid} {
		if _, err := in.Resolve(t.Context(), thread, member, schemas.Package{Kind: schemas.Pip, Spec: spec}); schemas.CodeOf(err) != want {
			t.Errorf("%s: %v", spec, err)
		}
	}
	if left, _ := filepath.Glob(l.root + "/external-mcp/.*"); len(left) != 0 {
		t.Error(left)
	}
}

// TestPip_Unreached: pip says of an index that it cannot reach that the package is not there.
func TestPip_Unreached(t *testing.T) {
	warning := "WARNING: Retrying (Retry(total=4, connect=None, read=None, redirect=None, status=None)) after connection broken by 'ProxyError('Cannot connect to proxy.', OSError('Tunnel connection failed: 403 Forbidden'))': /simple/acme/\n"
	r := &replay{t: t, steps: []said{
		{args: "mkdir -p " + base}, {args: "ls -1A " + base}, {args: "python3 -c *", out: "/usr/bin/python3\n"}, {args: "mkdir *"}, {args: "/usr/bin/python3 -m pip --version"},
		{args: "/usr/bin/python3 -m pip install --dry-run --ignore-installed --only-binary :all: --no-input --disable-pip-version-check --quiet --report * -- acme",
			err: strings.Repeat(warning, 5) + "ERROR: No matching distribution found for acme\n", code: 1},
		{args: "rm -rf *"},
	}}
	_, err := install.New(r, r, install.Options{}).Resolve(t.Context(), thread, member, schemas.Package{Kind: schemas.Pip, Spec: "acme"})
	if schemas.CodeOf(err) != schemas.CodeFailed || !strings.Contains(err.Error(), "does not reach the index of packages: Tunnel connection failed: 403 Forbidden") {
		t.Error(err)
	}
	r.done()
}
