package gateway

import "net/http"

func (g *Gateway) config(w http.ResponseWriter, r *http.Request)  {}
func (g *Gateway) install(w http.ResponseWriter, r *http.Request) {}
