package install

import (
	"fmt"
	"net/url"
	"path"
	"strings"

	"bobbin/internal/lazy"
	"bobbin/schemas"
)

// request is a spec taken apart; nothing in it can be read as an option, a path or another protocol by the tools it goes to.
type request struct {
	name    string // package name; of git the last part of the path
	extras  string // pip: "[a,b]"
	version string // npm: version or tag · pip: version · git: ref
	url     string // git
}

// The forms are narrower than what the tools accept: npm-package-arg, PEP 508 with PEP 440 "==", git-check-ref-format.
var (
	npmForm = lazy.Regexp(`\A((?:@[a-z0-9][a-z0-9._-]*/)?[a-z0-9][a-z0-9._-]*)(?:@([A-Za-z0-9][A-Za-z0-9._+-]*))?\z`)
	pipForm = lazy.Regexp(`\A([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(\[[A-Za-z0-9][A-Za-z0-9._,-]*\])?(?:==([A-Za-z0-9][A-Za-z0-9._+!-]*))?\z`)
	refForm = lazy.Regexp(`\A[A-Za-z0-9][A-Za-z0-9._/+-]{0,99}\z`)
	// a name that ends so is taken for a file in the current folder
	archive  = lazy.Regexp(`(?i)\.(?:tgz|tar|tar\.[a-z0-9]+|zip|whl|tbz|txz|tlz)\z`)
	hostForm = lazy.Regexp(`\A[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]{1,5})?\z`)
	pathForm = lazy.Regexp(`\A(?:/[A-Za-z0-9_~][A-Za-z0-9._~+-]*)+/?\z`)
	commit   = lazy.Regexp(`\A[0-9a-f]{40}\z`)
)

const maxSpec = 300

func parse(s schemas.Package) (request, error) {
	if len(s.Spec) > maxSpec {
		return request{}, invalid("the package is named in more than 300 characters", "")
	}
	switch s.Kind {
	case schemas.NPM:
		return parseNPM(s.Spec)
	case schemas.Pip:
		return parsePip(s.Spec)
	case schemas.Git:
		return parseGit(s.Spec)
	}
	return request{}, invalid(fmt.Sprintf("%q cannot be installed from", schemas.Clean(string(s.Kind), true)), "npm, pip or git")
}

func parseNPM(s string) (request, error) {
	m := npmForm().FindStringSubmatch(s)
	if m == nil || len(m[1]) > 214 || archive().MatchString(m[1]) || archive().MatchString(m[2]) {
		return request{}, invalid("npm: "+quoted(s)+" is no package", "NAME, @SCOPE/NAME, NAME@VERSION or NAME@TAG")
	}
	return request{name: m[1], version: m[2]}, nil
}

func parsePip(s string) (request, error) {
	m := pipForm().FindStringSubmatch(s)
	if m == nil || archive().MatchString(m[1]) {
		return request{}, invalid("pip: "+quoted(s)+" is no package", "NAME, NAME==VERSION or NAME[EXTRA]==VERSION")
	}
	return request{name: m[1], extras: m[2], version: m[3]}, nil
}

func parseGit(s string) (request, error) {
	raw, ref, named := strings.Cut(s, "#")
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Scheme != "https" || u.Opaque != "":
		return request{}, invalid("git installs need an https:// URL", "https://HOST/OWNER/REPOSITORY, with #BRANCH, #TAG or #COMMIT if you like")
	case u.User != nil || strings.Contains(raw, "@"):
		return request{}, invalid("git: the URL must not hold a name or password", "only public repositories can be installed")
	case !hostForm().MatchString(u.Host) || !pathForm().MatchString(u.Path) || raw != "https://"+u.Host+u.Path || strings.Contains(u.Path, ".."):
		return request{}, invalid("git: "+quoted(raw)+" is no repository's URL", "https://HOST/OWNER/REPOSITORY")
	case named && (!refForm().MatchString(ref) || strings.Contains(ref, "..") || strings.Contains(ref, "//") || strings.HasSuffix(ref, ".lock") || strings.HasSuffix(ref, "/") || strings.HasSuffix(ref, ".")):
		return request{}, invalid("git: "+quoted(ref)+" is no branch, tag or commit", "a commit's whole 40 digits are the safest")
	}
	return request{name: strings.TrimSuffix(path.Base(u.Path), ".git"), version: ref, url: raw}, nil
}

func quoted(s string) string {
	if len(s) > 80 {
		s = s[:80] + "…"
	}
	return fmt.Sprintf("%+q", s)
}

// suggest makes a server's name out of a package's.
func suggest(pkg string) string {
	scope, name, scoped := strings.Cut(strings.TrimPrefix(pkg, "@"), "/")
	if !scoped {
		name = scope
	}
	if name == "mcp" || name == "server" || name == "mcp-server" {
		name = scope + "-" + name
	}
	for _, part := range []string{"mcp-server-", "server-", "mcp-"} {
		if rest, ok := strings.CutPrefix(name, part); ok && schemas.ValidName(rest) {
			name = rest
			break
		}
	}
	for _, part := range []string{"-mcp-server", "-server", "-mcp"} {
		if rest, ok := strings.CutSuffix(name, part); ok && schemas.ValidName(rest) {
			name = rest
			break
		}
	}
	return strings.TrimRight(name[:min(len(name), 48)], "-._")
}

// clean refuses arguments that no program was meant to get.
func clean(args []string, program string) error {
	if len(args) > 64 {
		return invalid("more than 64 arguments", "")
	}
	for _, a := range append([]string{program}, args...) {
		if len(a) > 4096 || strings.ContainsAny(a, "\x00\r\n") {
			return invalid("an argument is too long or holds a line break", "")
		}
	}
	return nil
}
