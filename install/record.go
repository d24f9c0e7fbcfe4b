package install

import (
	"context"
	"encoding/json"
	"path"
	"slices"

	"bobbin/schemas"
)

func recordOf(p schemas.PackagePlan) file {
	data, _ := json.MarshalIndent(schemas.PackageRecord{Kind: p.Spec.Kind, Spec: p.Spec.Spec, Program: p.Spec.Program, Package: p.Package,
		Version: p.Version, Integrity: p.Integrity, Env: p.Env, Own: len(p.Spec.Start) > 0, Scripts: p.Spec.Scripts, Brought: p.Scripts}, "", "  ")
	return file{recordName, append(data, '\n')}
}

// Installed reads what was installed for a definition. CodeNotFound: nothing that is known.
func (in *Installer) Installed(ctx context.Context, thread schemas.ThreadID, member schemas.MemberID, s schemas.Server) (schemas.PackageRecord, error) {
	folder, ok := in.Folder(s)
	if !ok {
		return schemas.PackageRecord{}, notInstalled(s.Name)
	}
	j := &job{in: in, who: who{thread, member}, limit: cleanTime}
	done, err := j.end(ctx, "cat", path.Join(folder, recordName))
	if err != nil {
		return schemas.PackageRecord{}, err
	}
	var r schemas.PackageRecord
	if done.Code != 0 || done.Cut || json.Unmarshal([]byte(done.Stdout), &r) != nil {
		return schemas.PackageRecord{}, notInstalled(s.Name)
	}
	r.Package, r.Version, r.Integrity = brief(r.Package), brief(r.Version), brief(r.Integrity)
	return r, nil
}

// Upgrade resolves the newest version of what s starts, or the one that version names (npm: version or tag, pip: version,
// git: ref; "" = as it was asked for at first, without its version). Bundles are upgraded by uploading a newer one.
func (in *Installer) Upgrade(ctx context.Context, thread schemas.ThreadID, member schemas.MemberID, s schemas.Server, version string) (schemas.PackageUpgrade, error) {
	from, err := in.Installed(ctx, thread, member, s)
	if err != nil {
		return schemas.PackageUpgrade{}, err
	}
	if from.Kind == schemas.Bundle {
		return schemas.PackageUpgrade{}, invalid(s.Name+" came as a bundle", "upload its newer version")
	}
	was := schemas.Package{Kind: from.Kind, Spec: from.Spec}
	req, err := parse(was)
	if err != nil {
		return schemas.PackageUpgrade{}, notInstalled(s.Name)
	}
	if was.Spec = req.name + req.extras; from.Kind == schemas.Git {
		was.Spec = req.url
	}
	sign := map[schemas.PackageKind]string{schemas.NPM: "@", schemas.Pip: "==", schemas.Git: "#"}[from.Kind]
	switch {
	case version != "":
		was.Spec += sign + version
	case from.Kind == schemas.Git && req.version != "" && !commit().MatchString(req.version), from.Kind == schemas.NPM && req.version != "" && req.version != from.Version:
		was.Spec += sign + req.version // a branch or a tag that moves
	}
	was.Name, was.Program = s.Name, from.Program
	if folder, _ := in.Folder(s); from.Own { // from the definition, which a person approved; not from the record
		was.Program = ""
		for _, w := range append([]string{s.Command}, s.Args...) {
			was.Start = append(was.Start, moved(w, folder, path.Join(in.base, schemas.Slug(s.Name))))
		}
	}
	plan, err := in.Resolve(ctx, thread, member, was)
	if err != nil {
		return schemas.PackageUpgrade{}, err
	}
	plan.Server.Env, plan.Server.Timeout, plan.Server.Tools = s.Env, s.Timeout, s.Tools
	if !from.Own {
		plan.Server.Args = append(plan.Server.Args, behind(s, plan.Server)...)
	}
	up := schemas.PackageUpgrade{From: from, Plan: plan, Same: plan.Integrity == from.Integrity}
	for _, name := range plan.Env {
		if _, set := s.Env[name]; !set && !slices.Contains(from.Env, name) {
			up.NewEnv = append(up.NewEnv, name)
		}
	}
	for _, script := range plan.Scripts {
		if !slices.Contains(from.Brought, script) {
			up.NewScripts = append(up.NewScripts, script)
		}
	}
	return up, nil
}

// behind gives the arguments that the old definition has after what starts its program.
func behind(old, fresh schemas.Server) []string {
	if len(old.Args) <= len(fresh.Args) {
		return nil
	}
	return slices.Clone(old.Args[len(fresh.Args):])
}
