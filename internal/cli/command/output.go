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

// WatchOutput has written say what of c.Stdout could not be written since. A full disk is no silent end of a list.
func WatchOutput(c *Console) (written func() error) {
	o := &output{Writer: Unwatched(c.Stdout)}
	c.Stdout = o
	return func() error {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.failed == nil {
			return nil
		}
		return &unwrittenError{o.failed}
	}
}

// unwrittenError says that not all of the results could be written.
type unwrittenError struct{ cause error }

func (e *unwrittenError) Error() string {
	return fmt.Sprintf("not all that was to be printed could be written: %v", e.cause)
}

func (e *unwrittenError) Unwrap() error { return e.cause }

// Unwatched is a Stdout for other programs, which are to have the terminal itself.
func Unwatched(w io.Writer) io.Writer {
	if o, watched := w.(*output); watched {
		return o.Writer
	}
	return w
}
