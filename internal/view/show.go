package view

import (
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Show prints one task for people, a line for everything that there is to say.
func Show(w io.Writer, t Task, style Style) error {
	var b strings.Builder
	title := t.ID
	if style.Colour {
		title = "\x1b[1m" + t.ID + "\x1b[0m"
	}
	fmt.Fprintf(&b, "%s  %s\n", title, clip(t.Title, 200))
	for _, row := range t.rows() {
		if row[1] != "" {
			fmt.Fprintf(&b, "  %-9s %s\n", row[0], clip(row[1], 400))
		}
	}
	if len(t.Defining) > 0 {
		fmt.Fprintf(&b, "  %-9s %s\n", "checks", clip("changed: "+strings.Join(t.Defining, ", "), 400))
	}
	for _, c := range t.Criteria {
		fmt.Fprintf(&b, "  %-9s %s\n", "criterion", clip(stated(c), 400))
	}
	for i := range t.Problems {
		fmt.Fprintf(&b, "  %-9s %s\n", "problem", &t.Problems[i])
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (t Task) rows() [][2]string {
	rows := [][2]string{{"status", t.standing()}, {"since", t.Since}, {"held by", t.holder()}, {"steps", t.Steps.words()}, {"last", t.again}, {"waits for", t.WaitingFor}, {"failure", t.failure()}}
	if t.task != nil {
		rows = append(rows, [2]string{"branch", t.branches()}, [2]string{"worktree", t.task.WorktreePath}, [2]string{"commit", t.task.Commit},
			[2]string{"pr", t.pull()}, [2]string{"", t.reaction()}, [2]string{"parent", t.task.Parent}, [2]string{"subtasks", t.subtasks()},
			[2]string{"rejected", rejection(t)}, [2]string{"judge", judgement(t)}, [2]string{"touches", t.touches()})
	}
	return append(append(rows, t.planned()...), [2]string{"usage", Usage(t.Usage)}, [2]string{"updated", t.UpdatedAt})
}

func (t Task) standing() string {
	s := string(t.Status)
	if s == "" {
		return "broken: task.json can't be read"
	}
	switch {
	case t.working() && t.Phase != "" && t.Round > 0:
		s += fmt.Sprintf(" (%s, round %d)", t.Phase, t.Round)
	case t.working() && t.Phase != "":
		s += fmt.Sprintf(" (%s)", t.Phase)
	case t.Outcome != "" && string(t.Outcome) != s:
		s += fmt.Sprintf(" (%s)", t.Outcome)
	}
	return s
}

// subtasks are how many are done, and which there are.
func (t Task) subtasks() string {
	if t.Subtasks.Of == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d done: %s", t.Subtasks.Done, t.Subtasks.Of, strings.Join(t.task.Children, ", "))
}

// holder is the process at work on the task.
func (t Task) holder() string {
	if t.HeldBy == nil {
		return ""
	}
	return fmt.Sprintf("process %d on %s, since %s", t.HeldBy.PID, t.HeldBy.Host, t.HeldBy.Since)
}

// working reports whether somebody is at work on the task, or was until cut off.
func (t Task) working() bool { return t.Status == trellis.InProgress || t.Status == trellis.Planning }

func (t Task) failure() string {
	if t.Failure.Detail == "" {
		return string(t.Failure.Code)
	}
	return string(t.Failure.Code) + ": " + t.Failure.Detail
}

func (t Task) branches() string {
	switch on := t.task.Pipeline.StackedOn; {
	case t.BaseBranch == "":
		return t.Branch
	case on != "":
		return t.Branch + " (from " + t.BaseBranch + ", stacked on " + on + ")"
	}
	return t.Branch + " (from " + t.BaseBranch + ")"
}

// pull is the pull request, and how it stood when somebody last looked.
func (t Task) pull() string {
	p, first := t.PR, ""
	for _, path := range slices.Sorted(maps.Keys(t.Modules)) {
		first += fmt.Sprintf(", after %s of %s", t.Modules[path], path)
		if p == nil {
			continue
		}
		for _, m := range p.Modules {
			if m.Path == path && m.URL == t.Modules[path] {
				first += " (" + stands(m.State, m.Checks, m.Failing, m.Review) + ")"
			}
		}
	}
	if p == nil || p.URL != t.PRURL {
		return t.PRURL + first
	}
	return fmt.Sprintf("%s (%s; as of %s)%s", t.PRURL, stands(p.State, p.Checks, p.Failing, p.Review), p.At, first)
}

// stands is how a pull request stands, in words.
func stands(state, checks string, failing []string, review string) string {
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

// reaction is what becomes of what is wrong with the pull request, or became of that.
func (t Task) reaction() string {
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

func rejection(t Task) string {
	r := t.task.Pipeline.Rejection
	if t.Status != trellis.Rejected {
		return ""
	}
	return strings.TrimPrefix(r.Category+": "+r.Details, ": ")
}

// judgement is what the judge said of a plan that a person has to decide about.
func judgement(t Task) string {
	if j := t.task.Pipeline.Judge; t.Status == trellis.Waiting && j != nil && !j.Pass {
		return j.Feedback
	}
	return ""
}

// Usage is what agents used, in a few words: tokens, cost, time. A cost that nobody told is unknown.
func Usage(u trellis.Usage) string {
	if u.Tokens() == 0 && u.CostUSD == nil && u.Seconds == 0 {
		return ""
	}
	cost := "cost unknown"
	if u.CostUSD != nil {
		cost = fmt.Sprintf("$%.2f", *u.CostUSD)
	}
	return fmt.Sprintf("%s tokens, %s, %s", Tokens(u.Tokens()), cost, seconds(u.Seconds))
}

// Tokens is a count in few letters: 950, 12.3k, 1.2M.
func Tokens(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprint(n)
	case n < 1_000_000:
		return fmt.Sprintf("%.1fk", float64(n)/1000)
	}
	return fmt.Sprintf("%.1fM", float64(n)/1_000_000)
}

// seconds is a duration in few letters: 8s, 2m10s, 1h5m.
func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second)).Round(time.Second)
	if d >= time.Hour {
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	return d.String()
}

// stated is a criterion in one line: where it stands, whether it blocks, what it says and which command tells.
func stated(c pipeline.Stated) string {
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
		_, err = fmt.Fprintf(w, "  %8d  %s\n", st.Size(), clip(rel, 200))
		return err
	})
}
