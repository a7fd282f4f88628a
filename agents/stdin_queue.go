package agents

import (
	"io"
	"sync"
)

// stdinQueue is the standard input of a program that is sent lines while it runs. Lines are queued until the program reads
// them, which may be late or never.
type stdinQueue struct {
	mu      sync.Mutex
	changed sync.Cond
	unread  []byte
	ended   bool
}

func newStdinQueue() *stdinQueue {
	l := &stdinQueue{}
	l.changed.L = &l.mu
	return l
}

// add appends a line to the queue. After end it does nothing.
func (l *stdinQueue) add(line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.unread = append(l.unread, line...)
		l.changed.Signal()
	}
}

// end closes the input. Lines that were added before can still be read.
func (l *stdinQueue) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	l.changed.Broadcast()
}

// Read blocks until there is a line, and returns io.EOF after the last one once the input is closed.
func (l *stdinQueue) Read(into []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.unread) == 0 {
		if l.ended {
			return 0, io.EOF
		}
		l.changed.Wait()
	}
	n := copy(into, l.unread)
	if l.unread = l.unread[n:]; len(l.unread) == 0 {
		l.unread = nil
	}
	return n, nil
}
