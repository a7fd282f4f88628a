package trellis

import "strings"

// The message about a merge conflict that git left in a file, and its hint.
const (
	MergeConflict     = "git left a merge conflict here"
	MendMergeConflict = "choose one side and remove the lines <<<<<<<, ======= and >>>>>>>"
)

// ConflictAt returns the offset of git's first merge conflict marker, -1 without one. It is for formats in which no line can
// begin like a marker.
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

// IsConflictMark reports whether a line of such a format is a conflict marker.
func IsConflictMark(line string) bool {
	line = strings.TrimRight(line, "\r\n")
	return line == "=======" || ConflictAt(line) == 0 || strings.HasPrefix(line, "||||||| ")
}
