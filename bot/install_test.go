package bot_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"bobbin/bot"
	"bobbin/schemas"
)

// store is an installer in memory. It is strict: what is installed must be a plan of its own that a record of a yes went ahead of,
// and what is removed must be there.
type store struct {
	w        *world
	t        *testing.T
	mu       sync.Mutex
	asked    []schemas.Package
	plans    map[string]schemas.PackagePlan // by folder
	folders  map[string]schemas.MemberID    // what is installed
	next     schemas.PackagePlan            // what Resolve gives, as far as it is set
	version  string
	err      map[string]error
	install  func(ctx context.Context, progress func(string)) error
	other    bool // what is installed starts otherwise than planned
	upgraded []string
}

func newStore(t *testing.T) (*world, *store) {
	s := &store{t: t, plans: map[string]schemas.PackagePlan{}, folders: map[string]schemas.MemberID{}, version: "1.0.0", err: map[string]error{}}
	s.w = newWorld(t, func(o *bot.Options) { o.Install = s })
	return s.w, s
}

func (s *store) Resolve(_ context.Context, id schemas.ThreadID, m schemas.MemberID, p schemas.Package) (schemas.PackagePlan, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, p)
	if err := s.err["Resolve"]; err != nil {
		return schemas.PackagePlan{}, err
	}
	if p.Name == "" {
		p.Name = "weather"
	}
	folder := "/workspace/external-mcp/" + p.Name
	for n := 2; s.folders[folder] != ""; n++ {
		folder = fmt.Sprintf("/workspace/external-mcp/%s-%d", p.Name, n)
	}
	plan := s.next
	plan.Spec, plan.Package, plan.Version, plan.Integrity, plan.Folder = p, p.Spec, s.version, "sha512-"+s.version, folder
	plan.Commands = [][]string{{"mkdir", folder}, {"npm", "install", p.Spec}}
	plan.Server = schemas.Server{Name: p.Name, Type: schemas.Stdio, Command: "/usr/bin/node", Args: append([]string{folder + "/index.js"}, p.Args...), Cwd: folder}
	s.plans[folder] = plan
	return plan, nil
}

func (s *store) Install(ctx context.Context, id schemas.ThreadID, m schemas.MemberID, p schemas.PackagePlan, progress func(string)) (schemas.PackageLog, error) {
	s.mu.Lock()
	made, taken := s.plans[p.Folder], s.folders[p.Folder]
	if !made.Server.Equal(p.Server) && len(s.upgraded) == 0 || id != thread {
		s.t.Errorf("no plan of mine: %+v", p)
	}
	if es := s.w.records; len(es) == 0 || es[len(es)-1].Event != schemas.EventApprove {
		s.t.Error("installed without a record of a yes")
	}
	if p.Must && !p.Spec.Scripts {
		s.t.Error("installed without its scripts")
	}
	s.mu.Unlock()
	if taken != "" {
		return schemas.PackageLog{}, &schemas.Error{Code: schemas.CodeConflict, Text: p.Folder + " was taken meanwhile"}
	}
	log := schemas.PackageLog{Text: "$ npm install\nadded 2 packages\n", Notes: append(slices.Clone(p.Notes), schemas.Note{Kind: schemas.NoteOther, Text: "2 packages installed"})}
	if s.install != nil {
		if err := s.install(ctx, progress); err != nil {
			return log, err
		}
	}
	if err := s.err["Install"]; err != nil {
		return log, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.folders[p.Folder] = m
	if log.Server = p.Server; s.other {
		log.Server.Command = "/bin/sh"
	}
	return log, nil
}

func (s *store) Uninstall(ctx context.Context, id schemas.ThreadID, m schemas.MemberID, x schemas.Server) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, ok := s.Folder(x)
	if !ok || s.folders[f] != m || ctx.Err() != nil {
		s.t.Errorf("nothing of %s to remove in %q: %v", m, f, ctx.Err())
	}
	delete(s.folders, f)
	return s.err["Uninstall"]
}

func (s *store) Upgrade(ctx context.Context, id schemas.ThreadID, m schemas.MemberID, x schemas.Server, version string) (schemas.PackageUpgrade, error) {
	s.upgraded = append(s.upgraded, version)
	p, err := s.Resolve(ctx, id, m, schemas.Package{Kind: schemas.NPM, Spec: "weather", Name: x.Name})
	p.Server.Env = x.Env
	return schemas.PackageUpgrade{From: schemas.PackageRecord{Kind: schemas.NPM, Version: "1.0.0"}, Plan: p, Same: p.Version == "1.0.0",
		NewEnv: []string{"NEW_KEY"}, NewScripts: []string{"postinstall: node x.js"}}, err
}

func (s *store) Folder(x schemas.Server) (string, bool) {
	return x.Cwd, strings.HasPrefix(x.Cwd, "/workspace/external-mcp/")
}

// left fails unless exactly these folders are installed and these servers stored.
func (s *store) left(folders, servers string) {
	s.t.Helper()
	var fs, ns []string
	for f := range s.folders {
		fs = append(fs, strings.TrimPrefix(f, "/workspace/external-mcp/"))
	}
	slices.Sort(fs)
	for _, e := range s.w.cfg.Entries {
		ns = append(ns, e.Name)
	}
	if strings.Join(fs, " ") != folders || strings.Join(ns, " ") != servers {
		s.t.Errorf("folders %q, servers %q; want %q, %q", fs, ns, folders, servers)
	}
}

func TestInstall_CardThenServer(t *testing.T) {
	w, s := newStore(t)
	s.next = schemas.PackagePlan{License: "MIT", Published: w.now.Add(-time.Hour), Packages: 24, Env: []string{"ACME_KEY", "LOG_LEVEL"},
		Notes: []schemas.Note{{Kind: schemas.NoteRisk, Server: "files", Text: "version 1.0.0 is only 1 h old"}}}
	var told []string
	card := w.do(bot.Request{Caller: alice(), Text: `/mcp install npm @acme/files@latest name:files --root "/my files"`, Progress: func(l string) { told = append(told, l) }})
	want(t, card, "1 added: files · asked by you", "package: @acme/files@latest (npm)", "version: 1.0.0 (published 2026-11-20)", "integrity: sha512-1.0.0", "license: MIT", "packages: 24",
		"contacts: npm's package registry", "documents: ACME_KEY, LOG_LEVEL", "runs: /usr/bin/node /workspace/external-mcp/files/index.js --root '/my files'", "folder: /workspace/external-mcp/files",
		"needs: ACME_KEY (asked for after Confirm)", "where: this machine", "reach: ", "shared: everyone in this thread", "risk: files: version 1.0.0 is only 1 h old", "Confirm only if you trust @acme/files@latest")
	if !slices.Equal(told, []string{"looking at npm @acme/files@latest …"}) || w.touched > 0 {
		t.Errorf("%q, touched %d", told, w.touched)
	}
	if p := s.asked[0]; p.Kind != schemas.NPM || p.Name != "files" || !slices.Equal(p.Args, []string{"--root", "/my files"}) {
		t.Errorf("%+v", p)
	}
	s.left("", "")
	want(t, w.press(alice(), card, "Show everything"), "npm install @acme/files@latest", "approval")
	wantCode(t, w.press(mallory(), card, "Confirm"), schemas.CodeDenied)
	wantCode(t, w.press(guest(), card, "Confirm"), schemas.CodeDenied)
	s.left("", "")
	r := w.press(alice(), card, "Confirm")
	want(t, r, "files is installed: npm @acme/files@latest 1.0.0", "2 packages installed", "files needs ACME_KEY", "Give ACME_KEY", "file files-install.log.txt", "added 2 packages")
	s.left("files", "files")
	e, _ := w.cfg.Find("files")
	if e.Owner != "alice" || e.Pending() || e.Env["ACME_KEY"] != "${input:ACME_KEY}" || len(e.Env) != 1 {
		t.Errorf("%+v", e)
	}
	form := w.press(alice(), r, "Give")
	want(t, w.fill(alice(), form, map[string]string{"ACME_KEY": canary}), "files is ready")
	want(t, w.say(alice(), "/mcp install npm files name:files"), "there is a server files here already", "/mcp install upgrade files", "name:files-2")
	wantCode(t, w.press(alice(), card, "Confirm"), schemas.CodeExpired)
}

func TestInstall_ValuesBeforeConfirm(t *testing.T) {
	w, s := newStore(t)
	s.next.Env = []string{"ACME_KEY", "LOG_LEVEL", "PROXY_TOKEN"}
	card := w.say(alice(), "/mcp install pip weather")
	want(t, card, "needs: ACME_KEY", "needs: PROXY_TOKEN")
	wantCode(t, w.press(boss(), card, "Give values"), schemas.CodeDenied)
	form := w.press(alice(), card, "Give values")
	if !form.Private {
		t.Error("everybody sees the form")
	}
	again := w.fill(alice(), form, map[string]string{"ACME_KEY": canary, "LOG_LEVEL": "debug"})
	want(t, again, "secrets: ACME_KEY (moved to your vault", "secrets: LOG_LEVEL")
	wantNot(t, again, canary, "needs")
	wantCode(t, w.press(alice(), card, "Confirm"), schemas.CodeExpired)
	want(t, w.press(alice(), again, "Confirm"), "weather is ready")
	e, _ := w.cfg.Find("weather")
	if len(e.Env) != 2 || len(w.vault) != 2 {
		t.Errorf("%v %v", e.Env, w.vault)
	}
	for _, r := range w.replies {
		wantNot(t, r, canary)
	}
}

// Whatever fails, neither a folder nor an entry nor a value stays, and the log is there.
func TestInstall_FailsWhole(t *testing.T) {
	npm := &schemas.Error{Code: schemas.CodeFailed, Text: "npm ended with exit code 1: ENOTFOUND", Hint: "the log has the rest"}
	for name, c := range map[string]struct {
		set  func(*world, *store)
		want string
	}{
		"npm says no":        {func(_ *world, s *store) { s.err["Install"] = npm }, "exit code 1: ENOTFOUND"},
		"something else":     {func(_ *world, s *store) { s.other = true }, "starts otherwise than the card showed"},
		"not stored":         {func(w *world, _ *store) { w.failWith["Commit"] = errors.New("disk full") }, "something went wrong on my side"},
		"always stale":       {func(w *world, _ *store) { w.failWith["Commit"] = &schemas.Error{Code: schemas.CodeConflict} }, "the config changes all the time"},
		"vault full":         {func(w *world, _ *store) { w.failWith["Put"] = errors.New("disk full") }, "something went wrong on my side"},
		"taken meanwhile":    {func(w *world, s *store) { s.install = other(w, schemas.Server{Name: "weather", Command: "x"}) }, "weather changed here meanwhile"},
		"folder cannot even": {func(_ *world, s *store) { s.other, s.err["Uninstall"] = true, errors.New("no") }, "starts otherwise"},
	} {
		t.Run(name, func(t *testing.T) {
			w, s := newStore(t)
			s.next.Env = []string{"ACME_KEY"}
			card := w.fill(alice(), w.press(alice(), w.say(alice(), "/mcp install npm weather"), "Give values"), map[string]string{"ACME_KEY": canary})
			c.set(w, s)
			r := w.press(alice(), card, "Confirm")
			want(t, r, c.want, "weather was not installed and nothing is stored", "added 2 packages")
			if !r.Bad || len(s.folders) != 0 || len(w.vault) != 0 || strings.Contains(fmt.Sprint(w.records), canary) {
				t.Errorf("bad %v, folders %v, vault %v", r.Bad, s.folders, w.vault)
			}
			if e, ok := w.cfg.Find("weather"); ok && e.Cwd != "" {
				t.Errorf("stored: %+v", e)
			}
		})
	}
}

// other adds a server while something is installed.
func other(w *world, x schemas.Server) func(context.Context, func(string)) error {
	return func(context.Context, func(string)) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.have("boss", x)
		return nil
	}
}

func TestInstall_OtherChangesMeanwhile(t *testing.T) {
	w, s := newStore(t)
	card := w.say(alice(), "/mcp install npm weather")
	s.install = other(w, schemas.Server{Name: "notes", Command: "x"})
	want(t, w.press(alice(), card, "Confirm"), "weather is ready")
	s.left("weather", "notes weather")
}

func TestInstall_ManagerConfirmsForTheRequester(t *testing.T) {
	w, s := newStore(t)
	want(t, w.press(boss(), w.say(alice(), "/mcp install npm weather"), "Confirm"), "weather is ready")
	if e, _ := w.cfg.Find("weather"); e.Owner != "alice" || s.folders["/workspace/external-mcp/weather"] != "alice" {
		t.Errorf("%+v %v", e, s.folders)
	}
}

func TestInstall_Scripts(t *testing.T) {
	w, s := newStore(t)
	s.next.Scripts, s.next.Must = []string{"postinstall: node build.js"}, true
	card := w.say(alice(), "/mcp install git https://git.example/a/weather")
	want(t, card, "1) Confirm with scripts", "contacts: git.example")
	want(t, w.press(alice(), card, "Confirm with scripts"), "weather is ready")
	if !s.asked[1].Scripts || s.asked[0].Scripts {
		t.Errorf("%+v", s.asked)
	}
	w, s = newStore(t)
	s.next.Scripts = []string{"postinstall: node build.js"}
	card = w.say(alice(), "/mcp install npm weather")
	want(t, card, "1) Confirm\n2) Confirm with scripts")
	s.version = "1.0.1"
	again := w.press(alice(), card, "Confirm with scripts")
	want(t, again, "another one than the card showed, so nothing was done", "version: 1.0.1")
	wantCode(t, again, schemas.CodeConflict)
	s.left("", "")
	want(t, w.press(alice(), again, "Confirm"), "weather is ready")
	w, s = newStore(t)
	s.next.Scripts = []string{"postinstall: node build.js"}
	if card = w.say(alice(), "/mcp install npm weather scripts:yes"); !s.asked[0].Scripts || len(card.Choices) != 3 {
		t.Errorf("%+v %+v", s.asked, card.Choices)
	}
}

func TestInstall_WordsOfTheLine(t *testing.T) {
	w, s := newStore(t)
	for line, p := range map[string]schemas.Package{
		`/mcp install npm x`: {Kind: schemas.NPM, Spec: "x"},
		`/mcp install pip x==1 name:y program:p -- -v name:z`:                                  {Kind: schemas.Pip, Spec: "x==1", Name: "y", Program: "p", Args: []string{"-v", "name:z"}},
		`/mcp install git https://h/o/r#v1 start:"node 'a b.js' c" scripts:yes name:y d "e f"`: {Kind: schemas.Git, Spec: "https://h/o/r#v1", Name: "y", Start: []string{"node", "a b.js", "c"}, Scripts: true, Args: []string{"d", "e f"}},
	} {
		s.asked = nil
		if r := w.say(alice(), line); r.Bad || len(s.asked) != 1 || fmt.Sprintf("%+v", s.asked[0]) != fmt.Sprintf("%+v", p) {
			t.Errorf("%s: %+v\n%s", line, s.asked, flat(r))
		}
	}
	parts := w.do(bot.Request{Caller: alice(), Verb: "install npm", Args: map[string]string{"package": "x", "args": "a 'b c'", "name": "n"}})
	if got := s.asked[len(s.asked)-1]; parts.Bad || got.Name != "n" || !slices.Equal(got.Args, []string{"a", "b c"}) {
		t.Errorf("%+v", got)
	}
	wantCode(t, w.say(alice(), "/mcp install npm x scripts:maybe"), schemas.CodeInvalid)
	wantCode(t, w.say(alice(), `/mcp install npm x "y`), schemas.CodeInvalid)
	want(t, w.say(alice(), "/mcp install brew x"), "/mcp install takes one of: npm, pip, git, upgrade", "/mcp help install")
	want(t, w.say(alice(), "/mcp install npm"), "form:")
	wantCode(t, w.say(guest(), "/mcp install npm x"), schemas.CodeDenied)
	s.err["Resolve"] = &schemas.Error{Code: schemas.CodeNotFound, Text: "npm knows no package x", Hint: "check its name and version"}
	want(t, w.say(alice(), "/mcp install npm x"), "npm knows no package x · check its name and version")
	// A secret among the arguments is found as in any config: this importer knows those of env alone, the real one both.
	w.place = schemas.Place{Why: "local servers need a sandbox", Hint: "ask the operator"}
	want(t, w.say(alice(), "/mcp install npm x"), "local servers need a sandbox")
	bare := newWorld(t)
	wantCode(t, bare.say(alice(), "/mcp install npm x"), schemas.CodeMissing)
	wantCode(t, bare.say(alice(), "/mcp install upgrade x"), schemas.CodeMissing)
}

func TestInstall_HelpRunsAsWritten(t *testing.T) {
	w, s := newStore(t)
	help := w.say(alice(), "/mcp help install")
	ran := map[schemas.PackageKind]bool{}
	for line := range strings.Lines(flat(help)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "/mcp install ") && !strings.Contains(line, "NAME") {
			s.asked = nil
			if r := w.say(alice(), line); r.Bad || len(s.asked) != 1 || r.Choices[0].Label != "Confirm" {
				t.Errorf("%s: %s", line, flat(r))
			} else {
				ran[s.asked[0].Kind] = true
			}
		}
	}
	if len(ran) != 3 {
		t.Errorf("%v", ran)
	}
}

func TestInstall_ProgressAndStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newStore(t)
		s.install = func(ctx context.Context, progress func(string)) error {
			for i := range 10 {
				progress(fmt.Sprintf("line %d", i))
				select {
				case <-time.After(time.Second):
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return nil
		}
		var told []string
		tell := func(l string) { told = append(told, l) }
		card := w.say(alice(), "/mcp install npm weather")
		second := w.say(alice(), "/mcp install npm weather")
		var wg sync.WaitGroup
		wg.Go(func() {
			time.Sleep(time.Second)
			r := w.bot.Handle(t.Context(), bot.Request{Caller: alice(), Action: &bot.Action{ID: second.ID, Choice: "confirm"}})
			want(t, r, "weather is being installed already")
		})
		r := w.bot.Handle(t.Context(), bot.Request{Caller: alice(), Action: &bot.Action{ID: card.ID, Choice: "confirm"}, Progress: tell})
		wg.Wait()
		want(t, r, "weather is installed", "weather is ready")
		if len(told) < 4 || len(told) > 7 || told[0] != "weather is being installed …" || !strings.HasPrefix(told[1], "weather is being installed · line ") {
			t.Errorf("%q", told)
		}
		// bobbin ends while something is installed
		card = w.say(alice(), "/mcp install npm x name:notes")
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		r = w.bot.Handle(ctx, bot.Request{Caller: alice(), Action: &bot.Action{ID: card.ID, Choice: "confirm"}})
		want(t, r, "notes was not installed and nothing is stored")
		s.left("weather", "weather")
		// or just after it
		ctx, end := context.WithCancel(t.Context())
		defer end()
		s.install = func(context.Context, func(string)) error { end(); return nil }
		card = w.say(alice(), "/mcp install npm x name:notes")
		r = w.bot.Handle(ctx, bot.Request{Caller: alice(), Action: &bot.Action{ID: card.ID, Choice: "confirm"}})
		want(t, r, "notes was not installed and nothing is stored")
		s.left("weather", "weather")
	})
}

// Two members want the same name: their sandboxes are two, the thread's name is one.
func TestInstall_TwoOfOneName(t *testing.T) {
	w, s := newStore(t)
	mine, hers := w.say(alice(), "/mcp install npm weather"), w.say(mallory(), "/mcp install npm weather")
	want(t, w.press(mallory(), hers, "Confirm"), "weather is ready")
	r := w.press(alice(), mine, "Confirm")
	wantCode(t, r, schemas.CodeConflict)
	want(t, r, "weather changed here meanwhile")
	s.left("weather", "weather")
	if s.folders["/workspace/external-mcp/weather"] != "mallory" {
		t.Error(s.folders)
	}
}

func TestInstall_Cancelled(t *testing.T) {
	w, s := newStore(t)
	want(t, w.press(alice(), w.say(alice(), "/mcp install npm weather"), "Cancel"), "cancelled; nothing was installed or changed")
	card := w.say(alice(), "/mcp install npm weather")
	w.now = w.now.Add(time.Hour)
	wantCode(t, w.press(alice(), card, "Confirm"), schemas.CodeExpired)
	w.failWith["Append"] = errors.New("disk full")
	wantCode(t, w.say(alice(), "/mcp install npm weather"), schemas.CodeInternal)
	s.left("", "")
	delete(w.failWith, "Append")
	card = w.say(alice(), "/mcp install npm weather")
	w.failWith["Append"] = errors.New("disk full")
	if r := w.press(alice(), card, "Confirm"); !r.Bad {
		t.Error("installed without a record")
	}
	s.left("", "")
}

func TestRemove_DeletesTheFolder(t *testing.T) {
	w, s := newStore(t)
	w.press(alice(), w.say(alice(), "/mcp install npm weather"), "Confirm")
	card := w.say(alice(), "/mcp remove weather")
	want(t, card, "deletes: /workspace/external-mcp/weather (an undo brings the entry back, not what was installed)")
	s.left("weather", "weather")
	want(t, w.press(boss(), card, "Confirm"), "weather is removed", "/workspace/external-mcp/weather is deleted from the sandbox")
	s.left("", "")
	w.press(alice(), w.say(alice(), "/mcp install npm weather"), "Confirm")
	e, _ := w.cfg.Find("weather")
	twin := e.Server
	twin.Name = "twin"
	w.have("alice", twin)
	want(t, w.press(alice(), w.say(alice(), "/mcp remove weather"), "Confirm"), "stays, since another server starts from there")
	s.left("weather", "twin")
	s.err["Uninstall"] = errors.New("no")
	want(t, w.press(alice(), w.say(alice(), "/mcp remove twin"), "Confirm"), "could not be deleted from the sandbox")
	w.have("alice", schemas.Server{Name: "plain", Command: "x"})
	wantNot(t, w.press(alice(), w.say(alice(), "/mcp remove plain"), "Confirm"), "sandbox")
}
