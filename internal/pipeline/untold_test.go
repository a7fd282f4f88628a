package pipeline

import (
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// What the debug agent has to fix is reported once: by whatever found it, or otherwise with the agent's call.
func TestUntold(t *testing.T) {
	for want, of := range map[string]trouble{
		"step b: its command exited with 2: ls: no nope": {Code: trellis.StepFailed, Detail: "step b: its command exited with 2", Failed: []CommandResult{{Command: "ls nope", Code: 2, Tail: "nope\nls: no nope\n"}}},
		"step a: its criterion is not met":               {Code: trellis.StepFailed, Detail: "step a: its criterion is not met"},
		"empty_diff: nothing was changed":                {Code: trellis.EmptyDiff, Detail: "nothing was changed"},
		"":                                               {Code: trellis.VerifyFailed, Detail: "1 of 1", Failed: []CommandResult{{Command: "make", Code: 2}}},
	} {
		data, err := agentcall.Encode(promptData{Trouble: &of})
		if err != nil {
			t.Fatal(err)
		}
		in, err := agentcall.Encode(agentcall.Request{Role: trellis.Debug, Data: data})
		if err != nil {
			t.Fatal(err)
		}
		if got := UnreportedTrouble("debug", in); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// The duration of a run counts from its first call, not from when its journal began.
func TestOutcomeOfRunThatWaited(t *testing.T) {
	began := time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
	h := &journal.History{Began: began, EndedAt: began.Add(time.Hour), Calls: []journal.Entry{{ID: "claim#1", Started: began.Add(59 * time.Minute)}}}
	if got := OutcomeOf(h).Seconds; got != 60 {
		t.Errorf("it took %v s", got)
	}
}
