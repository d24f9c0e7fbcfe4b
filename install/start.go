package install

import (
	"path"
	"slices"
	"strings"

	"bobbin/internal/lazy"
	"bobbin/schemas"
)

// commandForm is a program's name that is looked up on the sandbox's search path.
var commandForm = lazy.Regexp(`\A[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}\z`)

// startable refuses a command of the person's own that no program could be meant by.
func startable(spec schemas.Package) error {
	if len(spec.Start) == 0 {
		return nil
	}
	if spec.Program != "" {
		return invalid("a program of the package and a command of your own were named", "name one of the two")
	}
	if err := clean(spec.Start[1:], spec.Start[0]); err != nil {
		return err
	}
	c := spec.Start[0]
	_, relative := inside(c)
	absolute := path.IsAbs(c) && path.Clean(c) == c && filePath().MatchString(c[1:])
	if !commandForm().MatchString(c) && !absolute && !(relative && strings.Contains(c, "/")) {
		return invalid(quoted(c)+" is no command", "such as node, or dist/index.js in the folder of the installation")
	}
	return nil
}

// start sets what is started: a command of the person's own, read against the folder that the plan has.
func (in *Installer) start(p *schemas.PackagePlan) error {
	if len(p.Spec.Start) == 0 {
		return nil
	}
	words := slices.Clone(p.Spec.Start)
	asked := path.Join(in.base, schemas.Slug(p.Spec.Name))
	for i, w := range words {
		words[i] = moved(w, asked, p.Folder)
		if strings.HasPrefix(words[i], p.Folder+"/") && path.Clean(words[i]) != strings.TrimSuffix(words[i], "/") {
			return invalid(quoted(w)+" leads out of the folder of the installation", "")
		}
	}
	if c, ok := inside(words[0]); ok && strings.Contains(words[0], "/") {
		words[0] = path.Join(p.Folder, c)
	}
	p.Server.Command, p.Server.Args = words[0], words[1:]
	return nil
}

// moved gives a path below one folder as it is below another.
func moved(w, from, to string) string {
	if w == from {
		return to
	}
	if rest, ok := strings.CutPrefix(w, from+"/"); ok {
		return to + "/" + rest
	}
	return w
}

// own is the file of the installation that a command of the person's own starts, relative to the folder; "" = none is named.
func own(p *schemas.PackagePlan) string {
	words := append([]string{p.Server.Command}, p.Server.Args...)
	for i, w := range words {
		if rest, ok := strings.CutPrefix(w, p.Folder+"/"); ok {
			rest, ok = inside(rest)
			return map[bool]string{true: rest}[ok]
		}
		if interpreter := slices.Contains([]string{"node", "python", "python3"}, path.Base(p.Server.Command)); i == 1 && interpreter {
			if rest, ok := inside(w); ok {
				return rest
			}
		}
	}
	return ""
}
