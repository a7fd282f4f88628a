package runnertest

import (
	"path/filepath"
	"testing"
	"time"
)

// Roadwork returns a script for objectives: small plannings, and work that adds a line to notes.txt. Each call of implement
// and debug adds one, with its task, to calls.log outside the repository.
func Roadwork() Script {
	note := func(role string) string { return "echo " + role + "-$TRELLIS_TASK_ID >> $TRELLIS_REPO/../calls.log" }
	s := Careful("tiny")
	s["prd"] = []Obj{Answer(Obj{"title": "Say bye", "summary": "It says bye.", "requirements": []string{"bye"}, "acceptance": []Obj{{"criterion": "it says bye"}}})}
	s["implement"] = []Obj{
		{"run": []string{note("implement"), "echo $TRELLIS_TASK_ID >> notes.txt"}, "answer": "done"},
		{"when": "Part of Objective farewells, Step 1.2", "run": []string{note("implement"), "echo $TRELLIS_TASK_ID >> notes.txt; echo broken > greet.sh"}, "answer": "done"}}
	s["debug"] = []Obj{{"run": []string{note("debug")}, "files": Obj{"greet.sh": Program["greet.sh"]}, "answer": "mended"}}
	s["check"] = []Obj{Answer("fine")}
	s["accept"] = []Obj{Answer(Obj{"criteria": []Obj{{"id": "A1", "verdict": "met", "evidence": "notes.txt:1"}}})}
	return s
}

const RoadFile = ".trellis/objectives/farewells.md"

// NewRoad returns a world with an objective.
func NewRoad(t *testing.T, s Script, text string) *World {
	t.Helper()
	w := NewWorld(t, s.String())
	w.Write(RoadFile, text)
	w.Site.Store.Now = func() time.Time { return Day }
	return w
}

// Today returns the directory name of a task that is made today.
func Today(name string) string { return Day.Format("01-02-") + name }

// Day is when tasks of these tests are made. It does not change at midnight.
var Day = time.Now()

func (w *World) SameRoad(want string) {
	w.Helper()
	if got := w.Read(RoadFile); got != want {
		w.Errorf("the roadmap is\n%s\nwant\n%s", got, want)
	}
}

// Tasks returns the directories of tasks, drafts included.
func (w *World) Tasks() []string {
	w.Helper()
	list, err := filepath.Glob(filepath.Join(w.Site.Store.Tasks(), "*"))
	if err != nil {
		w.Fatal(err)
	}
	more, err := filepath.Glob(filepath.Join(w.Site.Store.Tasks(), ".new-*"))
	if err != nil {
		w.Fatal(err)
	}
	return append(list, more...)
}
