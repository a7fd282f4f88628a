package runnertest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/trellis-tasks/trellis/internal/github/githubtest"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Mending is a script whose work passes at once, and whose debug changes something if its prompt is from a pull request.
const Mending = `
roles:
  implement:
    - files: {greet.sh: "if [ \"$1\" = --bye ]; then echo Bye; else echo \"Hello, ${1:-world}!\"; fi\n"}
      answer: done
  check: [{answer: fine}]
  debug:
    - when: "# From the pull request"
      run: ["echo debug >> $TRELLIS_REPO/../calls.log; echo fixed >> more.txt"]
      answer: fixed
  accept:
    - answer: {criteria: [{id: A1, verdict: met, evidence: "greet.sh:1"}]}
`

// Reviewed returns a world in which a task is in review, with a pull request of its own.
func Reviewed(t *testing.T, script string) (*World, *githubtest.GH, string) {
	t.Helper()
	w, gh := Hosted(t, githubtest.State{Logs: map[string]string{"2": "it says Bey\n"}})
	w.Write(".trellis/rehearsal.yaml", script)
	w.Site.Config.Delivery.React = true
	dir := w.Hand("02-01-bye", ByePRD)
	if res := w.Start(dir); res.Status != trellis.Review || res.Report.Delivery.Number != 1 {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	return w, gh, dir
}

type Fields = map[string]any

func Failing(names ...string) Fields {
	var list []any
	for _, n := range names {
		list = append(list, Fields{"name": n, "status": "COMPLETED", "conclusion": "FAILURE", "detailsUrl": "https://github.example/ann/greet/actions/runs/1/job/2"})
	}
	return Fields{"statusCheckRollup": list}
}

// Debugs returns how often the debug agent was asked.
func (w *World) Debugs() int {
	w.Helper()
	if _, err := os.Stat(filepath.Join(w.Dir, "../calls.log")); err != nil {
		return 0
	}
	return w.Calls()["debug"]
}
