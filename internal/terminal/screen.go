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

// screen is an output that ends, on a terminal, with lines that are redrawn; elsewhere it has no such lines.
// Its methods may be called by several goroutines.
type screen struct {
	w               io.Writer
	style           Style
	size            func() (width, height int) // returns the current size of the terminal; nil: the one in style
	isTerminal      bool                       // w is a terminal
	stamp           func() string              // returns what every line that stays begins with; nil: the name of the program
	frame           func(width int) []string   // returns the lines that are redrawn; called with mu held
	changesWithTime func() bool                // reports whether time alone changes them; called with mu held; nil: it does

	mu         sync.Mutex
	out        bytes.Buffer // text to write with the next drawing
	printed    string       // the last line that stays, without its time
	drawn      []string     // redrawn lines that are on the screen
	drawnWidth int          // width of the screen when they were drawn
	stale      bool         // they do not show the latest change
	closed     bool
	wake       chan struct{} // wakes tick after a change
	stop       chan struct{}
	done       chan struct{}
}

// Noted changes are drawn after tickEvery, and lines that time changes every drawEvery.
const (
	tickEvery = 100 * time.Millisecond
	drawEvery = 10 * tickEvery
)

// open begins to draw what frame returns, at every change and with time. close must be called.
func (s *screen) open() {
	s.wake, s.stop, s.done = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	if !s.isTerminal {
		close(s.done)
		return
	}
	go s.tick()
}

// tick draws noted changes, and lines that change with time. While there are none on the screen, it has no timer.
func (s *screen) tick() {
	defer close(s.done)
	opened := time.Now()
	for {
		var clock <-chan time.Time
		s.mu.Lock()
		switch {
		case s.stale:
			clock = time.After(tickEvery)
		case len(s.drawn) > 0 && (s.changesWithTime == nil || s.changesWithTime()):
			clock = time.After(drawEvery - time.Since(opened)%drawEvery)
		}
		s.mu.Unlock()
		select {
		case <-clock:
			s.change(func() {})
		case <-s.wake:
		case <-s.stop:
			return
		}
	}
}

// change calls do and draws the result.
func (s *screen) change(do func()) {
	s.update(func() {
		do()
		s.draw()
	})
}

// changeLater calls do. The result is drawn at the next tick, or when something is printed.
func (s *screen) changeLater(do func()) {
	s.update(func() {
		do()
		if s.stale = true; s.out.Len() > 0 || !s.isTerminal {
			s.draw()
		}
	})
}

// update calls do unless the screen is closed, and wakes tick to plan its next drawing.
func (s *screen) update(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	do()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// close calls last and draws the result. Nothing is drawn afterwards: lines that last removes are gone.
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

// print prints lines that stay, within change or note. With a stamp it does not print the same text twice in a row.
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

// width returns how many columns there are for a line.
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

// draw writes what was printed, and below it the redrawn lines, in one piece. It erases what the
// terminal itself wrote below them, such as ^C.
func (s *screen) draw() {
	if !s.isTerminal {
		_, _ = s.out.WriteTo(s.w) // a write error can't be reported anywhere
		return
	}
	s.stale = false
	width := s.width()
	lines := s.frame(width)
	if s.out.Len() == 0 && width == s.drawnWidth && slices.Equal(lines, s.drawn) {
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
	s.drawn, s.drawnWidth = append(s.drawn[:0], lines...), width
	_, _ = whole.WriteTo(s.w)
}

// rows returns how many rows of the screen the redrawn lines take up. A terminal that has become narrower has wrapped them.
func (s *screen) rows(width int) (n int) {
	for _, line := range s.drawn {
		n++
		if width < s.drawnWidth {
			n += (text.Width(withoutColours(line)) - 1) / (width + 1)
		}
	}
	return n
}

// withoutColours returns a line without its colours.
func withoutColours(line string) string {
	for {
		before, after, found := strings.Cut(line, "\x1b[")
		if !found {
			return line
		}
		_, after, _ = strings.Cut(after, "m")
		line = before + after
	}
}
