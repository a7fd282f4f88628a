package metrics

import (
	"strings"

	"github.com/trellis-tasks/trellis/internal/pulse"
	"github.com/trellis-tasks/trellis/internal/status"
)

// reasons maps the reasons for waiting in package status, by their beginning, to labels.
var reasons = []struct{ label, begins string }{
	{"approval", "approval"},
	{"decision", "decision"},
	{"merge", "merge of"},
	{"dependency", "dependency"},
	{"trust", pulse.Trust},
	{"watcher", "watcher"},
	{"machine", "machine"},
	{"slot", status.ForSlot},
	{"time", "time"},
	{"agent", "agent ("},
	{"start", "start"},
	{"another", ""}, // the provider, the day's budget, files of another task: in the watcher's words
}

// reasonLabel returns the label for what a task waits for.
func reasonLabel(waitsFor string) string {
	for _, r := range reasons {
		if strings.HasPrefix(waitsFor, r.begins) {
			return r.label
		}
	}
	return "another"
}
