package runnertest

import (
	"os"
	"path/filepath"
	"strings"
)

const (
	ProvenPRD = "# Say bye\n\n## Acceptance Criteria\n\n- [ ] it says bye\n  verify: `sh greet.sh --bye | grep -q Bye`\n"
	Met       = "accept: [{answer: {criteria: [{id: A1, verdict: met, evidence: \"it is all there\"}]}}]"
	Mend      = "[{files: {greet.sh: \"if [ \\\"$1\\\" = --bye ]; then echo Bye; else echo \\\"Hello, ${1:-world}!\\\"; fi\\n\"}, answer: done}]"
)

func (w *World) Edit(dir, from, to string) {
	w.Helper()
	path, text := filepath.Join(dir, "task.json"), w.File(dir, "task.json")
	if !strings.Contains(text, from) {
		w.Fatalf("%s does not hold %s: %s", path, from, text)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(text, from, to, 1)), 0o644); err != nil {
		w.Fatal(err)
	}
}
