package pipeline

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/taskdir"
)

// delivering is what is configured, or with asked all there is.
func delivering(cfg *config.Config, asked bool) Delivering {
	d := cfg.Delivery
	if !d.Push && !d.PR && !asked {
		return Delivering{Update: following(d.Update)}
	}
	return Delivering{Push: true, PR: d.PR || asked, Draft: d.Draft, Labels: d.Labels, Reviewers: d.Reviewers, Update: following(d.Update)}
}

// following is how a branch follows its base, "" when it does not.
func following(update string) string {
	if update == "none" {
		return ""
	}
	return update
}

// deliver pushes the commit and opens its pull request.
func (v *deliverer) deliver(ctx context.Context, c flow.Call, in DeliverIn) (Delivery, error) {
	in.fill(v.task.runDir)
	return v.send(ctx, c, in)
}

// fill adds what is too long for a record.
func (in *DeliverIn) fill(runDir string) {
	in.Title, _, _ = strings.Cut(message(commitIn{Job: in.Job, Task: in.Task}), "\n")
	if data, err := taskdir.ReadFile(filepath.Join(runDir, "inputs", in.Report.Content), taskdir.PRD); err == nil { // else it goes without
		in.Summary = string(data)
	}
}

// Deliverable is the commit of a task's last run, to be delivered with push and pull request. False: there is none.
func Deliverable(runDir string, cfg *config.Config, task string, p Progress) (DeliverIn, bool) {
	if p.Report == nil || p.Report.Commit == "" {
		return DeliverIn{}, false
	}
	in := DeliverIn{Task: task, Job: p.Job, Report: *p.Report}
	in.Job.Delivery = delivering(cfg, true)
	in.fill(runDir)
	return in, true
}

// Tell writes report.md anew, with what became of a delivery after the run.
func (w *reporter) Tell(ctx context.Context, in DeliverIn, d Delivery) error {
	in.Report.Delivery = d
	r := run{rep: in.Report}
	r.note(d.Notes)
	_, err := w.conclude(ctx, flow.Call{}, concludeIn{Task: in.Task, Job: in.Job, Report: r.rep})
	return err
}

func pushedTo(d Delivery) string {
	if !d.Pushed {
		return ""
	}
	return d.Remote
}
