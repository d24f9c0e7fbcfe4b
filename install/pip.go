package install

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"bobbin/internal/lazy"
	"bobbin/schemas"
)

// pipFound is what pipProgram tells of a dry run and of the package's wheel.
type pipFound struct {
	Name, Version, SHA256 string
	License, Readme       string
	Yanked                bool
	Items                 [][3]string       // name, version, sha256 of every wheel
	From                  []string          // their addresses
	Scripts               map[string]string // console scripts
	Modules               []string          // that have a __main__
}

// pipProgram reads, without running anything of the package, the report of a dry run (pip's installation report, version 1)
// and the wheel's entry points. Its argument is the folder with both.
const pipProgram = `import configparser,glob,hashlib,json,sys,zipfile
d=sys.argv[1]
r=json.load(open(d+"/report.json",encoding="utf-8"))
q=[i for i in r["install"] if i.get("requested")][0]
m=q["metadata"]
f=glob.glob(d+"/*.whl")[0]
z=zipfile.ZipFile(f)
c=configparser.RawConfigParser(delimiters=("=",))
c.optionxform=str
for n in z.namelist():
    if n.count("/")==1 and n.endswith(".dist-info/entry_points.txt"): c.read_string(z.read(n).decode("utf-8"))
h=lambda i:(i["download_info"].get("archive_info",{}).get("hashes") or {}).get("sha256","")
json.dump({"name":m["name"],"version":m["version"],"sha256":hashlib.sha256(open(f,"rb").read()).hexdigest(),
"license":str(m.get("license_expression") or m.get("license") or ""),"readme":str(m.get("description") or "")[:20000],"yanked":bool(q.get("is_yanked")),
"items":[[i["metadata"]["name"],i["metadata"]["version"],h(i)] for i in r["install"]],
"from":[i["download_info"]["url"] for i in r["install"]],
"scripts":dict(c["console_scripts"]) if c.has_section("console_scripts") else {},
"modules":sorted(n.split("/")[0] for n in z.namelist() if n.count("/")==1 and n.endswith("/__main__.py"))},sys.stdout)
`

// nameProgram tells which version the dry run chose.
const nameProgram = `import json,sys
m=[i for i in json.load(open(sys.argv[1]+"/report.json",encoding="utf-8"))["install"] if i.get("requested")][0]["metadata"]
print(m["name"]+"=="+m["version"])
`

var (
	sha256Form = lazy.Regexp(`\A[0-9a-f]{64}\z`)
	wordForm   = lazy.Regexp(`\A[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}\z`)
)

func (in *Installer) pip(ctx context.Context, j *job, r request, p *schemas.PackagePlan) error {
	python, err := absolute(ctx, j, "python3", "-c", "import sys;print(sys.executable)")
	if err != nil {
		return err
	}
	var f pipFound
	err = in.staged(ctx, j, func(dir string) error {
		f, err = dryRun(ctx, j, python, dir, r)
		return err
	})
	if err != nil {
		return err
	}
	p.Package, p.Version, p.Integrity, p.License, p.Packages = f.Name, f.Version, "sha256:"+f.SHA256, brief(f.License), len(f.Items)
	p.Env = documented(f.Readme)
	p.Notes = append(p.Notes, from(p.Spec.Name, "pip", f.From...)...)
	if f.Yanked {
		p.Deprecated = "this version was yanked"
	}
	if r.version == "" {
		p.Notes = append(p.Notes, schemas.Note{Kind: schemas.NoteOther, Server: p.Spec.Name, Text: "no version was asked for; version " + f.Version + " is what Confirm installs and keeps"})
	}
	started := path.Join(p.Folder, "bin/python")
	if len(p.Spec.Start) == 0 {
		if err := pythonProgram(p, f.Name, f.Scripts, f.Modules); err != nil {
			return err
		}
		started = p.Server.Command
	} else if file := own(p); file != "" {
		started = path.Join(p.Folder, file)
	}
	wheels, err := requirements(f.Items)
	if err != nil {
		return err
	}
	workOf(p).files = []file{{"requirements.txt", wheels}}
	p.Commands = append(p.Commands, []string{python, "-m", "venv", "--without-pip", p.Folder},
		[]string{python, "-m", "pip", "--python", path.Join(p.Folder, "bin/python"), "install", "--require-hashes", "--no-deps", "--only-binary", ":all:",
			"--no-input", "--disable-pip-version-check", "-r", path.Join(p.Folder, "requirements.txt")})
	workOf(p).checks = []check{there(started)}
	return nil
}

// staged gives f a folder of its own and removes it afterwards, however f ended.
func (in *Installer) staged(ctx context.Context, j *job, f func(dir string) error) error {
	dir := path.Join(in.base, ".resolve-"+rand.Text())
	if _, err := j.do(ctx, "mkdir", dir); err != nil {
		return err
	}
	defer func() {
		tidy, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
		defer cancel()
		_, _ = j.end(tidy, "rm", "-rf", dir) // a folder left over is hidden, small and harmless
	}()
	return f(dir)
}

// dryRun lets pip choose versions. Wheels alone: to look at a source package, pip would run it.
func dryRun(ctx context.Context, j *job, python, dir string, r request) (pipFound, error) {
	var f pipFound
	what := r.name + r.extras
	if r.version != "" {
		what += "==" + r.version
	}
	if done, err := j.end(ctx, python, "-m", "pip", "--version"); err != nil {
		return f, err
	} else if done.Code != 0 {
		return f, &schemas.Error{Code: schemas.CodeMissing, Text: "pip is not in this sandbox", Hint: "the operator can choose an image that has it"}
	}
	done, err := j.end(ctx, python, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--only-binary", ":all:", "--no-input", "--disable-pip-version-check", "--quiet",
		"--report", dir+"/report.json", "--", what)
	if err != nil {
		return f, err
	}
	if done.Code != 0 {
		// To pip, an index that it does not reach is one without the package.
		if strings.Contains(done.Stderr, "Retrying (") {
			return f, &schemas.Error{Code: schemas.CodeFailed, Text: "pip does not reach the index of packages: " + unreached(done.Stderr),
				Hint: "`/mcp policy show` lists what sandboxes may reach; the operator allows a host of the own network with --allow-internal"}
		}
		if strings.Contains(done.Stderr, "No matching distribution found for "+r.name) {
			return f, &schemas.Error{Code: schemas.CodeNotFound, Text: "pip finds no wheel of " + what, Hint: "check its name and version; packages that must be built first are not installed"}
		}
		return f, failure([]string{"pip"}, done)
	}
	exact, err := j.do(ctx, python, "-c", nameProgram, dir)
	if err != nil {
		return f, err
	}
	m := pipForm().FindStringSubmatch(strings.TrimSpace(exact))
	if m == nil || m[2] != "" || m[3] == "" || normal(m[1]) != normal(r.name) {
		return f, failed("pip's answer about " + what + " cannot be read")
	}
	if _, err := j.do(ctx, python, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-input", "--disable-pip-version-check", "--quiet",
		"--dest", dir, "--", m[0]); err != nil {
		return f, err
	}
	out, err := j.do(ctx, python, "-c", pipProgram, dir)
	if err != nil {
		return f, err
	}
	return readPip(out, r)
}

// unreached gives the innermost reason of pip's first warning.
func unreached(stderr string) string {
	_, line, _ := strings.Cut(stderr, "Retrying (")
	line, _, _ = strings.Cut(line, "\n")
	if i := strings.LastIndexByte(line, '('); i >= 0 {
		line = line[i+1:]
	}
	line, _, _ = strings.Cut(line, ")")
	return brief(strings.Trim(line, "'\" "))
}

// requirements writes every wheel with its hash, for pip's hash-checking mode.
func requirements(items [][3]string) ([]byte, error) {
	var b strings.Builder
	for _, i := range items {
		if m := pipForm().FindStringSubmatch(i[0] + "==" + i[1]); m == nil || m[2] != "" || !sha256Form().MatchString(i[2]) {
			return nil, failed("no hash is known for " + schemas.Clean(i[0], true) + ", so it cannot be pinned")
		}
		fmt.Fprintf(&b, "%s==%s --hash=sha256:%s\n", i[0], i[1], i[2])
	}
	return []byte(b.String()), nil
}

// pythonProgram chooses what to start: a console script, else a module that can be run. The environment is the plan's folder.
func pythonProgram(p *schemas.PackagePlan, name string, scripts map[string]string, modules []string) error {
	bin := path.Join(p.Folder, "bin")
	known := map[string]string{}
	for s := range scripts {
		if wordForm().MatchString(s) {
			known[s] = s
		}
	}
	if len(known) == 0 && len(modules) == 1 && wordForm().MatchString(modules[0]) && p.Spec.Program == "" {
		p.Server.Command, p.Server.Args = path.Join(bin, "python"), []string{"-m", modules[0]}
		return nil
	}
	program, _, err := choose(p.Spec.Program, name, known)
	p.Spec.Program, p.Server.Command = program, path.Join(bin, program)
	return err
}

func there(file string) check {
	return check{args: []string{"ls", "-d", file}, read: func(string) ([]schemas.Note, error) { return nil, nil }}
}

func readPip(out string, r request) (pipFound, error) {
	var f pipFound
	if json.Unmarshal([]byte(out), &f) != nil || normal(f.Name) != normal(r.name) || len(f.Items) == 0 || !sha256Form().MatchString(f.SHA256) {
		return f, failed("pip's answer about " + r.name + " cannot be read")
	}
	for _, i := range f.Items {
		if normal(i[0]) == normal(r.name) && i[1] == f.Version && i[2] == f.SHA256 {
			return f, nil
		}
	}
	return f, failed("pip gave another file of " + r.name + " than it named")
}

var separators = lazy.Regexp(`[-_.]+`)

// normal is a project's name in the form of PEP 503.
func normal(name string) string { return strings.ToLower(separators().ReplaceAllString(name, "-")) }
