package runner

import "sync"

// phases are those that runs of this process entered, by directory. The zero value knows of none. Its methods may be
// called by several goroutines at once.
type phases struct {
	mu   sync.Mutex
	last map[string]Phase
}

// Phase is where a run is.
type Phase struct {
	Name  string
	Round int
}

func (s *phases) put(dir string, now Phase) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		s.last = map[string]Phase{}
	}
	s.last[dir] = now
}

// take is the last that a run entered since it was asked before.
func (s *phases) take(dir string) (now Phase, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, ok = s.last[dir]
	delete(s.last, dir)
	return now, ok
}
