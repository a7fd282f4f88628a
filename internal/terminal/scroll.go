package terminal

import (
	"bytes"
	"strings"
	"sync"

	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/text"
)

// How much of a log is kept for readers that read it piece by piece.
const (
	keptLines = 2000
	keptBytes = 1 << 20 // of an agent's stream that are read at once
	lineWidth = 2000    // characters
)

// Scroll is a log as far as it was read: lines for a terminal, numbered from the first. Only the last ones are kept.
type Scroll struct {
	Each func(status.Line)        // called for everything that happened, in order; may be nil
	Kind func(status.Line) string // returns what a line is about; may be nil

	mu    sync.Mutex
	log   *status.Log
	print LogPrinter
	lines []ScrollLine
	first int // number of the first line that is kept
}

// ScrollLine is a line of a log.
type ScrollLine struct{ At, Text, Kind string }

// NewScroll returns a log from its beginning. whole is the command that prints all of a long text.
func NewScroll(log *status.Log, whole string) *Scroll {
	log.Tail = keptBytes
	return &Scroll{log: log, print: LogPrinter{Whole: whole}}
}

// Since returns the lines from a number on, only the last most of them unless most is 0, and the number of the
// next line. whole says that lines from that number on are lost: then the list has the lines that are kept.
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

// Read reads what is new and then calls look, while nobody else reads.
func (s *Scroll) Read(look func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read()
	look()
}

// read reads what is new. What can't be read now is read by a later call.
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

// newScrollLine returns a printed line with its time apart.
func newScrollLine(kind, shown string) ScrollLine {
	const clock = len("15:04:05")
	line := ScrollLine{Kind: kind, Text: shown}
	if len(shown) >= clock {
		line.At, line.Text = strings.TrimSpace(shown[:clock]), strings.TrimPrefix(shown[clock:], "  ")
	}
	line.Text = text.Clip(line.Text, lineWidth)
	return line
}
