package install

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"bobbin/internal/lazy"
	"bobbin/schemas"
)

const (
	waitingName = ".bundles" // folder of bundles that wait for a person's yes
	maxWaiting  = 4          // of one member; a further one takes their place
)

// Bundle finds out what an uploaded .mcpb or .dxt file would install and start. name is the server's; "" = taken from the
// manifest. Everything in the file is read under limits and nothing of it runs. What is needed of it waits in the sandbox for
// Install, so that no plan holds it in memory; the oldest give way when more than a few wait. Errors: CodeInvalid and
// CodeTooLarge (the file), schemas.Problems (its manifest, by field), CodeMissing (what it needs is not in the sandbox), and
// what the runner answers.
func (in *Installer) Bundle(ctx context.Context, thread schemas.ThreadID, member schemas.MemberID, name string, data []byte) (schemas.PackagePlan, error) {
	a, err := unpackable(data)
	if err != nil {
		return schemas.PackagePlan{}, err
	}
	m, err := readManifest(a.manifest)
	if err != nil {
		return schemas.PackagePlan{}, err
	}
	if name == "" {
		name = bundleName(m.name)
	}
	if !schemas.ValidName(name) {
		return schemas.PackagePlan{}, invalid(fmt.Sprintf("%q cannot be a server's name", schemas.Clean(name, true)), "letters, digits, dot, dash and underscore, 48 at most")
	}
	j := &job{in: in, who: who{thread, member}, limit: resolveTime}
	b := &bundling{in: in, j: j, archived: a, manifest: m}
	b.plan = schemas.PackagePlan{Spec: schemas.Package{Kind: schemas.Bundle, Spec: brief(m.name), Name: name}, Package: brief(m.name), Version: brief(m.version),
		Integrity: "sha256:" + a.sum, License: brief(m.license), Server: schemas.Server{Name: name, Type: schemas.Stdio}}
	if b.plan.Folder, err = in.free(ctx, j, name); err != nil {
		return schemas.PackagePlan{}, err
	}
	b.plan.Server.Cwd = b.plan.Folder
	b.system = systemOf(ctx, j)
	if err := b.build(ctx); err != nil {
		return schemas.PackagePlan{}, err
	}
	return b.plan, b.stage(ctx)
}

var notInName = lazy.Regexp(`[^A-Za-z0-9@/._-]+`)

// bundleName makes a server's name out of a manifest's, which may be any text.
func bundleName(s string) string {
	s = suggest(strings.Trim(notInName().ReplaceAllString(s, "-"), "-._/@"))
	if !schemas.ValidName(s) {
		return "bundle"
	}
	return s
}

// bundling is the making of one plan.
type bundling struct {
	in *Installer
	j  *job
	*archived
	*manifest
	system system
	plan   schemas.PackagePlan
	form
	run []string // files of the bundle that are started
}

func (b *bundling) note(kind schemas.NoteKind, format string, a ...any) {
	b.plan.Notes = append(b.plan.Notes, schemas.Note{Kind: kind, Server: b.plan.Spec.Name, Text: fmt.Sprintf(format, a...)})
}

func (b *bundling) rel(p string) (string, bool) {
	rest, ok := strings.CutPrefix(path.Clean(p), b.plan.Folder+"/")
	return rest, ok
}

// build fills the plan in: what starts, what is asked for, what a person should know.
func (b *bundling) build(ctx context.Context) error {
	options := map[string]option{}
	for _, o := range b.asked {
		options[o.key] = o
	}
	f := &filling{folder: b.plan.Folder, workspace: path.Dir(b.in.base), options: options, prefix: prefixOf(b.plan.Spec.Name)}
	started := start{}
	if b.start != nil {
		started = f.start(b.here())
	}
	var notes []schemas.Note
	b.plan.Inputs, b.plan.Optional, notes = f.inputs(b.plan.Spec.Name)
	b.problems = f.problems
	b.plan.Server.Args, b.plan.Server.Env = started.args, started.env
	if len(started.env) == 0 {
		b.plan.Server.Env = nil
	}
	var err error
	if b.kind == uvServer {
		err = b.uv(ctx, started)
	} else {
		err = b.command(ctx, started.command)
	}
	if err != nil {
		return err
	}
	b.mustHave()
	if len(b.problems) > 0 {
		return b.problems
	}
	b.plan.Notes = append(b.plan.Notes, notes...)
	for _, v := range f.unknown {
		b.note(schemas.NoteOther, "${%s} is no variable of bundles; it is left as it is", brief(v))
	}
	b.remarks()
	return nil
}

// here is the mcp_config for this system: an override takes the place of command, args and env, each as a whole.
func (b *bundling) here() start {
	s := *b.start
	o, ok := b.overrides[b.system.os]
	if !ok {
		return s
	}
	if o.command != "" {
		s.command = o.command
	}
	if o.args != nil {
		s.args = o.args
	}
	if o.env != nil {
		s.env = o.env
	}
	return s
}

const commandAt = "/server/mcp_config/command"

// command finds the program that starts: one of the bundle, or one of the sandbox.
func (b *bundling) command(ctx context.Context, c string) error {
	word := strings.TrimSuffix(c[strings.LastIndexAny(c, `/\`)+1:], ".exe")
	_, inside := b.rel(c)
	switch {
	case b.form.problems != nil:
		return nil // it may not be filled in
	case inside, c == word && b.has(c), strings.Contains(c, "/") && !path.IsAbs(c):
		return b.own(c)
	case c != word && !fetches(word) && !strings.HasPrefix(word, "node") && !strings.HasPrefix(word, "python"):
		b.wrong(commandAt, "a program of the bundle begins with ${__dirname}/", "%s is a path of its maker's own machine", quoted(c))
		return nil
	}
	var err error
	switch {
	case word == "node":
		b.plan.Server.Command, err = b.runtime(ctx, "node", []string{"node", "-p", "process.execPath"}, []string{"node", "-p", "process.versions.node"})
	case word == "py" || strings.HasPrefix(word, "python"):
		b.plan.Server.Command, err = b.runtime(ctx, "python", []string{"python3", "-c", "import sys;print(sys.executable)"},
			[]string{"python3", "-c", "import platform;print(platform.python_version())"})
	case fetches(word):
		b.plan.Server.Command = word
		b.note(schemas.NoteUnpinned, "it fetches its program with %s each time it starts, so what runs can change; the sha256 holds for the bundle alone", word)
	case slices.Contains([]string{"sh", "bash", "zsh", "dash"}, word):
		b.plan.Server.Command = word
		b.note(schemas.NoteRisk, "a line for a shell is run; read it before you confirm")
	default:
		b.plan.Server.Command = word
		b.note(schemas.NotePath, "%s must be in your sandbox; the bundle does not bring it", brief(word))
	}
	return err
}

// fetches reports whether a program downloads what it starts.
func fetches(word string) bool {
	return slices.Contains([]string{"npx", "bunx", "pnpx", "uvx", "pipx", "npm", "pnpm", "yarn"}, word)
}

// runtime asks where an interpreter lies and whether it is new enough.
func (b *bundling) runtime(ctx context.Context, name string, where, which []string) (string, error) {
	program, err := absolute(ctx, b.j, where...)
	if err != nil || b.runtimes[name] == "" {
		return program, err
	}
	version, err := b.j.do(ctx, which...)
	if err == nil && older(version, b.runtimes[name]) {
		b.note(schemas.NoteRisk, "it asks for %s %s; your sandbox has %s", name, brief(b.runtimes[name]), brief(strings.TrimSpace(version)))
	}
	return program, err
}

// own starts a program of the bundle, if it can run here.
func (b *bundling) own(c string) error {
	full := c
	if !path.IsAbs(c) {
		full = path.Join(b.plan.Folder, c)
	}
	rel, ok := b.rel(full)
	if !ok || !b.has(rel) {
		b.wrong(commandAt, "ask its maker for a whole bundle", "%s is not in the bundle", quoted(c))
		return nil
	}
	if made := programsIn(b.head(rel, headLen)); !b.system.fits(made) {
		return invalid(fmt.Sprintf("%s is a program for %s; your sandbox is %s", rel, listSystems(made), b.system), "look for the bundle that is made for "+b.system.String())
	}
	b.plan.Server.Command, b.run = full, append(b.run, rel)
	return nil
}

// uv starts a project whose dependencies are installed with it, from wheels alone, so that nothing is resolved when it starts.
func (b *bundling) uv(ctx context.Context, s start) error {
	if !b.has("pyproject.toml") {
		b.wrong("/server/type", "ask its maker for a whole bundle", "is uv, but there is no pyproject.toml in the bundle")
		return nil
	}
	if _, err := b.j.do(ctx, "uv", "--version"); err != nil {
		return err
	}
	sync := []string{"uv", "sync", "--directory", b.plan.Folder, "--no-dev", "--no-install-project", "--no-build", "--no-python-downloads"}
	if b.has("uv.lock") {
		sync = append(sync, "--locked")
	} else {
		b.note(schemas.NoteUnpinned, "its dependencies are not locked; what is newest is installed, and kept")
	}
	b.plan.Commands = append(b.plan.Commands, sync)
	script := path.Join(b.plan.Folder, b.entry)
	python := path.Join(b.plan.Folder, ".venv/bin/python")
	at := slices.IndexFunc(s.args, func(a string) bool { return path.Join(b.plan.Folder, a) == script || path.Clean(a) == script })
	switch {
	case b.start == nil:
		b.plan.Server.Command, b.plan.Server.Args = python, []string{script}
	case at >= 0 && path.Base(s.command) == "uv":
		b.plan.Server.Command, b.plan.Server.Args = python, append([]string{script}, s.args[at+1:]...)
	default:
		b.plan.Server.Command = s.command
		b.note(schemas.NoteRisk, "it is started by %s as its manifest says, which may fetch or build more each time", brief(s.command))
	}
	workOf(&b.plan).check(there(python))
	return nil
}

// mustHave holds that what the manifest names is in the bundle.
func (b *bundling) mustHave() {
	c := path.Base(b.plan.Server.Command)
	if !b.has(b.entry) && !fetches(c) {
		b.wrong("/server/entry_point", "ask its maker for a whole bundle", "%s is not in the bundle", quoted(b.entry))
		return
	}
	for i, a := range b.plan.Server.Args {
		if strings.HasPrefix(a, "-") {
			continue
		}
		if !path.IsAbs(a) {
			a = path.Join(b.plan.Folder, a)
		}
		if rel, ok := b.rel(a); ok && !b.has(rel) && b.kind != uvServer && !fetches(c) && slices.Contains([]string{".js", ".mjs", ".cjs", ".py"}, path.Ext(rel)) {
			b.wrong("/server/mcp_config/args/"+strconv.Itoa(i), "ask its maker for a whole bundle", "names %s, which is not in the bundle", quoted(rel))
		}
		return
	}
}

// remarks says what else a person should know.
func (b *bundling) remarks() {
	if len(b.platforms) > 0 && b.system.os != "" && !slices.Contains(b.platforms, b.system.os) {
		var names []system
		for _, p := range b.platforms {
			names = append(names, system{os: brief(p)})
		}
		b.note(schemas.NoteRisk, "its maker names %s alone; your sandbox is %s", listSystems(names), system{os: b.system.os})
	}
	if made := b.natives(); !b.system.fits(made) {
		b.note(schemas.NoteRisk, "its native parts are made for %s; they cannot load in your sandbox, which is %s", listSystems(made), b.system)
	}
	if len(b.tools) > 0 {
		names := strings.Join(b.tools[:min(len(b.tools), maxNamedTools)], ", ")
		if len(b.tools) > maxNamedTools || b.more {
			names += " and more"
		}
		b.note(schemas.NoteOther, "its manifest names the tools %s", names)
	}
	if b.signed {
		b.note(schemas.NoteOther, "it carries a signature, which is not checked here")
	}
	files := "files"
	if len(b.files) == 1 {
		files = "file"
	}
	b.note(schemas.NoteOther, "%d %s, %s unpacked", len(b.files), files, sizeText(b.size))
}

func sizeText(n int64) string {
	if n < 1<<20 {
		return strconv.FormatInt((n+1023)>>10, 10) + " KiB"
	}
	return strconv.FormatFloat(float64(n)/(1<<20), 'f', 1, 64) + " MiB"
}

// stage puts what is to be unpacked into the sandbox and completes the plan's commands.
func (b *bundling) stage(ctx context.Context) error {
	data, err := b.packed(b.run...)
	if err != nil {
		return err
	}
	folder, name := path.Join(b.in.base, waitingName), b.sum[:16]+".tgz"
	if done, err := b.j.end(ctx, "ls", "-1A", folder); err != nil {
		return err
	} else if done.Code == 0 && len(strings.Fields(done.Stdout)) >= maxWaiting {
		if _, err := b.j.do(ctx, "rm", "-rf", folder); err != nil {
			return err
		}
	}
	if err := b.in.write(ctx, b.j, b.in.base, file{path.Join(waitingName, name), data}); err != nil {
		return err
	}
	waiting := path.Join(folder, name)
	b.plan.Commands = slices.Concat([][]string{{"mkdir", b.plan.Folder}, {"tar", "-xzf", waiting, "-C", b.plan.Folder}}, b.plan.Commands, [][]string{{"rm", "-f", waiting}})
	w := workOf(&b.plan)
	for _, r := range append([]string{manifestAt}, b.run...) {
		w.check(there(path.Join(b.plan.Folder, r)))
	}
	return nil
}
