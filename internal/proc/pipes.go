package proc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"time"

	"golang.org/x/sys/unix"
)

// drainWait is how long to wait for output after the program's end. Only a process that escaped group and marker can still hold
// the pipe then.
const drainWait = 500 * time.Millisecond

// pipes connect a program with the reader and the writers of its Command.
type pipes struct {
	child     [3]*os.File // what the program gets
	opened    []*os.File  // those of child that we opened
	stdin     *os.File    // our end; nil if there is none
	input     io.Reader
	inputDone chan struct{} // closed once all of input was copied to stdin
	drains    []*drain
}

// drain copies one pipe to one writer.
type drain struct {
	r    *os.File
	w    io.Writer
	done chan struct{}
	err  error // of w; valid after done
}

func openPipes(c Command) (*pipes, error) {
	p := &pipes{input: c.Stdin, inputDone: make(chan struct{})}
	err := p.openInput(c.Stdin)
	if err == nil {
		p.child[1], err = p.openOutput(c.Stdout)
	}
	if err == nil {
		if c.Stdout != nil && isSameWriter(c.Stdout, c.Stderr) {
			p.child[2] = p.child[1]
		} else {
			p.child[2], err = p.openOutput(c.Stderr)
		}
	}
	if err != nil {
		p.closeChildFiles()
		p.abandon()
		return nil, err
	}
	return p, nil
}

func (p *pipes) openInput(r io.Reader) (err error) {
	switch r := r.(type) {
	case nil:
		p.child[0], err = p.track(os.Open(os.DevNull))
	case *os.File:
		p.child[0] = r
	default:
		var end *os.File
		if end, p.stdin, err = os.Pipe(); err == nil {
			p.child[0], err = p.track(end, nil)
		}
	}
	return err
}

func (p *pipes) openOutput(w io.Writer) (*os.File, error) {
	switch w := w.(type) {
	case nil:
		return p.track(os.OpenFile(os.DevNull, os.O_WRONLY, 0))
	case *os.File:
		return w, nil
	}
	r, end, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.drains = append(p.drains, &drain{r: r, w: w, done: make(chan struct{})})
	return p.track(end, nil)
}

// track records a file that is to be closed once the program has it.
func (p *pipes) track(f *os.File, err error) (*os.File, error) {
	if err == nil {
		p.opened = append(p.opened, f)
	}
	return f, err
}

// isSameWriter reports whether both outputs are the same writer; they then get one pipe and keep their order.
func isSameWriter(a, b io.Writer) bool {
	return b != nil && reflect.TypeOf(a) == reflect.TypeOf(b) && reflect.TypeOf(a).Comparable() && a == b
}

func (p *pipes) childFiles() []*os.File { return p.child[:] }

func (p *pipes) closeChildFiles() {
	for _, f := range p.opened {
		f.Close()
	}
}

// abandon closes our ends if no program got the others.
func (p *pipes) abandon() {
	if p.stdin != nil {
		p.stdin.Close()
	}
	for _, d := range p.drains {
		d.r.Close()
	}
}

// startCopying starts to copy the input to the program, and what it writes to the writers.
func (p *pipes) startCopying() {
	if p.stdin != nil {
		go func() {
			defer close(p.inputDone)
			defer p.stdin.Close()
			io.Copy(p.stdin, p.input) // a program need not read all it is given
		}()
	} else {
		close(p.inputDone)
	}
	for _, d := range p.drains {
		go d.copy()
	}
}

// finish waits for the copying to end after the program has, but no longer than drainWait for pipes that another process holds.
// After finish no writer is written to.
func (p *pipes) finish() error {
	if p.stdin != nil {
		p.stdin.Close()
	}
	end := time.Now().Add(drainWait)
	for _, d := range p.drains {
		d.r.SetReadDeadline(end)
	}
	var errs []error
	for _, d := range p.drains {
		<-d.done
		errs = append(errs, d.err)
	}
	select {
	case <-p.inputDone:
	case <-time.After(time.Until(end)): // its reader blocks; the goroutine ends when the reader returns
	}
	return errors.Join(errs...)
}

func (d *drain) copy() {
	defer close(d.done)
	defer d.r.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := d.r.Read(buf)
		if !d.write(buf[:n]) {
			return
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			d.copyRest(buf)
			return
		}
		if err != nil {
			return
		}
	}
}

// copyRest copies the remaining content of the pipe, at most what a pipe holds: a slow writer must not lose output that the program
// wrote in time.
func (d *drain) copyRest(buf []byte) {
	const pipeSize = 1 << 20
	d.r.SetReadDeadline(time.Time{})
	conn, err := d.r.SyscallConn()
	if err != nil {
		return
	}
	for left := pipeSize; left > 0; {
		n := 0
		readErr := conn.Read(func(fd uintptr) bool {
			n, err = unix.Read(int(fd), buf)
			return true // never wait
		})
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if readErr != nil || err != nil || n <= 0 || !d.write(buf[:n]) {
			return
		}
		left -= n
	}
}

// write writes data and reports whether the writer took it.
func (d *drain) write(data []byte) bool {
	if len(data) == 0 {
		return true
	}
	if _, err := d.w.Write(data); err != nil {
		d.err = fmt.Errorf("writing output: %w", err)
		return false
	}
	return true
}
