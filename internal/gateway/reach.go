package gateway

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"golang.org/x/net/proxy"
)

// dialTimeout is how long a server may take to accept a connection.
const dialTimeout = 30 * time.Second

// checkAllowed returns a refusal unless an entry allows the host.
func (g *Gateway) checkAllowed(name, port string) error {
	if slices.ContainsFunc(g.hosts, func(h Host) bool { return h.matches(name, port) }) {
		return nil
	}
	return &refusal{name: name, port: port, why: "which is not let through", next: "it"}
}

// errProxy does not contain the address: it may hold an account, and the program sees this error.
var errProxy = errors.New("the proxy that this machine's environment names has no address")

// reach connects to an allowed host, through the proxy that this machine uses for it.
func (g *Gateway) reach(ctx context.Context, name, port string) (net.Conn, error) {
	address := net.JoinHostPort(name, port)
	via, err := Proxies(g.o.Environ).proxyFor(&url.URL{Scheme: "https", Host: address})
	switch {
	case err != nil:
		return nil, errProxy
	case via == nil:
		return g.dial(ctx, name, port)
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := dialThrough(ctx, via, address)
	if err != nil {
		return nil, fmt.Errorf("reaching %s through %s: %w", name, via.Host, err)
	}
	return conn, nil
}

// dial connects to an allowed host, at one of its allowed addresses.
func (g *Gateway) dial(ctx context.Context, name, port string) (net.Conn, error) {
	addresses, err := g.addresses(ctx, name, port)
	if err != nil {
		return nil, err
	}
	number, err := net.LookupPort("tcp", port)
	if err != nil {
		return nil, err
	}
	for _, address := range addresses {
		conn, failed := g.dialAddress(ctx, netip.AddrPortFrom(address, uint16(number)))
		if failed == nil {
			return conn, nil
		}
		err = cmp.Or(err, failed)
	}
	return nil, fmt.Errorf("reaching %s: %w", name, err)
}

func (g *Gateway) dialAddress(ctx context.Context, at netip.AddrPort) (net.Conn, error) {
	if g.o.Dial != nil {
		return g.o.Dial(ctx, at)
	}
	return (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", at.String())
}

// addresses returns the addresses of a host that may be reached, in the order in which they are tried. A name that resolves to
// this machine or its networks is refused, unless a person configured the server of that name or the address itself is allowed.
func (g *Gateway) addresses(ctx context.Context, name, port string) ([]netip.Addr, error) {
	if address, err := netip.ParseAddr(name); err == nil {
		return []netip.Addr{address}, nil // an entry names it, or it would not be allowed
	}
	lookup := g.o.Lookup
	if lookup == nil {
		lookup = func(ctx context.Context, name string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
		}
	}
	found, err := lookup(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("looking up %s: %w", name, err)
	}
	if slices.Contains(g.o.Servers, net.JoinHostPort(name, port)) {
		return found, nil
	}
	ours, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("listing the addresses of this machine: %w", err)
	}
	allowed := []netip.Addr{}
	for _, address := range found {
		address = address.Unmap()
		if g.checkAllowed(address.String(), port) == nil || isPublic(address) && !containsAddress(ours, address) {
			allowed = append(allowed, address)
		}
	}
	if len(allowed) == 0 && len(found) > 0 {
		return nil, &refusal{name: name, port: port, why: "which leads to " + found[0].String() + ", on this machine or a network of its own", next: "that address too"}
	}
	slices.SortStableFunc(allowed, func(a, b netip.Addr) int { return a.BitLen() - b.BitLen() }) // IPv4 first: not every machine has both
	return allowed, nil
}

// nonPublicNetworks are non-public networks that netip does not know.
var nonPublicNetworks = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("::/96")}

// nat64Prefix has IPv4 addresses as machines without IPv4 write them; the last four bytes are the address.
var nat64Prefix = netip.MustParsePrefix("64:ff9b::/96")

// isPublic reports whether an address is public.
func isPublic(a netip.Addr) bool {
	if nat64Prefix.Contains(a) {
		b := a.As16()
		a = netip.AddrFrom4([4]byte(b[12:]))
	}
	return a.IsGlobalUnicast() && !a.IsPrivate() && !slices.ContainsFunc(nonPublicNetworks, func(p netip.Prefix) bool { return p.Contains(a) })
}

// containsAddress reports whether ours contains an address.
func containsAddress(ours []net.Addr, a netip.Addr) bool {
	return slices.ContainsFunc(ours, func(own net.Addr) bool {
		p, err := netip.ParsePrefix(own.String())
		return err == nil && p.Addr().Unmap() == a
	})
}

// dialThrough connects to an address through a proxy.
func dialThrough(ctx context.Context, via *url.URL, address string) (net.Conn, error) {
	if via.Scheme == "socks5" || via.Scheme == "socks5h" {
		d, err := proxy.FromURL(via, &net.Dialer{})
		if err != nil {
			return nil, err
		}
		return d.(proxy.ContextDialer).DialContext(ctx, "tcp", address)
	}
	conn, err := dialProxy(ctx, via)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	if err := tunnel(conn, via, address); err != nil {
		conn.Close()
		return nil, err
	}
	if !stop() {
		return nil, context.Cause(ctx)
	}
	return conn, nil
}

func dialProxy(ctx context.Context, via *url.URL) (net.Conn, error) {
	port := map[string]string{"http": "80", "https": "443"}[via.Scheme]
	if port == "" {
		return nil, fmt.Errorf("a proxy of the kind %q", via.Scheme)
	}
	at := net.JoinHostPort(via.Hostname(), cmp.Or(via.Port(), port))
	if via.Scheme == "https" {
		return (&tls.Dialer{Config: &tls.Config{ServerName: via.Hostname()}}).DialContext(ctx, "tcp", at)
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", at)
}

// tunnel asks a proxy to connect to address.
func tunnel(conn net.Conn, via *url.URL, address string) error {
	r := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address, Header: http.Header{}}
	if u := via.User; u != nil {
		password, _ := u.Password()
		r.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(u.Username()+":"+password)))
	}
	if err := r.Write(conn); err != nil {
		return err
	}
	said := bufio.NewReaderSize(oneByte{conn}, 16) // reads nothing beyond the response
	res, err := http.ReadResponse(said, r)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("it says %s", res.Status)
	}
	return nil
}

// oneByte reads at most one byte at a time.
type oneByte struct{ net.Conn }

func (o oneByte) Read(p []byte) (int, error) { return o.Conn.Read(p[:min(len(p), 1)]) }
