package runnertest

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
)

// Obj is an object of a script or an answer. JSON is YAML.
type Obj = map[string]any

// Script plays these calls: the nth entry of a role at the nth call of the role.
type Script map[string][]Obj

func (s Script) With(role string, calls ...Obj) Script {
	out := maps.Clone(s)
	out[role] = calls
	return out
}

func (s Script) String() string {
	raw, err := json.Marshal(Obj{"roles": s})
	if err != nil {
		panic(err)
	}
	return string(raw)
}

func Answer(v any) Obj { return Obj{"answer": v} }

func Accepted(size string) Obj {
	return Answer(Obj{"decision": "accept", "category": "", "details": "A flag.", "suggestions": []string{}, "size": size, "confidence": 0.9})
}

const Found = `## implement.jsonl
- path: greet.sh, reason: the program
## check.jsonl
- path: test.sh, reason: its test
## Suggested Scope
greet
## Verification Plan
- test: sh test.sh
`

func Spec() Obj {
	return Obj{"user_intent": "say bye", "goals": []string{"a --bye flag"}, "acceptance": []string{"it says bye"}, "priority": "high"}
}

// Steps returns a valid plan of two steps.
func Steps() Obj {
	return Obj{"schema_version": 1, "title": "Say bye", "summary": "greet.sh says bye.", "requirements": []string{"bye"},
		"design_decisions": []string{"a flag, no program of its own"},
		"files":            []Obj{{"path": "greet.sh", "change": "edit"}},
		"steps": []Obj{
			{"id": "add_flag", "type": "prompt", "prompt": "Let the program take --bye.", "verify": "sh greet.sh --bye | grep -q Bye", "covers": []string{"it says bye"}},
			{"id": "run_tests", "type": "script", "command": "sh test.sh", "proof": Obj{"type": "test"}}},
		"acceptance": []Obj{{"criterion": "it says bye", "verify": "sh greet.sh --bye | grep -q Bye", "level": "must"}}}
}

func Verdict(pass bool, feedback string) Obj {
	return Answer(Obj{"pass": pass, "feedback": feedback, "criteria": Obj{"verification": true, "atomicity": pass, "coverage": true, "vars": true}})
}

// Careful returns a script that plans with all planning roles.
func Careful(size string) Script {
	return Script{"evaluate": {Accepted(size)}, "research": {Answer(Found)}, "taskspec": {Answer(Spec())}, "plan": {Answer(Steps())},
		"judge": {Verdict(true, "")},
		"prd": {Answer(Obj{"title": "Say bye", "summary": "It says bye.", "requirements": []string{"bye"},
			"acceptance": []Obj{{"criterion": "it says bye"}}})}}
}

func (w *World) File(dir, name string) string {
	w.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		w.Fatal(err)
	}
	return string(data)
}
