package diffview

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// visible makes invisible and invalid characters visible.
func visible(s string) string { return trellis.Visible(strings.ToValidUTF8(s, "�")) }

// splitParts splits a line where its class changes, and where a changed part begins or ends.
func splitParts(text string, classes []Class, changed []bool) (list []Part) {
	class := func(i int) Class {
		if i < len(classes) {
			return classes[i]
		}
		return plain
	}
	isChanged := func(i int) bool { return i < len(changed) && changed[i] }
	for begin := 0; begin < len(text); {
		end := begin + 1
		for end < len(text) && (!utf8.RuneStart(text[end]) || class(end) == class(begin) && isChanged(end) == isChanged(begin)) {
			end++
		}
		list = append(list, Part{visible(text[begin:end]), class(begin), isChanged(begin)})
		begin = end
	}
	return list
}

// maxCompared is the maximum length, in bytes, of lines that are compared with each other.
const maxCompared = 1000

// maxWords is the maximum number of words in such lines.
const maxWords = 150

// changedBytes marks the bytes of line that other lacks; nil if the lines have too little in common, or are too long.
func changedBytes(line, other string) []bool {
	if len(line) > maxCompared || len(other) > maxCompared {
		return nil
	}
	a, b := splitWords(line), splitWords(other)
	if len(a) > maxWords || len(b) > maxWords {
		return nil
	}
	kept := markCommon(a, b)
	changed := make([]bool, len(line))
	at, letters, same := 0, 0, 0
	for i, w := range a {
		n := len(strings.TrimSpace(w))
		letters += n
		if kept[i] {
			same += n
		} else {
			for k := range w {
				changed[at+k] = true
			}
		}
		at += len(w)
	}
	if same*5 < letters*2 { // it has become a different line
		return nil
	}
	return changed
}

// splitWords splits a line into words, runs of spaces, and single other characters.
func splitWords(s string) (list []string) {
	kind := func(r rune) int {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '_':
			return 1
		case unicode.IsSpace(r):
			return 2
		}
		return 0
	}
	begin, last := 0, -1
	for i, r := range s {
		k := kind(r)
		if i > begin && (k != last || k == 0) {
			list, begin = append(list, s[begin:i]), i
		}
		last = k
	}
	if begin < len(s) {
		list = append(list, s[begin:])
	}
	return list
}

// markCommon marks the words of a that belong to the longest common subsequence of a and b.
func markCommon(a, b []string) []bool {
	longest := make([][]int, len(a)+1)
	for i := range longest {
		longest[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for k := len(b) - 1; k >= 0; k-- {
			if a[i] == b[k] {
				longest[i][k] = longest[i+1][k+1] + 1
			} else {
				longest[i][k] = max(longest[i+1][k], longest[i][k+1])
			}
		}
	}
	kept := make([]bool, len(a))
	for i, k := 0, 0; i < len(a) && k < len(b); {
		switch {
		case a[i] == b[k]:
			kept[i] = true
			i, k = i+1, k+1
		case longest[i+1][k] >= longest[i][k+1]:
			i++
		default:
			k++
		}
	}
	return kept
}
