package agentcall

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxSentence is the length, in bytes of a record, to which TruncateList cuts a sentence.
const maxSentence = 400

// Truncate returns the beginning of s that takes about n bytes in a record.
func Truncate(s string, n int) string {
	used := 0
	for i, r := range s {
		if used += runeSize(r); used > n {
			return s[:i] + "…"
		}
	}
	return s
}

// elideMiddle replaces the middle of s by a remark, so that about n bytes of s are left.
func elideMiddle(s string, n int) string {
	if len(s) <= n {
		return s
	}
	head, tail := s[:n*3/4], s[len(s)-n/4:]
	return fmt.Sprintf("%s\n[… %d bytes are left out here …]\n%s", strings.ToValidUTF8(head, ""), len(s)-len(head)-len(tail), strings.ToValidUTF8(tail, ""))
}

// TruncateList returns the first sentences of a list, at most n, each cut to 400 bytes of a record. If some are left out, the
// last one says how many.
func TruncateList(list []string, n int) []string {
	if len(list) > n {
		list = append(list[:n-1:n-1], fmt.Sprintf("and %d more", len(list)-n+1))
	}
	for i, s := range list {
		list[i] = Truncate(s, maxSentence)
	}
	return list
}

// RecordSize returns the number of bytes that a JSON value takes in a record, which has no insignificant space and encodes <, >
// and & with six bytes each.
func RecordSize(value json.RawMessage) int {
	raw, err := json.Marshal(value)
	if err != nil {
		return len(value) // invalid JSON is never recorded
	}
	return len(raw)
}

// TooLong returns the problem of an answer that takes n bytes of a record, where at most most are allowed.
func TooLong(n, most int) string {
	return fmt.Sprintf("/: takes %d bytes (<, > and & take six each), may take at most %d: shorten it", n, most)
}

// runeSize returns the number of bytes that r takes in a record.
func runeSize(r rune) int {
	if r < ' ' || strings.ContainsRune("<>&\u2028\u2029\ufffd", r) {
		return 6
	}
	if r == '"' || r == '\\' {
		return 2
	}
	return utf8.RuneLen(r)
}

// excerptBytes is the number of bytes of a text that are kept in the journal.
const excerptBytes = 2 << 10

// excerpt returns the end of a text, which is where agents state their result.
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
