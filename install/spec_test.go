package install_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"bobbin/install"
	"bobbin/schemas"
)

// No command runs for a spec that could be read as an option, a file or another protocol.
func TestResolve_RefusesSpecs(t *testing.T) {
	bad := map[schemas.PackageKind][]string{
		schemas.NPM: {"", "-g", "--registry=https://evil.example", "x@--tag", "@/x", "x y", "x;id", "$(id)", "x@^1.0.0", "x@>=1", "x@*", "x@npm:y@1", "x@file:..", "file:..", "../x", "./x", "/etc/x",
			"git+ssh://h/x", "https://h/x.tgz", "owner/repo", "github:owner/repo", "x.tgz", "x@1.tgz", "x.tar.gz", "x@", "x\n", "x\x00", "X", "@Scope/x", "@-s/x", "@s/-x", strings.Repeat("a", 215), "x@1@2", "é"},
		schemas.Pip: {"", "-r", "--index-url=https://evil.example", "-e .", ".", "./x", "x @ https://h/x.whl", "x>=1", "x==1.*", "x==", "x==-1", "x;python_version>'3'", "x[a", "x[]", "x[-a]", "git+https://h/x", "x.whl",
			"x.tar.gz", "x.zip", "/etc/x", "x y", "x\n", "x==1 --hash=sha256:00", "x-", "_x", "x==1\n-r y"},
		schemas.Git: {"", "git@host:o/r", "ssh://host/o/r", "git://host/o/r", "http://host/o/r", "file:///etc", "ext::sh -c id", "https://user@host/o/r", "https://user:pw@host/o/r", "https://host", "https://host/", "https:///o/r",
			"https://host/o/r?x=1", "https://host/../r", "https://host/o/-r", "https://host/o/r#", "https://host/o/r#-x", "https://host/o/r#--upload-pack=x", "https://host/o/r#a..b", "https://host/o/r#a:b", "https://host/o/r#a b",
			"--upload-pack=id", "-c", "https://-h/o/r", "https://host/o/r\n", "https://host/o/%2e%2e/r", "HTTPS://host/o r", "https://host\\@evil/x", "https://[::1]/o/r", "https://host/o/r#x.lock", "https:host/o/r", "https://host:x/o/r"},
		"brew": {"x"}, "": {"x"}, schemas.Bundle: {"x"},
	}
	for kind, specs := range bad {
		for _, s := range specs {
			r := &replay{t: t}
			if _, err := install.New(r, r, install.Options{}).Resolve(t.Context(), thread, member, schemas.Package{Kind: kind, Spec: s, Name: "x"}); schemas.CodeOf(err) != schemas.CodeInvalid {
				t.Errorf("%s %q: %v", kind, s, err)
			}
		}
	}
	for _, n := range []string{"../x", "-x", "a b", "constructor", strings.Repeat("a", 49)} {
		r := &replay{t: t}
		if _, err := install.New(r, r, install.Options{}).Resolve(t.Context(), thread, member, schemas.Package{Kind: schemas.NPM, Spec: "x", Name: n}); schemas.CodeOf(err) != schemas.CodeInvalid {
			t.Errorf("name %q: %v", n, err)
		}
	}
}

// Whatever the text: either no command runs, or every word of it is a plain one behind "--".
func TestResolve_NoInjection(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		kind := rapid.SampledFrom([]schemas.PackageKind{schemas.NPM, schemas.Pip, schemas.Git}).Draw(rt, "kind")
		spec := rapid.OneOf(rapid.String(), rapid.StringMatching(`[-@./a-z0-9:=#\[\]$; ]{1,20}`), rapid.StringMatching(`https://[-@a-z.:]{1,9}/[-a-z./%#]{1,12}`)).Draw(rt, "spec")
		r := &replay{t: t}
		var later []schemas.Exec
		in := install.New(stop{r, &later}, r, install.Options{})
		_, _ = in.Resolve(t.Context(), thread, member, schemas.Package{Kind: kind, Spec: spec, Name: "x"})
		for _, e := range later {
			for i, a := range e.Args {
				if strings.Contains(spec, a) && strings.HasPrefix(a, "-") && a != "--" && i > 0 && !strings.HasPrefix(a, "-p") {
					if hasArg(e.Args[:i], "--") {
						rt.Fatalf("%q gave %q", spec, e.Args)
					}
				}
				if strings.ContainsAny(a, "\n\x00;$ ") && i > 0 && e.Args[i-1] == "--" {
					rt.Fatalf("%q gave %q", spec, e.Args)
				}
			}
		}
	})
}
