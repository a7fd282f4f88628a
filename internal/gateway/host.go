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

// Host is a parsed entry of a list of hosts.
type Host struct {
	name       string     // in lower case, "" for an address
	subdomains bool       // only names below the name, not the name itself
	addr       netip.Addr // set if the entry is an address
	port       string     // "" means 80 and 443
}

var hostName = trellis.Pattern(`^[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*$`)

// isName reports whether a name is valid for a server, or is an address.
func isName(name string) bool {
	const longest = 253 // bytes of a DNS name
	_, err := netip.ParseAddr(name)
	return err == nil || len(name) <= longest && hostName().MatchString(name)
}

// ParseHost parses an entry: api.example.org, api.example.org:8443, *.example.org, 10.1.2.3 or [::1]:8080.
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
	h := Host{name: rest, subdomains: below, port: port}
	if err == nil {
		h = Host{addr: addr.Unmap(), port: port}
	}
	if n, _ := strconv.Atoi(port); h.isLoopback() && n < firstUnprivilegedPort {
		return Host{}, fmt.Errorf("a server of this machine is written with its port, of %d or more, as 127.0.0.1:8080, not %q", firstUnprivilegedPort, entry)
	}
	return h, nil
}

// firstUnprivilegedPort is the first port on which any user may listen.
const firstUnprivilegedPort = 1024

// isLoopback reports whether an entry is on this machine.
func (h Host) isLoopback() bool { return h.addr.IsLoopback() || h.name == "localhost" && !h.subdomains }

// Server returns the host and port of a URL, or "" if its scheme is neither http nor https.
func Server(address string) string {
	u, err := url.Parse(strings.TrimSpace(address))
	ports := map[string]string{"http": "80", "https": "443"}
	if err != nil || ports[strings.ToLower(u.Scheme)] == "" || u.Hostname() == "" {
		return ""
	}
	port := cmp.Or(u.Port(), ports[strings.ToLower(u.Scheme)])
	return net.JoinHostPort(plainName(u.Hostname()), port)
}

// plainName returns a name in the form in which names are compared.
func plainName(name string) string { return strings.TrimSuffix(strings.ToLower(name), ".") }

// matches reports whether the entry allows a requested host.
func (h Host) matches(name, port string) bool {
	if h.port != port && (h.port != "" || port != "80" && port != "443") {
		return false
	}
	if addr, err := netip.ParseAddr(name); err == nil {
		return h.addr == addr.Unmap()
	}
	return h.name != "" && isName(name) && (!h.subdomains && name == h.name || h.subdomains && strings.HasSuffix(name, "."+h.name))
}

// loopbackAddress returns the loopback address at which programs reach an entry on this machine without a proxy, "" for others.
func (h Host) loopbackAddress() string {
	switch {
	case h.addr.IsLoopback():
		return net.JoinHostPort(h.addr.String(), h.port)
	case h.isLoopback():
		return net.JoinHostPort("127.0.0.1", h.port)
	}
	return ""
}

// String returns the address for dialling an entry that has a port.
func (h Host) String() string {
	name := h.name
	if h.addr.IsValid() {
		name = h.addr.String()
	}
	return net.JoinHostPort(name, h.port)
}
