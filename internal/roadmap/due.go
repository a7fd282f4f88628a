package roadmap

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/text"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Due is the changes to a step's row that follow from the state of its task.
type Due struct {
	Step    string
	Work    StepTask
	Changes []Change
	Note    Note   // the note after the changes
	Other   string // content of the PR cell instead of the task, which may not be overwritten; "" if there is none

	cells       map[Cell]bool // the cells that the step has
	prMayBeOpen bool          // a pull request in the PR cell doesn't mean that the step is done
}

// Change is a new value for a cell.
type Change struct {
	Step  string `json:"step"`
	Cell  Cell   `json:"cell"`
	Was   string `json:"was"`
	Value string `json:"value"`
	Why   string `json:"why"`
}

// Due returns the changes that are due. What a person wrote stays: only an empty cell gets a link, and only a blocked that was
// written for the task is reverted.
func (r *Roadmap) Due(w *StepTasks) (list []Due) {
	for _, s := range r.Steps {
		work, ok := r.work(w, s)
		if !ok || work.Draft {
			continue
		}
		d := Due{Step: s.ID, Work: work, Note: ReadNote(work.Dir), cells: map[Cell]bool{Status: r.hasCell(s, Status), PR: r.hasCell(s, PR), Plan: r.hasCell(s, Plan)}, prMayBeOpen: r.yaml != nil}
		before := d.Note
		d.setLink(s)
		if d.Other == "" {
			d.setStatus(s)
		}
		if len(d.Changes) > 0 || d.Note != before || d.Other != "" {
			list = append(list, d)
		}
	}
	return list
}

// hasCell reports whether a step has such a cell.
func (r *Roadmap) hasCell(s Step, c Cell) bool {
	_, err := s.source.set(r.src, c, "")
	return !errors.Is(err, ErrNoCell)
}

// work returns the task of a step: the one that its cell names, otherwise one that says it belongs to the step.
func (r *Roadmap) work(w *StepTasks, s Step) (StepTask, bool) {
	if s.Plan != "" {
		if work, ok := w.Planned(r.Name, s.Plan); ok {
			return work, true
		}
	}
	work, ok := w.Of(r.Name, s.ID)
	if ok && work.unlinkedByPerson(s) {
		return StepTask{}, false
	}
	return work, ok
}

// unlinkedByPerson reports whether a person removed the link to a dead task from the roadmap, which makes the step free again.
func (w StepTask) unlinkedByPerson(s Step) bool {
	return w.Dead() && s.Plan == "" && isEmptyCell(plainText(s.Text(PR))) && ReadNote(w.Dir).Linked
}

// Free reports whether a step can be planned, or its planning resumed: it has no task, a draft, or a dead one whose link a
// person removed.
func (r *Roadmap) Free(w *StepTasks, s Step) bool {
	work, ok := w.Of(r.Name, s.ID)
	return !ok || work.Draft || work.unlinkedByPerson(s)
}

// Link returns the PR cell's text for the task that a step was planned as.
func (n Note) Link(task string) string {
	if n.Issue > 0 {
		return fmt.Sprintf("plan #%d", n.Issue)
	}
	return "plan " + task
}

// setLink makes the step name the task, or the pull request that resulted from it.
func (d *Due) setLink(s Step) {
	task, now := d.Work.Name(), plainText(s.Text(PR))
	link, why := d.Note.Link(task), "it is planned as "+task
	ours := s.Plan == task || d.Note.Issue > 0 && s.Plan == fmt.Sprint("#", d.Note.Issue)
	switch {
	case s.Plan != "" && !ours:
		d.Other = "plan " + s.Plan
		return
	case !ours && !isEmptyCell(now):
		if len(s.PRs) == 0 {
			d.Other = now
			return
		}
	case "plan "+s.Plan == link:
	case d.cells[Plan] && readReference(now).plan == "":
		d.addChange(s, Plan, strings.TrimPrefix(link, "plan "), why)
	default:
		d.addChange(s, PR, link, why)
	}
	d.Note.Linked = true
	if pr := d.Work.pullRequest(); pr != "" && (ours || isEmptyCell(now)) && len(s.PRs) == 0 && (d.Work.Status == trellis.Completed || !d.prMayBeOpen) {
		d.Changes = slices.DeleteFunc(d.Changes, func(c Change) bool { return c.Cell == PR })
		d.addChange(s, PR, pr, task+" has a pull request")
	}
}

// addChange records a new value for a cell, if the step has that cell.
func (d *Due) addChange(s Step, c Cell, value, why string) {
	if s.Text(c) != value && d.cells[c] {
		d.Changes = append(d.Changes, Change{s.ID, c, s.Text(c), value, why})
	}
}

var pullNumberOf = trellis.Pattern(`/(?:pull|pulls|merge_requests)/([1-9]\d*)/?$`)

// pullRequest returns #12 for the pull request of a task that is in review or completed, "" if there is none.
func (w StepTask) pullRequest() string {
	if w.Task.Status != trellis.Review && w.Task.Status != trellis.Completed {
		return ""
	}
	m := pullNumberOf().FindStringSubmatch(w.PRURL)
	if m == nil {
		return ""
	}
	return "#" + m[1]
}

// setStatus sets the Status cell to reflect the state of the task.
func (d *Due) setStatus(s Step) {
	state, _ := readStatus(s.Text(Status))
	switch {
	case !d.cells[Status]:
	case d.Work.Status == trellis.Completed:
		if state != Skipped && (state != Blocked || d.Note.Blocked) && state != Done {
			d.addChange(s, Status, string(Done), d.Work.Name()+" is "+d.Work.resultPhrase())
		}
		d.Note.Blocked, d.Note.Before = false, ""
	case d.Work.Dead():
		if state == Blocked || state == Skipped || state == Done {
			return
		}
		d.Note.Blocked, d.Note.Before = true, s.Text(Status)
		d.addChange(s, Status, string(Blocked), d.Work.Why())
	case d.Note.Blocked:
		if state == Blocked {
			d.addChange(s, Status, d.Note.Before, d.Work.Name()+" is "+string(d.Work.Status)+" again")
		}
		d.Note.Blocked, d.Note.Before = false, ""
	}
}

// resultPhrase describes the result of a completed task.
func (w StepTask) resultPhrase() string {
	switch w.Pipeline.Outcome {
	case trellis.NoChangeNeeded:
		return "done: no change was needed"
	case trellis.Merged:
		return "merged"
	}
	return string(trellis.Completed)
}

// Why returns the reason why a task is dead.
func (w StepTask) Why() string {
	switch f := w.Pipeline.Failure; {
	case w.Status == trellis.Rejected && w.Pipeline.Rejection.Details != "":
		return fmt.Sprintf("%s is rejected: %s", w.Name(), text.OneLine(w.Pipeline.Rejection.Details))
	case w.Status == trellis.Planning:
		return fmt.Sprintf("the planning of %s failed: %s: %s", w.Name(), f.Code, text.OneLine(f.Detail))
	case w.Archived && !(w.Status == trellis.Failed || w.Status == trellis.Rejected || w.Status == trellis.Cancelled):
		return fmt.Sprintf("%s is in the archive, and was %s", w.Name(), w.Status)
	case f.Code != "":
		return fmt.Sprintf("%s is %s: %s: %s", w.Name(), w.Status, f.Code, text.OneLine(f.Detail))
	}
	return fmt.Sprintf("%s is %s", w.Name(), w.Status)
}
