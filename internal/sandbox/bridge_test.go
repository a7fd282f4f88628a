package sandbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/gateway"
	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/sandbox"
	"github.com/trellis-tasks/trellis/internal/soak"
)

// narrow returns a world with a narrow network, and the server that answers for every host of the outside. api.example.org and
// other.example.org resolve to addresses of the outside, rebound.example.org to this machine.
func narrow(t *testing.T) (w *world, server *httptest.Server) {
	t.Helper()
	w = newWorld(t)
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello "+r.Host) }))
	t.Cleanup(server.Close)
	w.Box.Lookup = func(_ context.Context, name string) ([]netip.Addr, error) {
		if address, known := map[string]string{"api.example.org": "203.0.113.1", "rebound.example.org": "127.0.0.1", "other.example.org": "203.0.113.2"}[name]; known {
			return []netip.Addr{netip.MustParseAddr(address)}, nil
		}
		return nil, errors.New("no such host")
	}
	w.Box.Dial = func(ctx context.Context, _ netip.AddrPort) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", server.Listener.Addr().String())
	}
	w.Box.Hosts = []string{"api.example.org", "rebound.example.org"}
	return w, server
}

// agent returns the need of an agent that edits.
func (w *world) agent() sandbox.Need {
	n := w.need()
	n.Kind = "implement"
	return n
}

// within runs a shell command with a narrow network, and returns its result, its output and the hosts that were refused.
func (w *world) within(n sandbox.Need, script string) (res proc.Result, said string, refused []string) {
	w.t.Helper()
	cell, err := w.Box.Enter(w.t.Context(), n)
	if err != nil {
		w.t.Error(err)
		return res, said, nil
	}
	var out bytes.Buffer
	res, err = proc.Run(w.t.Context(), proc.Command{Argv: proc.Shell(script), Dir: n.Dir, Env: slices.Concat(w.env(), []string{"HTTP_PROXY=http://me:word@old:1", "NO_PROXY=*"}, cell.Env), Launcher: cell.Launcher, Files: cell.Files,
		Marker: w.marker("narrow"), Stdout: &out, Stderr: &out, Grace: time.Second})
	if err != nil {
		w.t.Error(err)
	}
	if refused, err = cell.Leave(); err != nil {
		w.t.Errorf("%v: %s", err, out.String())
	}
	return res, out.String(), refused
}

// ask defines a shell function that sends a request to the proxy that its environment names, and prints the first and the last line
// of the answer.
const ask = `ask() { p=${http_proxy##*:}; exec 9<>/dev/tcp/127.0.0.1/$p; printf "$1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" >&9; cat <&9 | tr -d '\r' | sed -n '1p;$p'; exec 9>&-; }
`

// An agent reaches the hosts that are named, only by its proxy, and nothing else by any way.
func TestNarrowNetwork(t *testing.T) {
	w, server := narrow(t)
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	res, said, refused := w.within(w.agent(), ask+`
test "$HTTPS_PROXY$ALL_PROXY$https_proxy" = "$HTTP_PROXY$HTTP_PROXY$http_proxy" && test "$NO_PROXY" = "$no_proxy" && echo proxies; grep -c word /proc/*/environ | grep -v :0
ask "GET http://api.example.org/x"; ask "GET http://rebound.example.org/"; ask "GET http://other.example.org/"; ask "GET http://127.0.0.1:`+port+`/"; ask "CONNECT 203.0.113.1:443"; ask "CONNECT evil.example.org:443"; ask "CONNECT evil.example.org:443"
(echo x >/dev/tcp/127.0.0.1/`+port+`) 2>/dev/null && echo loopback
for to in 203.0.113.1/80 192.0.2.1/53 ::1/`+port+` 2001:db8::1/80; do (echo x >/dev/tcp/$to) 2>/dev/null && echo tcp $to; (echo x >/dev/udp/$to) 2>/dev/null && test ${to%%/*} != ::1 && echo udp $to; done
grep -c : /proc/net/dev; ls -l /proc/self/fd | grep -c 'socket\|trellis\|sandbox'; exit 7`)
	want := "proxies\nHTTP/1.1 200 OK\nhello api.example.org"
	if res.Code != 7 || !strings.HasPrefix(said, want) || strings.Count(said, "HTTP/1.1 403 Forbidden") != 6 || strings.Contains(said, "tcp") || strings.Contains(said, "udp") || strings.Contains(said, "loopback") || !strings.HasSuffix(said, "\n1\n0\n") {
		t.Errorf("got exit %d, %s", res.Code, said)
	}
	next := "; next: add it to sandbox_hosts in .trellis/config.yaml"
	if want := []string{"rebound.example.org, which leads to 127.0.0.1, on this machine or a network of its own; next: add that address too to sandbox_hosts in .trellis/config.yaml",
		"other.example.org, which is not let through" + next, "127.0.0.1:" + port + ", which is not let through" + next, "203.0.113.1, which is not let through" + next, "evil.example.org, which is not let through" + next}; !slices.Equal(refused, want) {
		t.Errorf("got %q\nwant %q", refused, want)
	}
}

// A server of the agent on this machine is reached without the proxy, at its own port.
func TestNarrowNetworkReachesAModelOfThisMachine(t *testing.T) {
	w, server := narrow(t)
	n := w.agent()
	n.Own.Servers = []string{gateway.Server(server.URL)}
	host, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	_, said, refused := w.within(n, ask+`exec 8<>/dev/tcp/`+host+`/`+port+`; printf 'GET / HTTP/1.0\r\nHost: direct\r\n\r\n' >&8; cat <&8 | tail -n 1; echo; ask "GET `+server.URL+`/"`)
	if said != "hello direct\nHTTP/1.1 200 OK\nhello "+server.Listener.Addr().String() || len(refused) > 0 {
		t.Errorf("got %q, refused %v", said, refused)
	}
}

// Which programs have a narrow network.
func TestWhoseNetworkIsNarrow(t *testing.T) {
	hosts, none := []string{"api.example.org"}, []string{}
	for _, c := range []struct {
		box  *sandbox.Box
		kind string
		want bool
	}{
		{&sandbox.Box{Mode: sandbox.Require}, "implement", true},
		{&sandbox.Box{Mode: sandbox.Require, Network: []string{"implement"}}, "implement", false},
		{&sandbox.Box{Mode: sandbox.Require, Network: []string{"implement"}}, "check", true},
		{&sandbox.Box{Mode: sandbox.Require, Offline: []string{"implement"}}, "implement", false},
		{&sandbox.Box{Mode: sandbox.Require}, sandbox.Setup, false},
		{&sandbox.Box{Mode: sandbox.Require, Network: []string{sandbox.Verify}}, sandbox.Verify, false},
		{&sandbox.Box{Mode: sandbox.Auto}, "implement", false},
		{&sandbox.Box{Mode: sandbox.Auto, Hosts: none}, "implement", true},
		{&sandbox.Box{Mode: sandbox.Auto, Hosts: hosts}, "research", true},
		{&sandbox.Box{Mode: sandbox.Off, Hosts: hosts}, "implement", false},
	} {
		if got := c.box.RestrictsNetwork(sandbox.Need{Kind: c.kind}); got != c.want {
			t.Errorf("%s, %s, hosts %v: got %v", c.box.Mode, c.kind, c.box.Hosts, got)
		}
	}
}

// An agent is told which hosts it reaches.
func TestWordsOfANarrowNetwork(t *testing.T) {
	w := newWorld(t)
	for want, hosts := range map[string][]string{"The network reaches your model and nothing else": nil, "reaches your model, a.example.org, b.example.org and nothing else": {"a.example.org", "b.example.org"}} {
		w.Box.Hosts = hosts
		if got := w.Box.PromptText(t.Context(), "implement", w.Tree); !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A network that can't be narrowed is never left wide.
func TestNetworkThatCannotBeNarrowed(t *testing.T) {
	w := newWorld(t)
	for _, program := range []string{"", filepath.Join(w.Root, "gone")} {
		w.Box.Program = program
		cell, err := w.Box.Enter(t.Context(), w.agent())
		if fail := (*flow.Failure)(nil); !errors.As(err, &fail) || fail.Code != "agent_missing" || cell.Launcher != nil {
			t.Errorf("%q: got %v, %v, want a failure", program, cell, err)
		}
	}
	w.Box.Program = "/bin/false" // which does not set up the network
	cell, err := w.Box.Enter(t.Context(), w.agent())
	if err != nil {
		t.Fatal(err)
	}
	res, err := proc.Run(t.Context(), proc.Command{Argv: proc.Shell("echo begun > begun"), Dir: w.Tree, Env: w.env(), Launcher: cell.Launcher, Files: cell.Files})
	if err != nil || res.Code == 0 {
		t.Errorf("got %+v, %v", res, err)
	}
	if _, err := cell.Leave(); err == nil || !strings.Contains(err.Error(), "agent_missing") {
		t.Errorf("got %v, want a failure", err)
	}
	if _, err := os.Stat(filepath.Join(w.Tree, "begun")); err == nil {
		t.Error("it began all the same")
	}
}

// Calls at the same time have their own ways out, and leave nothing open: a hundred in a soak, and with make test enough to notice
// if each left one file open.
func TestManyNarrowNetworks(t *testing.T) {
	calls := 25
	if soak.Asked() {
		calls = 100
	}
	w, _ := narrow(t)
	n := w.agent()
	n.Dir, n.Edit = "/usr", false
	w.within(n, "true") // the first call also tries the place out
	before := open(t)
	var all sync.WaitGroup
	for i := range calls {
		all.Go(func() {
			host := fmt.Sprintf("h%d.example.org", i)
			_, said, refused := w.within(n, ask+`ask "GET http://api.example.org/"; ask "GET http://`+host+`/"`)
			if !strings.HasPrefix(said, "HTTP/1.1 200 OK\nhello api.example.org") || len(refused) != 1 || !strings.HasPrefix(refused[0], host+",") {
				t.Errorf("got %q, refused %v", said, refused)
			}
		})
	}
	all.Wait()
	runtime.GC()
	if after := open(t); after > before+10 { // the test's server keeps connections open
		t.Errorf("got %d open files, %d before", after, before)
	}
}

// open returns the number of open files of this process.
func open(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

// A connection that is open when the program ends is closed with it.
func TestNarrowNetworkEndsWithItsProgram(t *testing.T) {
	w, _ := narrow(t)
	there := make(chan net.Conn, 1)
	w.Box.Dial = func(context.Context, netip.AddrPort) (net.Conn, error) {
		ours, theirs := net.Pipe()
		there <- theirs
		return ours, nil
	}
	w.within(w.agent(), `exec 9<>/dev/tcp/127.0.0.1/${http_proxy##*:}; printf 'CONNECT api.example.org:443 HTTP/1.1\r\n\r\n' >&9; read -r line <&9; kill -9 $$`)
	if _, err := io.Copy(io.Discard, <-there); err != nil {
		t.Error(err)
	}
}

// The proxy of a call can't be used by another call.
func TestProxyOfAnotherCall(t *testing.T) {
	first, _ := narrow(t)
	second := *first
	w := &second
	inside, port := filepath.Join(w.Tree, "go"), filepath.Join(w.Tree, "port")
	done := make(chan []string)
	go func() {
		_, said, refused := first.within(first.agent(), `echo ${http_proxy##*:} > port.new; mv port.new port; while test ! -e go; do sleep 0.02; done`)
		done <- append(refused, said)
	}()
	var at []byte
	for at == nil {
		at, _ = os.ReadFile(port)
		time.Sleep(time.Millisecond)
	}
	w.Box = &sandbox.Box{Mode: sandbox.Require, Environ: w.env(), Program: w.Box.Program, Repo: w.Box.Repo}
	_, said, _ := w.within(w.agent(), ask+`http_proxy=:`+strings.TrimSpace(string(at))+` ask "GET http://api.example.org/" 2>/dev/null; touch `+inside)
	if strings.Contains(said, "hello") {
		t.Errorf("got %q by the proxy of another call", said)
	}
	if got := <-done; !slices.Equal(got, []string{""}) {
		t.Errorf("the other call got %q", got)
	}
}
