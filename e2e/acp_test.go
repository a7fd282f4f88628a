package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/agents/agentstest"
	"github.com/trellis-tasks/trellis/internal/soak"
)

// A task is worked on to its commit with a program that speaks the Agent Client Protocol, and with TRELLIS_SOAK it is planned with it
// before and judged: what its model's server counted is what the tokens are said to be, and no process is left.
func TestGeminiWorks(t *testing.T) {
	t.Parallel()
	s, server := scene(t, agentstest.Gemini, tiny)
	dir := ".trellis/tasks/02-01-bye"
	if soak.Asked() { // it takes two seconds for each of its starts
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
	if got, want := stats.Total, server.Used(); want.Input == 0 || got.Input_tokens != want.Input+want.Cached || got.Output_tokens != want.Output { // it does not tell which were cached
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
