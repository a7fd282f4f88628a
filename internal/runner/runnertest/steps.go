package runnertest

import (
	"encoding/json"
)

// Stepping returns a script whose implement does one step after the other.
func Stepping(calls ...Obj) Script {
	return Script{"implement": calls, "check": {Answer("fine")}, "debug": {{"files": Obj{"greet.sh": Bye}, "answer": "mended"}},
		"accept": {Answer(Obj{"criteria": []Obj{{"id": "A1", "verdict": "met", "evidence": "greet.sh:1"}}})}}
}

const Bye = "if [ \"$1\" = --bye ]; then echo Bye; else echo \"Hello, ${1:-world}!\"; fi\n"

// Stepped makes a task directory with a plan of these steps.
func (w *World) Stepped(id string, steps ...Obj) string {
	w.Helper()
	dir := w.Hand(id, ProvenPRD)
	raw, err := json.MarshalIndent(Obj{"schema_version": 1, "title": "Say bye", "steps": steps,
		"acceptance": []Obj{{"criterion": "it says bye", "verify": "sh greet.sh --bye | grep -q Bye"}}}, "", "  ")
	if err != nil {
		w.Fatal(err)
	}
	w.Write(".trellis/tasks/"+id+"/plan.json", string(raw))
	return dir
}

var (
	AddFlag = Obj{"id": "add_flag", "prompt": "Let it take --bye.", "verify": "sh greet.sh --bye | grep -q Bye"}
	Note    = Obj{"id": "note", "command": "echo bye >> NOTES"}
)
