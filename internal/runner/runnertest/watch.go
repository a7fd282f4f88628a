package runnertest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Quickly is a script that does each task at once.
const Quickly = "roles:\n  implement: [{run: [\"echo $TRELLIS_TASK_ID >> notes.txt; echo $TRELLIS_TASK_ID >> $TRELLIS_REPO/../calls.log\"], answer: done}]\n  check: [{answer: fine}]\n" +
	"  accept: [{answer: {criteria: [{id: A1, verdict: met, evidence: \"notes.txt:1\"}]}}]\n"

// Hang is how long a test waits for what takes a moment on a quiet machine: only what hangs takes longer on any.
const Hang = 15 * time.Minute

// Until waits for a condition, and fails the test if it does not become true.
func (w *World) Until(what string, holds func() bool) {
	w.Helper()
	for end := time.Now().Add(Hang); !holds(); {
		if time.Now().After(end) {
			w.Mu.Lock()
			defer w.Mu.Unlock()
			w.Fatalf("waited in vain for %s; said %q", what, w.Said)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (w *World) Heard(text string) int {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	return strings.Count(strings.Join(w.Said, "\n"), text)
}

var (
	PrdText = "# Notes\n\n## Acceptance Criteria\n\n- [ ] notes.txt names the task\n"
	RowText = `{"file": "greet.sh", "reason": "the program"}` + "\n"
)

// Lay writes a whole task directory into root.
func Lay(root, status string) error {
	return errors.Join(os.MkdirAll(root, 0o755),
		os.WriteFile(filepath.Join(root, "prd.md"), []byte(PrdText), 0o644),
		os.WriteFile(filepath.Join(root, "implement.jsonl"), []byte(RowText), 0o644),
		os.WriteFile(filepath.Join(root, "check.jsonl"), []byte(RowText), 0o644),
		os.WriteFile(filepath.Join(root, "task.json"), []byte(fmt.Sprintf(`{"status": %q}`, status)), 0o644))
}
