package sandbox

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
)

// entrance is the first argument of a program that plays the entrance of a cell whose network is narrow.
const entrance = "sandbox-entrance"

// Entered plays the entrance, where args, those of this process without its name, say so: it listens on the addresses that they name,
// hands the listeners over, and becomes the program behind them, which finds its proxy in its environment. It returns only
// when that fails, or with is false when this process is none. Programs named in Box.Program call it first thing.
func Entered(args []string) (code int, is bool) {
	if len(args) == 0 || args[0] != entrance {
		return 0, false
	}
	fmt.Fprintln(os.Stderr, "trellis: entering the sandbox:", enter(args[1:]))
	return 126, true
}

// enter returns why it failed.
func enter(args []string) error {
	n := slices.Index(args, "--")
	if n < 1 || len(args) == n+1 {
		return fmt.Errorf("%s is nothing to be typed", entrance)
	}
	syscall.CloseOnExec(programFile)
	proxy, err := handOver(args[:n])
	if err != nil {
		return err
	}
	argv := args[n+1:]
	return fmt.Errorf("starting %s: %w", argv[0], syscall.Exec(argv[0], argv, proxied(os.Environ(), proxy)))
}

// handOver listens on addresses, and sends the listeners to Trellis. The last one is where the proxy is.
func handOver(addresses []string) (proxy string, err error) {
	to, err := unixConn(os.NewFile(entranceFile, "entrance"))
	if err != nil {
		return "", err
	}
	defer to.Close()
	var files []int
	for _, address := range addresses {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return "", err
		}
		f, err := l.(*net.TCPListener).File()
		if err != nil {
			return "", err
		}
		defer f.Close()
		files, proxy = append(files, int(f.Fd())), l.Addr().String()
	}
	if _, _, err := to.WriteMsgUnix([]byte{0}, syscall.UnixRights(files...), nil); err != nil {
		return "", fmt.Errorf("handing over listeners: %w", err)
	}
	return proxy, nil
}

// proxyVariables are how programs are told of a proxy, in lower case and in upper.
var proxyVariables = []string{"http_proxy", "https_proxy", "all_proxy", noProxy}

const noProxy = "no_proxy" // what is reached without

// proxied is an environment whose programs ask a proxy for everything but the loopback.
func proxied(env []string, proxy string) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return slices.Contains(proxyVariables, strings.ToLower(name))
	})
	for _, name := range proxyVariables {
		value := "http://" + proxy
		if name == noProxy {
			value = "localhost,127.0.0.1,127.0.0.0/8,::1"
		}
		env = append(env, name+"="+value, strings.ToUpper(name)+"="+value)
	}
	return env
}
