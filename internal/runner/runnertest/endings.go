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
	path := filepath.Join(dir, "task.json")
	data, err := os.ReadFile(path)
	if err != nil {
		w.Fatal(err)
	}
	if !strings.Contains(string(data), from) {
		w.Fatalf("%s does not hold %s: %s", path, from, data)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(data), from, to, 1)), 0o644); err != nil {
		w.Fatal(err)
	}
}
