package agents

import (
	"io"
	"sync"
)

// letters is the standard input of a program that is talked to while it runs: what is said waits until the program reads
// it, which it may do late or never.
type letters struct {
	mu     sync.Mutex
	news   sync.Cond
	unread []byte
	ended  bool
}

func newLetters() *letters {
	l := &letters{}
	l.news.L = &l.mu
	return l
}

// add says one more thing.
func (l *letters) add(line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.unread = append(l.unread, line...)
		l.news.Signal()
	}
}

// end says that nothing more is said.
func (l *letters) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	l.news.Broadcast()
}

// Read waits for what is said.
func (l *letters) Read(into []byte) (int, error) {
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
