package git

import "sync"

// memo remembers what a commit holds, which never changes: the zero value is empty. A task is looked at in each of its phases, and
// asking git each time would be much of what Trellis itself costs.
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

// keep forgets all else when there are most: those that count are of the tasks that run now.
func (m *memo[V]) keep(key string, v V, most int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil || len(m.known) >= most {
		m.known = map[string]V{}
	}
	m.known[key] = v
}
