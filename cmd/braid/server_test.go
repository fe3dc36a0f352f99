package main

import "testing"

// The URL of a server may be what a browser's address line shows.
func TestServerURLs(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ why, url, token, base, want string }{
		{"as braid dev prints it", "http://127.0.0.1:7300/?token=t", "", "http://127.0.0.1:7300", "t"},
		{"of a session's page", "http://127.0.0.1:7300/?token=t#/session/s", "", "http://127.0.0.1:7300", "t"},
		{"of a page that has its token", "http://127.0.0.1:7300/#/session/s", "u", "http://127.0.0.1:7300", "u"},
		{"below a proxy's path", "https://h/braid/", "u", "https://h/braid", "u"},
	} {
		f := serverFlags{url: test.url, token: test.token}
		if base, token := f.target(); base != test.base || token != test.want {
			t.Errorf("%s: %s with %q, want %s with %q", test.why, base, token, test.base, test.want)
		}
	}
}
