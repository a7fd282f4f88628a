package proc

import (
	"fmt"
	"sync"
	"unicode/utf8"
)

// Capped is a writer that keeps the beginning and the end of what it gets. It may be written to by
// several goroutines at once.
type Capped struct {
	mu    sync.Mutex
	limit int
	head  []byte
	tail  []byte // a ring once it is full
	next  int    // where in the full ring the oldest byte is
	total int64
}

// NewCapped keeps up to limit bytes: the first half and the last half.
func NewCapped(limit int) *Capped { return &Capped{limit: max(limit, 0)} }

// Write takes all of data and returns no error.
func (c *Capped) Write(data []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(data)
	c.total += int64(n)
	if room := c.limit/2 - len(c.head); room > 0 {
		take := min(room, len(data))
		c.head, data = append(c.head, data[:take]...), data[take:]
	}
	c.keepLast(data)
	return n, nil
}

func (c *Capped) keepLast(data []byte) {
	size := c.limit - c.limit/2
	if len(data) > size {
		data = data[len(data)-size:]
	}
	if room := min(size-len(c.tail), len(data)); room > 0 {
		c.tail, data = append(c.tail, data[:room]...), data[room:]
	}
	for len(data) > 0 {
		n := copy(c.tail[c.next:], data)
		data, c.next = data[n:], (c.next+n)%size
	}
}

// Cut reports whether something was left out.
func (c *Capped) Cut() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total > int64(len(c.head)+len(c.tail))
}

// String returns what was kept. If something was left out, a separate line says how much; no character is cut in two there.
func (c *Capped) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	head := string(c.head)
	tail := string(c.tail[c.next:]) + string(c.tail[:c.next])
	if c.total == int64(len(head)+len(tail)) {
		return head + tail
	}
	head, tail = CutEnd(head), cutStart(tail)
	return fmt.Sprintf("%s\n[... %d bytes left out ...]\n%s", head, c.total-int64(len(head)+len(tail)), tail)
}

// CutEnd drops an incomplete character at the end of s.
func CutEnd(s string) string {
	for i := len(s) - 1; i >= 0 && i >= len(s)-utf8.UTFMax; i-- {
		if utf8.RuneStart(s[i]) {
			if !utf8.FullRuneInString(s[i:]) {
				return s[:i]
			}
			break
		}
	}
	return s
}

// cutStart drops an incomplete character at the beginning of s.
func cutStart(s string) string {
	for i := 0; i < len(s) && i < utf8.UTFMax; i++ {
		if utf8.RuneStart(s[i]) {
			return s[i:]
		}
	}
	return s
}
