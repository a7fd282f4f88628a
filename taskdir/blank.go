package taskdir

import (
	"bytes"
	_ "embed"
	"strings"
	"sync"

	"github.com/trellis-tasks/trellis/internal/text"
)

//go:embed blank.md
var blank string

// blankGoal is what a prd.md to fill in says where a description is to stand.
const blankGoal = "<What is to be true when this is done, and for whom.>"

// BlankPRD is a prd.md for a person to fill in, with what is known of the task.
func BlankPRD(title, description string) []byte {
	prd := strings.Replace(blank, "TITLE", text.OneLine(title), 1)
	if said := strings.TrimSpace(description); said != "" {
		prd = strings.Replace(prd, blankGoal, said, 1)
	}
	return []byte(prd)
}

// blanks are the lines of it that somebody is to replace.
var blanks = sync.OnceValue(func() map[string]bool {
	lines := map[string]bool{}
	for line := range strings.Lines(blank) {
		if line = strings.TrimSpace(line); strings.Contains(line, "<") && strings.HasSuffix(line, ">") {
			lines[line] = true
		}
	}
	return lines
})

// Unfilled are the lines of a prd.md that say what one to fill in says, by their numbers.
func Unfilled(prd []byte) (lines []int) {
	n := 0
	for line := range bytes.Lines(prd) {
		if n++; blanks()[string(bytes.TrimSpace(line))] {
			lines = append(lines, n)
		}
	}
	return lines
}
