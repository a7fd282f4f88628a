package terminal

import (
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// task is a task in the form that people are shown.
type task struct{ status.Task }

// Show prints one task for people, a line for each fact.
func Show(w io.Writer, of status.Task, style Style) error {
	t := task{of}
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s\n", Paint(t.finalName(), "1", style.Colour), text.Clip(t.Title, 200))
	rows := t.rows()
	if len(t.Defining) > 0 {
		rows = append(rows, [2]string{"checks", "changed: " + strings.Join(t.Defining, ", ")})
	}
	for _, c := range t.Criteria {
		rows = append(rows, [2]string{"criterion", criterionLine(c)})
	}
	printRows(&b, rows)
	for i := range t.Problems {
		fmt.Fprintf(&b, "  %-9s %s\n", "problem", trellis.Visible(t.Problems[i].Error()))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func printRows(b *strings.Builder, rows [][2]string) {
	for _, row := range rows {
		if row[1] != "" {
			fmt.Fprintf(b, "  %-9s %s\n", row[0], text.Clip(row[1], 400))
		}
	}
}

func (t task) rows() [][2]string {
	rows := [][2]string{{"status", t.statusWords()}, {"since", t.Since}, {"held by", t.holder()}, {"steps", stepsDone(t.Steps)}, {"last", t.Retry}, {"", t.NotStartedReason()}, {"waits for", t.waitsFor()}, {"failure", t.failure()}}
	if t.Source != nil {
		rows = append(rows, [2]string{"branch", t.branches()}, [2]string{"worktree", t.Source.WorktreePath}, [2]string{"commit", t.Source.Commit},
			[2]string{"pr", t.pullRequest()}, [2]string{"", t.pullNote()}, [2]string{"parent", t.Source.Parent}, [2]string{"subtasks", t.subtasks()},
			[2]string{"rejected", rejection(t)}, [2]string{"judge", judgeFeedback(t)}, [2]string{"touches", t.touches()})
	}
	return append(append(rows, t.planRows()...), [2]string{"usage", text.Usage(t.Usage)}, [2]string{"updated", t.UpdatedAt})
}

func (t task) statusWords() string {
	s := string(t.Status)
	if s == "" {
		return "broken: task.json can't be read"
	}
	switch {
	case t.Status == trellis.Planning && t.CutOff && t.HeldBy == nil:
		s += strings.TrimSuffix(" (cut off in "+t.Phase, " in ") + ")"
	case t.Working() && t.Phase != "" && t.Round > 0:
		s += fmt.Sprintf(" (%s, round %d)", t.Phase, t.Round)
	case t.Working() && t.Phase != "":
		s += fmt.Sprintf(" (%s)", t.Phase)
	case t.Outcome != "" && string(t.Outcome) != s:
		s += fmt.Sprintf(" (%s)", t.Outcome)
	}
	return s
}

// finalName returns the name by which people know the task: the final one, even while it is planned.
func (t task) finalName() string { return strings.TrimPrefix(t.ID, taskdir.DraftPrefix) }

// readError returns what is wrong with a task that can't be read. It names the file without the directory, which is in the same row.
func (t task) readError() string {
	p := t.Problems[0]
	p.File = filepath.Base(p.File)
	return p.Error()
}

func (t task) waitsFor() string {
	if t.NotStartedReason() != "" {
		return ""
	}
	return t.WaitingFor
}

func (t task) subtasks() string {
	if t.Subtasks.Of == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d done: %s", t.Subtasks.Done, t.Subtasks.Of, strings.Join(t.Source.Children, ", "))
}

func (t task) holder() string {
	if t.HeldBy == nil {
		return ""
	}
	if t.HeldBy.PID == 0 {
		return fmt.Sprintf("another machine, %s, since %s", t.HeldBy.Host, t.HeldBy.Since)
	}
	return fmt.Sprintf("process %d on %s, since %s", t.HeldBy.PID, t.HeldBy.Host, t.HeldBy.Since)
}

func (t task) failure() string {
	if t.Failure.Detail == "" {
		return string(t.Failure.Code)
	}
	return string(t.Failure.Code) + ": " + t.Failure.Detail
}

func (t task) branches() string {
	switch on := t.Source.Pipeline.StackedOn; {
	case t.BaseBranch == "":
		return t.Branch
	case on != "":
		return t.Branch + " (from " + t.BaseBranch + ", stacked on " + on + ")"
	}
	return t.Branch + " (from " + t.BaseBranch + ")"
}

// pullRequest returns the pull request, and its state at the last refresh.
func (t task) pullRequest() string {
	p, first := t.PR, ""
	for _, path := range slices.Sorted(maps.Keys(t.Modules)) {
		first += fmt.Sprintf(", after %s of %s", t.Modules[path], path)
		if p == nil {
			continue
		}
		for _, m := range p.Modules {
			if m.Path == path && m.URL == t.Modules[path] {
				first += " (" + pullState(m.State, m.Checks, m.Failing, m.Review) + ")"
			}
		}
	}
	if p == nil || p.URL != t.PRURL {
		return t.PRURL + first
	}
	return fmt.Sprintf("%s (%s; as of %s)%s", t.PRURL, pullState(p.State, p.Checks, p.Failing, p.Review), p.At, first)
}

func pullState(state, checks string, failing []string, review string) string {
	words := state
	if checks != "" {
		words += ", checks " + checks
	}
	if len(failing) > 0 {
		words += " (" + strings.Join(failing, ", ") + ")"
	}
	if review != "" {
		words += ", " + strings.ReplaceAll(review, "_", " ")
	}
	return words
}

// pullNote returns what becomes of problems of the pull request, or how many rounds they took.
func (t task) pullNote() string {
	p := t.PR
	switch {
	case p == nil || p.URL != t.PRURL:
		return ""
	case p.Note != "" && p.Note != t.Failure.Detail:
		return p.Note
	case p.Note == "" && p.Rounds > 0:
		return fmt.Sprintf("what was wrong with it took %d round%s", p.Rounds, map[bool]string{true: "s"}[p.Rounds > 1])
	}
	return ""
}

func rejection(t task) string {
	r := t.Source.Pipeline.Rejection
	if t.Status != trellis.Rejected {
		return ""
	}
	return strings.TrimPrefix(r.Category+": "+r.Details, ": ")
}

// judgeFeedback returns what the judge said about a plan that a person has to decide about.
func judgeFeedback(t task) string {
	if j := t.Source.Pipeline.Judge; t.Status == trellis.Waiting && j != nil && !j.Pass {
		return j.Feedback
	}
	return ""
}

// criterionLine returns a criterion in one line: where it is stated, whether it blocks, its text, and the command that proves it.
func criterionLine(c pipeline.StatedCriterion) string {
	where := "plan.json"
	if c.Line > 0 {
		where = fmt.Sprintf("prd.md:%d", c.Line)
	}
	said := fmt.Sprintf("%s %s %s: %s", c.ID, where, c.Level, c.Text)
	if c.Verify != "" {
		said += " (verify: " + c.Verify + ")"
	}
	return said
}

// Files prints the files of a task directory with their sizes, machine state left out.
func Files(w io.Writer, dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && rel == "run":
			return filepath.SkipDir
		case d.IsDir():
			return nil
		}
		st, err := os.Lstat(path)
		if err != nil {
			return fmt.Errorf("listing files: %w", err)
		}
		_, err = fmt.Fprintf(w, "  %8d  %s\n", st.Size(), text.Clip(rel, 200))
		return err
	})
}

func subtasksDone(s status.Subtasks) string {
	if s.Of == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d subtasks done", s.Done, s.Of)
}

// stepsDone returns how far a run is, "" if there is nothing to say.
func stepsDone(u status.StepProgress) string {
	if u.Of == 0 {
		return ""
	}
	text := fmt.Sprintf("%d of %d done", u.Done, u.Of)
	switch {
	case u.Waits:
		return text + ", " + u.At + " waits for people"
	case u.At != "":
		return text + ", now " + u.At
	}
	return text
}

// planRows returns what the plan says besides its steps.
func (t task) planRows() [][2]string {
	if t.Plan == nil {
		return nil
	}
	var left []string
	for _, u := range t.Plan.Uncovered {
		left = append(left, u.Item+" ("+u.Reason+")")
	}
	list := func(items []string) string { return strings.Join(items, "; ") }
	return [][2]string{{"decided", list(t.Plan.DesignDecisions)}, {"assumed", list(t.Plan.Assumptions)}, {"left out", list(left)}, {"out of scope:", list(t.Plan.OutOfScope)}}
}

// touches returns the globs of the files that the task changes, by task.json or else by its plan.
func (t task) touches() string {
	globs := t.Source.Pipeline.Touches
	if len(globs) == 0 && t.Plan != nil {
		globs = t.Plan.Touches
	}
	return strings.Join(globs, ", ")
}

// ShowRun prints the run of a file for people.
func ShowRun(w io.Writer, r status.Run) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s\n", r.ID, text.Clip(r.File, 200))
	t := task{status.Task{HeldBy: r.HeldBy, Failure: r.Failure}}
	printRows(&b, [][2]string{{"status", r.Status}, {"began", r.Began}, {"held by", t.holder()}, {"at", r.At}, {"done", text.Count(r.Done, "step")},
		{"waits for", strings.Join(r.Waits, ", ")}, {"failure", t.failure()}, {"updated", r.UpdatedAt}, {"next", r.Next()}})
	_, err := io.WriteString(w, b.String())
	return err
}
