package config

import (
	"fmt"
	"path"
	"strings"

	"bobbin/schemas"
)

// samplePaths asks for the paths of a text that only show what to write there.
func (r *reader) samplePaths(s gap, text string) (string, bool) {
	whole := isSamplePath(text) && !strings.ContainsAny(strings.TrimPrefix(text, text[:min(2, len(text))]), ",;=:|")
	some := false
	ask := func(p string) string {
		if !isSamplePath(p) {
			return p
		}
		some = true
		id := s.id
		if s.arg && (strings.HasPrefix(id, "VALUE") || id == "CWD" || !whole && id == strings.ToLower(id)) {
			for _, in := range r.vals.inputs { // asked for once
				if r.samples[in.ID] == p {
					id = in.ID
				}
			}
			if r.samples[id] == "" {
				id = pathID(s.server, p)
			}
		}
		base := id
		for n := 2; r.samples[id] != "" && r.samples[id] != p || r.samples[id] == "" && r.vals.input(id) != nil; n++ {
			id = inputID(fmt.Sprintf("%s_%d", base, n))
		}
		r.samples[id] = p
		ref := r.vals.declare(id, false)
		if in := r.vals.input(id); in.Description == "" {
			in.Description = clip("a path, such as "+p, 200)
		}
		r.note(schemas.NotePath, s.server, s.at, "%s is only a sample path: %s; you are asked for the real one", s.where, shownPath(p))
		return ref
	}
	if whole {
		return ask(text), true
	}
	out := pathRun().ReplaceAllStringFunc(text, ask)
	return out, some
}

// pathID names the input for a sample path by its last part: PATH_TO_DESKTOP. A part that every project has says nothing, and
// the server's name stands for it.
func pathID(server, p string) string {
	last := path.Base(strings.ReplaceAll(p, `\`, "/"))
	last = strings.TrimSuffix(last, path.Ext(last))
	switch strings.ToLower(last) {
	case "index", "server", "main", "cli", "app", "mcp", "mcp_server", "mcp-server", "run", "start", "dist", "build", "src", "bin", "python", "node", "__main__":
		return inputID(upperSnake("path to " + server))
	}
	if w := words(last); len(w) > 0 && len(last) <= 30 {
		return upperSnake("path to " + strings.Join(w, " "))
	}
	return "PATH"
}
