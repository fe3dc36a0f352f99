package gateway

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/url"
	"strings"

	"braid/schemas"
)

// access says what a route asks of its callers.
type access int

const (
	// accessToken: the header "Authorization: Bearer <token>".
	accessToken access = iota
	// accessTokenOrQuery: that, or the query parameter "token", since an EventSource of a
	// browser can't send headers.
	accessTokenOrQuery
	// accessPage: no token, but a host name that is served here. The page itself is no secret;
	// under a name of somebody else's choice it would be theirs.
	accessPage
	// accessOpen: nothing, under any host name. Probes have no token.
	accessOpen
)

// guard decides which requests are let in: by their token, the host name they were sent to, and the origin
// of the page that sent them. It keeps the token's digest only.
type guard struct {
	token [sha256.Size]byte
	hosts map[string]bool
}

func newGuard(token string, hosts []string) guard {
	g := guard{token: sha256.Sum256([]byte(token)), hosts: map[string]bool{
		"localhost": true, "127.0.0.1": true, "::1": true,
	}}
	for _, h := range hosts {
		g.hosts[strings.ToLower(h)] = true
	}
	return g
}

// admit checks a request against what its route asks for. The error is an *[schemas.Error] of code forbidden
// or unauthorized.
func (g guard) admit(r *http.Request, a access) error {
	if a == accessOpen {
		return nil
	}
	if err := g.checkOrigin(r); err != nil {
		return err
	}
	if a == accessPage {
		return nil
	}
	given, ok := bearer(r.Header)
	if !ok && a == accessTokenOrQuery {
		given = r.URL.Query().Get("token")
	}
	// Digests have one length, so that the comparison takes the same time whatever was given.
	sum := sha256.Sum256([]byte(given))
	if subtle.ConstantTimeCompare(sum[:], g.token[:]) != 1 {
		return schemas.Errorf(schemas.CodeUnauthorized, "the token is missing or wrong")
	}
	return nil
}

// bearer is the token in the header, which is given once; schemes are the same in any case.
func bearer(h http.Header) (token string, ok bool) {
	given := h.Values("Authorization")
	if len(given) != 1 {
		return "", false
	}
	scheme, token, _ := strings.Cut(given[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	return strings.TrimLeft(token, " "), true
}

// checkOrigin refuses requests under a foreign host name and those that a page of another origin
// makes a browser send.
func (g guard) checkOrigin(r *http.Request) error {
	if !g.hosts[hostname(r.Host)] {
		return schemas.Errorf(schemas.CodeForbidden, "this gateway does not serve the host %.80q; its operator can allow it", r.Host)
	}
	for _, origin := range r.Header.Values("Origin") {
		u, err := url.Parse(origin)
		if err != nil || !strings.EqualFold(u.Host, r.Host) || u.Host == "" {
			return schemas.Errorf(schemas.CodeForbidden, "pages of %.80q may not use this gateway", origin)
		}
	}
	return nil
}

// hostname is the name in a Host header, without port and brackets.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
}

// checkPath refuses what the mux would clean up and redirect: an empty or dotted element is a
// mistake in building the path, and following it would reach something that was not meant.
func checkPath(path string) error {
	for i, element := range strings.Split(path, "/") {
		if i > 0 && (element == "" && path != "/" || element == "." || element == "..") {
			return &schemas.Error{Code: schemas.CodeInvalid, Field: "path", Message: "the path has an empty or dotted element"}
		}
	}
	return nil
}
