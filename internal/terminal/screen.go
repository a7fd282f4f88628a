package terminal

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// screen is the end of an output. On a terminal it has lines that are written over; elsewhere it has none.
// Its methods may be called by several goroutines.
type screen struct {
	w     io.Writer
	style Style
	live  bool                     // w is a terminal
	frame func(width int) []string // the lines that are written over, called with the mutex

	mu     sync.Mutex
	drawn  int  // lines on the screen that are ours
	stale  bool // something happened that they do not show
	closed bool
	stop   chan struct{}
	done   chan struct{}
}

// Lines are drawn anew at every tick when something was noted, and every tenth all the same, so that people see that
// time passes.
const (
	tickEvery = 100 * time.Millisecond
	drawEvery = 10 * tickEvery
)

// open begins to draw what frame tells, at every change and with time. close must be called.
func (s *screen) open() {
	s.stop, s.done = make(chan struct{}), make(chan struct{})
	if !s.live {
		close(s.done)
		return
	}
	go s.tick()
}

func (s *screen) tick() {
	defer close(s.done)
	clock := time.NewTicker(tickEvery)
	defer clock.Stop()
	for n := 1; ; n++ {
		select {
		case <-clock.C:
			s.mu.Lock()
			due := s.stale || n%int(drawEvery/tickEvery) == 0
			s.mu.Unlock()
			if due {
				s.change(func() {})
			}
		case <-s.stop:
			return
		}
	}
}

// change does something and draws what came of it.
func (s *screen) change(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.erase()
	do()
	s.draw()
}

// note does something that is seen when the clock ticks. It prints nothing.
func (s *screen) note(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		do()
		s.stale = true
	}
}

// close does something last, after which nothing is drawn: what it does not print is gone.
func (s *screen) close(last func()) {
	s.change(last)
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	s.mu.Unlock()
	if first {
		close(s.stop)
	}
	<-s.done
}

// print prints lines that stay, within change.
func (s *screen) print(text string) {
	for line := range strings.SplitSeq(trellis.Visible(text), "\n") {
		fmt.Fprintln(s.w, "trellis: "+line)
	}
}

// erase takes our lines off the screen, and what the terminal itself wrote below them, such as ^C.
func (s *screen) erase() {
	if s.drawn > 0 {
		fmt.Fprintf(s.w, "\r\x1b[%dA\x1b[J", s.drawn)
		s.drawn = 0
	}
}

func (s *screen) draw() {
	if !s.live {
		return
	}
	width := s.style.Width - 1
	if s.style.Width == 0 {
		width = 79
	}
	s.stale = false
	lines := s.frame(width)
	if len(lines) > 0 {
		fmt.Fprintln(s.w, strings.Join(lines, "\n"))
	}
	s.drawn = len(lines)
}
