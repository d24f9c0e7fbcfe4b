package gateway

import (
	_ "embed"
	"net/http"
	"slices"
	"strings"

	"bobbin/schemas"
)

//go:embed install.sh
var installer string

// page is a thread of whose address a stranger may learn: it says nothing about whether the thread exists.
func (g *Gateway) page(w http.ResponseWriter, r *http.Request) (schemas.ThreadID, bool) {
	thread := schemas.ThreadID(r.URL.Query().Get("thread"))
	if thread == "" {
		thread = "web-default"
	}
	if !thread.Valid() || g.URL(thread) == "" {
		http.Error(w, "there is nothing here", http.StatusNotFound)
		return "", false
	}
	return thread, true
}

// config gives the entry for a client, without a token: GET /api/mcp/config.json?thread=ID&client=NAME.
func (g *Gateway) config(w http.ResponseWriter, r *http.Request) {
	thread, ok := g.page(w, r)
	if !ok {
		return
	}
	client := r.URL.Query().Get("client")
	if client == "" {
		client = "claude-code"
	}
	f, err := g.Remote(thread, client, "")
	if err != nil {
		http.Error(w, "the clients are "+strings.Join(Clients(), ", "), http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(f.Data)
}

// install gives a script that writes the entry into a client's own file: GET /api/mcp/install.sh?thread=ID&client=NAME.
func (g *Gateway) install(w http.ResponseWriter, r *http.Request) {
	thread, ok := g.page(w, r)
	if !ok {
		return
	}
	client := r.URL.Query().Get("client")
	if client != "" && !slices.Contains(Clients(), client) {
		http.Error(w, "the clients are "+strings.Join(Clients(), ", "), http.StatusNotFound)
		return
	}
	var entries strings.Builder
	for _, c := range Clients() {
		f, err := g.Remote(thread, c, "")
		if err != nil {
			http.Error(w, "there is nothing here", http.StatusNotFound)
			return
		}
		entries.WriteString(c + ")\n\tcat <<'BOBBIN_ENTRY'\n" + string(f.Data) + "BOBBIN_ENTRY\n\t;;\n")
	}
	script := strings.NewReplacer("@CLIENT@", client, "@NAME@", entryName(thread), "@URL@", g.URL(thread), "@ENTRIES@", entries.String()).Replace(installer)
	w.Header().Set("Content-Type", "text/x-shellscript; charset=utf-8")
	_, _ = w.Write([]byte(script))
}
