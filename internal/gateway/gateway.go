// Package gateway lets a program without a network reach a few hosts. On listeners inside the program's network it serves an HTTP
// proxy and the configured servers of this machine.
package gateway

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Options say which hosts can be reached.
type Options struct {
	Hosts []string // entries in the form of ParseHost; invalid ones are ignored
	// Servers are host:port of servers that a person configured for the program. Only their names may resolve to this machine or
	// its networks; servers on a loopback are also reached without the proxy.
	Servers []string
	Environ []string                                                       // its proxy variables say how hosts are reached from here
	Lookup  func(ctx context.Context, name string) ([]netip.Addr, error)   // nil: as this machine does it
	Dial    func(ctx context.Context, to netip.AddrPort) (net.Conn, error) // nil: as this machine does it
}

// Gateway is the connection of one program to the outside. Its methods may be called concurrently.
type Gateway struct {
	o        Options
	hosts    []Host
	forwards []Host // entries on this machine that are reached without the proxy
	direct   *http.Transport
	viaProxy *http.Transport
	ctx      context.Context // ends at Close
	cancel   context.CancelFunc
	slots    chan struct{} // one element per connection
	running  sync.WaitGroup
	mu       sync.Mutex
	refused  []string
}

const (
	maxConnections = 256
	maxHeader      = 64 << 10 // bytes of the headers of each connection: a program may fill all connections with headers
	maxIdle        = 16       // idle connections to servers that are kept for the next request
	idleTimeout    = 90 * time.Second
	maxRefused     = 20 // refusals that are reported to people
)

// New returns a gateway that does not serve yet.
func New(o Options) *Gateway {
	g := &Gateway{o: o, slots: make(chan struct{}, maxConnections)}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	for _, entry := range slices.Concat(o.Hosts, o.Servers) {
		h, err := ParseHost(entry)
		if err != nil {
			continue
		}
		g.hosts = append(g.hosts, h)
		if at := h.loopbackAddress(); at != "" && !slices.ContainsFunc(g.forwards, func(f Host) bool { return f.loopbackAddress() == at }) {
			g.forwards = append(g.forwards, h)
		}
	}
	g.direct = &http.Transport{DisableCompression: true, MaxResponseHeaderBytes: maxHeader, MaxIdleConns: maxIdle, IdleConnTimeout: idleTimeout, DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
		name, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		return g.dial(ctx, plainName(name), port)
	}}
	g.viaProxy = &http.Transport{DisableCompression: true, MaxResponseHeaderBytes: maxHeader, MaxIdleConns: maxIdle, IdleConnTimeout: idleTimeout, Proxy: Proxies(o.Environ).ProxyFor}
	return g
}

// Addresses returns the addresses to listen on. The last one is for the proxy.
func (g *Gateway) Addresses() (list []string) {
	for _, h := range g.forwards {
		list = append(list, h.loopbackAddress())
	}
	return append(list, "127.0.0.1:0")
}

// Serve starts serving on listeners, which are in the order of Addresses. The gateway takes ownership of them.
func (g *Gateway) Serve(listeners []net.Listener) {
	if len(listeners) == 0 {
		return
	}
	for i, l := range listeners[:len(listeners)-1] {
		g.acceptForwards(&limitedListener{l, g}, g.forwards[i])
	}
	server := &http.Server{Handler: http.HandlerFunc(g.handle), ReadHeaderTimeout: time.Minute, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader, ErrorLog: log.New(io.Discard, "", 0), ConnState: connStateChanged,
		BaseContext: func(net.Listener) context.Context { return g.ctx }, ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) }}
	context.AfterFunc(g.ctx, func() { server.Close() })
	g.running.Go(func() { server.Serve(&limitedListener{listeners[len(listeners)-1], g}) }) //nolint:errcheck // it ends with Close
}

// Close closes all connections and returns when all goroutines have ended.
func (g *Gateway) Close() {
	g.cancel()
	g.running.Wait()
	g.direct.CloseIdleConnections()
	g.viaProxy.CloseIdleConnections()
}

// Refused returns the hosts that were asked for and refused, each once, as the end of a sentence.
func (g *Gateway) Refused() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.refused)
}

// acceptForwards connects each connection of a listener with a server of this machine.
func (g *Gateway) acceptForwards(l net.Listener, to Host) {
	context.AfterFunc(g.ctx, func() { l.Close() })
	g.running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go g.forward(conn.(*slotConn), to) // Close waits for its connection
		}
	})
}

func (g *Gateway) forward(conn *slotConn, to Host) {
	defer conn.release()
	server, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(g.ctx, "tcp", to.String())
	if err != nil {
		conn.Close()
		return
	}
	g.copyBoth(conn, conn, server)
}

// handle serves a request to the proxy.
func (g *Gateway) handle(w http.ResponseWriter, r *http.Request) {
	conn := r.Context().Value(connKey{}).(*slotConn)
	defer func() {
		if conn.hijacked {
			conn.release()
		}
	}()
	name, port, err := requestedServer(r)
	if err == nil {
		err = g.checkAllowed(name, port)
	}
	switch {
	case err != nil:
		g.fail(w, err)
	case r.Method == http.MethodConnect:
		g.connect(w, r, name, port)
	default:
		g.forwardRequest(w, r)
	}
}

// requestedServer returns the server that a request is for.
func requestedServer(r *http.Request) (name, port string, err error) {
	switch {
	case r.Method == http.MethodTrace: // TRACE would reveal what the next proxy is sent, including its account
		err = errors.New("this proxy passes no TRACE on")
	case r.Method == http.MethodConnect:
		name, port, err = net.SplitHostPort(r.Host)
	case r.URL.Scheme == "http" && r.URL.Host != "":
		name, port, err = net.SplitHostPort(Server(r.URL.String()))
	default:
		err = errors.New("this is a proxy, which takes CONNECT and http:// requests")
	}
	if n, wrong := strconv.ParseUint(port, 10, 16); err == nil && (wrong != nil || n == 0) {
		err = errors.New("a port is a number from 1 to 65535")
	}
	return plainName(name), port, err
}

// connect serves a CONNECT request.
func (g *Gateway) connect(w http.ResponseWriter, r *http.Request, name, port string) {
	server, err := g.reach(r.Context(), name, port)
	if err != nil {
		g.fail(w, err)
		return
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		server.Close()
		return
	}
	if _, err := io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		conn.Close()
		server.Close()
		return
	}
	g.copyBoth(conn, clientReader(conn, buffered.Reader), server)
}

// clientReader returns what a client sends, including what it sent before it got the answer to its request.
func clientReader(conn net.Conn, said *bufio.Reader) io.Reader {
	return io.MultiReader(io.LimitReader(said, int64(said.Buffered())), conn)
}

// forwardRequest forwards a request to the server and returns the server's response.
func (g *Gateway) forwardRequest(w http.ResponseWriter, r *http.Request) {
	transport := g.direct
	switch via, err := Proxies(g.o.Environ).ProxyFor(r); {
	case err != nil:
		g.fail(w, errProxy)
		return
	case via != nil:
		transport = g.viaProxy
	}
	through := &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite:      func(p *httputil.ProxyRequest) { p.Out.Host = p.In.URL.Host },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) { g.fail(w, err) }}
	through.ServeHTTP(w, r)
}

// fail tells the program why its request failed, and records it if it was refused.
func (g *Gateway) fail(w http.ResponseWriter, err error) {
	code := http.StatusBadGateway
	if no, ok := errors.AsType[*refusal](err); ok {
		code = http.StatusForbidden
		g.recordRefusal(no.Error())
	}
	http.Error(w, "trellis: "+err.Error(), code)
}

func (g *Gateway) recordRefusal(what string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.refused) < maxRefused && !slices.Contains(g.refused, what) {
		g.refused = append(g.refused, what)
	}
}

// copyBoth copies data in both directions until both sides are done or the gateway is closed.
func (g *Gateway) copyBoth(conn net.Conn, said io.Reader, server net.Conn) {
	stop := context.AfterFunc(g.ctx, func() { conn.Close(); server.Close() })
	defer stop()
	defer conn.Close()
	defer server.Close()
	var up sync.WaitGroup
	up.Go(func() { copyDirection(server, said, conn) })
	copyDirection(conn, server, server)
	up.Wait()
}

// halfCloseTimeout is how long one side may continue to send after the other is done.
const halfCloseTimeout = time.Minute

// copyDirection copies what one side sends, up to its end, and then closes that direction.
func copyDirection(to net.Conn, said io.Reader, from net.Conn) {
	_, err := io.Copy(to, said)
	half, ok := to.(interface{ CloseWrite() error })
	if err != nil || !ok || half.CloseWrite() != nil {
		to.Close()
		from.Close()
		return
	}
	_ = to.SetReadDeadline(time.Now().Add(halfCloseTimeout)) // an error means that to is closed
}

// limitedListener is a listener that accepts only as many connections as a gateway may have.
type limitedListener struct {
	net.Listener
	g *Gateway
}

func (b *limitedListener) Accept() (net.Conn, error) {
	select {
	case b.g.slots <- struct{}{}:
	case <-b.g.ctx.Done():
		return nil, net.ErrClosed
	}
	conn, err := b.Listener.Accept()
	if err != nil {
		<-b.g.slots
		return nil, err
	}
	b.g.running.Add(1) // Add, because its goroutine is started elsewhere
	return &slotConn{Conn: conn, g: b.g}, nil
}

// slotConn is a connection that occupies one of the gateway's slots, and that Close waits for, until release is called.
type slotConn struct {
	net.Conn
	g        *Gateway
	hijacked bool // taken over from the HTTP server by a handler
	once     sync.Once
}

// connKey is the context key for the connection of a request.
type connKey struct{}

// connStateChanged frees the slot of a connection that the HTTP server has closed.
func connStateChanged(c net.Conn, state http.ConnState) {
	switch conn := c.(*slotConn); state {
	case http.StateHijacked:
		conn.hijacked = true
	case http.StateClosed:
		conn.release()
	}
}

func (c *slotConn) release() {
	c.once.Do(func() { <-c.g.slots; c.g.running.Done() })
}

// CloseWrite closes the direction to the program, which may still send.
func (c *slotConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// refusal is the error for a host that is not allowed.
type refusal struct{ name, port, why, next string }

func (r *refusal) Error() string {
	name := r.name
	if !isName(name) {
		name = strconv.Quote(name[:min(len(name), 100)])
	}
	if r.port != "443" && r.port != "80" {
		name = net.JoinHostPort(name, r.port)
	}
	return fmt.Sprintf("%s, %s; next: add %s to sandbox_hosts in .trellis/config.yaml", name, r.why, r.next)
}
