package sandbox

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/gateway"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// way is the way out of a cell whose network is narrow. In it the entrance listens on the cell's own loopback and hands its
// listeners over, on which the gateway then serves out here.
type way struct {
	gateway *gateway.Gateway
	from    *net.UnixConn // the entrance
	taken   chan error    // that its listeners were, or why not
}

// Files of a launcher whose network is narrow, besides its three streams.
const (
	entranceFile = 3 + iota // where the entrance hands its listeners over
	programFile             // the program that it is
)

// lateListeners is how long listeners may still come after their program has ended. With the last end of the connection it is over
// at once.
const lateListeners = 10 * time.Second

// narrowed is a cell with a way out.
func (b *Box) narrowed(c Cell, n Need) (Cell, error) {
	c, err := b.narrowCell(c, n)
	if err != nil {
		return Cell{}, flow.Fail(string(trellis.AgentMissing), "sandbox: %s, but it can't narrow the network: %v", b.Mode, err)
	}
	return c, nil
}

func (b *Box) narrowCell(c Cell, n Need) (Cell, error) {
	if b.Program == "" {
		return c, errors.New("there is no program for its entrance")
	}
	program, err := os.Open(b.Program)
	if err != nil {
		return c, fmt.Errorf("opening the program for its entrance: %w", err)
	}
	ours, theirs, err := connected()
	if err != nil {
		program.Close()
		return c, err
	}
	g := gateway.New(gateway.Options{Hosts: slices.Concat(b.Hosts, n.Own.Hosts), Servers: n.Own.Servers, Environ: b.Environ, Lookup: b.Lookup, Dial: b.Dial})
	c.Files, c.way = []*os.File{theirs, program}, &way{gateway: g, from: ours, taken: make(chan error, 1)}
	c.Launcher = slices.Concat(c.Launcher, []string{fmt.Sprintf("/proc/self/fd/%d", programFile), entrance}, g.Addresses(), []string{"--"})
	for _, name := range proxyVariables { // the person's own may hold an account
		c.Env = append(c.Env, name+"=", strings.ToUpper(name)+"=")
	}
	go c.way.take()
	return c, nil
}

// Leave ends what the cell needed. It is called once, after the program has ended or could not be started, and returns what the
// program asked for and was not let through to, each as the end of a sentence. Its error says that the program never
// began, since its network could not be set up.
func (c Cell) Leave() (refused []string, err error) {
	if c.way == nil {
		return nil, nil
	}
	for _, f := range c.Files {
		f.Close()
	}
	_ = c.way.from.SetReadDeadline(time.Now().Add(lateListeners)) // what came is taken, also by who gets to it late
	err = <-c.way.taken
	c.way.from.Close()
	c.way.gateway.Close()
	if err != nil {
		return nil, flow.Fail(string(trellis.AgentMissing), "the sandbox can't narrow the network of the program: %v", err)
	}
	return c.way.gateway.Refused(), nil
}

// take waits for the listeners, and serves on them.
func (w *way) take() {
	listeners, err := received(w.from, len(w.gateway.Addresses()))
	if err == nil {
		w.gateway.Serve(listeners)
	}
	w.taken <- err
}

// connected are the two ends of a connection, of which the second is for a program.
func connected() (ours *net.UnixConn, theirs *os.File, err error) {
	syscall.ForkLock.RLock()
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(pair[0])
		syscall.CloseOnExec(pair[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, fmt.Errorf("making a pair of sockets: %w", err)
	}
	theirs = os.NewFile(uintptr(pair[1]), "entrance")
	if ours, err = unixConn(os.NewFile(uintptr(pair[0]), "entrance")); err != nil {
		theirs.Close()
	}
	return ours, theirs, err
}

// unixConn takes a file for the socket that it is.
func unixConn(f *os.File) (*net.UnixConn, error) {
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("taking a file for a socket: %w", err)
	}
	if unix, ok := conn.(*net.UnixConn); ok {
		return unix, nil
	}
	conn.Close()
	return nil, errors.New("taking a file for a socket: it is none of this system")
}

// received are n listeners that come by a connection.
func received(from *net.UnixConn, n int) (listeners []net.Listener, err error) {
	rights := make([]byte, syscall.CmsgSpace(4*n))
	_, many, _, _, err := from.ReadMsgUnix(make([]byte, 1), rights)
	if err != nil {
		return nil, fmt.Errorf("waiting for its listeners: %w", err)
	}
	messages, err := syscall.ParseSocketControlMessage(rights[:many])
	if err != nil || len(messages) != 1 {
		return nil, errors.Join(errors.New("it ended before it listened"), err)
	}
	files, err := syscall.ParseUnixRights(&messages[0])
	if err != nil {
		return nil, fmt.Errorf("taking its listeners: %w", err)
	}
	for _, fd := range files {
		f := os.NewFile(uintptr(fd), "listener")
		l, failed := net.FileListener(f)
		f.Close()
		if failed != nil {
			err = fmt.Errorf("taking its listeners: %w", failed)
			continue
		}
		listeners = append(listeners, l)
	}
	if err == nil && len(listeners) != n {
		err = fmt.Errorf("taking its listeners: %d of %d came", len(listeners), n)
	}
	if err != nil {
		for _, l := range listeners {
			l.Close()
		}
	}
	return listeners, err
}
