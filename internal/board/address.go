package board

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"syscall"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Loopback is the default address that a board listens at.
const Loopback = "127.0.0.1"

// Address says where a board is served, and by which names browsers may call it.
type Address struct {
	Bind   string // the address to listen at
	Port   int    // 0: any that is free
	Remote bool   // Bind may be other than loopback
	// Cert and Key are the files with which the board speaks TLS itself.
	Cert, Key string
	// Proxy is the URL by which browsers call the board through a proxy that speaks TLS: https://board.example.org.
	Proxy string
}

// Check returns an error for an address that would let others read along.
func (a Address) Check() error {
	ip := net.ParseIP(a.Bind)
	switch {
	case ip == nil:
		return app.Usagef("--bind %q is not an address: it is one of this machine, such as %s", a.Bind, Loopback)
	case (a.Cert == "") != (a.Key == ""):
		return app.Usagef("--cert and --cert-key go together")
	case !ip.IsLoopback() && !a.Remote:
		return app.WithHints(app.Usagef("%s is not a loopback address: others could reach the board", a.Bind),
			"trellis board --bind "+trellis.ShellWord(a.Bind)+" --allow-remote --cert FILE --cert-key FILE", "trellis board --allow-remote --proxy https://NAME")
	case !ip.IsLoopback() && a.Cert == "" && a.Proxy == "":
		return app.WithHints(app.Usagef("--allow-remote needs TLS, of its own or of a proxy in front: without it others can read the key and all that is shown"),
			"trellis board --bind "+trellis.ShellWord(a.Bind)+" --allow-remote --cert FILE --cert-key FILE", "trellis board --bind "+trellis.ShellWord(a.Bind)+" --allow-remote --proxy https://NAME")
	case a.Proxy != "" && !a.Remote:
		return app.Usagef("--proxy lets others in: add --allow-remote")
	}
	if u, err := url.Parse(a.Proxy); a.Proxy != "" && (err != nil || u.Scheme != "https" || u.Host == "" || u.Path != "") {
		return app.Usagef("--proxy %q is not an address of a proxy: https://NAME", a.Proxy)
	}
	return nil
}

func (a Address) listen(ctx context.Context) (net.Listener, error) {
	if a.Cert != "" {
		if _, err := tls.LoadX509KeyPair(a.Cert, a.Key); err != nil { // before the address is printed
			return nil, app.AsKind(app.ErrUsage, fmt.Errorf("reading the certificate: %w", err))
		}
	}
	var c net.ListenConfig
	l, err := c.Listen(ctx, "tcp", net.JoinHostPort(a.Bind, strconv.Itoa(a.Port)))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, app.WithHints(app.Usagef("port %d is taken: a board may be there already", a.Port), fmt.Sprintf("trellis board --port %d", a.Port+1))
	}
	if err != nil {
		return nil, app.AsKind(app.ErrUsage, fmt.Errorf("listening at %s: %w", a.Bind, err))
	}
	return l, nil
}

func (a Address) serve(s *http.Server, l net.Listener) error {
	if a.Cert != "" {
		return s.ServeTLS(l, a.Cert, a.Key)
	}
	return s.Serve(l)
}

// url returns the URL by which browsers call the board.
func (a Address) url(at net.Addr) string {
	scheme := "http"
	if a.Cert != "" {
		scheme = "https"
	}
	return cmp.Or(a.Proxy, scheme+"://"+at.String())
}

// hosts returns the names by which a browser may call the board. A name that others let resolve to it is not one.
func (a Address) hosts(at net.Addr) []string {
	if a.Proxy != "" {
		if u, err := url.Parse(a.Proxy); err == nil {
			return []string{u.Host}
		}
	}
	list := []string{at.String()}
	if _, port, err := net.SplitHostPort(at.String()); err == nil && net.ParseIP(a.Bind).IsLoopback() {
		list = append(list, net.JoinHostPort("localhost", port))
	}
	return list
}

// quietLogger returns a logger that drops what nobody can do anything about, such as browsers that hang up.
func quietLogger() *log.Logger { return log.New(io.Discard, "", 0) }
