package terminal

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// screen is the end of an output. On a terminal it has lines that are written over; elsewhere it has none.
// Its methods may be called by several goroutines.
type screen struct {
	w     io.Writer
	style Style
	size  func() (width, height int) // of the terminal now; nil: as style says
	live  bool                       // w is a terminal
	stamp func() string              // what every line begins with that stays; nil: the name of the program
	frame func(width int) []string   // the lines that are written over, called with the mutex
	moves func() bool                // whether time alone changes them, called with the mutex; nil: it does

	mu      sync.Mutex
	out     bytes.Buffer // what is to be written at once
	printed string       // the last line that stays, without its time
	drawn   []string     // lines on the screen that are ours
	at      int          // how wide it was then
	stale   bool         // something happened that they do not show
	closed  bool
	poke    chan struct{} // something became stale
	stop    chan struct{}
	done    chan struct{}
}

// Lines are drawn anew a moment after something was noted, and every second while time changes them.
const (
	tickEvery = 100 * time.Millisecond
	drawEvery = 10 * tickEvery
)

// open begins to draw what frame tells, at every change and with time. close must be called.
func (s *screen) open() {
	s.poke, s.stop, s.done = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	if !s.live {
		close(s.done)
		return
	}
	go s.tick()
}

// tick draws what was noted, and what changes with time. While nothing is on the screen that does, it has no clock.
func (s *screen) tick() {
	defer close(s.done)
	opened := time.Now()
	for {
		var clock <-chan time.Time
		s.mu.Lock()
		switch {
		case s.stale:
			clock = time.After(tickEvery)
		case len(s.drawn) > 0 && (s.moves == nil || s.moves()):
			clock = time.After(drawEvery - time.Since(opened)%drawEvery)
		}
		s.mu.Unlock()
		select {
		case <-clock:
			s.change(func() {})
		case <-s.poke:
		case <-s.stop:
			return
		}
	}
}

// change does something and draws what came of it.
func (s *screen) change(do func()) {
	s.update(func() {
		do()
		s.draw()
	})
}

// note does something that is seen when the clock ticks, or when something is printed.
func (s *screen) note(do func()) {
	s.update(func() {
		do()
		if s.stale = true; s.out.Len() > 0 || !s.live {
			s.draw()
		}
	})
}

// update does something unless the screen is closed, and has tick look when to draw next.
func (s *screen) update(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	do()
	select {
	case s.poke <- struct{}{}:
	default:
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

// print prints lines that stay, within change or note. The same is not printed twice in a row.
func (s *screen) print(text string) {
	if text == s.printed && s.stamp != nil {
		return
	}
	s.printed = text
	lead := "trellis: "
	if s.stamp != nil {
		lead = s.stamp() + " "
	}
	for line := range strings.SplitSeq(trellis.Visible(text), "\n") {
		s.out.WriteString(lead + line + "\n")
	}
}

// width is how many columns there are for a line.
func (s *screen) width() int {
	if s.size != nil {
		if width, height := s.size(); width > 0 {
			s.style.Width, s.style.Height = width, height
		}
	}
	if s.style.Width == 0 {
		return 79
	}
	return s.style.Width - 1
}

// draw writes what was printed, and below it our lines, in one piece. What a terminal itself wrote below them, such as ^C, goes
// with them.
func (s *screen) draw() {
	if !s.live {
		_, _ = s.out.WriteTo(s.w) // who does not hear it can't be told either
		return
	}
	s.stale = false
	width := s.width()
	lines := s.frame(width)
	if s.out.Len() == 0 && width == s.at && slices.Equal(lines, s.drawn) {
		return
	}
	var whole bytes.Buffer
	if n := s.rows(width); n > 0 {
		fmt.Fprintf(&whole, "\r\x1b[%dA\x1b[J", n)
	}
	_, _ = s.out.WriteTo(&whole)
	for _, line := range lines {
		whole.WriteString(line + "\n")
	}
	s.drawn, s.at = append(s.drawn[:0], lines...), width
	_, _ = whole.WriteTo(s.w)
}

// rows is how many of the screen our lines take up. One that has got narrower since has wrapped them.
func (s *screen) rows(width int) (n int) {
	for _, line := range s.drawn {
		n++
		if width < s.at {
			n += (text.Width(unpainted(line)) - 1) / (width + 1)
		}
	}
	return n
}

// unpainted is a line without its colours.
func unpainted(line string) string {
	for {
		before, after, found := strings.Cut(line, "\x1b[")
		if !found {
			return line
		}
		_, after, _ = strings.Cut(after, "m")
		line = before + after
	}
}
