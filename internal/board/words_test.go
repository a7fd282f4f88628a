package board_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/soak"
)

// What an agent writes is soon shown in the log and on the card of its task.
func TestWordsAreSoonOnThePage(t *testing.T) {
	self, err := program()
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, nil)
	says := filepath.Join(w.TempDir(), "says")
	if err := syscall.Mkfifo(says, 0o600); err != nil {
		t.Fatal(err)
	}
	w.Write("../talk.sh", "cat >/dev/null\ncat "+says+"\n")
	w.Write(".trellis/config.yaml", fmt.Sprintf("agents: {default: talk, commands: {talk: {command: [sh, %q]}}}\nlimits: {attempts: 1, rounds: 1}\nsandbox: off\n", filepath.Join(filepath.Dir(w.Dir), "talk.sh")))
	w.Git("commit", "-qam", "an agent that says what it is told")
	row := `{"file": "test.sh", "reason": "how it is tested"}` + "\n"
	w.task("02-01-talk", `{"title": "Talk", "name": "talk", "status": "ready", "dev_type": "docs", "base_branch": "main"}`, map[string]string{
		"prd.md": "# Talk\n\n## Acceptance Criteria\n\n- [ ] it talks\n", "implement.jsonl": row, "check.jsonl": row})
	run := exec.Command(self, "start", "02-01-talk")
	run.Dir, run.Env = w.Dir, w.p.Env.Vars
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	mouth, err := os.OpenFile(says, os.O_WRONLY, 0) // returns once the agent reads
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = mouth.Close() // which ends the agent
		_ = run.Process.Signal(syscall.SIGTERM)
		_ = run.Wait() // how the run ends does not matter here
	}()

	w.serve()
	defer w.end()
	log, columns := w.open("/task/02-01-talk/log").live(), w.open("/").live()
	var took []time.Duration
	for i := range 12 {
		word := fmt.Sprintf("word number %d.", i)
		began := time.Now()
		if _, err := fmt.Fprintln(mouth, word); err != nil {
			t.Fatal(err)
		}
		log.until(fmt.Sprintf("document.getElementById('log').textContent.includes(%q)", word))
		took = append(took, time.Since(began))
		columns.until(fmt.Sprintf("document.querySelector('.doing').textContent.includes(%q)", word))
	}
	slices.Sort(took)
	t.Logf("what an agent says is in the log after %v, %v at most", took[len(took)/2], took[len(took)-1])
	if limit, worst := 300*time.Millisecond, 2*time.Second; soak.Asked() && (took[len(took)/2] > limit || took[len(took)-1] > worst) { // for a machine without other load
		t.Errorf("words took %v, want half of them within %v and all within %v", took, limit, worst)
	}
}
