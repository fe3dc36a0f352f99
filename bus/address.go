package bus

import (
	"fmt"
	"net/url"
	"strings"
)

// checkAddresses checks that urls is the URL of a broker, or several separated by commas: anything else
// is refused at once, since waiting for such a broker would never end well. The error does not repeat
// what was given, since a password may be in it.
func checkAddresses(urls string) error {
	parts := strings.Split(urls, ",")
	for i, part := range parts {
		part = strings.TrimSpace(part)
		if !strings.Contains(part, "://") {
			part = "nats://" + part
		}
		u, err := url.Parse(part)
		if err != nil || u.Hostname() == "" {
			return fmt.Errorf("connect to broker: address %d of %d is no URL such as nats://127.0.0.1:4222", i+1, len(parts))
		}
	}
	return nil
}

// redact makes URLs fit to be shown: user names, passwords and tokens are left out.
func redact(urls string) string {
	parts := strings.Split(urls, ",")
	for i, part := range parts {
		scheme, rest, found := strings.Cut(part, "://")
		if !found {
			scheme, rest = "", part
		}
		at := strings.LastIndexByte(rest, '@')
		if at < 0 {
			continue
		}
		if rest = "xxxxx" + rest[at:]; found {
			rest = scheme + "://" + rest
		}
		parts[i] = rest
	}
	return strings.Join(parts, ",")
}
