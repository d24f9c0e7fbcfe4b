package proxy

import (
	"net/http"
	"slices"
)

// share lets web pages of the allowed origins in, as CORS has it (Fetch standard, CORS protocol): a page asks beforehand, without a
// token, and every answer says for whom it is. Other pages go on to the guard, which knows those of this machine alone.
func (o *Options) share(next http.Handler) http.Handler {
	if o.Origin == "" {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origins := r.Header["Origin"]
		if len(origins) == 0 || o.Origin != "*" && !slices.Equal(origins, []string{o.Origin}) {
			next.ServeHTTP(w, r)
			return
		}
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", o.Origin)
		h.Set("Access-Control-Expose-Headers", "Mcp-Session-Id, Mcp-Protocol-Version")
		if o.Origin != "*" {
			h.Set("Vary", "Origin")
		}
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
			h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Accept, Last-Event-ID, Mcp-Session-Id, Mcp-Protocol-Version, Mcp-Method, Mcp-Name")
			h.Set("Access-Control-Max-Age", "600")
			w.WriteHeader(http.StatusNoContent)
			return
		}
		r = r.Clone(r.Context())
		r.Header.Del("Origin") // it was judged
		next.ServeHTTP(w, r)
	})
}
