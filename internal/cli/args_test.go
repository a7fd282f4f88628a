package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/cli/command"
)

// A command takes the arguments that its help lists, and a usage error names the first mistake.
func TestArguments(t *testing.T) {
	for args, want := range map[string]string{
		"list x":                      `unexpected argument "x"`,
		"start":                       "missing argument: trellis start TASKDIR",
		"start a b":                   `unexpected argument "b"`,
		"validate a b":                `unexpected argument "b"`,
		"run a b":                     `unexpected argument "b"`,
		"verify":                      "missing argument: trellis verify TASKDIR | ID",
		"task add-context a b":        "missing argument: trellis task add-context TASKDIR implement|check|debug PATH [REASON]",
		"task add-context a b c d e":  `unexpected argument "e"`,
		"completion":                  "missing argument: trellis completion bash|zsh|fish|install [bash|zsh|fish]",
		"watch --rescan 5":            "--rescan needs a unit, e.g. 5s",
		"task set-branch a":           "missing argument: trellis task set-branch TASKDIR BRANCH",
		"objective check a b --x":     "trellis objective check has no flag --x",
		"help failures what":          `trellis has no command "failures"`,
		"objective reconcile --step=": "trellis objective reconcile has no flag --step",
	} {
		var said bytes.Buffer
		a := &console{Console: command.Console{Stdout: &said, Stderr: &said, Dir: t.TempDir(), Now: time.Now}}
		code := a.Run(t.Context(), strings.Fields(args))
		if first, _, _ := strings.Cut(said.String(), "\n"); code != command.ExitUsage || first != "trellis: "+want {
			t.Errorf("%s: got %d and %s, want %s", args, code, &said, want)
		}
	}
}
