package install

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"bobbin/internal/lazy"
	"bobbin/schemas"
)

func (in *Installer) git(ctx context.Context, j *job, r request, p *schemas.PackagePlan) error {
	sha, err := commitOf(ctx, j, r)
	if err != nil {
		return err
	}
	p.Package, p.Version, p.Integrity = r.url, sha, sha
	p.Commands = append(p.Commands, []string{"git", "init", "--quiet", p.Folder},
		[]string{"git", "-C", p.Folder, "fetch", "--quiet", "--depth", "1", "--no-tags", "--", r.url, sha},
		[]string{"git", "-C", p.Folder, "checkout", "--quiet", "--detach", sha})
	if r.version != sha {
		p.Notes = append(p.Notes, schemas.Note{Kind: schemas.NoteOther, Server: p.Spec.Name, Text: fmt.Sprintf("%s is commit %s now, which is what Confirm installs and keeps", refName(r), sha[:12])})
	}
	return in.staged(ctx, j, func(dir string) error {
		if _, err := j.do(ctx, "git", "init", "--quiet", dir); err != nil {
			return err
		}
		if _, err := j.do(ctx, "git", "-C", dir, "fetch", "--quiet", "--depth", "1", "--no-tags", "--", r.url, sha); err != nil {
			return err
		}
		t := tree{ctx: ctx, j: j, dir: dir, sha: sha}
		top, err := j.do(ctx, "git", "-C", dir, "ls-tree", "--name-only", sha)
		if err != nil {
			return err
		}
		t.top = strings.Split(strings.TrimSpace(top), "\n")
		p.Env = t.env()
		workOf(p).checks = []check{{args: []string{"git", "-C", p.Folder, "rev-parse", "HEAD"}, read: func(out string) ([]schemas.Note, error) {
			if strings.TrimSpace(out) != sha {
				return nil, failed("git checked out another commit than was confirmed; it was removed")
			}
			return nil, nil
		}}}
		switch {
		case slices.Contains(t.top, "package.json"):
			return t.node(p)
		case slices.Contains(t.top, "pyproject.toml"):
			return t.python(p)
		case len(p.Spec.Start) > 0:
			return t.plain(p)
		}
		return invalid("the repository has neither package.json nor pyproject.toml at its top", "say how it is started: start:\"node server.js\"")
	})
}

func refName(r request) string {
	if r.version == "" {
		return "its main branch"
	}
	return r.version
}

// commitOf asks which commit a ref stands for; a tag goes before a branch of the same name, as in git.
func commitOf(ctx context.Context, j *job, r request) (string, error) {
	if commit().MatchString(r.version) {
		return r.version, nil
	}
	refs := []string{"refs/tags/" + r.version + "^{}", "refs/tags/" + r.version, "refs/heads/" + r.version}
	if r.version == "" {
		refs = []string{"HEAD"}
	}
	out, err := j.do(ctx, append([]string{"git", "ls-remote", "--", r.url}, refs...)...)
	if err != nil {
		return "", err
	}
	found := map[string]string{}
	for line := range strings.Lines(out) {
		if sha, ref, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok && commit().MatchString(sha) {
			found[ref] = sha
		}
	}
	for _, ref := range refs {
		if sha := found[ref]; sha != "" {
			return sha, nil
		}
	}
	return "", &schemas.Error{Code: schemas.CodeNotFound, Text: "the repository has no branch or tag " + refName(r), Hint: "a commit must be given with all of its 40 digits"}
}

// tree reads files of one commit, without checking it out.
type tree struct {
	ctx      context.Context
	j        *job
	dir, sha string
	top      []string
}

func (t tree) show(name string) (string, error) {
	return t.j.do(t.ctx, "git", "-C", t.dir, "show", t.sha+":"+name)
}

func (t tree) has(name string) (bool, error) {
	done, err := t.j.end(t.ctx, "git", "-C", t.dir, "cat-file", "-e", t.sha+":"+name)
	return done.Code == 0, err
}

var envLine = lazy.Regexp(`(?m)^#?\s*(?:export\s+)?([A-Z][A-Z0-9_]{2,63})=`)

// env finds names in the README's examples and in an example of an .env file; that they cannot be read is no harm.
func (t tree) env() []string {
	var text strings.Builder
	for _, name := range []string{"README.md", "readme.md", ".env.example", ".env.sample"} {
		if !slices.Contains(t.top, name) {
			continue
		}
		if done, err := t.j.end(t.ctx, "git", "-C", t.dir, "show", t.sha+":"+name); err == nil && done.Code == 0 {
			if strings.HasPrefix(name, ".env") {
				for _, m := range envLine().FindAllStringSubmatch(done.Stdout, 32) {
					text.WriteString("env: {" + m[1] + ": x}\n")
				}
				continue
			}
			text.WriteString(done.Stdout + "\n")
		}
	}
	return documented(text.String())
}

func (t tree) node(p *schemas.PackagePlan) error {
	raw, err := t.show("package.json")
	if err != nil {
		return err
	}
	var pkg struct {
		Name    string
		Main    string
		Bin     json.RawMessage
		License json.RawMessage
		Scripts map[string]string
	}
	if json.Unmarshal([]byte(raw), &pkg) != nil {
		return failed("its package.json cannot be read")
	}
	bare := path.Base("/" + pkg.Name)
	bins := binsOf(pkg.Bin, bare)
	if main, ok := inside(pkg.Main); ok && len(bins) == 0 {
		bins = map[string]string{bare: main}
	}
	program, script, err := "", own(p), error(nil)
	if len(p.Spec.Start) == 0 {
		if program, script, err = choose(p.Spec.Program, bare, bins); err != nil {
			return err
		}
	}
	built := true
	if script != "" && !strings.HasPrefix(script, "node_modules/") {
		if built, err = t.has(script); err != nil {
			return err
		}
	}
	node, err := absolute(t.ctx, t.j, "node", "-p", "process.execPath")
	if err != nil {
		return err
	}
	p.Spec.Program, p.License, p.Must = program, words(pkg.License), !built
	p.Scripts = scriptsOf(pkg.Scripts, "preinstall", "install", "postinstall", "prepare")
	build := !built && pkg.Scripts["prepare"] == "" && pkg.Scripts["build"] != ""
	if build {
		p.Scripts = append(p.Scripts, scriptsOf(pkg.Scripts, "build")...)
	}
	if slices.Contains(t.top, ".npmrc") { // it can name programs that npm runs
		p.Scripts, p.Must = append(p.Scripts, ".npmrc: its own settings for npm"), true
	}
	if !built && len(p.Scripts) == 0 {
		return invalid("its program "+script+" is not in the repository, and nothing there says how it is built", "")
	}
	verb := "ci"
	if !slices.Contains(t.top, "package-lock.json") && !slices.Contains(t.top, "npm-shrinkwrap.json") {
		verb = "install"
		p.Notes = append(p.Notes, schemas.Note{Kind: schemas.NoteUnpinned, Server: p.Spec.Name, Text: "the repository has no lock file: what it depends on is chosen while installing"})
	}
	install := []string{"npm", verb, "--prefix", p.Folder, ignoring(p.Spec.Scripts), "--no-audit", "--no-fund"}
	if !p.Spec.Scripts {
		install = append(install, "--omit=dev")
	}
	p.Commands = append(p.Commands, install)
	if build {
		p.Commands = append(p.Commands, []string{"npm", "run", "build", "--prefix", p.Folder})
	}
	main := path.Join(p.Folder, script)
	if len(p.Spec.Start) == 0 {
		p.Server.Command, p.Server.Args = node, []string{main}
	}
	workOf(p).check(there(main))
	return nil
}

// plain is a repository that is started as it lies there.
func (t tree) plain(p *schemas.PackagePlan) error {
	file := own(p)
	if file == "" {
		return nil
	}
	found, err := t.has(file)
	if err != nil {
		return err
	}
	if !found {
		return invalid(quoted(file)+" is not in the repository", "name a file as it stands there")
	}
	return nil
}

func (t tree) python(p *schemas.PackagePlan) error {
	raw, err := t.show("pyproject.toml")
	if err != nil {
		return err
	}
	var pkg struct {
		Project struct {
			Name    string
			License any
			Scripts map[string]string
		}
		Build struct {
			Backend string `toml:"build-backend"`
		} `toml:"build-system"`
	}
	if toml.Unmarshal([]byte(raw), &pkg) != nil {
		return failed("its pyproject.toml cannot be read")
	}
	python, err := absolute(t.ctx, t.j, "python3", "-c", "import sys;print(sys.executable)")
	if err != nil {
		return err
	}
	venv := *p
	venv.Folder = path.Join(p.Folder, ".venv")
	started := path.Join(p.Folder, own(p))
	if len(p.Spec.Start) == 0 {
		if err := pythonProgram(&venv, pkg.Project.Name, pkg.Project.Scripts, nil); err != nil {
			return err
		}
		p.Spec.Program, p.Server.Command, started = venv.Spec.Program, venv.Server.Command, venv.Server.Command
	}
	backend := pkg.Build.Backend
	if backend == "" {
		backend = "setuptools"
	}
	p.Scripts, p.Must = []string{"build: " + brief(backend)}, true
	if l, ok := pkg.Project.License.(string); ok {
		p.License = brief(l)
	}
	p.Notes = append(p.Notes, schemas.Note{Kind: schemas.NoteUnpinned, Server: p.Spec.Name, Text: "what it depends on is chosen while installing"})
	p.Commands = append(p.Commands, []string{python, "-m", "venv", "--without-pip", venv.Folder},
		[]string{python, "-m", "pip", "--python", path.Join(venv.Folder, "bin/python"), "install", "--no-input", "--disable-pip-version-check", "--", p.Folder})
	workOf(p).check(there(started))
	return nil
}
