package pipeline

import (
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/contextfiles"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// check has a fresh session review the change and fix what it finds. It returns the markers that are missing at the end of its
// report (its last 2 KB). They fail the round only if no command decides (see failedCommands). observe makes the markers.
func (r *run) check(f flow.Flow) (missing []string, err error) {
	content, err := r.observe(f, "check")
	if err != nil {
		return nil, err
	}
	if err := r.enter(f, "check"); err != nil {
		return nil, err
	}
	reply, err := r.ask(f, trellis.Check, r.job.Limits.Check, promptData{Content: content})
	for _, m := range content.Markers {
		if !endsWith(reply.Excerpt, m, len(content.Markers)) {
			missing = append(missing, m)
		}
	}
	return missing, err
}

// doneMarker is the word by which a check agent says that it has checked everything, if no command can be run.
const doneMarker = "ALL_CHECKS_FINISH"

// oneWordPattern matches a reason of one word. In scripts that put no blanks between words, a whole sentence does not match.
var oneWordPattern = trellis.Pattern(`^\w[\w-]*$`)

// markers returns the words that the check agent has to end with: one for all, and one for each one-word reason in check.jsonl.
func markers(data []byte) []string {
	list := []string{doneMarker}
	rows, _ := contextfiles.Parse("check.jsonl", data) // problems were found when the directory was checked
	for _, r := range rows {
		reason := strings.Trim(r.Reason, ".:;,")
		if m := strings.ToUpper(reason) + "_FINISH"; oneWordPattern().MatchString(reason) && !slices.Contains(list, m) {
			list = append(list, m)
		}
	}
	return list
}

// endsWith reports whether a marker is alone on one of the last n lines of a text.
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
