package git

import "sync"

// memo caches facts that never change, such as the files of a commit. The zero value is empty. A task is inspected in each of its
// phases; asking git each time would take much of the time that Trellis itself needs.
type memo[V any] struct {
	mu    sync.Mutex
	known map[string]V
}

func (m *memo[V]) recall(key string) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.known[key]
	return v, ok
}

// keep stores v. If most entries are stored, it drops all of them first: only those of running tasks matter.
func (m *memo[V]) keep(key string, v V, most int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil || len(m.known) >= most {
		m.known = map[string]V{}
	}
	m.known[key] = v
}
