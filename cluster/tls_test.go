package cluster_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// guarded starts a server that is reached only by TLS, and only by a client that shows a certificate. It returns the address, the
// files of a certificate, which is also that of the CA, and of its key, and the number of connections that got through.
func (w *world) guarded() (address, cert, key string, through *atomic.Int32) {
	w.t.Helper()
	web := httptest.NewTLSServer(nil) // only for its certificate
	w.t.Cleanup(web.Close)
	pair := web.TLS.Certificates[0]
	private, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		w.t.Fatal(err)
	}
	w.write("cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})))
	w.write("key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert, NextProtos: []string{"h2"}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { l.Close() })
	through = new(atomic.Int32)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go w.pass(c.(*tls.Conn), through)
		}
	}()
	return l.Addr().String(), filepath.Join(w.dir, "cert.pem"), filepath.Join(w.dir, "key.pem"), through
}

// pass forwards one connection to the server behind.
func (w *world) pass(c *tls.Conn, through *atomic.Int32) {
	defer c.Close()
	if c.Handshake() != nil {
		return
	}
	through.Add(1)
	to, err := net.Dial("tcp", w.srv.address())
	if err != nil {
		return
	}
	defer to.Close()
	go func() {
		_, _ = io.Copy(to, c) // until one of the two ends
		to.Close()
	}()
	_, _ = io.Copy(c, to)
}

// The connection is secured by what the environment names: the CA of the server's certificate, and the client's own certificate.
func TestSecured(t *testing.T) {
	t.Parallel()
	w := newWorld(t, silence)
	a := w.machine("a")
	address, cert, key, through := w.guarded()
	a.write(".trellis/config.yaml", strings.Replace(a.read(".trellis/config.yaml"), w.srv.address(), address, 1))
	ca, pair := []string{"TEMPORAL_TLS_SERVER_CA_CERT_PATH=" + cert}, []string{"TEMPORAL_TLS_CLIENT_CERT_PATH=" + cert, "TEMPORAL_TLS_CLIENT_KEY_PATH=" + key}
	for _, c := range []struct {
		name string
		env  []string
		code int
		says string
	}{
		{"in the clear", nil, 1, "next: trellis doctor"},
		{"nobody vouches", append([]string{"TEMPORAL_TLS=true"}, pair...), 1, "unknown authority"},
		{"another name", append([]string{"TEMPORAL_TLS_SERVER_NAME=elsewhere.example"}, append(ca, pair...)...), 1, "not elsewhere.example"},
		{"no certificate", ca, 1, "connecting to the Temporal server"},
		{"a file that is not there", append(ca, "TEMPORAL_TLS_CLIENT_CERT_PATH=/nosuch", "TEMPORAL_TLS_CLIENT_KEY_PATH=/nosuch"), 2, "reading the certificate for the Temporal server"},
		{"both", append(ca, pair...), 0, "nobody waits for its tasks"},
	} {
		before := through.Load()
		a.more = c.env
		code, said := a.says("status")
		if code != c.code || !strings.Contains(said, c.says) || (through.Load() > before) != (c.code == 0) {
			t.Errorf("%s: exit %d, %d got through: %s", c.name, code, through.Load()-before, said)
		}
	}
}
