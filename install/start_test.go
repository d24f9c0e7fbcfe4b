package install_test

import (
	"os/exec"
	"strings"
	"testing"

	"bobbin/install"
	"bobbin/schemas"
)

func TestResolve_RefusesStarts(t *testing.T) {
	for _, start := range [][]string{{""}, {"-e"}, {"node; id"}, {"../x"}, {"a/../../x"}, {"/opt/../etc/x"}, {"$(id)"}, {"node\n"}, {"node", "a\nb"}, {"node", "/workspace/external-mcp/x/../y/z"}} {
		r := &replay{t: t, steps: []said{{args: "mkdir -p *"}, {args: "ls -1A *"}}}
		_, err := install.New(r, r, install.Options{}).Resolve(t.Context(), thread, member, schemas.Package{Kind: schemas.NPM, Spec: "x", Name: "x", Start: start})
		if schemas.CodeOf(err) != schemas.CodeInvalid {
			t.Errorf("%q: %v", start, err)
		}
	}
	r := &replay{t: t}
	if _, err := install.New(r, r, install.Options{}).Resolve(t.Context(), thread, member, schemas.Package{Kind: schemas.NPM, Spec: "x", Program: "p", Start: []string{"node"}}); schemas.CodeOf(err) != schemas.CodeInvalid {
		t.Error(err)
	}
}

// A repository without a package of any kind is started by a command of the person's own, also after an upgrade.
func TestReal_GitStart(t *testing.T) {
	_, l := here(t, "git", "sh")
	commit := repository(t, &l, nil)
	commit(map[string]string{"serve.sh": "echo one $1"})
	in := install.New(l, l, install.Options{Workspace: l.root})
	spec := schemas.Package{Kind: schemas.Git, Spec: repo, Name: "tools", Start: []string{"sh", l.root + "/external-mcp/tools/serve.sh", "a"}}
	p, err := in.Resolve(t.Context(), thread, member, spec)
	if err != nil {
		t.Fatal(err)
	}
	log, err := in.Install(t.Context(), thread, member, p, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, log.Text)
	}
	if out, err := exec.CommandContext(t.Context(), log.Server.Command, log.Server.Args...).Output(); err != nil || string(out) != "one a\n" {
		t.Errorf("%v %q", err, out)
	}
	commit(map[string]string{"serve.sh": "echo two $1"})
	up, err := in.Upgrade(t.Context(), thread, member, log.Server, "")
	if err != nil || up.Same || strings.Join(up.Plan.Server.Args, " ") != p.Folder+"-2/serve.sh a" {
		t.Errorf("%v %+v", err, up)
	}
	spec.Start[1] = l.root + "/external-mcp/tools/none.sh"
	if _, err := in.Resolve(t.Context(), thread, member, spec); schemas.CodeOf(err) != schemas.CodeInvalid {
		t.Error(err)
	}
}
