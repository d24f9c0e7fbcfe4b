package web

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"html/template"
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"bobbin/schemas"
)

//go:embed assets
var assets embed.FS

const maxShownThreads = 500

// pages are the page, the page for those without the link, and the files that belong to them.
type pages struct {
	app, lock *template.Template
	css       template.CSS // of the locked page, which may fetch nothing
}

func parsePages() (pages, error) {
	app, err := template.ParseFS(assets, "assets/page.html")
	if err != nil {
		return pages{}, err
	}
	lock, err := template.ParseFS(assets, "assets/locked.html")
	if err != nil {
		return pages{}, err
	}
	css, err := assets.ReadFile("assets/locked.css")
	if err != nil {
		return pages{}, err
	}
	return pages{app: app, lock: lock, css: template.CSS(css)}, nil
}

func (p pages) asset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	data, err := assets.ReadFile("assets/" + name)
	kind := map[string]string{".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}[path.Ext(name)]
	if err != nil || kind == "" {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(data)
}

// locked answers those without the cookie: in words to a browser that asks for a page, as JSON to the rest. The answer is
// the same whether a token was wrong or missing.
func (p pages) locked(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || strings.HasPrefix(r.URL.Path, "/api/") || strings.HasPrefix(r.URL.Path, "/assets/") {
		refuse(w, http.StatusUnauthorized, schemas.CodeDenied, "this page is locked", "open the link that bobbin printed at start")
		return
	}
	sum := sha256.Sum256([]byte(p.css))
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+
		"'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	w.Header().Set("Content-Type", mime.FormatMediaType("text/html", map[string]string{"charset": "utf-8"}))
	status := http.StatusUnauthorized
	if r.URL.Path == "/" && r.URL.RawQuery == "" {
		status = http.StatusOK // nothing was asked for and nothing is refused: this is the front page
	}
	w.WriteHeader(status)
	_ = p.lock.Execute(w, p.css)
}

func (d *Door) page(w http.ResponseWriter, r *http.Request) {
	id := schemas.ThreadID(r.PathValue("id"))
	if !id.Valid() {
		d.notFound(w, r)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), 10*time.Second)
	defer cancel()
	threads, err := d.opt.Threads(ctx)
	if err != nil {
		d.opt.Log.Warn("web: threads", "err", err)
	}
	threads = slices.DeleteFunc(slices.Clone(threads), func(t schemas.ThreadID) bool { return !t.Valid() })
	threads = append(threads, id, firstPage)
	slices.Sort(threads)
	threads = slices.Compact(threads)
	if len(threads) > maxShownThreads {
		threads = append(threads[:maxShownThreads-1], id)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if err := d.pages.app.Execute(w, struct {
		Thread  schemas.ThreadID
		Threads []schemas.ThreadID
		Name    string
		Inspect bool
	}{id, threads, d.opt.Member.Name, d.opt.Inspector != nil}); err != nil {
		d.opt.Log.Debug("web: page", "err", err)
	}
}

func (d *Door) notFound(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/api/") {
		refuse(w, http.StatusNotFound, schemas.CodeNotFound, "there is nothing at this address", "")
		return
	}
	http.Error(w, "there is nothing at this address; the page is at /", http.StatusNotFound)
}
