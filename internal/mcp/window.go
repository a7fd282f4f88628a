package mcp

import (
	"bytes"
	"fmt"
)

// window keeps a part of what is written to it, and counts the rest.
type window struct {
	from int // bytes before the part
	most int // bytes of it
	kept bytes.Buffer
	all  int
}

// Write takes all it is given.
func (w *window) Write(p []byte) (int, error) {
	begin := max(0, min(len(p), w.from-w.all))
	end := min(len(p), begin+w.most-w.kept.Len())
	w.kept.Write(p[begin:max(begin, end)])
	w.all += len(p)
	return len(p), nil
}

// String is the part, to the end of its last line where there is more, and where that begins.
func (w *window) String() string {
	part := w.kept.Bytes()
	if rest := w.all - w.from - len(part); rest > 0 {
		if end := bytes.LastIndexByte(part, '\n'); end > 0 {
			part = part[:end+1]
		}
		return fmt.Sprintf("%s… %d bytes more; go on with from=%d\n", bytes.ToValidUTF8(part, []byte("�")), w.all-w.from-len(part), w.from+len(part))
	}
	return string(bytes.ToValidUTF8(part, []byte("�")))
}
