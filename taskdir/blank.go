package taskdir

import (
	"bytes"
	_ "embed"
	"strings"
	"sync"

	"github.com/trellis-tasks/trellis/internal/text"
)

//go:embed blank.md
var blankPRD string

// blankGoal is the placeholder for the description in a blank prd.md.
const blankGoal = "<What is to be true when this is done, and for whom.>"

// BlankPRD returns a prd.md for a person to fill in, with what is known about the task.
func BlankPRD(title, description string) []byte {
	prd := strings.Replace(blankPRD, "TITLE", text.OneLine(title), 1)
	if said := strings.TrimSpace(description); said != "" {
		prd = strings.Replace(prd, blankGoal, said, 1)
	}
	return []byte(prd)
}

// placeholderLines returns the placeholder lines of the blank prd.md.
var placeholderLines = sync.OnceValue(func() map[string]bool {
	lines := map[string]bool{}
	for line := range strings.Lines(blankPRD) {
		if line = strings.TrimSpace(line); strings.Contains(line, "<") && strings.HasSuffix(line, ">") {
			lines[line] = true
		}
	}
	return lines
})

// PlaceholderLines returns the numbers of the lines of a prd.md that are still placeholders.
func PlaceholderLines(prd []byte) (lines []int) {
	n := 0
	for line := range bytes.Lines(prd) {
		if n++; placeholderLines()[string(bytes.TrimSpace(line))] {
			lines = append(lines, n)
		}
	}
	return lines
}
