package doctor

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/trellis-tasks/trellis/contextfiles"
	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/terminal"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// tasks checks what lies in .trellis/tasks: what can't be read, and what is inconsistent.
func (d *diagnosis) tasks(ctx context.Context, p *app.Project, c *config.Config) {
	if durable.FolderBelow(p.Root, ".trellis") != nil {
		return // reported with the project
	}
	var archived []taskdir.Entry
	live, err := p.Store.List()
	if err == nil {
		archived, err = p.Store.ListArchived()
	}
	if err != nil {
		d.verdict("tasks", "", err)
		return
	}
	before := len(d.findings)
	for _, e := range slices.Concat(live, archived) {
		d.taskJSON(p, e)
	}
	for _, e := range live {
		switch {
		case e.Planning:
			d.draft(p, e.Dir)
		case errors.Is(e.Err, taskdir.ErrNotFound):
		case e.Err != nil: // other damage is reported all the same
			d.journal(p, e.Dir)
			d.context(p, e.Dir)
		default:
			for _, wrong := range e.Task.Problems { // invalid values
				d.problem("task.json", wrong)
			}
			d.rewound(p, e.Task)
			d.journal(p, e.Dir)
			if !slices.Contains([]trellis.Status{trellis.Completed, trellis.Cancelled, trellis.Rejected, trellis.Review}, e.Task.Status) {
				d.context(p, e.Dir)
			}
		}
	}
	d.links(p, live, archived)
	d.leftovers(p, live)
	d.worktrees(ctx, p, c)
	if len(d.findings) == before {
		d.add(stateOK, "tasks", text.Count(len(live)+len(archived), "task")+", all readable", "")
	}
}

// taskJSON checks whether every program can read the file, and proposes a repair if not.
func (d *diagnosis) taskJSON(p *app.Project, e taskdir.Entry) {
	if e.Planning && e.Err != nil {
		return // its planner is at work, or is gone, which draft reports
	}
	m, err := p.Store.ProposeRepair(e.Dir)
	problem := &trellis.Problem{File: p.Store.Rel(filepath.Join(e.Dir, taskdir.TaskJSON)), Line: 1}
	errors.As(errors.Join(e.Err, err), &problem)
	f := finding{Check: "task.json", State: stateError, Detail: problem.Error(), Hint: problem.Hint, File: problem.File, Line: problem.Line, Column: problem.Column}
	switch {
	case m == nil && err == nil && e.Err == nil:
		return
	case m == nil && errors.Is(err, taskdir.ErrNotFound):
		f.State = stateWarning // a folder that is not a task
	case m == nil && problem.Message == "":
		f.Detail = fmt.Sprint(errors.Join(e.Err, err))
	case m != nil:
		if e.Err == nil {
			f.State, f.Detail = stateWarning, f.File+": other programs can't read it"
		} else if more := len(m.Notes) - 1; more > 0 {
			f.Detail += fmt.Sprintf(" (and %d more)", more)
		}
		f.Diff = terminal.Diff(f.File, string(m.Before), string(m.After))
		f.notes = m.Notes
		f.mend = func() (string, error) {
			saved, err := p.Store.Repair(e.Dir, m)
			return p.Store.Rel(saved), err
		}
	}
	d.findings = append(d.findings, f)
}

// journal checks whether the journal of a task's run can be read.
func (d *diagnosis) journal(p *app.Project, dir string) {
	if _, err := journal.Read(filepath.Join(dir, taskdir.Run)); errors.Is(err, journal.ErrDamaged) {
		d.addTaskFinding(p, dir, "journal", fmt.Sprintf("%s: %v", filepath.Base(dir), err), "trellis retry "+trellis.ShellWord(filepath.Base(dir)))
	}
}

// rewound reports a task.json that git set back to a revision before the one that its run wrote.
func (d *diagnosis) rewound(p *app.Project, t *taskdir.Task) {
	if t.Status != trellis.Ready && t.Status != trellis.InProgress || durable.Held(filepath.Join(t.Dir, taskdir.RunLock)) {
		return
	}
	h, err := journal.Read(filepath.Join(t.Dir, taskdir.Run))
	if err != nil || h.Flow != pipeline.Flow {
		return // no run here, or `trellis status` reports its error
	}
	if t, err = p.Store.Load(t.Dir); err != nil { // its run may have ended since it was read
		return
	}
	if wrote, err := pipeline.ReadProgress(h); err == nil && t.Pipeline.Revision < wrote.Revision {
		d.addTaskFinding(p, t.Dir, "rewound", fmt.Sprintf("%s: git took task.json back: its revision is %d, the run wrote %d", t.ID, t.Pipeline.Revision, wrote.Revision), "trellis retry "+trellis.ShellWord(t.ID))
	}
}

// draft reports a planning that nobody works on. One whose folder was changed within the hour may be about to begin.
func (d *diagnosis) draft(p *app.Project, dir string) {
	if !durable.Held(filepath.Join(dir, taskdir.RunLock)) && d.isStale(dir) {
		d.addTaskFinding(p, dir, "leftover", p.Store.Rel(dir)+": a planning that no process works on", "trellis plan --retry "+trellis.ShellWord(p.Store.Rel(dir))+", or trellis task rm "+trellis.ShellWord(filepath.Base(dir)))
	}
}

// context reports rows of the context files that can't be used, for a task that is still to be worked on.
func (d *diagnosis) context(p *app.Project, dir string) {
	names, err := taskdir.ContextFiles(dir)
	if err != nil {
		d.verdict("context", "", err)
		return
	}
	for _, name := range names {
		file := p.Store.Rel(filepath.Join(dir, name))
		data, err := taskdir.ReadFile(dir, name)
		if err != nil {
			d.verdict("context", "", fmt.Errorf("reading context: %w", err))
			continue
		}
		if _, mends := contextfiles.Fix(file, data, contextfiles.Checker{Root: p.Root}); len(mends) > 0 {
			first := mends[0].Problem
			d.findings = append(d.findings, finding{Check: "context", State: stateWarning, Hint: "trellis validate " + trellis.ShellWord(filepath.Base(dir)) + " --fix", File: file, Line: first.Line, Column: first.Column,
				Detail: fmt.Sprintf("%s can't be used, the first: %v", text.Count(len(mends), "row"), &first)})
		}
	}
}

// links checks whether parents and children agree about each other.
func (d *diagnosis) links(p *app.Project, live, archived []taskdir.Entry) {
	tasks, gone := map[string]*taskdir.Task{}, map[string]bool{}
	for _, e := range archived {
		gone[e.ID] = true
	}
	for _, e := range live {
		if tasks[e.ID] = e.Task; e.Err != nil {
			delete(tasks, e.ID)
			gone[e.ID] = true // unreadable: its links are unknown
		}
	}
	for _, e := range live {
		if t := tasks[e.ID]; t != nil {
			d.parent(p, t, tasks, gone)
			d.children(p, t, tasks, gone)
		}
	}
}

func (d *diagnosis) parent(p *app.Project, t *taskdir.Task, tasks map[string]*taskdir.Task, gone map[string]bool) {
	id := filepath.Base(t.Parent)
	switch parent := tasks[id]; {
	case t.Parent == "" || parent == nil && gone[id]:
	case parent == nil:
		d.addTaskFinding(p, t.Dir, "links", fmt.Sprintf("%s names the parent %s, which is not there", t.ID, t.Parent), `set "parent" to null in its task.json`)
	case !slices.Contains(parent.Children, t.ID):
		d.addTaskFinding(p, t.Dir, "links", fmt.Sprintf("%s names the parent %s, which does not list it", t.ID, id), "trellis task add-subtask "+trellis.ShellWord(id)+" "+trellis.ShellWord(t.ID))
	}
}

func (d *diagnosis) children(p *app.Project, t *taskdir.Task, tasks map[string]*taskdir.Task, gone map[string]bool) {
	for _, name := range t.Children {
		id := filepath.Base(name)
		switch child := tasks[id]; {
		case child == nil && !gone[id]:
			d.addTaskFinding(p, t.Dir, "links", fmt.Sprintf("%s lists the child %s, which is not there", t.ID, name), `take it out of "children" in its task.json`)
		case child == nil:
		case child.Parent == "":
			d.addTaskFinding(p, t.Dir, "links", fmt.Sprintf("%s lists the child %s, which names no parent", t.ID, id), "trellis task add-subtask "+trellis.ShellWord(t.ID)+" "+trellis.ShellWord(id))
		case filepath.Base(child.Parent) != t.ID:
			d.addTaskFinding(p, t.Dir, "links", fmt.Sprintf("%s lists the child %s, whose parent is %s", t.ID, id, child.Parent), "trellis task remove-subtask "+trellis.ShellWord(t.ID)+" "+trellis.ShellWord(id))
		}
	}
}

// worktrees reports worktrees that belong to no task.
func (d *diagnosis) worktrees(ctx context.Context, p *app.Project, c *config.Config) {
	_, orphans, err := p.Cleaner(c).Look(ctx)
	if err != nil {
		d.verdict("worktrees", "", err)
		return
	}
	for _, o := range orphans {
		d.add(stateWarning, "worktrees", o.Path+" "+o.Why, o.Next)
	}
}

func (d *diagnosis) addTaskFinding(p *app.Project, dir, check, detail, hint string) {
	d.findings = append(d.findings, finding{Check: check, State: stateWarning, Detail: detail, Hint: hint, File: p.Store.Rel(filepath.Join(dir, taskdir.TaskJSON))})
}
