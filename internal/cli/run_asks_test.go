package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/cli/command"
)

const asksPeople = `schema_version: 1
title: Ask
steps:
  - {id: build, command: "echo built >> log.txt"}
  - {id: publish, type: approval, title: "Publish it?", description: "All of it goes live."}
  - {id: upload, command: "echo uploaded >> log.txt", depends_on: [publish]}
`

// On a terminal a run asks about the step that waits, and continues after the answer.
func TestRunAsks(t *testing.T) {
	for name, test := range map[string]struct {
		keys []string // what is typed at the question, and then when it asks for a reason
		code int
		log  string
		says string
	}{
		"yes":             {keys: []string{"y\n"}, log: "built\nuploaded\n", says: "publish of "},
		"no, with reason": {keys: []string{"n not on a Friday\n"}, code: command.ExitFailed, log: "built\n", says: "not on a Friday"},
		"no, asked why":   {keys: []string{"no\n", "too early\n"}, code: command.ExitFailed, log: "built\n", says: "too early"},
		"no reason":       {keys: []string{"n\n", "\n"}, code: command.ExitWaiting, log: "built\n"},
		"what is that":    {keys: []string{"what\n", "l\n"}, code: command.ExitWaiting, log: "built\n", says: "those after it are run"},
		"end of input":    {keys: []string{"\x04"}, code: command.ExitWaiting, log: "built\n"},
		"Ctrl-C":          {keys: []string{"\x03"}, code: command.ExitInterrupted, log: "built\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newGitWorld(t, realTrellis(t))
			w.write("ask.yaml", asksPeople)
			d := w.dialog("exit 1", "run", "ask.yaml")
			d.expect("publish waits for approval: Publish it?")
			for i, keys := range test.keys {
				when := asked
				if i > 0 && name != "what is that" {
					when = "why? "
				}
				d.types(when, keys)
			}
			all := d.ends(test.code)
			if !strings.Contains(all, test.says) {
				t.Errorf("%q is not said:\n%s", test.says, all)
			}
			if log, err := os.ReadFile(filepath.Join(w.Dir, "log.txt")); err != nil || string(log) != test.log {
				t.Errorf("the steps left %q, %v; want %q", log, err, test.log)
			}
		})
	}
}
