// Package status reads from disk what is known of tasks and of runs of files: status, phase, who is at work,
// what they wait for, the log of what was done. It changes nothing, and no process has to run for it.
package status

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/delivery"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/pulse"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// PhaseOrder lists the phases of a run in their order.
var PhaseOrder = []string{"prepare", "implement", "check", "verify", "accept", "commit", "final-verify", "deliver"}

// Task is the state of a task. Its JSON is a contract with scripts: the object that `trellis list`
// and `trellis status` print.
type Task struct {
	Dir        string                     `json:"dir"` // relative to the main checkout
	ID         string                     `json:"id"`
	TaskID     string                     `json:"task_id"` // the id in task.json, which other tools may have given it
	Name       string                     `json:"name"`
	Title      string                     `json:"title"`
	Status     trellis.Status             `json:"status"` // "" when task.json can't be read
	DevType    string                     `json:"dev_type"`
	Priority   string                     `json:"priority"`
	Branch     string                     `json:"branch"`
	BaseBranch string                     `json:"base_branch"`
	Commit     string                     `json:"commit"`   // of its work; "": there is none yet
	Worktree   string                     `json:"worktree"` // its path; "" before the first run, and once completed or cleaned up
	Phase      string                     `json:"phase"`
	Round      int                        `json:"round"`
	Attempt    int                        `json:"attempt"`
	Outcome    trellis.Outcome            `json:"outcome"`
	Failure    Failure                    `json:"failure"`
	WaitingFor string                     `json:"waiting_for"`
	Since      string                     `json:"since"`   // when it came into this state; RFC 3339, UTC
	HeldBy     *Holder                    `json:"held_by"` // the process that works on it; null: none
	Watcher    string                     `json:"watcher"` // of the repository: none, alive or hangs
	Steps      StepProgress               `json:"steps"`   // set by Reader.Task only
	Scope      string                     `json:"scope"`
	Package    string                     `json:"package"`
	Creator    string                     `json:"creator"`
	Assignee   string                     `json:"assignee"`
	Parent     string                     `json:"parent"`
	Children   []string                   `json:"children"`
	DependsOn  []string                   `json:"depends_on"`
	Subtasks   Subtasks                   `json:"subtasks"`
	Usage      trellis.Usage              `json:"usage"`
	PRURL      string                     `json:"pr_url"`
	PR         *delivery.Pull             `json:"pr"`            // as of the last `trellis status --refresh`; null: there was none
	Modules    map[string]string          `json:"submodule_prs"` // pull requests of what was done in submodules, by their paths
	UpdatedAt  string                     `json:"updated_at"`    // RFC 3339, UTC
	Problems   []trellis.Problem          `json:"problems"`
	Criteria   []pipeline.StatedCriterion `json:"criteria,omitzero"`       // set by Reader.Task only
	Defining   []string                   `json:"changed_checks,omitzero"` // set by Reader.Task only: files that define the checks and that its last run changed

	Source *taskdir.Task `json:"-"` // task.json; nil: it can't be read
	Plan   *plan.Plan    `json:"-"` // set by Reader.Task only; nil: no plan, or it can't be read
	CutOff bool          `json:"-"` // no process works on it, though its status needs one and its run or planning is unfinished or unreadable
	Slots  string        `json:"-"` // how many slots of the watcher are busy, in words, if the task waits for one
	Retry  string        `json:"-"` // why the planning at work asked again last

	step string // the step that people are asked about
}

// Working reports whether the task has a status in which a process works on it, or did until it was cut off.
func (t Task) Working() bool { return t.Status == trellis.InProgress || t.Status == trellis.Planning }

// Subtasks is the progress of a task that has subtasks.
type Subtasks struct {
	Done int `json:"done"` // how many are completed
	Of   int `json:"of"`
}

// Holder is the process that holds a task or a run.
type Holder struct {
	PID   int    `json:"pid"` // 0: on another machine
	Host  string `json:"host"`
	Since string `json:"since"` // RFC 3339, UTC
}

// Failure is why the last run failed or stopped.
type Failure struct {
	Code   trellis.Code `json:"code"`
	Detail string       `json:"detail"`
}

// Reader reads the state of the tasks of a repository.
type Reader struct {
	Store   taskdir.Store
	Merged  bool        // a dependency is met when it is completed, not already in review
	Watcher pulse.State // the watcher that would run them
	Now     time.Time
	// Known has the statuses of all tasks by directory name, if the caller has read them; nil: they are read as needed.
	Known map[string]trellis.Status
	// Approvers is how many people have to agree to each plan that needs approval, by the settings; below 1 means 1.
	Approvers int
	// Agreement returns what people said to the plan of a task, as its run would read it; nil: nobody said anything.
	Agreement func(dir string) pipeline.Agreement
	// Elsewhere returns the other machine that has the task of a directory, nil if none has; nil: tasks are not shared.
	Elsewhere func(dir string) *Holder
	// Given reports whether other machines know the task of a directory, and may run it; nil: tasks are not shared.
	Given func(dir string) bool
}

// Filter picks tasks. The zero value picks all that are not archived.
type Filter struct {
	Statuses []trellis.Status // none: all
	Whose    string           // who works on it, or made it; "": anybody
	Archived bool             // archived tasks instead of the others
}

// Tasks returns the tasks that f picks, by priority, then by directory name. A task whose task.json
// can't be read is included with its problem, unless f asks for a status or a person.
func (r Reader) Tasks(f Filter) ([]Task, error) {
	list := r.Store.List
	if f.Archived {
		list = r.Store.ListArchived
	}
	entries, err := list()
	if err != nil {
		return nil, err
	}
	tasks := slices.DeleteFunc(r.tasks(entries, statuses(entries)), func(t Task) bool { return !f.matches(t) })
	slices.SortStableFunc(tasks, func(a, b Task) int { return strings.Compare(a.Order(), b.Order()) })
	return tasks, nil
}

// TasksIn returns the tasks in some of the directories of the store, in their order. It also reads what they depend on.
func (r Reader) TasksIn(dirs []string) []Task {
	entries := r.Store.Entries(dirs)
	known := statuses(entries)
	for _, e := range entries {
		r.readDependencyStatuses(known, e.Task)
	}
	return r.tasks(entries, known)
}

// readDependencyStatuses reads the statuses of the tasks that a task depends on and that are not known yet.
func (r Reader) readDependencyStatuses(known map[string]trellis.Status, t *taskdir.Task) {
	if t == nil {
		return
	}
	for _, id := range t.Pipeline.DependsOn {
		if _, is := known[id]; is || !taskdir.ValidID(id) {
			continue
		}
		dir := filepath.Join(r.Store.Tasks(), id)
		if st, err := os.Lstat(dir); err == nil && (st.IsDir() || st.Mode()&fs.ModeSymlink != 0) {
			maps.Copy(known, statuses(r.Store.Entries([]string{dir})))
		}
	}
}

// tasks returns the tasks of entries, in their order. Several are read at a time.
func (r Reader) tasks(entries []taskdir.Entry, known map[string]trellis.Status) []Task {
	return taskdir.ParallelMap(entries, func(e taskdir.Entry) Task { return r.task(e, known) })
}

// Task returns the task in a directory.
func (r Reader) Task(dir string) (Task, error) {
	e := taskdir.Entry{Dir: dir, ID: filepath.Base(dir), Planning: strings.HasPrefix(filepath.Base(dir), taskdir.DraftPrefix)}
	if e.Task, e.Err = r.Store.Load(dir); errors.Is(e.Err, taskdir.ErrNotFound) && !e.Planning {
		return Task{}, e.Err
	}
	if e.Planning && e.Task == nil {
		if now, ok := r.publishedEntry(e); ok {
			return r.Task(now.Dir)
		}
	}
	known := r.Known
	if known == nil {
		known = map[string]trellis.Status{}
		r.readDependencyStatuses(known, e.Task)
	}
	v := r.task(e, known)
	if v.Status == trellis.Planning {
		v.Phase, v.Round, v.Retry = planningState(dir)
	}
	if v.HeldBy == nil && v.Status != "" {
		v.HeldBy = r.holder(dir)
	}
	if v.Working() || v.Status == trellis.Waiting || v.Status == trellis.Paused {
		v.Steps = underway(dir)
	}
	if v.step != "" {
		v.Steps.At, v.Steps.Waits = v.step, true
	}
	v.Plan, _ = pipeline.ReadPlan(r.Store, dir) // its errors are left to validate
	v.Criteria = append([]pipeline.StatedCriterion{}, pipeline.ReadCriteria(dir, v.Plan)...)
	v.Defining = append([]string{}, changedCheckFiles(dir)...)
	return v, nil
}

func statuses(entries []taskdir.Entry) map[string]trellis.Status {
	known := make(map[string]trellis.Status, len(entries))
	for _, e := range entries {
		known[e.ID] = "" // task.json can't be read
		if e.Task != nil {
			known[e.ID] = e.Task.Status
		}
	}
	return known
}

func (f Filter) matches(t Task) bool {
	if len(f.Statuses) > 0 && !slices.Contains(f.Statuses, t.Status) {
		return false
	}
	return f.Whose == "" || t.Source != nil && (t.Source.Assignee == f.Whose || t.Source.Creator == f.Whose)
}

// Order returns the key that tasks are sorted by: the most urgent first, then by name.
func (t Task) Order() string { return cmp.Or(t.Priority, "P9") + t.ID }

// task returns the task of an entry. known has the statuses of others.
func (r Reader) task(e taskdir.Entry, known map[string]trellis.Status) Task {
	last := modTime(filepath.Join(e.Dir, taskdir.TaskJSON))
	v := Task{Dir: r.Store.Rel(e.Dir), ID: e.ID, Problems: []trellis.Problem{}, Modules: map[string]string{}, Children: []string{}, DependsOn: []string{}, UpdatedAt: lastWrite(e.Dir, last),
		Since: timestamp(last), Watcher: watcherHealth(r.Watcher)}
	if e.Planning {
		v.Status = trellis.Planning
		if v.HeldBy = holder(e.Dir); v.HeldBy == nil { // cut off, or published since it was found
			if now, ok := r.publishedEntry(e); ok {
				return r.task(now, known)
			}
			v.CutOff = true
		}
	}
	if e.Task == nil {
		if !e.Planning {
			v.Problems = append(v.Problems, problem(e.Err, v.Dir))
		}
		return v
	}
	t := *e.Task
	taskdir.Defaults(&t)
	r.copyTaskFile(&v, e.Dir, &t)
	v.Problems = append(v.Problems, t.Problems...)
	if !e.Planning {
		v.Status = t.Status
		if v.Working() {
			v.HeldBy = r.holder(e.Dir)
		}
		if v.Working() && v.HeldBy == nil { // cut off, or ended since it was read
			if now, err := r.Store.Load(e.Dir); err == nil && now.Status != t.Status {
				e.Task = now
				return r.task(e, known)
			}
		}
		if v.Working() && v.HeldBy == nil {
			if v.CutOff = hasBegun(e.Dir, v.Status); !v.CutOff {
				v.Phase, v.Round = "", 0 // they are those of the previous run
			}
		}
		v.WaitingFor = r.waitReason(&t, known, v.HeldBy != nil)
		r.correctWait(&v, e.Dir)
	}
	if at := r.heartbeatEntry(e.ID); at != nil {
		v.Since = timestamp(at.Since)
	}
	if v.WaitingFor == ForSlot {
		v.Slots = busySlots(r.Watcher.Beat)
	}
	if v.WaitingFor == "approval" {
		v.step, v.WaitingFor = r.awaitedApproval(&t)
	}
	return v
}

// copyTaskFile copies what the task.json of dir says, whatever its run has done since.
func (r Reader) copyTaskFile(v *Task, dir string, t *taskdir.Task) {
	p := t.Pipeline
	v.Source, v.TaskID = t, t.GivenID()
	v.Scope, v.Package, v.Creator, v.Assignee, v.Parent = t.Scope, t.Package, t.Creator, t.Assignee, t.Parent
	v.Children, v.DependsOn = append(v.Children, t.Children...), append(v.DependsOn, p.DependsOn...)
	v.Name, v.Title, v.DevType, v.Priority, v.Branch, v.BaseBranch, v.PRURL = t.Name, t.Title, t.DevType, t.Priority, t.Branch, t.BaseBranch, t.PRURL
	v.Commit, v.Worktree = t.Commit, t.WorktreePath
	v.Phase, v.Round, v.Attempt, v.Outcome, v.Usage = p.Phase, p.Round, p.Attempt, p.Outcome, p.Usage
	v.Failure, v.Subtasks = Failure{p.Failure.Code, p.Failure.Detail}, Subtasks{r.Store.Completed(t), len(t.Children)}
	if t.PRURL != "" {
		v.PR, _ = delivery.ReadPull(dir) // a record that can't be read is refreshed later
		if r, err := delivery.ReadRecord(dir); err == nil && r.Modules != nil {
			v.Modules = r.Modules
		}
	}
}

// publishedEntry returns the task that a draft was published as, if the draft is gone.
func (r Reader) publishedEntry(e taskdir.Entry) (now taskdir.Entry, ok bool) {
	if durable.Exists(e.Dir) {
		return now, false
	}
	now.ID = strings.TrimPrefix(e.ID, taskdir.DraftPrefix)
	now.Dir = filepath.Join(filepath.Dir(e.Dir), now.ID)
	now.Task, now.Err = r.Store.Load(now.Dir)
	return now, now.Err == nil
}

// busySlots returns how many of the watcher's slots are taken, in words.
func busySlots(b pulse.Beat) string {
	return fmt.Sprintf("%d of %d slots busy", len(b.Running), b.Parallel)
}

// problem returns an error as a Problem; one that is not a Problem names the directory.
func problem(err error, dir string) trellis.Problem {
	if p, ok := errors.AsType[*trellis.Problem](err); ok {
		return *p
	}
	return trellis.Problem{File: dir, Message: err.Error()}
}

// lastWrite returns when something was last written about a task whose task.json was last written at a time.
func lastWrite(dir string, last time.Time) string {
	if j := modTime(filepath.Join(dir, taskdir.Journal)); j.After(last) {
		last = j
	}
	return timestamp(last)
}

func modTime(path string) time.Time {
	st, err := os.Stat(path)
	if err != nil {
		return time.Time{}
	}
	return st.ModTime()
}

// timestamp returns a time as JSON has it, "" for the zero time.
func timestamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// holder returns who works in a task directory: a process here, or another machine.
func (r Reader) holder(dir string) *Holder {
	if h := holder(dir); h != nil || r.Elsewhere == nil {
		return h
	}
	return r.Elsewhere(dir)
}

// holder returns the process that holds a task directory, nil if there is none.
func holder(dir string) *Holder {
	lock := filepath.Join(dir, taskdir.RunLock)
	if _, err := os.Stat(lock); err != nil || !durable.Held(lock) {
		return nil
	}
	h, _ := durable.ReadHolder(lock) // it is held even if the holder can't be read
	return &Holder{h.PID, h.Host, timestamp(h.Since)}
}
