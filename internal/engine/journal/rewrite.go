package journal

import "bytes"

// Rewrite changes the lines of a journal and keeps their chain: where a line names the hash of the one before, it names that of
// what this became. What is damaged before is so afterwards.
func Rewrite(data []byte, change func(line []byte) []byte) []byte {
	out := make([]byte, 0, len(data))
	was, now := "", ""
	for rest := data; len(rest) > 0; {
		line, after, whole := bytes.Cut(rest, []byte("\n"))
		changed := change(line)
		if body, ok := bytes.CutSuffix(changed, []byte(`"p":"`+was+`"}`)); ok && was != now {
			changed = append(bytes.Clone(body), `"p":"`+now+`"}`...)
		}
		out = append(out, changed...)
		if whole {
			out = append(out, '\n')
		}
		was, now, rest = hash(line), hash(changed), after
	}
	return out
}
