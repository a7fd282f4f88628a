package planner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Evaluate: one agent decides whether the requirement can be planned at all, and how large the work is. A rejection ends the
// planning, with REJECTED.md for people.

// Verdict is the answer of the evaluate agent.
type Verdict struct {
	Decision    string       `json:"decision"` // accept, reject
	Category    string       `json:"category"`
	Details     string       `json:"details"`
	Suggestions []string     `json:"suggestions"`
	Size        trellis.Size `json:"size"`
	Confidence  float64      `json:"confidence"`
}

func (p *planning) evaluate(f flow.Flow, t *tally) error {
	reply, err := p.askWithTally(f, t, trellis.Evaluate, 1, promptData{})
	if err != nil {
		return err
	}
	p.rep.Verdict, err = agentcall.Decode[Verdict](reply)
	return err
}

// shortVerdict returns the acceptance for later calls, shortened since each of their records contains it.
func (p *planning) shortVerdict() Verdict {
	v := p.rep.Verdict
	if p.in.Code > 1 {
		v.Details, v.Suggestions = agentcall.Truncate(v.Details, 2<<10), agentcall.TruncateList(slices.Clone(v.Suggestions), 4)
	}
	return v
}

const reject flow.Act[rejectIn, int64] = "reject"

type rejectIn struct {
	Verdict Verdict       `json:"verdict"`
	Usage   trellis.Usage `json:"usage"`
}

// reject records the verdict as a page for people and as data.
func (rec record) reject(_ context.Context, _ flow.Call, in rejectIn) (int64, error) {
	return rec.update(func(t *taskdir.Task, e *taskdir.Edit) error {
		r := Rejection{Category: in.Verdict.Category, Details: in.Verdict.Details, Suggestions: in.Verdict.Suggestions,
			Dir: rec.relative(), Name: t.Name, DevType: t.DevType}
		if err := rec.disk.WriteFile(filepath.Join(rec.dir, taskdir.Rejected), []byte(r.Render()), 0o644); err != nil {
			return err
		}
		e.Set("pipeline.rejection", taskdir.Rejection{Category: in.Verdict.Category, Details: in.Verdict.Details, Suggestions: in.Verdict.Suggestions})
		e.Set("pipeline.outcome", trellis.OutcomeReject)
		e.Set("pipeline.usage", in.Usage)
		e.Set("status", trellis.Rejected)
		return nil
	})
}

// addEvaluate adds what the evaluate agent gets besides the requirement.
func (s *slotBuilder) addEvaluate(d promptData) { s.addFile("project", &d.Project) }

// Rejection is the content of REJECTED.md.
type Rejection struct {
	Category    string // one of the five, or empty if a person rejected
	By          string // that person
	Details     string
	Suggestions []string
	Dir         string // the task's directory relative to the repository
	Name        string
	DevType     string
}

// reasons are the labels of the five categories, as REJECTED.md shows them.
var reasons = map[string]string{
	"unclear":      "Unclear or Vague",
	"incomplete":   "Incomplete Information",
	"out_of_scope": "Out of Scope for This Project",
	"harmful":      "Potentially Harmful",
	"too_large":    "Too Large / Should Be Split",
}

// Reason returns the label of the rejection.
func (r Rejection) Reason() string {
	if r.By != "" {
		return "Rejected by " + r.By
	}
	return reasons[r.Category]
}

// Render returns the text of REJECTED.md.
func (r Rejection) Render() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Plan Rejected\n\n## Reason\n\n%s\n\n## Details\n\n%s\n\n## Suggestions\n\n", r.Reason(), strings.TrimSpace(r.Details))
	bullets(&b, r.Suggestions)
	dir, named := trellis.ShellWord(r.Dir), "--name "+trellis.ShellWord(r.Name)
	if r.DevType != "" { // else it is chosen again
		named += " --type " + trellis.ShellWord(r.DevType)
	}
	fmt.Fprintf(&b, "\n## To Retry\n\nPlan again in place, which keeps this page as REJECTED-1.md:\n\n    trellis plan --retry %s --requirement '<revised requirement>'\n", dir)
	fmt.Fprintf(&b, "\nOr remove the directory and begin afresh:\n\n    trellis task rm %s\n    trellis plan %s --requirement '<revised requirement>'\n", dir, named)
	return trellis.Visible(b.String())
}

// KeepRejection renames the REJECTED.md of an earlier planning to REJECTED-1.md, -2, …
func KeepRejection(disk *durable.Disk, dir string) error {
	old := filepath.Join(dir, taskdir.Rejected)
	if _, err := os.Lstat(old); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for n := 1; ; n++ {
		to := filepath.Join(dir, fmt.Sprintf("REJECTED-%d.md", n))
		if _, err := os.Lstat(to); errors.Is(err, fs.ErrNotExist) {
			return disk.Rename(old, to)
		}
	}
}

// lastRejection returns the verdict that the feedback is about, and its file, "" if there is none.
func (f files) lastRejection() (file string, verdict []byte) {
	for n := 1; ; n++ {
		next := fmt.Sprintf("REJECTED-%d.md", n)
		data, err := taskdir.ReadFile(f.dir, next)
		if err != nil {
			return file, verdict
		}
		file, verdict = next, data
	}
}
