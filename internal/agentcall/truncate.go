package agentcall

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxSentence is how much of one sentence TruncateList keeps, in bytes of a record.
const maxSentence = 400

// Truncate is the beginning of s that takes about n bytes in a record.
func Truncate(s string, n int) string {
	used := 0
	for i, r := range s {
		if used += runeSize(r); used > n {
			return s[:i] + "…"
		}
	}
	return s
}

// elideMiddle is s with so much of its middle left out that about n bytes are left, and a word about it.
func elideMiddle(s string, n int) string {
	if len(s) <= n {
		return s
	}
	head, tail := s[:n*3/4], s[len(s)-n/4:]
	return fmt.Sprintf("%s\n[… %d bytes are left out here …]\n%s", strings.ToValidUTF8(head, ""), len(s)-len(head)-len(tail), strings.ToValidUTF8(tail, ""))
}

// TruncateList is the first sentences of a list, at most n, each cut to 400 bytes of a record. The last one says how
// many are left out.
func TruncateList(list []string, n int) []string {
	if len(list) > n {
		list = append(list[:n-1:n-1], fmt.Sprintf("and %d more", len(list)-n+1))
	}
	for i, s := range list {
		list[i] = Truncate(s, maxSentence)
	}
	return list
}

// RecordSize is how many bytes a JSON value takes in a record, which has no needless spaces and writes <, > and &
// with six bytes each.
func RecordSize(value json.RawMessage) int {
	raw, err := json.Marshal(value)
	if err != nil {
		return len(value) // no JSON: it is not going to be recorded
	}
	return len(raw)
}

// TooLong says of an answer that takes n bytes of a record that it may take no more than most.
func TooLong(n, most int) string {
	return fmt.Sprintf("/: takes %d bytes (<, > and & take six each), may take at most %d: say it shorter", n, most)
}

// runeSize is how many bytes r takes in a record.
func runeSize(r rune) int {
	if r < ' ' || strings.ContainsRune("<>&\u2028\u2029\ufffd", r) {
		return 6
	}
	if r == '"' || r == '\\' {
		return 2
	}
	return utf8.RuneLen(r)
}

// excerptBytes is how much of a text stands in the journal.
const excerptBytes = 2 << 10

// excerpt is the end of a text, where agents say what came of it.
func excerpt(text string) string {
	text = strings.TrimSpace(text)
	for used, at := 0, len(text); at > 0; {
		r, n := utf8.DecodeLastRuneInString(text[:at])
		if used += runeSize(r); used > excerptBytes {
			return "…" + text[at:]
		}
		at -= n
	}
	return text
}
