// Package install knows how a package becomes a local server inside a member's sandbox. It asks the package's own tools (npm,
// pip, git) what exactly would be installed, shows that as a Plan, carries out a Plan that a person confirmed, and gives the
// definition that starts what was installed, never "latest" again. Nothing of it runs outside the sandbox, and no shell runs
// at all.
package install

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"bobbin/internal/lazy"
	"bobbin/schemas"
)

const (
	resolveTime = 2 * time.Minute
	installTime = 10 * time.Minute
	cleanTime   = 30 * time.Second
	recordName  = ".bobbin-install.json"
	youngAge    = 7 * 24 * time.Hour
)

// runner runs one command in a member's sandbox. It may be called concurrently. A command that ends with another code than 0
// is no error.
type runner interface {
	Exec(ctx context.Context, e schemas.Exec) (schemas.Executed, error)
}

// files writes one file in a member's sandbox: name is slash-separated and relative to the absolute folder dir; folders
// between are made. The file belongs to the sandbox's user, mode 0644; one that stands there is replaced.
type files interface {
	Put(ctx context.Context, member schemas.MemberID, dir, name string, data []byte) error
}

// Options of an Installer.
type Options struct {
	Workspace string           // absolute, as a program in the sandbox sees it; "" = /workspace
	Now       func() time.Time // nil = time.Now
}

// Installer plans and installs. It keeps no state and may be used concurrently.
type Installer struct {
	run  runner
	put  files
	base string // the folder above all installed servers
	now  func() time.Time
}

// New makes an Installer that works through r and f.
func New(r runner, f files, o Options) *Installer {
	if r == nil || f == nil {
		panic("install: runner or files is nil")
	}
	if o.Workspace == "" {
		o.Workspace = "/workspace"
	}
	if !path.IsAbs(o.Workspace) {
		panic("install: the workspace is not absolute")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Installer{run: r, put: f, base: path.Join(o.Workspace, "external-mcp"), now: o.Now}
}

// who is the member in whose sandbox something happens, and the thread that it is for.
type who struct {
	thread schemas.ThreadID
	member schemas.MemberID
}

// work is what a plan carries along for Install; it is never written down.
type work struct {
	files  []file  // written between the first command and the second
	checks []check // read after the last command
}

// workOf gives a plan's work, and makes it if there is none yet.
func workOf(p *schemas.PackagePlan) *work {
	w, ok := p.Work.(*work)
	if !ok {
		w = &work{}
		p.Work = w
	}
	return w
}

func (w *work) check(c check) { w.checks = append(w.checks, c) }

type file struct {
	name string
	data []byte
}

// check is one command whose answer says whether what was installed is what was planned.
type check struct {
	args []string
	read func(out string) ([]schemas.Note, error)
}

// Resolve finds out what exactly spec would install. It runs read-only commands in the sandbox and leaves nothing behind.
// Errors: Problems-like CodeInvalid (the spec), CodeNotFound (no such package or version), CodeMissing (a tool is not in the
// sandbox), CodeFailed (a tool said no), and what the runner answers.
func (in *Installer) Resolve(ctx context.Context, thread schemas.ThreadID, member schemas.MemberID, spec schemas.Package) (schemas.PackagePlan, error) {
	req, err := parse(spec)
	if err != nil {
		return schemas.PackagePlan{}, err
	}
	if err := clean(spec.Args, spec.Program); err != nil {
		return schemas.PackagePlan{}, err
	}
	if err := startable(spec); err != nil {
		return schemas.PackagePlan{}, err
	}
	if spec.Name == "" {
		spec.Name = suggest(req.name)
	}
	if !schemas.ValidName(spec.Name) {
		return schemas.PackagePlan{}, invalid(fmt.Sprintf("%q cannot be a server's name", spec.Name), "letters, digits, dot, dash and underscore, 48 at most")
	}
	p := schemas.PackagePlan{Spec: spec, Server: schemas.Server{Name: spec.Name, Type: schemas.Stdio}}
	j := &job{in: in, who: who{thread, member}, limit: resolveTime}
	if p.Folder, err = in.free(ctx, j, spec.Name); err != nil {
		return schemas.PackagePlan{}, err
	}
	p.Server.Cwd = p.Folder
	p.Commands = [][]string{{"mkdir", p.Folder}}
	if err := in.start(&p); err != nil {
		return schemas.PackagePlan{}, err
	}
	switch spec.Kind {
	case schemas.NPM:
		err = in.npm(ctx, j, req, &p)
	case schemas.Pip:
		err = in.pip(ctx, j, req, &p)
	default:
		err = in.git(ctx, j, req, &p)
	}
	if err != nil {
		return schemas.PackagePlan{}, err
	}
	p.Server.Args = append(p.Server.Args, spec.Args...)
	in.remark(&p)
	return p, nil
}

// remark adds the notes that hold for every kind.
func (in *Installer) remark(p *schemas.PackagePlan) {
	note := func(k schemas.NoteKind, format string, a ...any) {
		p.Notes = append(p.Notes, schemas.Note{Kind: k, Server: p.Spec.Name, Text: fmt.Sprintf(format, a...)})
	}
	if p.Deprecated != "" {
		note(schemas.NoteRisk, "deprecated by its authors: %s", p.Deprecated)
	}
	if age := in.now().Sub(p.Published); !p.Published.IsZero() && age < youngAge {
		note(schemas.NoteRisk, "version %s is only %s old; stolen packages are mostly found within days", p.Version, ageText(age))
	}
	switch {
	case len(p.Scripts) == 0:
	case p.Spec.Scripts:
		note(schemas.NoteRisk, "its own scripts run while it is installed: %s", strings.Join(p.Scripts, "; "))
	case p.Must:
		note(schemas.NoteRisk, "it cannot be installed without its own scripts, which were not allowed: %s", strings.Join(p.Scripts, "; "))
	default:
		note(schemas.NoteOther, "its own install scripts are left out: %s", strings.Join(p.Scripts, "; "))
	}
}

func ageText(d time.Duration) string {
	if h := int(d.Hours()); h < 48 {
		return strconv.Itoa(max(h, 0)) + " h"
	}
	return strconv.Itoa(int(d.Hours()/24)) + " days"
}

// free finds a folder for a server that nobody uses, and makes the folder above.
func (in *Installer) free(ctx context.Context, j *job, name string) (string, error) {
	if _, err := j.do(ctx, "mkdir", "-p", in.base); err != nil {
		return "", err
	}
	out, err := j.do(ctx, "ls", "-1A", in.base)
	if err != nil {
		return "", err
	}
	taken := strings.Split(out, "\n")
	slug := schemas.Slug(name)
	for n := 1; n < 1000; n++ {
		try := slug
		if n > 1 {
			try += "-" + strconv.Itoa(n)
		}
		if !slices.Contains(taken, try) {
			return path.Join(in.base, try), nil
		}
	}
	return "", &schemas.Error{Code: schemas.CodeTooLarge, Text: "too many servers are installed under " + slug, Hint: "remove those that are not used"}
}

// Install carries out a plan that was confirmed. progress, if not nil, gets each line of output, cleaned, one at a time, and
// never after Install returned. When it fails the folder is removed and the log is still given. Errors: CodeAsk (the plan
// needs scripts that were not allowed), CodeConflict (the folder was taken meanwhile), CodeFailed with the exit code and the
// end of what the command said, and what the runner answers.
func (in *Installer) Install(ctx context.Context, thread schemas.ThreadID, member schemas.MemberID, p schemas.PackagePlan, progress func(string)) (schemas.PackageLog, error) {
	if p.Must && !p.Spec.Scripts {
		return schemas.PackageLog{}, &schemas.Error{Code: schemas.CodeAsk, Text: p.Package + " cannot be installed without its own scripts: " + strings.Join(p.Scripts, "; "),
			Hint: "allow scripts for this installation; they run in your sandbox alone"}
	}
	_, ours := p.Work.(*work)
	if folder, ok := in.Folder(p.Server); !ours || !ok || folder != p.Folder || len(p.Commands) == 0 || !slices.Equal(p.Commands[0], []string{"mkdir", folder}) {
		return schemas.PackageLog{}, invalid("this plan was not made by Resolve", "ask for the installation again")
	}
	w := who{thread, member}
	j := &job{in: in, who: w, limit: installTime, dir: p.Folder, progress: progress, keep: true}
	notes, err := in.carryOut(ctx, j, p)
	log := schemas.PackageLog{Text: j.text(), Notes: append(slices.Clone(p.Notes), notes...)}
	if err == nil {
		log.Server = p.Server
		return log, nil
	}
	if j.claimed { // a cancelled installation is tidied up, too
		tidy, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
		defer cancel()
		if _, gone := (&job{in: in, who: w, limit: cleanTime}).do(tidy, "rm", "-rf", p.Folder); gone != nil {
			log.Notes = append(log.Notes, schemas.Note{Kind: schemas.NoteOther, Server: p.Spec.Name, Text: "what was left in " + p.Folder + " could not be removed"})
		}
	}
	return log, err
}

func (in *Installer) carryOut(ctx context.Context, j *job, p schemas.PackagePlan) ([]schemas.Note, error) {
	w := workOf(&p)
	claim := &job{in: in, who: j.who, limit: cleanTime}
	if _, err := claim.do(ctx, p.Commands[0]...); err != nil {
		if schemas.CodeOf(err) == schemas.CodeFailed && claim.ended > 0 {
			return nil, &schemas.Error{Code: schemas.CodeConflict, Text: p.Folder + " was taken meanwhile", Hint: "ask for the installation again", Err: err}
		}
		return nil, err
	}
	j.claimed = true
	for _, f := range w.files {
		if err := in.write(ctx, j, p.Folder, f); err != nil {
			return nil, err
		}
	}
	for _, args := range p.Commands[1:] {
		j.say("$ " + Shown(args))
		if _, err := j.do(ctx, args...); err != nil {
			return nil, err
		}
	}
	var notes []schemas.Note
	for _, c := range w.checks {
		quiet := &job{in: in, who: j.who, limit: resolveTime, dir: p.Folder}
		out, err := quiet.do(ctx, c.args...)
		if err != nil {
			return nil, err
		}
		more, err := c.read(out)
		if err != nil {
			return nil, err
		}
		notes = append(notes, more...)
	}
	return notes, in.write(ctx, j, p.Folder, recordOf(p))
}

func (in *Installer) write(ctx context.Context, j *job, dir string, f file) error {
	if err := in.put.Put(ctx, j.who.member, dir, f.name, f.data); err != nil {
		if e, ok := errors.AsType[*schemas.Error](err); ok {
			return e
		}
		return &schemas.Error{Code: schemas.CodeFailed, Text: "cannot write " + path.Join(dir, f.name) + " in the sandbox", Err: err}
	}
	return nil
}

var segment = lazy.Regexp(`\A[A-Za-z0-9][A-Za-z0-9_-]{0,63}\z`)

// Folder gives the folder that a definition's program was installed in; ok is false for one that Install did not give.
func (in *Installer) Folder(s schemas.Server) (folder string, ok bool) {
	for _, t := range append([]string{s.Cwd, s.Command}, s.Args...) {
		rest, found := strings.CutPrefix(t, in.base+"/")
		if name, _, _ := strings.Cut(rest, "/"); found && segment().MatchString(name) {
			return path.Join(in.base, name), true
		}
	}
	return "", false
}

// Uninstall removes what was installed for a definition. The server must have been stopped. Another definition that starts
// from the same folder no longer works afterwards.
func (in *Installer) Uninstall(ctx context.Context, thread schemas.ThreadID, member schemas.MemberID, s schemas.Server) error {
	folder, ok := in.Folder(s)
	if !ok {
		return notInstalled(s.Name)
	}
	_, err := (&job{in: in, who: who{thread, member}, limit: cleanTime}).do(ctx, "rm", "-rf", folder)
	return err
}

func notInstalled(name string) error {
	return &schemas.Error{Code: schemas.CodeNotFound, Text: fmt.Sprintf("%s was not installed by /mcp install", name), Hint: "/mcp install npm|pip|git SPEC"}
}

func invalid(text, hint string) error {
	return &schemas.Error{Code: schemas.CodeInvalid, Text: text, Hint: hint}
}

func failed(text string) error { return &schemas.Error{Code: schemas.CodeFailed, Text: text} }
