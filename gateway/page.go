package gateway

import (
	"net/http"

	"braid/gateway/web"
	"braid/schemas"
)

// page serves the web page. It asks for no token: the page holds nothing, and asks for one itself.
func (g *Gateway) page(w http.ResponseWriter, r *http.Request) error {
	g.files.Serve(w, r, web.Index)
	return nil
}

// pageFile serves what the page consists of.
func (g *Gateway) pageFile(w http.ResponseWriter, r *http.Request) error {
	if !g.files.Serve(w, r, r.PathValue("file")) {
		return schemas.Errorf(schemas.CodeNotFound, "the page has no such file")
	}
	return nil
}
