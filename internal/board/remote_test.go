package board_test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/board"
)

// A board with a certificate is reachable by TLS only, and its access rules still hold.
func TestBoardWithTLS(t *testing.T) {
	w := newWorld(t, nil)
	w.planned("02-01-hello")
	roots := x509.NewCertPool()
	w.o.Address.Cert, w.o.Address.Key = certificate(t, roots)
	w.serve()
	if !strings.HasPrefix(w.url, "https://127.0.0.1:") {
		t.Fatalf("the address is %s, want one of https", w.url)
	}
	w.holds(&http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}, 2)
	w.holds(&http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{}}, 1)
	if res, err := http.Get("http" + strings.TrimPrefix(w.url, "https") + "/v/"); err == nil {
		res.Body.Close()
		if res.StatusCode != http.StatusBadRequest {
			t.Errorf("without TLS: got %s, want it refused", res.Status)
		}
	}
}

// A certificate that can't be loaded is an error before any address of the board is reported.
func TestBoardWithoutCertificate(t *testing.T) {
	w := newWorld(t, nil)
	w.o.Ready = func(url string) { t.Errorf("the board is said to be at %s", url) }
	w.o.Address.Cert, w.o.Address.Key = filepath.Join(w.Dir, "test.sh"), filepath.Join(w.Dir, "none.pem")
	if err := board.Serve(t.Context(), w.p, w.o); !errors.Is(err, app.ErrUsage) {
		t.Errorf("got %v, want an error of kind usage", err)
	}
}

// A board behind a TLS proxy is used under the proxy's address only, and its streams pass through the proxy.
func TestBoardBehindProxy(t *testing.T) {
	w := newWorld(t, nil)
	w.planned("02-01-hello")
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	behind := &url.URL{Scheme: "http", Host: free.Addr().String()}
	proxy := httptest.NewTLSServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(behind)
		r.Out.Host = r.In.Host
	}})
	defer proxy.Close()
	w.o.Address.Port, w.o.Address.Remote, w.o.Address.Proxy = free.Addr().(*net.TCPAddr).Port, true, proxy.URL
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	w.serve()
	defer w.end()
	if w.url != proxy.URL {
		t.Errorf("the address is %s, want that of the proxy, %s", w.url, proxy.URL)
	}
	w.holds(proxy.Client().Transport, 1)
	w.url = behind.String() // asks the board directly, under another name
	if code, _ := w.ask(http.MethodGet, "/v/", nil); code != http.StatusMisdirectedRequest {
		t.Errorf("past the proxy: got %d, want 421", code)
	}
}

// holds checks by one transport what the board answers, what it refuses, and that its stream sends events.
func (w *world) holds(by http.RoundTripper, major int) {
	w.Helper()
	ask := func(method, path string, change func(*http.Request)) *http.Response {
		w.Helper()
		req, err := http.NewRequestWithContext(w.Context(), method, w.url+path, nil)
		if err != nil {
			w.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		if change != nil {
			change(req)
		}
		res, err := by.RoundTrip(req)
		if err != nil {
			w.Fatal(err)
		}
		w.Cleanup(func() { res.Body.Close() })
		return res
	}
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	for _, one := range []struct {
		name, method, path string
		change             func(*http.Request)
		want               int
	}{
		{"a page", "GET", "/v/", nil, 200},
		{"no key", "GET", "/v/", header("Authorization", ""), 401},
		{"another name", "GET", "/v/", func(r *http.Request) { r.Host = "attacker.example" }, 421},
		{"its own origin", "POST", "/v/do/dance/02-01-hello", header("Origin", w.url), 404},
		{"another origin", "POST", "/v/do/dance/02-01-hello", header("Origin", "https://attacker.example"), 403},
		{"another site", "POST", "/v/do/dance/02-01-hello", header("Sec-Fetch-Site", "cross-site"), 403},
	} {
		if res := ask(one.method, one.path, one.change); res.StatusCode != one.want || res.ProtoMajor != major {
			w.Errorf("%s: got %s by HTTP/%d, want %d by HTTP/%d", one.name, res.Status, res.ProtoMajor, one.want, major)
		}
	}
	lines := bufio.NewScanner(ask(http.MethodGet, "/v/stream?path=/", nil).Body)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "id: ") {
		w.Fatalf("got %q, want the beginning of a stream", lines.Text())
	}
	w.task("02-02-more", `{"title": "By HTTP/`+string(rune('0'+major))+`", "status": "failed"}`, nil)
	for lines.Scan() && !strings.Contains(lines.Text(), "By HTTP/"+string(rune('0'+major))) {
	}
	if lines.Err() != nil || lines.Text() == "" {
		w.Errorf("the stream has ended (%v), want it to tell of the task", lines.Err())
	}
}

// certificate creates a certificate for loopback, adds it to roots, and returns its files.
func certificate(t *testing.T, roots *x509.CertPool) (cert, key string) {
	t.Helper()
	pair, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	says := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.ParseIP("127.0.0.1")}, IsCA: true, BasicConstraintsValid: true}
	signed, err := x509.CreateCertificate(rand.Reader, says, says, &pair.PublicKey, pair)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(pair)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: signed}, "key.pem": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	roots.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}))
	return filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
}
