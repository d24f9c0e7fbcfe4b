package install

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"bobbin/internal/lazy"
	"bobbin/schemas"
)

// npmView is what `npm view --json` answers for the fields asked for.
type npmView struct {
	Name       string            `json:"name"`
	Version    string            `json:"version"`
	License    json.RawMessage   `json:"license"`
	Deprecated json.RawMessage   `json:"deprecated"`
	Bin        json.RawMessage   `json:"bin"`
	Scripts    map[string]string `json:"scripts"`
	Integrity  string            `json:"dist.integrity"`
	Tarball    string            `json:"dist.tarball"`
}

// Subresource Integrity (W3C), the algorithms that npm still trusts.
var sri = lazy.Regexp(`\Asha(?:512|384)-[A-Za-z0-9+/]{64,88}={0,2}\z`)

func (in *Installer) npm(ctx context.Context, j *job, r request, p *schemas.PackagePlan) error {
	asked := r.version
	if asked == "" {
		asked = "latest"
	}
	v, err := viewed(ctx, j, r.name+"@"+asked)
	if err != nil {
		return err
	}
	bare := path.Base(r.name)
	bins := binsOf(v.Bin, bare)
	var program, script string
	if len(p.Spec.Start) == 0 {
		if program, script, err = choose(p.Spec.Program, bare, bins); err != nil {
			return err
		}
	}
	node, err := absolute(ctx, j, "node", "-p", "process.execPath")
	if err != nil {
		return err
	}
	p.Spec.Program = program
	p.Package, p.Version, p.Integrity = v.Name, v.Version, v.Integrity
	p.License, p.Deprecated = words(v.License), words(v.Deprecated)
	p.Scripts = scriptsOf(v.Scripts, "preinstall", "install", "postinstall")
	p.Published = published(ctx, j, v)
	if done, err := j.end(ctx, "npm", "view", "--", v.Name+"@"+v.Version, "readme"); err == nil && done.Code == 0 {
		p.Env = documented(done.Stdout)
	}
	p.Notes = append(p.Notes, from(p.Spec.Name, "npm", v.Tarball)...)
	if asked != v.Version {
		p.Notes = append(p.Notes, schemas.Note{Kind: schemas.NoteOther, Server: p.Spec.Name,
			Text: fmt.Sprintf("%q was asked for; version %s is what Confirm installs and keeps", asked, v.Version)})
	}
	main := path.Join(p.Folder, "node_modules", v.Name, script)
	p.Commands = append(p.Commands, []string{"npm", "install", "--prefix", p.Folder, ignoring(p.Spec.Scripts), "--save-exact", "--no-audit", "--no-fund", "--", v.Name + "@" + v.Version})
	if len(p.Spec.Start) == 0 {
		p.Server.Command, p.Server.Args = node, []string{main}
	} else if file := own(p); file != "" {
		main = path.Join(p.Folder, file)
	}
	workOf(p).checks = []check{{args: []string{node, "-e", lockProgram, "--", p.Folder, v.Name, main}, read: readLock(*p)}}
	return nil
}

// from tells which hosts a package is taken from: a member's own settings, which any of the member's servers can write, choose them.
func from(server, tool string, addresses ...string) []schemas.Note {
	var hosts []string
	for _, a := range addresses {
		if u, err := url.Parse(a); err == nil && u.Host != "" && !slices.Contains(hosts, u.Host) {
			hosts = append(hosts, u.Host)
		}
	}
	slices.Sort(hosts)
	if len(hosts) == 0 {
		return nil
	}
	more := ""
	if len(hosts) > 5 {
		hosts, more = hosts[:5], " and more"
	}
	return []schemas.Note{{Kind: schemas.NoteOther, Server: server, Text: tool + " takes it from " + brief(strings.Join(hosts, ", ")) + more}}
}

func ignoring(scripts bool) string {
	if scripts {
		return "--ignore-scripts=false" // a person's own npm configuration may say true
	}
	return "--ignore-scripts"
}

func viewed(ctx context.Context, j *job, what string) (npmView, error) {
	var v npmView
	done, err := j.end(ctx, "npm", "view", "--json", "--", what, "name", "version", "license", "deprecated", "bin", "scripts", "dist.integrity", "dist.tarball")
	if err != nil {
		return v, err
	}
	out := strings.TrimSpace(done.Stdout)
	if done.Code != 0 {
		var e struct{ Error struct{ Code string } }
		if json.Unmarshal([]byte(out), &e) == nil && slices.Contains([]string{"E404", "ETARGET"}, e.Error.Code) {
			return v, &schemas.Error{Code: schemas.CodeNotFound, Text: "npm knows no package " + what, Hint: "check its name and version"}
		}
		return v, failure([]string{"npm"}, done)
	}
	switch {
	case out == "":
		return v, &schemas.Error{Code: schemas.CodeNotFound, Text: "npm knows no package " + what, Hint: "check its name and version"}
	case out[0] == '[':
		return v, invalid(what+" stands for several versions", "name one version exactly, or a tag such as latest")
	case json.Unmarshal([]byte(out), &v) != nil:
		return v, failed("npm's answer about " + what + " cannot be read")
	}
	if m := npmForm().FindStringSubmatch(v.Name + "@" + v.Version); m == nil || m[1] != v.Name || !strings.HasPrefix(what, v.Name+"@") {
		return v, failed("npm answered for another package than " + what)
	}
	if !sri().MatchString(v.Integrity) {
		return v, failed("no integrity is known for " + v.Name + "@" + v.Version + ", so it cannot be pinned")
	}
	return v, nil
}

// published asks when a version came out; the zero time if that cannot be known.
func published(ctx context.Context, j *job, v npmView) time.Time {
	done, err := j.end(ctx, "npm", "view", "--json", "--", v.Name+"@"+v.Version, "time["+v.Version+"]")
	if err != nil || done.Code != 0 {
		return time.Time{}
	}
	var text string
	if json.Unmarshal([]byte(done.Stdout), &text) != nil {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return at
}

// binsOf reads package.json's "bin": program names and their scripts, relative to the package. What leads out of it is left out.
func binsOf(raw json.RawMessage, bare string) map[string]string {
	bins := map[string]string{}
	var one string
	if json.Unmarshal(raw, &one) == nil && one != "" {
		bins[bare] = one
	} else if json.Unmarshal(raw, &bins) != nil {
		return nil
	}
	out := map[string]string{}
	for name, script := range bins {
		if s, ok := inside(script); ok {
			out[name] = s
		}
	}
	return out
}

var filePath = lazy.Regexp(`\A[A-Za-z0-9_@.+-][A-Za-z0-9_@.+ -]*(?:/[A-Za-z0-9_@.+-][A-Za-z0-9_@.+ -]*)*\z`)

// inside cleans a path and reports whether it stays under where it starts.
func inside(p string) (string, bool) {
	p = path.Clean(strings.TrimPrefix(p, "./"))
	ok := filePath().MatchString(p) && p != "." && p != ".." && !strings.HasPrefix(p, "../") && !strings.HasPrefix(p, "-") && len(p) <= 300
	return p, ok
}

// choose picks the program to start: the one asked for, the only one, the one named like the package, the only one with "mcp".
func choose(asked, bare string, programs map[string]string) (name, target string, err error) {
	names := slices.Sorted(maps.Keys(programs))
	if asked != "" {
		if t, ok := programs[asked]; ok {
			return asked, t, nil
		}
		return "", "", invalid(fmt.Sprintf("%s brings no program %s", bare, quoted(asked)), listed(names))
	}
	var like []string
	for _, n := range names {
		if strings.Contains(n, "mcp") {
			like = append(like, n)
		}
	}
	switch {
	case len(names) == 0:
		return "", "", invalid(bare+" brings no program, so it is not a server that can be started", "is it a library? look for the server's own package")
	case len(names) == 1:
		return names[0], programs[names[0]], nil
	case programs[bare] != "":
		return bare, programs[bare], nil
	case len(like) == 1:
		return like[0], programs[like[0]], nil
	}
	targets := slices.Sorted(maps.Values(programs))
	if targets[0] == targets[len(targets)-1] {
		return names[0], targets[0], nil
	}
	return "", "", invalid(bare+" brings several programs", listed(names))
}

func listed(names []string) string {
	if len(names) == 0 {
		return "it brings none"
	}
	if len(names) > 10 {
		names = names[:10]
	}
	return "name one of: " + schemas.Clean(strings.Join(names, ", "), true)
}

func scriptsOf(all map[string]string, names ...string) []string {
	var out []string
	for _, n := range names {
		if s := all[n]; s != "" {
			out = append(out, n+": "+brief(s))
		}
	}
	return out
}

func brief(s string) string {
	s = schemas.Clean(s, true)
	if r := []rune(s); len(r) > 160 {
		s = string(r[:160]) + "…"
	}
	return s
}

// words reads a field that is a text, or an object with one.
func words(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return brief(text)
	}
	var o struct{ Type, Name, Text string }
	if json.Unmarshal(raw, &o) == nil {
		return brief(o.Type + o.Name + o.Text)
	}
	return ""
}

// absolute asks a program where it lies, so that a definition does not depend on a search path.
func absolute(ctx context.Context, j *job, args ...string) (string, error) {
	out, err := j.do(ctx, args...)
	if err != nil {
		return "", err
	}
	if out = strings.TrimSpace(out); !path.IsAbs(out) || strings.ContainsAny(out, "\n\r\x00") {
		return "", failed(args[0] + " does not say where it lies")
	}
	return out, nil
}

// lockProgram tells of a package-lock.json what the plan is held against. Its arguments are the folder, the package and the script.
const lockProgram = `const fs=require("fs"),a=process.argv.slice(-3),l=JSON.parse(fs.readFileSync(a[0]+"/package-lock.json","utf8")).packages||{},e=l["node_modules/"+a[1]]||{};` +
	`process.stdout.write(JSON.stringify({version:e.version,integrity:e.integrity,count:Object.keys(l).filter(k=>k).length,` +
	`scripts:Object.keys(l).filter(k=>k&&l[k].hasInstallScript).map(k=>k.replace(/^.*node_modules\//,"")).slice(0,20),found:fs.existsSync(a[2])}))`

func readLock(p schemas.PackagePlan) func(string) ([]schemas.Note, error) {
	return func(out string) ([]schemas.Note, error) {
		var l struct {
			Version, Integrity string
			Count              int
			Scripts            []string
			Found              bool
		}
		if json.Unmarshal([]byte(out), &l) != nil {
			return nil, failed("what npm installed cannot be read")
		}
		if l.Version != p.Version || l.Integrity != p.Integrity {
			return nil, &schemas.Error{Code: schemas.CodeFailed, Text: fmt.Sprintf("npm installed something else than %s@%s as it was confirmed; it was removed", p.Package, p.Version),
				Hint: "ask for the installation again and compare the integrity on the card"}
		}
		if !l.Found {
			return nil, failed(fmt.Sprintf("%s@%s was installed but what is to be started is not in it", p.Package, p.Version))
		}
		notes := []schemas.Note{{Kind: schemas.NoteOther, Server: p.Spec.Name, Text: fmt.Sprintf("%d packages installed, locked in package-lock.json", l.Count)}}
		if len(l.Scripts) > 0 && !p.Spec.Scripts {
			notes = append(notes, schemas.Note{Kind: schemas.NoteRisk, Server: p.Spec.Name,
				Text: "these packages wanted to run scripts and did not, so parts may be missing: " + schemas.Clean(strings.Join(l.Scripts, ", "), true) + "; scripts:yes lets them"})
		}
		return notes, nil
	}
}

var (
	envBlock = lazy.Regexp(`(?s)["']?env["']?\s*:\s*\{([^{}]*)\}`)
	envKey   = lazy.Regexp(`["']?\b([A-Z][A-Z0-9_]{2,63})["']?\s*:`)
)

// documented finds the names in the "env" blocks of the examples in a README.
func documented(readme string) []string {
	var names []string
	for _, block := range envBlock().FindAllStringSubmatch(readme, 32) {
		for _, m := range envKey().FindAllStringSubmatch(block[1], 32) {
			if !slices.Contains(names, m[1]) && len(names) < 32 {
				names = append(names, m[1])
			}
		}
	}
	slices.Sort(names)
	return names
}
