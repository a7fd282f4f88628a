package gateway

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Host is an entry of a list of hosts.
type Host struct {
	name  string     // in lower case, "" for an address
	below bool       // what is below the name, and not itself
	addr  netip.Addr // of an entry that is one
	port  string     // "" are 80 and 443
}

var hostName = trellis.Pattern(`^[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*$`)

// isName reports whether a name is one that a server can have, or an address.
func isName(name string) bool {
	const longest = 253 // bytes, of a name in DNS
	_, err := netip.ParseAddr(name)
	return err == nil || len(name) <= longest && hostName().MatchString(name)
}

// ParseHost reads an entry: api.example.org, api.example.org:8443, *.example.org, 10.1.2.3 or [::1]:8080.
func ParseHost(entry string) (Host, error) {
	name, port, wrong := entry, "", false
	if host, p, err := net.SplitHostPort(entry); err == nil {
		n, err := strconv.ParseUint(p, 10, 16)
		name, port, wrong = host, strconv.FormatUint(n, 10), err != nil || n == 0
	}
	addr, err := netip.ParseAddr(strings.Trim(name, "[]"))
	rest, below := strings.CutPrefix(plainName(name), "*.")
	switch isAddr := err == nil && addr.Zone() == ""; {
	case wrong || !isAddr && !hostName().MatchString(rest):
		return Host{}, fmt.Errorf("a host is written as api.example.org, *.example.org or 127.0.0.1:8080, not %q", entry)
	}
	h := Host{name: rest, below: below, port: port}
	if err == nil {
		h = Host{addr: addr.Unmap(), port: port}
	}
	if n, _ := strconv.Atoi(port); h.loopback() && n < unprivileged {
		return Host{}, fmt.Errorf("a server of this machine is written with its port, of %d or more, as 127.0.0.1:8080, not %q", unprivileged, entry)
	}
	return h, nil
}

// unprivileged is the first port on which anybody may listen.
const unprivileged = 1024

// loopback reports whether an entry is on this machine.
func (h Host) loopback() bool { return h.addr.IsLoopback() || h.name == "localhost" && !h.below }

// Server is the host and port of a URL, "" when it is none of http or https.
func Server(address string) string {
	u, err := url.Parse(strings.TrimSpace(address))
	ports := map[string]string{"http": "80", "https": "443"}
	if err != nil || ports[strings.ToLower(u.Scheme)] == "" || u.Hostname() == "" {
		return ""
	}
	port := cmp.Or(u.Port(), ports[strings.ToLower(u.Scheme)])
	return net.JoinHostPort(plainName(u.Hostname()), port)
}

// plainName is a name as all spellings of it are compared.
func plainName(name string) string { return strings.TrimSuffix(strings.ToLower(name), ".") }

// fits reports whether a host that is asked for is this one.
func (h Host) fits(name, port string) bool {
	if h.port != port && (h.port != "" || port != "80" && port != "443") {
		return false
	}
	if addr, err := netip.ParseAddr(name); err == nil {
		return h.addr == addr.Unmap()
	}
	return h.name != "" && isName(name) && (!h.below && name == h.name || h.below && strings.HasSuffix(name, "."+h.name))
}

// inside is where programs that know of no proxy reach an entry on this machine: an address of a loopback, "" for any other.
func (h Host) inside() string {
	switch {
	case h.addr.IsLoopback():
		return net.JoinHostPort(h.addr.String(), h.port)
	case h.loopback():
		return net.JoinHostPort("127.0.0.1", h.port)
	}
	return ""
}

// String is what is dialed to reach an entry with a port.
func (h Host) String() string {
	name := h.name
	if h.addr.IsValid() {
		name = h.addr.String()
	}
	return net.JoinHostPort(name, h.port)
}
