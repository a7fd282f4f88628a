package runnertest

import (
	"encoding/json"
	"os"
	"path/filepath"
)

// stepping is a script whose implement does one step after the other.
func Stepping(calls ...Obj) Script {
	return Script{"implement": calls, "check": {Answer("fine")}, "debug": {{"files": Obj{"greet.sh": Bye}, "answer": "mended"}},
		"accept": {Answer(Obj{"criteria": []Obj{{"id": "A1", "verdict": "met", "evidence": "greet.sh:1"}}})}}
}

const Bye = "if [ \"$1\" = --bye ]; then echo Bye; else echo \"Hello, ${1:-world}!\"; fi\n"

// stepped makes a task directory with a plan of these steps.
func (w *World) Stepped(id string, steps ...Obj) string {
	w.Helper()
	dir := w.Hand(id, "# Say bye\n\n## Acceptance Criteria\n\n- [ ] it says bye\n  verify: `sh greet.sh --bye | grep -q Bye`\n")
	raw, err := json.MarshalIndent(Obj{"schema_version": 1, "title": "Say bye", "steps": steps,
		"acceptance": []Obj{{"criterion": "it says bye", "verify": "sh greet.sh --bye | grep -q Bye"}}}, "", "  ")
	if err != nil {
		w.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "plan.json"), raw, 0o644); err != nil {
		w.Fatal(err)
	}
	return dir
}

var (
	AddFlag = Obj{"id": "add_flag", "prompt": "Let it take --bye.", "verify": "sh greet.sh --bye | grep -q Bye"}
	Note    = Obj{"id": "note", "command": "echo bye >> NOTES"}
)
