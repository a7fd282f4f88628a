package command

import (
	"fmt"
	"io"
	"sync"
)

// output is a standard output that remembers the first write error, so that no command has to check
// each line. Its methods may be called by several goroutines at once.
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

// WatchOutput has written return the first error of writing to c.Stdout, so that a full disk does not silently cut off a list.
func WatchOutput(c *Console) (written func() error) {
	o := &output{Writer: RawOutput(c.Stdout)}
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

// unwrittenError is the error for results that could not all be written.
type unwrittenError struct{ cause error }

func (e *unwrittenError) Error() string {
	return fmt.Sprintf("not all that was to be printed could be written: %v", e.cause)
}

func (e *unwrittenError) Unwrap() error { return e.cause }

// RawOutput returns the Stdout for other programs, which need the terminal itself.
func RawOutput(w io.Writer) io.Writer {
	if o, watched := w.(*output); watched {
		return o.Writer
	}
	return w
}
