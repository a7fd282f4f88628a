package agents

import (
	"io"
	"sync"
)

// stdinQueue is the standard input of a program that lines are sent to while it runs: they wait until the program reads them, which it
// may do late or never.
type stdinQueue struct {
	mu     sync.Mutex
	news   sync.Cond
	unread []byte
	ended  bool
}

func newStdinQueue() *stdinQueue {
	l := &stdinQueue{}
	l.news.L = &l.mu
	return l
}

// add puts a line at the end of the queue.
func (l *stdinQueue) add(line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.unread = append(l.unread, line...)
		l.news.Signal()
	}
}

// end ends the input: what was added before is still read.
func (l *stdinQueue) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	l.news.Broadcast()
}

// Read waits for lines, and returns io.EOF after the end.
func (l *stdinQueue) Read(into []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.unread) == 0 {
		if l.ended {
			return 0, io.EOF
		}
		l.news.Wait()
	}
	n := copy(into, l.unread)
	if l.unread = l.unread[n:]; len(l.unread) == 0 {
		l.unread = nil
	}
	return n, nil
}
