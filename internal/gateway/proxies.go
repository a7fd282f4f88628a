package gateway

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/trellis-tasks/trellis/internal/proc"
)

// Proxies is an environment with proxy variables.
type Proxies []string

// ProxyFor returns the proxy for a request, nil for none: that of the scheme, else that of ALL_PROXY. This machine and the hosts in
// NO_PROXY are reached without one.
func (p Proxies) ProxyFor(r *http.Request) (*url.URL, error) { return p.proxyFor(r.URL) }

func (p Proxies) proxyFor(u *url.URL) (*url.URL, error) {
	if !p.usesProxy(u) {
		return nil, nil
	}
	for _, name := range []string{u.Scheme + "_proxy", "all_proxy"} {
		address := p.variable(name)
		if address == "" {
			continue
		}
		if !strings.Contains(address, "://") {
			address = "http://" + address
		}
		return url.Parse(address)
	}
	return nil, nil
}

func (p Proxies) variable(name string) string {
	if value := p.lookup(name); value != "" {
		return value
	}
	return p.lookup(strings.ToUpper(name))
}

func (p Proxies) lookup(name string) string {
	value, _ := proc.Getenv(p, name)
	return value
}

func (p Proxies) usesProxy(u *url.URL) bool {
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	ip, err := netip.ParseAddr(host)
	if host == "localhost" || err == nil && ip.IsLoopback() {
		return false
	}
	for entry := range strings.SplitSeq(strings.ToLower(p.variable("no_proxy")), ",") {
		entry = strings.TrimSpace(entry)
		if name, port, err := net.SplitHostPort(entry); err == nil {
			if port != u.Port() && (u.Port() != "" || port != map[string]string{"http": "80", "https": "443"}[u.Scheme]) {
				continue
			}
			entry = name
		}
		if entry != "" && noProxyMatches(entry, host, ip) {
			return false
		}
	}
	return true
}

// noProxyMatches reports whether an entry of NO_PROXY matches a host: as a name, a domain above it, an address or a network.
func noProxyMatches(entry, host string, ip netip.Addr) bool {
	if network, err := netip.ParsePrefix(entry); err == nil {
		return network.Contains(ip)
	}
	if at, err := netip.ParseAddr(strings.Trim(entry, "[]")); err == nil {
		return at == ip
	}
	domain := strings.TrimPrefix(strings.TrimPrefix(entry, "*"), ".")
	return entry == "*" || host == domain && entry == domain || domain != "" && strings.HasSuffix(host, "."+domain)
}
