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

// networkBridge connects a cell whose network is restricted to the outside. Inside, the entrance listens on the cell's loopback and passes
// its listeners out; outside, the gateway serves on them.
type networkBridge struct {
	gateway  *gateway.Gateway
	entrance *net.UnixConn // connection to the entrance
	result   chan error    // receives nil once the listeners were received, or the error
}

// File descriptors of a launcher whose network is restricted, after its three streams.
const (
	entranceFile = 3 + iota // connection on which the entrance passes its listeners
	programFile             // the program that plays the entrance
)

// listenerTimeout is how long listeners may still arrive after their program has ended. The wait ends early when the last copy of
// the other end of the connection is closed.
const listenerTimeout = 10 * time.Second

// restrictNetwork returns c with its network restricted to what the gateway lets through.
func (b *Box) restrictNetwork(c Cell, n Need) (Cell, error) {
	c, err := b.restrictCell(c, n)
	if err != nil {
		return Cell{}, flow.Fail(string(trellis.AgentMissing), "sandbox: %s, but it can't narrow the network: %v", b.Mode, err)
	}
	return c, nil
}

func (b *Box) restrictCell(c Cell, n Need) (Cell, error) {
	if b.Program == "" {
		return c, errors.New("there is no program for its entrance")
	}
	program, err := os.Open(b.Program)
	if err != nil {
		return c, fmt.Errorf("opening the program for its entrance: %w", err)
	}
	ours, theirs, err := socketPair()
	if err != nil {
		program.Close()
		return c, err
	}
	g := gateway.New(gateway.Options{Hosts: slices.Concat(b.Hosts, n.Own.Hosts), Servers: n.Own.Servers, Environ: b.Environ, Lookup: b.Lookup, Dial: b.Dial})
	c.Files, c.bridge = []*os.File{theirs, program}, &networkBridge{gateway: g, entrance: ours, result: make(chan error, 1)}
	c.Launcher = slices.Concat(c.Launcher, []string{fmt.Sprintf("/proc/self/fd/%d", programFile), entranceArgument}, g.Addresses(), []string{"--"})
	for _, name := range proxyVariables { // the person's own values may hold an account
		c.Env = append(c.Env, name+"=", strings.ToUpper(name)+"=")
	}
	go c.bridge.serveListeners()
	return c, nil
}

// Leave releases the resources of the cell. It is called once, after the program has ended or could not be started. It returns
// what the program asked for and was denied, each as the end of a sentence, and an error if the program never began because its
// network could not be set up.
func (c Cell) Leave() (refused []string, err error) {
	if c.bridge == nil {
		return nil, nil
	}
	for _, f := range c.Files {
		f.Close()
	}
	_ = c.bridge.entrance.SetReadDeadline(time.Now().Add(listenerTimeout)) // listeners that have arrived are still received
	err = <-c.bridge.result
	c.bridge.entrance.Close()
	c.bridge.gateway.Close()
	if err != nil {
		return nil, flow.Fail(string(trellis.AgentMissing), "the sandbox can't narrow the network of the program: %v", err)
	}
	return c.bridge.gateway.Refused(), nil
}

// serveListeners waits for the listeners and serves on them.
func (w *networkBridge) serveListeners() {
	listeners, err := receiveListeners(w.entrance, len(w.gateway.Addresses()))
	if err == nil {
		w.gateway.Serve(listeners)
	}
	w.result <- err
}

// socketPair returns the two ends of a connection, of which the second is for a program.
func socketPair() (ours *net.UnixConn, theirs *os.File, err error) {
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

// unixConn returns the connection of a file that is a socket.
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
	return nil, errors.New("taking a file for a socket: it is not a socket of this system")
}

// receiveListeners returns n listeners that arrive on a connection.
func receiveListeners(from *net.UnixConn, n int) (listeners []net.Listener, err error) {
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
