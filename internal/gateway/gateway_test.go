package gateway_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/trellis-tasks/trellis/internal/gateway"
	"github.com/trellis-tasks/trellis/internal/gittest"
)

func TestMain(m *testing.M) { gittest.VerifyTestMain(m) }

// world has the addresses of names, and the server that answers at every address.
type world struct {
	names  map[string]string
	server string
	mu     sync.Mutex
	dialed []string
}

func (w *world) lookup(_ context.Context, name string) (found []netip.Addr, err error) {
	for a := range strings.FieldsSeq(w.names[name]) {
		found = append(found, netip.MustParseAddr(a))
	}
	if found == nil {
		err = errors.New("no such host")
	}
	return found, err
}

func (w *world) dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	w.mu.Lock()
	w.dialed = append(w.dialed, to.String())
	w.mu.Unlock()
	return (&net.Dialer{}).DialContext(ctx, "tcp", w.server)
}

// open starts a gateway, and returns it with a client that uses it.
func open(t *testing.T, w *world, o gateway.Options) (*gateway.Gateway, *http.Client) {
	t.Helper()
	o.Lookup, o.Dial = w.lookup, w.dial
	g := gateway.New(o)
	var ls []net.Listener
	for range g.Addresses() {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ls = append(ls, l)
	}
	g.Serve(ls)
	at := &url.URL{Scheme: "http", Host: ls[len(ls)-1].Addr().String()}
	transport := &http.Transport{Proxy: http.ProxyURL(at)}
	t.Cleanup(func() { transport.CloseIdleConnections(); g.Close() })
	return g, &http.Client{Transport: transport}
}

// hello starts a server that says hello, over TLS if secure is true, and returns its address.
func hello(t *testing.T, secure bool) (server *httptest.Server, address string) {
	t.Helper()
	says := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "hello %s %s", r.Method, r.Host) })
	server = httptest.NewUnstartedServer(says)
	if secure {
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	return server, server.Listener.Addr().String()
}

// Hosts that are named are reached, by CONNECT and by plain requests, and nothing else is, in whatever way it is named.
func TestReachesWhatIsNamed(t *testing.T) {
	_, address := hello(t, false)
	w := &world{server: address, names: map[string]string{"api.example.org": "203.0.113.1", "a.b.example.net": "2001:db8::1 203.0.113.2", "example.net": "203.0.113.3", "other.example.org": "203.0.113.4"}}
	g, client := open(t, w, gateway.Options{Hosts: []string{"api.example.org", "*.example.net", "port.example.org:8080", "203.0.113.9", "no host at all"}})
	w.names["port.example.org"] = "203.0.113.5"
	for _, to := range []string{"http://api.example.org/x", "http://API.example.org./x", "http://a.b.example.net/", "http://port.example.org:8080/", "http://203.0.113.9/"} {
		res, err := client.Get(to)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if u, _ := url.Parse(to); res.StatusCode != 200 || string(body) != "hello GET "+u.Host {
			t.Errorf("%s: got %s, %q", to, res.Status, body)
		}
	}
	for _, to := range []string{"http://other.example.org/", "http://example.net/", "http://api.example.org:8080/", "http://port.example.org/", "http://203.0.113.1/", "http://127.0.0.1/", "http://[::1]/",
		"http://api.example.org.evil.org/", "http://evilexample.net/", "http://[::ffff:203.0.113.1]/", "http://2130706433/", "http://localhost/"} {
		res, err := client.Get(to)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != 403 || !strings.Contains(string(body), "which is not let through; next: add it to sandbox_hosts") {
			t.Errorf("%s: got %s, %q, want a refusal", to, res.Status, body)
		}
	}
	for _, who := range []string{"a.b.example.net", "api.example.org:80", "api.example.org"} {
		if got := connect(t, client, who); (got == "hello GET x") != strings.Contains(who, ":") {
			t.Errorf("CONNECT %s: got %q", who, got)
		}
	}
	if got := g.Refused(); len(got) != 12 || got[0] != "other.example.org, which is not let through; next: add it to sandbox_hosts in .trellis/config.yaml" {
		t.Errorf("got %q, want each refused host once", got)
	}
	if !slices.Contains(w.dialed, "203.0.113.2:80") || slices.Contains(w.dialed, "[2001:db8::1]:80") {
		t.Errorf("got %v, want IPv4 first", w.dialed)
	}
}

// toProxy returns a connection to the proxy of a client.
func toProxy(t *testing.T, client *http.Client) net.Conn {
	t.Helper()
	via, err := client.Transport.(*http.Transport).Proxy(nil)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", via.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// connect asks for a connection and for a page on it, and returns the body of the page.
func connect(t *testing.T, client *http.Client, to string) string {
	t.Helper()
	conn := toProxy(t, client)
	fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", to, to) // sent without waiting for the answer
	all, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(all), "\r\n\r\nHTTP/1.1 200 OK\r\n")
	_, body, _ = strings.Cut(body, "\r\n\r\n")
	return body
}

// An allowed name leads neither to this machine nor into its networks, whatever it resolves to, unless the address is named too
// or a person set up the server.
func TestNamesThatLeadInside(t *testing.T) {
	_, address := hello(t, false)
	own := ""
	for _, a := range addrs(t) {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().IsGlobalUnicast() {
			own = " " + p.Addr().String()
		}
	}
	for _, inside := range strings.Fields("127.0.0.1 127.9.9.9 ::1 ::ffff:127.0.0.1 0.0.0.0 :: 10.1.2.3 172.16.0.1 192.168.1.1 169.254.169.254 fe80::1 fd00::1 100.64.0.1 64:ff9b::7f00:1 2002:7f00:1:: 224.0.0.1 255.255.255.255" + own) {
		w := &world{server: address, names: map[string]string{"api.example.org": inside}}
		g, client := open(t, w, gateway.Options{Hosts: []string{"api.example.org"}})
		res, err := client.Get("http://api.example.org/")
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if got := g.Refused(); res.StatusCode != 403 || len(w.dialed) > 0 || len(got) != 1 || !strings.Contains(got[0], "on this machine or a network of its own; next: add that address too to sandbox_hosts") {
			t.Errorf("%s: got %s, %v, dialed %v", inside, res.Status, got, w.dialed)
		}
	}
	for name, o := range map[string]gateway.Options{"named": {Hosts: []string{"api.example.org", "10.1.2.3"}}, "set up": {Servers: []string{"api.example.org:80"}}} {
		w := &world{server: address, names: map[string]string{"api.example.org": "10.1.2.3"}}
		_, client := open(t, w, o)
		res, err := client.Get("http://api.example.org/")
		if err != nil {
			t.Fatal(err)
		}
		if res.Body.Close(); res.StatusCode != 200 || !slices.Equal(w.dialed, []string{"10.1.2.3:80"}) {
			t.Errorf("%s: got %s, dialed %v", name, res.Status, w.dialed)
		}
	}
	w := &world{server: address, names: map[string]string{"api.example.org": "127.0.0.1 203.0.113.1"}}
	_, client := open(t, w, gateway.Options{Hosts: []string{"api.example.org"}})
	res, err := client.Get("http://api.example.org/")
	if err != nil {
		t.Fatal(err)
	}
	if res.Body.Close(); !slices.Equal(w.dialed, []string{"203.0.113.1:80"}) {
		t.Errorf("of two addresses: dialed %v", w.dialed)
	}
}

func addrs(t *testing.T) []net.Addr {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A named server of this machine is reached at its own address where the program runs, and by the proxy.
func TestServersOfThisMachine(t *testing.T) {
	server, address := hello(t, false)
	_, port, _ := net.SplitHostPort(address)
	g := gateway.New(gateway.Options{Servers: []string{gateway.Server(server.URL + "/v1"), gateway.Server("http://localhost:" + port)}, Hosts: []string{"[::1]:1025", "localhost", "127.0.0.1:80", "*.localhost:9"}})
	if got := g.Addresses(); !slices.Equal(got, []string{"[::1]:1025", address, "127.0.0.1:0"}) {
		t.Fatalf("got %v", got)
	}
	var ls []net.Listener
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ls = append(ls, l)
	}
	g.Serve(ls)
	direct := &http.Transport{}
	for _, client := range []*http.Client{{Transport: direct}, {Transport: &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: ls[2].Addr().String()})}}} {
		to := "http://" + ls[1].Addr().String()
		if client.Transport != direct {
			to = server.URL
		}
		res, err := client.Get(to)
		if err != nil {
			t.Fatal(err)
		}
		if res.Body.Close(); res.StatusCode != 200 {
			t.Errorf("got %s", res.Status)
		}
		client.CloseIdleConnections()
	}
	if _, err := (&http.Client{Transport: direct}).Get("http://" + ls[0].Addr().String()); err == nil {
		t.Error("got an answer where nobody listens")
	}
	g.Close()
	for _, l := range ls {
		if conn, err := net.Dial("tcp", l.Addr().String()); err == nil {
			conn.Close()
			t.Error("it listens after its end")
		}
	}
}

// If this machine uses a proxy, the gateway does too, and asks the proxy for nothing that is not allowed.
func TestChains(t *testing.T) {
	server, address := hello(t, true)
	for _, variable := range []string{"HTTPS_PROXY", "all_proxy"} {
		upstream, asked := relay(t, address)
		w := &world{}
		_, client := open(t, w, gateway.Options{Hosts: []string{"example.com"}, Environ: []string{variable + "=http://me:word@" + upstream, "NO_PROXY=other.example.com"}})
		client.Transport.(*http.Transport).TLSClientConfig = server.Client().Transport.(*http.Transport).TLSClientConfig
		res, err := client.Get("https://example.com/")
		if err != nil {
			t.Fatal(err)
		}
		if res.Body.Close(); res.StatusCode != 200 || len(w.dialed) > 0 {
			t.Errorf("got %s, dialed %v", res.Status, w.dialed)
		}
		if res, err := client.Get("https://other.example.com/"); err == nil {
			res.Body.Close()
			t.Error("got what is not allowed")
		}
		if got := asked(); !slices.Equal(got, []string{"example.com:443 Basic bWU6d29yZA=="}) {
			t.Errorf("got %v", got)
		}
	}
}

// The address of a proxy that can't be parsed is not shown to the program, since it may contain credentials.
func TestProxyWithoutAnAddress(t *testing.T) {
	_, client := open(t, &world{}, gateway.Options{Hosts: []string{"api.example.org"}, Environ: []string{"http_proxy=http://me:word@[", "https_proxy=http://me:word@["}})
	res, err := client.Get("http://api.example.org/")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(res.Body)
	res.Body.Close()
	_, err = client.Get("https://api.example.org/")
	if said := string(body) + fmt.Sprint(err); res.StatusCode != 502 || err == nil || strings.Contains(said, "word") {
		t.Errorf("got %s, %s", res.Status, said)
	}
}

// relay starts another proxy, which connects every request to one server, and returns its address and the requests so far.
func relay(t *testing.T, server string) (address string, asked func() []string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var all []string
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer conn.Close()
				r, err := http.ReadRequest(bufio.NewReader(conn))
				if err != nil {
					return
				}
				mu.Lock()
				all = append(all, r.Host+" "+r.Header.Get("Proxy-Authorization"))
				mu.Unlock()
				to, err := net.Dial("tcp", server)
				if err != nil {
					return
				}
				defer to.Close()
				io.WriteString(conn, "HTTP/1.1 200 fine\r\n\r\n")
				running.Go(func() { io.Copy(to, conn); to.Close() })
				io.Copy(conn, to)
			})
		}
	})
	t.Cleanup(func() { l.Close(); running.Wait() })
	return l.Addr().String(), func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

// The end of a gateway ends all its connections, also silent ones; connections beyond its limit wait.
func TestEndsAndBounds(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	w := &world{server: silent.Addr().String(), names: map[string]string{"api.example.org": "203.0.113.1"}}
	g, client := open(t, w, gateway.Options{Hosts: []string{"api.example.org"}})
	via, _ := client.Transport.(*http.Transport).Proxy(nil)
	var conns []net.Conn
	for range 300 {
		conn, err := net.Dial("tcp", via.Host)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprint(conn, "CONNECT api.example.org:443 HTTP/1.1\r\nHost: api.example.org:443\r\n\r\n")
		conns = append(conns, conn)
	}
	answer := make([]byte, 12)
	if _, err := io.ReadFull(conns[0], answer); err != nil || string(answer) != "HTTP/1.1 200" {
		t.Fatalf("got %q, %v", answer, err)
	}
	g.Close()
	w.mu.Lock()
	if len(w.dialed) > 256 {
		t.Errorf("got %d connections at once", len(w.dialed))
	}
	w.mu.Unlock()
	for _, conn := range conns {
		_, _ = io.Copy(io.Discard, conn) // must end
	}
}

// Input to the proxy does not leak: what a program sends does not reach people by the page, and the credentials of the next proxy
// do not reach the program.
func TestWhatIsSaidStaysShort(t *testing.T) {
	_, address := hello(t, false)
	upstream, asked := relay(t, address)
	for _, tt := range []struct{ say, environ, answer, refused string }{
		{say: "TRACE http://api.example.org/ HTTP/1.1\r\nHost: api.example.org\r\nMax-Forwards: 0\r\n\r\n", environ: "HTTP_PROXY=http://me:word@" + upstream, answer: "passes no TRACE on"},
		{say: "CONNECT api.example.org:443 HTTP/1.1\r\nHost: api.example.org:443\r\n\r\n", environ: "HTTPS_PROXY=http://me:w%ord@" + upstream, answer: "names has no address"},
		{say: "GET http://" + strings.Repeat("a", 40_000) + "/ HTTP/1.1\r\nHost: x\r\n\r\n", answer: "403 Forbidden", refused: strings.Repeat("a", 100)},
		{say: "GET http://x/ HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("a", 1<<20) + "\r\n\r\n", answer: "431 Request Header Fields Too Large"},
		{say: "CONNECT ?x HTTP/1.1\r\nHost: a:run(curl)\r\n\r\n", answer: "a port is a number"},
		{say: "CONNECT ?x HTTP/1.1\r\nHost: evil.org%00;'.example.net:443\r\n\r\n", answer: "403 Forbidden", refused: "evil.org%00;'.example.net"},
	} {
		w := &world{server: address, names: map[string]string{"api.example.org": "203.0.113.1"}}
		g, client := open(t, w, gateway.Options{Hosts: []string{"api.example.org", "*.example.net"}, Environ: []string{tt.environ}})
		answer := say(t, client, tt.say)
		refused := strings.Join(g.Refused(), "")
		if !strings.Contains(answer, tt.answer) || strings.Contains(answer, "word") || strings.Contains(answer, "w%ord") || !strings.Contains(refused, tt.refused) || len(refused) > 300 || tt.refused == "" && refused != "" {
			t.Errorf("%.60q: got %.300q, refused %.300q", tt.say, answer, refused)
		}
	}
	if got := asked(); len(got) > 0 {
		t.Errorf("the next proxy was asked for %v", got)
	}
}

// say sends text to the proxy of a client and returns the proxy's answer.
func say(t *testing.T, client *http.Client, text string) string {
	t.Helper()
	conn := toProxy(t, client)
	go io.WriteString(conn, text) //nolint:errcheck // the answer may come before all is said
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.Status + "\n" + string(body)
}

func TestHosts(t *testing.T) {
	for entry, want := range map[string]string{"https://api.example.org": "is written as", "*": "is written as", "a b": "is written as", "": "is written as", "api.example.org:http": "is written as", "api.example.org:0": "is written as",
		"api.example.org:99999": "is written as", "a.*.org": "is written as", "api.example.org/v1": "is written as", "10.0.0.0/8": "is written as", "fe80::1%eth0": "is written as",
		"API.example.org.": "", "*.example.org:8443": "", "::1": "with its port", "[::1]": "with its port", "[::1]:80": "with its port", "localhost:1": "with its port", "localhost": "with its port", "[::1]:1024": "", "localhost:8080": "", "_dns.a-b.example": ""} {
		_, err := gateway.ParseHost(entry)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: got %v, want %q", entry, err, want)
		}
	}
	for url, want := range map[string]string{"https://api.example.org/v1": "api.example.org:443", "HTTP://Api.Example.org.": "api.example.org:80", "http://[::1]:8080/": "[::1]:8080", "ftp://x": "", "api.example.org": "", "": "", "http://": ""} {
		if got := gateway.Server(url); got != want {
			t.Errorf("%q: got %q, want %q", url, got, want)
		}
	}
}
