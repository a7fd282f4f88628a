package pipeline

import (
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/contextfiles"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// check lets a fresh session review the change and mend what it finds. It returns the markers that are
// missing at the end of its report (its last 2 KB), which count when there is no command to decide. observe makes the markers.
func (r *run) check(f flow.Flow) (missing []string, err error) {
	content, err := r.observe(f, "check")
	if err != nil {
		return nil, err
	}
	if err := r.enter(f, "check"); err != nil {
		return nil, err
	}
	reply, err := r.ask(f, trellis.Check, r.job.Limits.Check, about{Content: content})
	for _, m := range content.Markers {
		if !endsWith(reply.Excerpt, m, len(content.Markers)) {
			missing = append(missing, m)
		}
	}
	return missing, err
}

// allDone is how a check agent says that it looked at everything, when nothing can be executed.
const allDone = "ALL_CHECKS_FINISH"

// word is a reason of one word. Where words are written without blanks between them, a sentence is none.
var word = trellis.Pattern(`^\w[\w-]*$`)

// markers are the words that the check agent ends with: one for all, one for each one-word reason in
// check.jsonl.
func markers(data []byte) []string {
	list := []string{allDone}
	rows, _ := contextfiles.Parse("check.jsonl", data) // its problems were found by the check before
	for _, r := range rows {
		reason := strings.Trim(r.Reason, ".:;,")
		if m := strings.ToUpper(reason) + "_FINISH"; word().MatchString(reason) && !slices.Contains(list, m) {
			list = append(list, m)
		}
	}
	return list
}

// endsWith reports whether a marker stands alone on one of the last n lines of a text.
func endsWith(text, marker string, n int) bool {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i := len(lines) - 1; i >= 0 && n > 0; i-- {
		line := strings.Trim(lines[i], " \t\r`*_.-")
		if line == "" {
			continue
		}
		if line == marker {
			return true
		}
		n--
	}
	return false
}
