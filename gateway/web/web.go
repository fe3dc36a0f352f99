package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"net/http"
	"path"
	"time"
)

//go:embed static
var static embed.FS

// policy is what the page may do: run its own modules, use its own styles, talk to its own origin,
// and show pictures that are part of messages.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
	"img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// Index is the name of the page itself.
const Index = "index.html"

// Files are the page and what belongs to it. They never change; it is safe for concurrent use.
type Files struct {
	byName map[string]file
}

type file struct {
	body []byte
	tag  string // of its content
	kind string
}

// The media types are told here, since those a system knows differ.
func mediaType(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	return "application/octet-stream"
}

// New reads what is embedded.
func New() (*Files, error) {
	entries, err := static.ReadDir("static")
	if err != nil {
		return nil, fmt.Errorf("read the embedded page: %w", err)
	}
	f := &Files{byName: map[string]file{}}
	for _, entry := range entries {
		body, err := static.ReadFile("static/" + entry.Name())
		if err != nil {
			return nil, fmt.Errorf("read the embedded page: %w", err)
		}
		sum := sha256.Sum256(body)
		f.byName[entry.Name()] = file{body: body, tag: `"` + hex.EncodeToString(sum[:8]) + `"`, kind: mediaType(entry.Name())}
	}
	return f, nil
}

// Serve answers with the file of that name. It reports false, having written nothing, if there is
// none.
func (f *Files) Serve(w http.ResponseWriter, r *http.Request, name string) bool {
	found, ok := f.byName[name]
	if !ok {
		return false
	}
	h := w.Header()
	h.Set("Content-Type", found.kind)
	h.Set("Content-Security-Policy", policy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	// The browser asks each time whether it has the newest, so that no tab mixes two versions.
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", found.tag)
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(found.body))
	return true
}
