package bot

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"bobbin/bot/internal/desk"
	"bobbin/bot/internal/view"
	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// bundler is what an installer also is when uploaded bundles can be installed. Bundle changes nothing but that the file waits in the
// member's sandbox; name is the server's, "" = taken from the file. Installed says what a definition was installed from. Errors are
// *schemas.Error with words, or schemas.Problems of the bundle's manifest.
type bundler interface {
	Bundle(ctx context.Context, thread schemas.ThreadID, member schemas.MemberID, name string, data []byte) (schemas.PackagePlan, error)
	Installed(context.Context, schemas.ThreadID, schemas.MemberID, schemas.Server) (schemas.PackageRecord, error)
}

// maxBundle bounds an uploaded bundle, in bytes.
const maxBundle = 64 << 20

// MaxUpload is how many bytes of an uploaded file of that name are looked at: a bundle of a server's files (.mcpb, .dxt) may have
// more than a config.
func MaxUpload(name string) int {
	name = strings.ToLower(name)
	if strings.HasSuffix(name, ".mcpb") || strings.HasSuffix(name, ".dxt") {
		return maxBundle
	}
	return desk.MaxText
}

// isBundle tells by its first bytes that a file is an archive.
func isBundle(data []byte) bool { return bytes.HasPrefix(data, []byte("PK\x03\x04")) }

// bundle shows the card for an uploaded bundle. One of the same package takes the place of the older one.
func (b *Bot) bundle(ctx context.Context, t desk.Turn, f schemas.File) (Reply, error) {
	if err := b.installs(t); err != nil {
		return Reply{}, err
	}
	in, ok := b.opt.Install.(bundler)
	if !ok {
		return Reply{}, &schemas.Error{Code: schemas.CodeMissing, Text: "bundles cannot be installed here", Hint: "`/mcp install npm|pip|git PACKAGE`"}
	}
	t.Tell("looking at " + words.Short(words.Clean(f.Name), 80) + " …")
	look, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	me := t.Caller
	plan, err := in.Bundle(look, me.Thread, me.Member, "", f.Data)
	if ps, ok := err.(schemas.Problems); ok {
		return view.Mistakes(words.Short(words.Clean(f.Name), 80), ps, ""), nil
	}
	if err != nil {
		return Reply{}, err
	}
	cfg, err := b.opt.Config.Load(ctx, me.Thread)
	if err != nil {
		return Reply{}, err
	}
	w := wish{by: me, owner: me.Member, plan: plan, spec: plan.Spec}
	e, taken := cfg.Find(plan.Server.Name)
	if taken {
		r, older := b.olderBundle(look, in, me, e, plan)
		switch {
		case older && r.Integrity == plan.Integrity:
			return Reply{Blocks: []Block{{Text: words.Clean(e.Name) + " is up to date: " + w.what()}}}, nil
		case older && e.Pending():
			return Reply{}, &schemas.Error{Code: schemas.CodePending, Text: words.Clean(e.Name) + " waits for approval of an earlier change", Hint: "`/mcp enable " + words.Clean(e.Name) + "` shows it"}
		case older:
			return b.installCard(ctx, w.instead(e, r))
		}
		if w.plan, err = in.Bundle(look, me.Thread, me.Member, freeName(plan.Server.Name, cfg), f.Data); err != nil {
			return Reply{}, err
		}
		w.spec = w.plan.Spec
	}
	return b.installCard(ctx, w)
}

// olderBundle reports whether a server of the caller came as a bundle of the same package.
func (b *Bot) olderBundle(ctx context.Context, in bundler, c schemas.Caller, e schemas.Entry, plan schemas.PackagePlan) (schemas.PackageRecord, bool) {
	if _, ok := b.opt.Install.Folder(e.Server); !ok || e.Remote() || e.Owner != c.Member {
		return schemas.PackageRecord{}, false
	}
	r, err := in.Installed(ctx, c.Thread, e.Owner, e.Server)
	return r, err == nil && r.Kind == schemas.Bundle && r.Package == plan.Package
}

// instead makes a wish an upgrade of e. Values that it was given stay given; optional ones that it was not stay out.
func (w wish) instead(e schemas.Entry, from schemas.PackageRecord) wish {
	had := e.Server.Inputs()
	w.plan.Optional = slices.DeleteFunc(slices.Clone(w.plan.Optional), func(id string) bool { return slices.Contains(had, id) })
	w.plan.Server.Timeout, w.plan.Server.Tools = e.Timeout, e.Tools
	w.was, w.up = e, &schemas.PackageUpgrade{From: from, Plan: w.plan}
	return w
}

// suggested shows the card for the one package that a registry entry suggests; ok is false when there is none to be followed, and
// the text is taken as any other.
func (b *Bot) suggested(ctx context.Context, t desk.Turn, in schemas.Import, name string) (r Reply, ok bool, err error) {
	if len(in.Packages) == 0 {
		return Reply{}, false, nil
	}
	s := in.Packages[0]
	switch {
	case len(in.Packages) > 1 || len(in.Servers) > 1:
		return Reply{}, false, nil
	case s.Package.Kind == schemas.Bundle:
		return fetchYourself(s), true, nil
	case b.opt.Install == nil || b.installs(t) != nil:
		return Reply{}, false, nil
	}
	if schemas.ValidName(name) {
		s.Package.Name = name
	}
	if err := b.freeFor(ctx, t, s.Package.Name); err != nil {
		return Reply{}, true, err
	}
	t.Tell("looking at " + string(s.Package.Kind) + " " + words.Short(words.Clean(s.Package.Spec), 80) + " …")
	look, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	plan, err := b.opt.Install.Resolve(look, t.Caller.Thread, t.Caller.Member, s.Package)
	if err != nil {
		return Reply{}, true, err
	}
	for _, n := range in.Notes {
		if n.Kind == schemas.NoteRenamed || n.Kind == schemas.NoteRisk {
			plan.Notes = append(plan.Notes, n)
		}
	}
	r, err = b.installCard(ctx, wish{by: t.Caller, owner: t.Caller.Member, plan: s.Onto(plan), spec: s.Package, more: &s})
	return r, true, err
}

// fetchYourself says where a bundle is. Nothing is fetched from an address that a text names: a person looks at it first.
func fetchYourself(s schemas.Suggestion) Reply {
	return Reply{Blocks: []Block{
		{Text: words.Clean(s.Package.Name) + " comes as a bundle; download it, and give the file to me as you gave this text"},
		{Facts: []Fact{{Label: "from", Value: words.Short(words.Clean(s.Package.Spec), 500)}, {Label: "integrity", Value: words.Clean(s.Integrity), Note: "the card that comes then must show exactly this"}}},
	}}
}
