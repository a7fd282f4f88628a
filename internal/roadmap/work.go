package roadmap

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// StepTask is a task that a step was planned as.
type StepTask struct {
	*taskdir.Task
	Draft    bool // being planned, or its planner was interrupted
	Archived bool
}

// Name returns the directory name of the task, for a draft the one after it is published.
func (w StepTask) Name() string { return strings.TrimPrefix(w.ID, taskdir.DraftPrefix) }

// Dead reports whether the task will not deliver anything unless a person does something about it.
func (w StepTask) Dead() bool {
	switch w.Status {
	case trellis.Failed, trellis.Rejected, trellis.Cancelled:
		return true
	case trellis.Planning: // its planning failed
		return !w.Draft && w.Pipeline.Failure.Code != ""
	}
	return w.Archived && w.Status != trellis.Completed
}

// StepTasks holds the tasks of a repository that belong to objectives.
type StepTasks struct {
	byID      map[string]StepTask
	broken    map[string]bool // tasks whose task.json can't be read
	byStep    map[taskdir.Objective][]StepTask
	issues    map[string]map[string]StepTask // tasks whose plan an issue holds, by objective and #number
	find      func(id string) (work StepTask, readable, there bool)
	createdAt func(*taskdir.Task) time.Time
}

// ReadStepTasks reads the tasks of a repository, archived ones only if deep is set. Tasks that can't be read belong to no step.
func ReadStepTasks(s taskdir.Store, deep bool) (*StepTasks, error) {
	w := &StepTasks{byID: map[string]StepTask{}, broken: map[string]bool{}, byStep: map[taskdir.Objective][]StepTask{}, issues: map[string]map[string]StepTask{}, createdAt: s.Made}
	list, err := s.List()
	if err != nil {
		return nil, err
	}
	w.add(list, false)
	if deep {
		old, err := s.ListArchived()
		if err != nil {
			return nil, err
		}
		w.add(old, true)
	}
	w.find = func(id string) (StepTask, bool, bool) { return find(s, id) }
	return w, nil
}

// find looks up a task that was not in the listing: it is archived, or was created since.
func find(s taskdir.Store, id string) (work StepTask, readable, there bool) {
	if !taskdir.ValidID(id) {
		return StepTask{}, false, false
	}
	dir := filepath.Join(s.Tasks(), id)
	if st, err := os.Lstat(dir); err != nil || !st.IsDir() {
		if dir, err = s.Archived(id); err != nil || dir == "" {
			return StepTask{}, false, err != nil
		}
	}
	t, err := s.Load(dir)
	return StepTask{Task: t, Archived: filepath.Dir(dir) != s.Tasks()}, err == nil, true
}

func (w *StepTasks) add(list []taskdir.Entry, archived bool) {
	for _, e := range list {
		if e.Err != nil {
			w.broken[e.ID] = true
			continue
		}
		work := StepTask{Task: e.Task, Draft: e.Planning, Archived: archived}
		if _, there := w.byID[work.Name()]; !there {
			w.byID[work.Name()] = work
		}
		if objective := e.Task.Pipeline.Objective; objective.Step != "" {
			w.byStep[objective] = append(w.byStep[objective], work)
			w.addIssue(objective.Name, work)
		}
	}
}

// Task returns the task with a directory name, archived ones included.
func (w *StepTasks) Task(id string) (StepTask, bool) {
	work, ok := w.byID[id]
	if ok || w.broken[id] {
		return work, ok
	}
	work, ok, there := w.find(id)
	if ok {
		w.byID[id] = work
	} else if there {
		w.broken[id] = true
	}
	return work, ok
}

// InReview returns the tasks of steps whose work waits to be merged.
func (w *StepTasks) InReview() (list []*taskdir.Task) {
	for _, objective := range slices.SortedFunc(maps.Keys(w.byStep), func(a, b taskdir.Objective) int { return strings.Compare(a.Name+"\x00"+a.Step, b.Name+"\x00"+b.Step) }) {
		for _, work := range w.byStep[objective] {
			if work.Status == trellis.Review && !work.Archived {
				list = append(list, work.Task)
			}
		}
	}
	return list
}

func (w *StepTasks) addIssue(name string, work StepTask) {
	n := ReadNote(work.Dir).Issue
	if n == 0 {
		return
	}
	if w.issues[name] == nil {
		w.issues[name] = map[string]StepTask{}
	}
	w.issues[name][fmt.Sprint("#", n)] = work
}

// Planned returns the task that a cell of an objective refers to by plan <task>, or plan #12 for the issue with its plan.
func (w *StepTasks) Planned(name, plan string) (StepTask, bool) {
	if strings.HasPrefix(plan, "#") {
		work, ok := w.issues[name][plan]
		return work, ok
	}
	return w.Task(plan)
}

// Tasks returns a function for the status of the tasks that an objective's steps were planned as.
func (w *StepTasks) Tasks(name string) Tasks {
	return func(plan string) (trellis.Status, bool) {
		work, ok := w.Planned(name, plan)
		if !ok {
			return "", w.broken[plan]
		}
		return work.Status, true
	}
}

// LostPlans returns warnings about unfinished steps that are planned as a task that exists neither live nor in the archive. It may
// be on another machine: only a person can tell that the plan is lost.
func (r *Roadmap) LostPlans(w *StepTasks) (list []trellis.Problem) {
	tasks := w.Tasks(r.Name)
	for _, s := range r.Steps {
		if s.Plan == "" || !s.State.isInProgress() && s.State != Blocked || strings.HasPrefix(s.Plan, "#") {
			continue
		}
		if _, there := tasks(s.Plan); there {
			continue
		}
		cells := string(s.Linked()) + " cell"
		if s.State == Blocked {
			cells = fmt.Sprintf("Status and %ss", cells)
		}
		list = append(list, trellis.Problem{File: File(r.Name), Line: s.Line, Warning: true,
			Message: fmt.Sprintf("step %s is planned as %s, and there is no such task", s.ID, s.Plan),
			Hint:    fmt.Sprintf("bring its directory back, or empty the %s of step %s, then: %s", cells, s.ID, PlanCommand(r.Name, s.ID))})
	}
	return list
}

// Of returns the task that a step was planned as: one that can still deliver rather than a dead one, and among those the
// newest.
func (w *StepTasks) Of(name, step string) (StepTask, bool) {
	list := w.byStep[taskdir.Objective{Name: name, Step: step}]
	if len(list) == 0 {
		return StepTask{}, false
	}
	return slices.MaxFunc(list, func(a, b StepTask) int {
		if a.Dead() != b.Dead() {
			return map[bool]int{true: -1, false: 1}[a.Dead()]
		}
		return cmp.Or(w.createdAt(a.Task).Compare(w.createdAt(b.Task)), strings.Compare(a.Name(), b.Name()))
	}), true
}
