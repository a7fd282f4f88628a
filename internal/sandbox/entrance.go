package sandbox

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
)

// entranceArgument is the first argument of a program that plays the entrance of a cell whose network is restricted.
const entranceArgument = "sandbox-entrance"

// RunEntrance plays the entrance if args, this process's arguments without its name, ask for it. It listens on the addresses in args,
// passes the listeners to Trellis, and replaces itself by the program after them, with its proxy in the environment. It returns
// only if that fails, or with is false if args do not ask for it. Programs named in Box.Program call it first.
func RunEntrance(args []string) (code int, is bool) {
	if len(args) == 0 || args[0] != entranceArgument {
		return 0, false
	}
	fmt.Fprintln(os.Stderr, "trellis: entering the sandbox:", runEntrance(args[1:]))
	return 126, true
}

// runEntrance implements RunEntrance. It returns only on an error.
func runEntrance(args []string) error {
	n := slices.Index(args, "--")
	if n < 1 || len(args) == n+1 {
		return fmt.Errorf("%s is nothing to be typed", entranceArgument)
	}
	syscall.CloseOnExec(programFile)
	proxy, err := sendListeners(args[:n])
	if err != nil {
		return err
	}
	argv := args[n+1:]
	return fmt.Errorf("starting %s: %w", argv[0], syscall.Exec(argv[0], argv, withProxy(os.Environ(), proxy)))
}

// sendListeners listens on addresses and sends the listeners to Trellis. It returns the address of the last one, which is the proxy.
func sendListeners(addresses []string) (proxy string, err error) {
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

// proxyVariables are the variables that name a proxy. Programs read them in lower and in upper case.
var proxyVariables = []string{"http_proxy", "https_proxy", "all_proxy", noProxy}

const noProxy = "no_proxy" // hosts that are reached without a proxy

// withProxy returns env with a proxy for everything except the loopback.
func withProxy(env []string, proxy string) []string {
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
