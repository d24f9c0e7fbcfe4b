// Package look is what bobbin's pages have in common: colours, buttons, fields, how elements are made, and the page for those who
// have no link. It knows nothing of what the pages show.
package look

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"html/template"
	"io/fs"
	"net/http"
	"path"
)

var (
	//go:embed assets
	shared embed.FS
	//go:embed locked.html
	lockedHTML string
	//go:embed locked.css
	lockedCSS string
)

// Assets serves the file that the path value "name" names: out of assets/ of own, or of what all pages share. Only scripts, style
// sheets and icons are given out.
func Assets(own fs.FS) http.HandlerFunc {
	kinds := map[string]string{".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
	return func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("name")
		data, err := fs.ReadFile(own, "assets/"+name)
		if err != nil {
			data, err = shared.ReadFile("assets/" + name)
		}
		kind := kinds[path.Ext(name)]
		if err != nil || kind == "" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(data)
	}
}

// Locked is the page for those who did not open the link. It fetches nothing and runs nothing.
type Locked struct {
	page   *template.Template
	words  any
	policy string
}

// NewLocked makes the page. Who is the program that printed the link, and link an example of it.
func NewLocked(who, link string) (*Locked, error) {
	page, err := template.New("locked").Parse(lockedHTML)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(lockedCSS))
	return &Locked{
		page: page,
		words: struct {
			CSS       template.CSS
			Who, Link string
		}{template.CSS(lockedCSS), who, link}, //nolint:gosec // our own file
		policy: "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
	}, nil
}

// Serve answers with the page.
func (l *Locked) Serve(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Security-Policy", l.policy)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_ = l.page.Execute(w, l.words)
}
