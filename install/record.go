package install

import (
	"context"
	"encoding/json"
	"path"
	"slices"

	"bobbin/schemas"
)

// Record is what was installed in a folder, kept in the folder itself, so that it lives and dies with it. Programs in the
// sandbox can change it: it is read as a stranger's text, and nothing is trusted because of it.
type Record struct {
	Kind      Kind     `json:"kind"`
	Spec      string   `json:"spec"`
	Program   string   `json:"program,omitempty"`
	Package   string   `json:"package"`
	Version   string   `json:"version"`
	Integrity string   `json:"integrity"`
	Env       []string `json:"env,omitempty"`
	Scripts   bool     `json:"scripts,omitempty"`
}

func recordOf(p Plan) file {
	data, _ := json.MarshalIndent(Record{p.Spec.Kind, p.Spec.Spec, p.Spec.Program, p.Package, p.Version, p.Integrity, p.Env, p.Spec.Scripts}, "", "  ")
	return file{recordName, append(data, '\n')}
}

// Installed reads what was installed for a definition. CodeNotFound: nothing that is known.
func (in *Installer) Installed(ctx context.Context, w Who, s schemas.Server) (Record, error) {
	folder, ok := in.Folder(s)
	if !ok {
		return Record{}, notInstalled(s.Name)
	}
	j := &job{in: in, who: w, limit: cleanTime}
	done, err := j.end(ctx, "cat", path.Join(folder, recordName))
	if err != nil {
		return Record{}, err
	}
	var r Record
	if done.Code != 0 || done.Cut || json.Unmarshal([]byte(done.Stdout), &r) != nil {
		return Record{}, notInstalled(s.Name)
	}
	r.Package, r.Version, r.Integrity = brief(r.Package), brief(r.Version), brief(r.Integrity)
	return r, nil
}

// Upgrade is a newer version of what a definition starts. Nothing of the old one is touched: install the Plan, which has a
// folder of its own, approve and connect its Server, and only then Uninstall the old definition.
type Upgrade struct {
	From   Record
	Plan   Plan
	Same   bool     // there is nothing newer
	NewEnv []string // documented names that the old version did not have
}

// Upgrade resolves the newest version of what s starts, or the one that version names (npm: version or tag, pip: version,
// git: ref; "" = as it was asked for at first, without its version). Bundles are upgraded by uploading a newer one.
func (in *Installer) Upgrade(ctx context.Context, w Who, s schemas.Server, version string) (Upgrade, error) {
	from, err := in.Installed(ctx, w, s)
	if err != nil {
		return Upgrade{}, err
	}
	if from.Kind == Bundle {
		return Upgrade{}, invalid(s.Name+" came as a bundle", "upload its newer version")
	}
	was := Spec{Kind: from.Kind, Spec: from.Spec}
	req, err := parse(was)
	if err != nil {
		return Upgrade{}, notInstalled(s.Name)
	}
	if was.Spec = req.name + req.extras; from.Kind == Git {
		was.Spec = req.url
	}
	sign := map[Kind]string{NPM: "@", Pip: "==", Git: "#"}[from.Kind]
	switch {
	case version != "":
		was.Spec += sign + version
	case from.Kind == Git && req.version != "" && !commit.MatchString(req.version), from.Kind == NPM && req.version != "" && req.version != from.Version:
		was.Spec += sign + req.version // a branch or a tag that moves
	}
	was.Name, was.Program = s.Name, from.Program
	plan, err := in.Resolve(ctx, w, was)
	if err != nil {
		return Upgrade{}, err
	}
	plan.Server.Env, plan.Server.Timeout, plan.Server.Tools = s.Env, s.Timeout, s.Tools
	plan.Server.Args = append(plan.Server.Args, behind(s, plan.Server)...)
	up := Upgrade{From: from, Plan: plan, Same: plan.Integrity == from.Integrity}
	for _, name := range plan.Env {
		if _, set := s.Env[name]; !set && !slices.Contains(from.Env, name) {
			up.NewEnv = append(up.NewEnv, name)
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
