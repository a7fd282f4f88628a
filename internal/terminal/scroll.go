package terminal

import (
	"bytes"
	"strings"
	"sync"

	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/text"
)

// How much of a log is kept for those who read it piece by piece.
const (
	keptLines = 2000
	keptBytes = 1 << 20 // of what an agent leaves at once
	lineWidth = 2000    // letters
)

// Scroll is a log as far as it was read, its lines as a terminal shows them, numbered from the first on. The last ones are kept.
type Scroll struct {
	Each func(status.Line)        // is told of everything that happened, in its order; nil: nobody is
	Kind func(status.Line) string // what a line is about; nil: nobody asks

	mu    sync.Mutex
	log   *status.Log
	print LogPrinter
	lines []ScrollLine
	first int // number of the first line that is kept
}

// ScrollLine is a line of a log.
type ScrollLine struct{ At, Text, Kind string }

// NewScroll shows a log from its beginning on. whole is the command that prints it whole.
func NewScroll(log *status.Log, whole string) *Scroll {
	log.Tail = keptBytes
	return &Scroll{log: log, print: LogPrinter{Whole: whole}}
}

// Since are the lines from a number on, at most the last most of them unless that is 0, and the number of the one that comes
// next. whole: they are all that are kept, since some between are not.
func (s *Scroll) Since(from, most int) (list []ScrollLine, end int, whole bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read()
	end = s.first + len(s.lines)
	if from < s.first || from > end {
		from, whole = s.first, true
	}
	if most > 0 && end-from > most {
		from = end - most
	}
	return append([]ScrollLine{}, s.lines[from-s.first:]...), end, whole
}

// Read takes in what is new and then calls look, while nobody else reads.
func (s *Scroll) Read(look func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read()
	look()
}

// read takes in what is new. What can't be read now is read with what comes next.
func (s *Scroll) read() {
	news, _, err := s.log.Next()
	if err != nil && len(news) == 0 {
		return
	}
	for _, l := range news {
		if s.Each != nil {
			s.Each(l)
		}
		kind := ""
		if s.Kind != nil {
			kind = s.Kind(l)
		}
		var b bytes.Buffer
		s.print.W = &b
		if s.print.Print(l) != nil {
			continue // it is printed into memory
		}
		for line := range strings.Lines(b.String()) {
			s.lines = append(s.lines, newScrollLine(kind, strings.TrimRight(line, "\n")))
		}
	}
	if over := len(s.lines) - keptLines; over > 0 {
		s.lines, s.first = append([]ScrollLine{}, s.lines[over:]...), s.first+over
	}
}

// newScrollLine is a line as a terminal is shown it, its time apart.
func newScrollLine(kind, shown string) ScrollLine {
	const clock = len("15:04:05")
	line := ScrollLine{Kind: kind, Text: shown}
	if len(shown) >= clock {
		line.At, line.Text = strings.TrimSpace(shown[:clock]), strings.TrimPrefix(shown[clock:], "  ")
	}
	line.Text = text.Clip(line.Text, lineWidth)
	return line
}
