package metrics

import (
	"strings"

	"github.com/trellis-tasks/trellis/internal/pulse"
	"github.com/trellis-tasks/trellis/internal/status"
)

// reasons are why tasks wait, by how status says it: the label of each, and how that begins.
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
	{"another", ""}, // the provider, the day's budget, files of another task: as the watcher says it
}

// reason is the label of what a task waits for.
func reason(waitsFor string) string {
	for _, r := range reasons {
		if strings.HasPrefix(waitsFor, r.begins) {
			return r.label
		}
	}
	return "another"
}
