package planner

import (
	"context"
	"path/filepath"
	"slices"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Evaluate: one agent says whether the requirement can be planned at all, and how large the work is. What it rejects ends
// there, with REJECTED.md for people.

// Verdict is the answer of the evaluate agent.
type Verdict struct {
	Decision    string       `json:"decision"` // accept, reject
	Category    string       `json:"category"`
	Details     string       `json:"details"`
	Suggestions []string     `json:"suggestions"`
	Size        trellis.Size `json:"size"`
	Confidence  float64      `json:"confidence"`
}

func (p *planning) evaluate(f flow.Flow) error {
	reply, err := p.ask(f, trellis.Evaluate, 1, about{})
	if err != nil {
		return err
	}
	p.rep.Verdict, err = agentcall.Decode[Verdict](reply)
	return err
}

// understood is an acceptance as later calls are told it: it takes its part of each of their records.
func (p *planning) understood() Verdict {
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

// evaluate is what the evaluate agent is told beside the requirement.
func (s *slots) evaluate(d about) { s.file("project", &d.Project) }
