package trellis

import "strings"

// What is said of a merge conflict that git left in a file, and what to do there.
const (
	MergeConflict     = "git left a merge conflict here"
	MendMergeConflict = "choose one side and remove the lines <<<<<<<, ======= and >>>>>>>"
)

// ConflictAt is the byte at which git's first mark of a merge conflict begins, -1 without one. It is asked of formats in which no line
// can begin so.
func ConflictAt(text string) int {
	for _, mark := range []string{"<<<<<<< ", ">>>>>>> "} {
		if strings.HasPrefix(text, mark) {
			return 0
		}
		if i := strings.Index(text, "\n"+mark); i >= 0 {
			return i + 1
		}
	}
	return -1
}

// ConflictMark reports whether a line of such a format is one of the marks.
func ConflictMark(line string) bool {
	line = strings.TrimRight(line, "\r\n")
	return line == "=======" || ConflictAt(line) == 0 || strings.HasPrefix(line, "||||||| ")
}
