package web

import (
	"context"
	"embed"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"

	"bobbin/internal/look"
	"bobbin/schemas"
)

//go:embed assets
var assets embed.FS

const maxShownThreads = 500

// pages are the page and the page for those without the link.
type pages struct {
	app  *template.Template
	lock *look.Locked
}

func parsePages() (pages, error) {
	app, err := template.ParseFS(assets, "assets/page.html")
	if err != nil {
		return pages{}, err
	}
	lock, err := look.NewLocked("bobbin", "http://127.0.0.1:8080/?token=…")
	return pages{app: app, lock: lock}, err
}

// locked answers those without the cookie: in words to a browser that asks for a page, as JSON to the rest. The answer is
// the same whether a token was wrong or missing.
func (p pages) locked(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || strings.HasPrefix(r.URL.Path, "/api/") || strings.HasPrefix(r.URL.Path, "/assets/") {
		refuse(w, http.StatusUnauthorized, schemas.CodeDenied, "this page is locked", "open the link that bobbin printed at start")
		return
	}
	status := http.StatusUnauthorized
	if r.URL.Path == "/" && r.URL.RawQuery == "" {
		status = http.StatusOK // nothing was asked for and nothing is refused: this is the front page
	}
	p.lock.Serve(w, status)
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
