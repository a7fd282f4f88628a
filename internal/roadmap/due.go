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
	Work    Work
	Changes []Change
	Note    Note   // the note after the changes
	Other   string // content of the PR cell instead of the task, which may not be overwritten; "" if there is none

	can  map[Cell]bool // the cells that the step has
	open bool          // a pull request in the PR cell doesn't mean that the step is done
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
func (r *Roadmap) Due(w *Works) (list []Due) {
	for _, s := range r.Steps {
		work, ok := r.work(w, s)
		if !ok || work.Draft {
			continue
		}
		d := Due{Step: s.ID, Work: work, Note: ReadNote(work.Dir), can: map[Cell]bool{Status: r.has(s, Status), PR: r.has(s, PR), Plan: r.has(s, Plan)}, open: r.yaml != nil}
		before := d.Note
		d.link(s)
		if d.Other == "" {
			d.status(s)
		}
		if len(d.Changes) > 0 || d.Note != before || d.Other != "" {
			list = append(list, d)
		}
	}
	return list
}

// has reports whether a step has such a cell.
func (r *Roadmap) has(s Step, c Cell) bool {
	_, err := s.where.set(r.src, c, "")
	return !errors.Is(err, ErrNoCell)
}

// work returns the task of a step: the one that its cell names, otherwise one that says it belongs to the step.
func (r *Roadmap) work(w *Works, s Step) (Work, bool) {
	if s.Plan != "" {
		if work, ok := w.Planned(r.Name, s.Plan); ok {
			return work, true
		}
	}
	work, ok := w.Of(r.Name, s.ID)
	if ok && work.given(s) {
		return Work{}, false
	}
	return work, ok
}

// given reports whether a person removed the link to a dead task from the roadmap, which makes the step free again.
func (w Work) given(s Step) bool {
	return w.Dead() && s.Plan == "" && dash(plain(s.Text(PR))) && ReadNote(w.Dir).Linked
}

// Free reports whether a step can be planned, or its planning resumed: it has no task, a draft, or a dead one whose link a
// person removed.
func (r *Roadmap) Free(w *Works, s Step) bool {
	work, ok := w.Of(r.Name, s.ID)
	return !ok || work.Draft || work.given(s)
}

// Link returns the PR cell's text for the task that a step was planned as.
func (n Note) Link(task string) string {
	if n.Issue > 0 {
		return fmt.Sprintf("plan #%d", n.Issue)
	}
	return "plan " + task
}

// link makes the step name the task, or the pull request that resulted from it.
func (d *Due) link(s Step) {
	task, now := d.Work.Name(), plain(s.Text(PR))
	link, why := d.Note.Link(task), "it is planned as "+task
	ours := s.Plan == task || d.Note.Issue > 0 && s.Plan == fmt.Sprint("#", d.Note.Issue)
	switch {
	case s.Plan != "" && !ours:
		d.Other = "plan " + s.Plan
		return
	case !ours && !dash(now):
		if len(s.PRs) == 0 {
			d.Other = now
			return
		}
	case "plan "+s.Plan == link:
	case d.can[Plan] && readReference(now).plan == "":
		d.change(s, Plan, strings.TrimPrefix(link, "plan "), why)
	default:
		d.change(s, PR, link, why)
	}
	d.Note.Linked = true
	if pr := d.Work.pull(); pr != "" && (ours || dash(now)) && len(s.PRs) == 0 && (d.Work.Status == trellis.Completed || !d.open) {
		d.Changes = slices.DeleteFunc(d.Changes, func(c Change) bool { return c.Cell == PR })
		d.change(s, PR, pr, task+" has a pull request")
	}
}

// change records a new value for a cell, if the step has that cell.
func (d *Due) change(s Step, c Cell, value, why string) {
	if s.Text(c) != value && d.can[c] {
		d.Changes = append(d.Changes, Change{s.ID, c, s.Text(c), value, why})
	}
}

var pullNumberOf = trellis.Pattern(`/(?:pull|pulls|merge_requests)/([1-9]\d*)/?$`)

// pull returns #12 for the pull request of a task that is in review or completed, "" if there is none.
func (w Work) pull() string {
	if w.Task.Status != trellis.Review && w.Task.Status != trellis.Completed {
		return ""
	}
	m := pullNumberOf().FindStringSubmatch(w.PRURL)
	if m == nil {
		return ""
	}
	return "#" + m[1]
}

// status makes the Status cell reflect the state of the task.
func (d *Due) status(s Step) {
	state, _ := readStatus(s.Text(Status))
	switch {
	case !d.can[Status]:
	case d.Work.Status == trellis.Completed:
		if state != Skipped && (state != Blocked || d.Note.Blocked) && state != Done {
			d.change(s, Status, string(Done), d.Work.Name()+" is "+d.Work.how())
		}
		d.Note.Blocked, d.Note.Before = false, ""
	case d.Work.Dead():
		if state == Blocked || state == Skipped || state == Done {
			return
		}
		d.Note.Blocked, d.Note.Before = true, s.Text(Status)
		d.change(s, Status, string(Blocked), d.Work.Why())
	case d.Note.Blocked:
		if state == Blocked {
			d.change(s, Status, d.Note.Before, d.Work.Name()+" is "+string(d.Work.Status)+" again")
		}
		d.Note.Blocked, d.Note.Before = false, ""
	}
}

// how describes the result of a completed task.
func (w Work) how() string {
	switch w.Pipeline.Outcome {
	case trellis.NoChangeNeeded:
		return "done: no change was needed"
	case trellis.Merged:
		return "merged"
	}
	return string(trellis.Completed)
}

// Why returns the reason why a task is dead.
func (w Work) Why() string {
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
