package main

import (
	"cmp"
	"context"
	"net/url"
	"strings"

	"github.com/spf13/pflag"

	"braid/client"
	"braid/internal/cli"
)

// serverFlags name a running gateway.
type serverFlags struct {
	url   string
	token string
}

func (f *serverFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.url, "server", "", "`URL` of a gateway, as \"braid dev\" prints it")
	flags.StringVar(&f.token, "token", "", "the gateway's token, unless the URL has it; better set "+cli.EnvName("token")+", since command lines are visible to others")
}

// client returns a client of the server; nil if none was named.
func (f *serverFlags) client() *client.Client {
	base, token := f.target()
	if base == "" {
		return nil
	}
	return client.New(client.HTTP(base, token))
}

// reach returns a client of the server; nil if none was named. A person should not have to wait for one
// that is not there.
func (f *serverFlags) reach(ctx context.Context) (*client.Client, error) {
	c := f.client()
	if c == nil {
		return nil, nil //nolint:nilnil // nothing was named, nothing is wrong
	}
	if err := c.Ping(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// target is the server's URL, without a token, and its token.
func (f *serverFlags) target() (base, token string) {
	base, token = f.url, f.token
	if u, err := url.Parse(base); err == nil {
		token = cmp.Or(u.Query().Get("token"), token)
		u.RawQuery, u.Fragment, u.Path = "", "", strings.TrimSuffix(u.Path, "/")
		base = u.String()
	}
	return base, token
}
