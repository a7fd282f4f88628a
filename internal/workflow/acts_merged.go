package workflow

import (
	"bytes"
	"strings"
	"sync"

	"github.com/trellis-tasks/trellis/internal/proc"
)

// maxLine is how much of a line without an end is waited for before it is shown.
const maxLine = 64 << 10

// merged shows two streams as one, in the order in which they come. What it tells are whole lines: a secret, or a
// character, that comes in two parts is seen as one.
type merged struct {
	mu      sync.Mutex
	tail    *proc.Capped
	tell    func(stream, text string)
	redact  func(string) string
	streams []*mergedStream
}

// mergedStream is one of them.
type mergedStream struct {
	m    *merged
	name string
	keep *proc.Capped
	line []byte // the last one, which has no end yet
}

func (m *merged) to(stream string, keep *proc.Capped) *mergedStream {
	s := &mergedStream{m: m, name: stream, keep: keep}
	m.streams = append(m.streams, s)
	return s
}

func (s *mergedStream) Write(p []byte) (int, error) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if _, err := s.keep.Write(p); err != nil {
		return 0, err
	}
	s.line = append(s.line, p...)
	if end := bytes.LastIndexByte(s.line, '\n') + 1; end > 0 {
		s.show(end)
	}
	if len(s.line) > maxLine {
		s.show(len(proc.CutEnd(string(s.line))))
	}
	return s.m.tail.Write(p)
}

// show tells the first n bytes of what was not told.
func (s *mergedStream) show(n int) {
	s.m.tell(s.name, s.m.redact(strings.TrimSuffix(string(s.line[:n]), "\n")))
	s.line = append(s.line[:0], s.line[n:]...)
}

// end tells what has no end. Nothing is written after it.
func (m *merged) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.streams {
		if len(s.line) > 0 {
			s.show(len(s.line))
		}
	}
}
