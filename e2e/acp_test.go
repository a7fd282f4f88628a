package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/agents/agentstest"
	"github.com/trellis-tasks/trellis/internal/soak"
)

// A program that speaks the Agent Client Protocol takes a task to its commit; with TRELLIS_SOAK it also plans the task before
// and judges it. The tokens that stats reports are those that the model's server counted, and no process is left.
func TestGeminiWorks(t *testing.T) {
	t.Parallel()
	s, server := scene(t, agentstest.Gemini, tiny)
	dir := ".trellis/tasks/02-01-bye"
	if soak.Asked() { // each start of the program takes two seconds
		s.initialized(agentstest.Gemini)
		out, _ := s.trellis(0, "plan", "-n", "bye", "-t", "backend", "-r", "greet.sh --bye says Bye")
		dir = out[strings.LastIndexByte(out, '\n')+1:]
	} else {
		s.rehearse("A1")
		s.hand("02-01-bye")
	}
	s.trellis(0, "watch", "--once")
	out, _ := s.trellis(0, "stats", "--json")
	var stats struct {
		Total struct{ Input_tokens, Output_tokens int }
	}
	if err := json.Unmarshal([]byte(out), &stats); err != nil {
		t.Fatal(err)
	}
	if got, want := stats.Total, server.Used(); want.Input == 0 || got.Input_tokens != want.Input+want.Cached || got.Output_tokens != want.Output { // the program does not report which tokens were cached
		t.Errorf("stats has %+v, the server counted %+v", got, want)
	}
	if got := s.run("git", "show", "feature/bye:greet.sh"); got+"\n" != changed {
		t.Errorf("the branch holds %q", got)
	}
	var task struct{ Status string }
	if err := json.Unmarshal([]byte(s.read(dir+"/task.json")), &task); err != nil || task.Status != "review" {
		t.Errorf("task.json says %+v, %v", task, err)
	}
	if left := processes(t, s.Dir); len(left) > 0 {
		t.Errorf("processes are left: %q", left)
	}
}
