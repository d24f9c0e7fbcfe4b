package bot_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"bobbin/bot"
	"bobbin/schemas"
)

// shelf is a store that takes bundles, too: "PK\x03\x04" and then package, version and server, by blanks.
type shelf struct {
	*store
	named   []string
	records map[string]schemas.PackageRecord // by folder
}

func newShelf(t *testing.T, change ...func(*bot.Options)) (*world, *shelf) {
	s := &shelf{records: map[string]schemas.PackageRecord{}}
	_, s.store = newStore(t)
	s.store.w = newWorld(t, append(change, func(o *bot.Options) { o.Install = s })...)
	return s.store.w, s
}

func (s *shelf) Bundle(_ context.Context, id schemas.ThreadID, m schemas.MemberID, name string, data []byte) (schemas.PackagePlan, error) {
	s.named = append(s.named, name)
	if err := s.err["Bundle"]; err != nil {
		return schemas.PackagePlan{}, err
	}
	f := strings.Fields(strings.TrimPrefix(string(data), "PK\x03\x04"))
	if name == "" {
		name = f[2]
	}
	p, err := s.Resolve(context.Background(), id, m, schemas.Package{Kind: schemas.Bundle, Spec: f[0], Name: name})
	s.asked = s.asked[:len(s.asked)-1]
	p.Version, p.Integrity = f[1], "sha256:"+f[1]
	p.Server.Args = append(p.Server.Args, "--units", "${input:W_UNITS}")
	p.Server.Env = map[string]string{"KEY": "${input:W_KEY}", "REGION": "${input:W_REGION}"}
	p.Inputs = []schemas.Input{{Type: "promptString", ID: "W_KEY", Password: true, Description: "From your account"}, {Type: "promptString", ID: "W_REGION"},
		{Type: "pickString", ID: "W_UNITS", Options: []string{"metric", "imperial"}, Default: "metric"}}
	p.Optional = []string{"W_REGION"}
	return p, err
}

func (s *shelf) Install(ctx context.Context, id schemas.ThreadID, m schemas.MemberID, p schemas.PackagePlan, progress func(string)) (schemas.PackageLog, error) {
	s.mu.Lock()
	s.plans[p.Folder] = p // the bot adds to it what was said about the server
	s.records[p.Folder] = schemas.PackageRecord{Kind: p.Spec.Kind, Package: p.Package, Version: p.Version, Integrity: p.Integrity}
	s.mu.Unlock()
	return s.store.Install(ctx, id, m, p, progress)
}

func (s *shelf) Installed(_ context.Context, _ schemas.ThreadID, m schemas.MemberID, x schemas.Server) (schemas.PackageRecord, error) {
	f, _ := s.Folder(x)
	if s.folders[f] != m {
		return schemas.PackageRecord{}, &schemas.Error{Code: schemas.CodeNotFound, Text: "not installed"}
	}
	return s.records[f], nil
}

func (w *world) upload(c schemas.Caller, name, data string) bot.Reply {
	return w.do(bot.Request{Caller: c, Text: "/mcp upload", File: &schemas.File{Name: name, Data: []byte(data)}})
}

func TestUpload_Bundle(t *testing.T) {
	w, s := newShelf(t)
	card := w.upload(alice(), "weather.mcpb", "PK\x03\x04acme-weather 1.0.0 weather")
	want(t, card, "1 added: weather", "package: acme-weather (mcpb)", "version: 1.0.0", "integrity: sha256:1.0.0", "Confirm only if you trust acme-weather", "Give values")
	s.left("", "")
	form := w.press(alice(), card, "Give values")
	want(t, form, "W_KEY", "From your account", "metric")
	card = w.fill(alice(), form, map[string]string{"W_KEY": canary, "W_UNITS": "imperial", "W_REGION": ""})
	wantNot(t, card, canary, "W_REGION")
	r := w.press(alice(), card, "Confirm")
	want(t, r, "weather is installed: mcpb acme-weather 1.0.0", "weather is ready")
	s.left("weather", "weather")
	e, _ := w.cfg.Find("weather")
	if e.Env["KEY"] != "${input:W_KEY}" || e.Env["REGION"] != "" || len(s.asked) > 0 {
		t.Errorf("%+v, %v", e.Server, s.asked)
	}
}

func TestUpload_BundleAgain(t *testing.T) {
	w, s := newShelf(t)
	card := w.upload(alice(), "w.mcpb", "PK\x03\x04acme-weather 1.0.0 weather")
	card = w.fill(alice(), w.press(alice(), card, "Give values"), map[string]string{"W_KEY": canary, "W_REGION": "north", "W_UNITS": "metric"})
	want(t, w.press(alice(), card, "Confirm"), "weather is ready")
	want(t, w.upload(alice(), "w.mcpb", "PK\x03\x04acme-weather 1.0.0 weather"), "weather is up to date")
	card = w.upload(alice(), "w.mcpb", "PK\x03\x04acme-weather 2.0.0 weather")
	want(t, card, "1 changed: weather", "version: 1.0.0 → 2.0.0")
	w.press(alice(), card, "Confirm")
	s.left("weather-2", "weather")
	if e, _ := w.cfg.Find("weather"); e.Env["REGION"] != "${input:W_REGION}" || e.Cwd != "/workspace/external-mcp/weather-2" {
		t.Errorf("a value that was given is lost: %+v", e.Server)
	}
	for who, upload := range map[schemas.Caller]string{alice(): "another-package 1.0.0 weather", mallory(): "acme-weather 3.0.0 weather"} {
		card := w.upload(who, "w.mcpb", "PK\x03\x04"+upload)
		want(t, card, "1 added: weather-2")
	}
}

func TestUpload_BundleRefused(t *testing.T) {
	w, s := newShelf(t)
	s.err["Bundle"] = schemas.Problems{{File: "manifest.json", Pointer: "/server/entry_point", Text: "server.entry_point is needed"}}
	r := w.upload(alice(), "w.mcpb", "PK\x03\x04x 1 y")
	want(t, r, "server.entry_point is needed")
	wantCode(t, r, schemas.CodeInvalid)
	s.err["Bundle"] = &schemas.Error{Code: schemas.CodeInvalid, Text: "the bundle cannot be taken: \"../x\" leads out of the bundle"}
	want(t, w.upload(alice(), "w.dxt", "PK\x03\x04x 1 y"), "leads out of the bundle")
	wantCode(t, w.upload(guest(), "w.mcpb", "PK\x03\x04x 1 y"), schemas.CodeDenied)
	plain, _ := newStore(t)
	wantCode(t, plain.upload(alice(), "w.mcpb", "PK\x03\x04x 1 y"), schemas.CodeMissing)
	wantCode(t, newWorld(t).upload(alice(), "w.mcpb", "PK\x03\x04x 1 y"), schemas.CodeMissing)
	s.left("", "")
}

// entries stands for the reading of registry entries.
func entries(in schemas.Import) func(*bot.Options) {
	return func(o *bot.Options) {
		read := o.Import
		o.Import = func(file string, data []byte, hint string) schemas.Import {
			if strings.Contains(string(data), "packages") {
				return in
			}
			return read(file, data, hint)
		}
	}
}

func suggestion(kind schemas.PackageKind, spec string) schemas.Suggestion {
	return schemas.Suggestion{Package: schemas.Package{Kind: kind, Spec: spec, Name: "notes", Args: []string{"--level", "${input:LEVEL}"}},
		Env: map[string]string{"NOTES_KEY": "${input:NOTES_KEY}", "NOTES_PROXY": "${input:NOTES_PROXY}", "MODE": "plain"}, Optional: []string{"NOTES_PROXY"},
		Inputs: []schemas.Input{{Type: "promptString", ID: "NOTES_KEY", Password: true}, {Type: "promptString", ID: "NOTES_PROXY"},
			{Type: "pickString", ID: "LEVEL", Options: []string{"info", "debug"}, Default: "info"}}}
}

func TestUpload_RegistryPackage(t *testing.T) {
	in := schemas.Import{Format: "registry", Packages: []schemas.Suggestion{suggestion(schemas.NPM, "acme-notes@0.4.0")},
		Servers: []schemas.Draft{{Server: schemas.Server{Name: "notes", Type: schemas.Stdio, Command: "npx", Args: []string{"-y", "acme-notes@0.4.0"}}}}}
	w, s := newShelf(t, entries(in))
	s.next = schemas.PackagePlan{Scripts: []string{"postinstall: node x.js"}}
	card := w.upload(alice(), "server.json", `{"packages": []}`)
	want(t, card, "1 added: notes", "package: acme-notes@0.4.0 (npm)", "needs: NOTES_KEY", "runs: /usr/bin/node")
	r := w.press(alice(), card, "Confirm with scripts")
	want(t, r, "notes is installed", "NOTES_KEY")
	e, _ := w.cfg.Find("notes")
	if i := slices.IndexFunc(w.cfg.Inputs, func(in schemas.Input) bool { return in.ID == "LEVEL" }); i < 0 || w.cfg.Inputs[i].Default != "info" {
		t.Errorf("the default is lost: %+v", w.cfg.Inputs)
	}
	if e.Env["NOTES_KEY"] != "${input:NOTES_KEY}" || e.Env["NOTES_PROXY"] != "" || e.Env["MODE"] != "plain" || e.Command != "/usr/bin/node" {
		t.Errorf("%+v", e.Server)
	}
	s.left("notes", "notes")
	wantCode(t, w.upload(alice(), "server.json", `{"packages": []}`), schemas.CodeConflict)
	want(t, w.do(bot.Request{Caller: alice(), Verb: "add-json", Args: map[string]string{"json": `{"packages": []}`, "name": "mine"}}), "1 added: mine")

	plain := newWorld(t, entries(in))
	want(t, plain.upload(alice(), "server.json", `{"packages": []}`), "runs: npx -y acme-notes@0.4.0")
}

func TestUpload_RegistryBundle(t *testing.T) {
	s := suggestion(schemas.Bundle, "https://code.example/notes.mcpb")
	s.Integrity = "sha256:" + strings.Repeat("ab", 32)
	w := newWorld(t, entries(schemas.Import{Packages: []schemas.Suggestion{s}}))
	want(t, w.say(alice(), `/mcp add-json {"packages": []}`), "notes comes as a bundle", "https://code.example/notes.mcpb", s.Integrity)
}
