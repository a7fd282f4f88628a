package command

import (
	"fmt"
	"io"
	"sync"
)

// output is a standard output that remembers the first thing that could not be written, so that no command has to look after each
// line. Its methods may be called by several goroutines at once.
type output struct {
	io.Writer
	mu     sync.Mutex
	failed error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.failed == nil {
			o.failed = err
		}
	}
	return n, err
}

// WatchOutput has written say what of Stdout could not be written since. A full disk is no silent end of a list.
func (c *Console) WatchOutput() (written func() error) {
	o := &output{Writer: c.Terminal()}
	c.Stdout = o
	return func() error {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.failed == nil {
			return nil
		}
		return fmt.Errorf("the command did its work, but not all that it printed could be written: %w", o.failed)
	}
}

// Terminal is Stdout for other programs, which are to have the terminal itself.
func (c *Console) Terminal() io.Writer { return unwatched(c.Stdout) }

func unwatched(w io.Writer) io.Writer {
	if o, watched := w.(*output); watched {
		return o.Writer
	}
	return w
}
