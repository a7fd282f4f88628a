package journal

import "bytes"

// Rewrite applies change to the lines of a journal and keeps their chain intact: a hash that names the line before is replaced by
// the hash of the changed line. Damage in the journal remains.
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
