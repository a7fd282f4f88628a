package workflow

import (
	"bytes"
	"strings"
	"sync"

	"github.com/trellis-tasks/trellis/internal/proc"
)

// maxLine is how many bytes of a line without an end are held back before they are shown.
const maxLine = 64 << 10

// streamMerger merges two streams, in the order in which their data arrives. It passes on whole lines, so that a secret, or a
// character, that arrives in two parts is seen as one.
type streamMerger struct {
	mu      sync.Mutex
	tail    *proc.Capped
	tell    func(stream, text string)
	redact  func(string) string
	streams []*mergedStream
}

// mergedStream is one of the streams.
type mergedStream struct {
	m    *streamMerger
	name string
	keep *proc.Capped
	line []byte // the last line, which has no end yet
}

func (m *streamMerger) newStream(stream string, keep *proc.Capped) *mergedStream {
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

// show passes on the first n bytes of the line.
func (s *mergedStream) show(n int) {
	s.m.tell(s.name, s.m.redact(strings.TrimSuffix(string(s.line[:n]), "\n")))
	s.line = append(s.line[:0], s.line[n:]...)
}

// flush passes on lines without an end. Nothing is written after it.
func (m *streamMerger) flush() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.streams {
		if len(s.line) > 0 {
			s.show(len(s.line))
		}
	}
}
