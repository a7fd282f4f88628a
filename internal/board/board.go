// Package board is the board: a page on which tasks are read, reviewed and steered from a browser, served on
// loopback beside whatever runs. The page itself holds no data; what is known of tasks is sent only to those
// who have the key, and what agents and tasks wrote is shown as text and never taken for markup.
package board

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/trellis-tasks/trellis/internal/app"
)

// Options says how a board is served.
type Options struct {
	Address  Address
	ReadOnly bool
	Version  string // of this program
	Self     string // path of this program, which is run for orders that lead to hooks and programs
	Dir      string // folder that the board was started in
	Key      string // the key that a browser has to send
	Ready    func(url string)
	Now      func() time.Time
}

// Serve serves the board until ctx is done. If the port is taken, the error is a usage error that says what to type.
func Serve(ctx context.Context, p *app.Project, o Options) error {
	l, err := o.Address.listen(ctx)
	if err != nil {
		return err
	}
	defer l.Close()
	s, err := New(ctx, p, o, o.Address.hosts(l.Addr()))
	if err != nil {
		return err
	}
	defer s.Close()
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	server := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10,
		ErrorLog: quietLogger(), BaseContext: func(net.Listener) context.Context { return inner }}
	ended := make(chan error, 1)
	go func() { ended <- o.Address.serve(server, l) }()
	o.Ready(o.Address.url(l.Addr()) + "/#" + o.Key)
	select {
	case err = <-ended:
		return fmt.Errorf("serving the board: %w", err)
	case <-ctx.Done():
	}
	s.Close() // ends the streams, which would not end by themselves
	patience, done := context.WithTimeout(inner, 3*time.Second)
	defer done()
	if err := server.Shutdown(patience); err != nil {
		_ = server.Close() // cuts off requests that are still answered
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the board: %w", err)
	}
	return context.Cause(ctx)
}
