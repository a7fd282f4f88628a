package pipeline

import (
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

type (
	// Clash is a base that the worktree holds already, and the branch not yet: files hold both sides, or its merge is to
	// be committed.
	Clash struct {
		Ours  string   `json:"ours,omitempty"`  // where the branch ends into which the next commit merges the base; "": it is on the base
		Files []string `json:"files,omitempty"` // that held both sides when it began
		Said  string   `json:"said,omitempty"`  // which commits of both sides changed them
	}
	updateIn struct {
		Task    string `json:"task"`
		Job     Job    `json:"job"`
		Seen    string `json:"seen,omitempty"` // a commit that others have seen, which is not made anew
		Content string `json:"content,omitempty"`
	}
	// Updated is what the work stands on now. Base is "" when nothing was to be done.
	Updated struct {
		Base   string    `json:"base,omitempty"`
		On     string    `json:"on,omitempty"` // the task on whose branch that is
		Clash  *Clash    `json:"clash,omitempty"`
		Made   Committed `json:"made,omitzero"`
		Checks Checks    `json:"checks,omitzero"` // what the work changes of it; nothing was run
		Notes  []string  `json:"notes,omitempty"`
	}
	probeIn struct {
		Task string `json:"task"`
		Job  Job    `json:"job"`
	}
)

const (
	update   flow.Act[updateIn, Updated] = "update"
	unmended flow.Act[checksIn, Checks]  = "unmended" // Stray are the files that hold both sides still
	probe    flow.Act[probeIn, []string] = "probe"    // notes on work in review that this one conflicts with
)

// anchor is the commit that the branch must hold, whoever moved it.
func (j Job) anchor() string {
	if j.merging() {
		return j.Clash.Ours
	}
	return j.BaseCommit
}

// merging reports whether the next commit is to merge the base.
func (j Job) merging() bool { return j.Clash != nil && j.Clash.Ours != "" }

// update brings the branch up to its base when that has moved on. What both changed is trouble: it stands in the files
// side by side.
func (r *run) update(f flow.Flow) (moved bool, _ *trouble, err error) {
	if r.in.Code < 4 || r.job.Delivery.Update == "" {
		return false, nil, nil
	}
	up, err := update.Do(f, updateIn{r.in.Task, r.job, r.seen(), r.rep.Content})
	if err != nil {
		return false, nil, err
	}
	r.note(up.Notes)
	if up.Base == "" {
		return false, nil, nil
	}
	r.job.BaseCommit, r.job.StackedOn, r.job.Clash = up.Base, up.On, up.Clash
	r.rep.Base, r.rep.Stacked = up.Base, up.On
	now := &r.rep.Checks
	now.Tree, now.Stat, now.Defining, now.Unchanged = up.Checks.Tree, up.Checks.Stat, up.Checks.Defining, up.Checks.Unchanged
	if up.Made.SHA != "" {
		r.rep.Commit = up.Made.SHA
	}
	if up.Clash != nil && len(up.Clash.Files) > 0 {
		return true, r.clashed(up.Clash.Files, now.Tree), nil
	}
	found, err := r.refused(up.Made)
	return true, found, err
}

// unmended is the trouble that files make which hold both sides still.
func (r *run) unmended(f flow.Flow) (*trouble, error) {
	if r.job.Clash == nil || len(r.job.Clash.Files) == 0 {
		return nil, nil
	}
	left, err := unmended.Do(f, checksIn{Job: r.job})
	if err != nil || len(left.Stray) == 0 {
		return nil, err
	}
	return r.clashed(left.Stray, left.Tree), nil
}

func (r *run) clashed(files []string, tree string) *trouble {
	return &trouble{Code: trellis.Conflict, Detail: "the base went on to " + cut(r.job.BaseCommit, 12) + ", and these files hold what it and this task changed side by side: " + tell(files), Tree: tree}
}

// opening is what the rounds begin with: what a delivery met, what others found wrong with it, or what an earlier run
// left in conflict.
func (r *run) opening(f flow.Flow) (*trouble, error) {
	switch {
	case r.first != nil:
		return r.first, nil
	case r.in.React != nil:
		return r.in.React.trouble(), nil
	}
	return r.unmended(f.In("opening"))
}

// follow brings work up to its base that an earlier run verified, and has it verified there. What is wrong then is what
// the rounds begin with.
func (r *run) follow(f flow.Flow) (done bool, err error) {
	f = f.In("follow")
	moved, found, err := r.update(f)
	if err == nil && moved && found == nil {
		found, err = r.final(f)
	}
	r.first = found
	return found == nil, err
}

// probe says with which work in review this one conflicts: whoever merges is to know before.
func (r *run) probe(f flow.Flow) error {
	if r.in.Code < 4 || r.job.Delivery.Update == "" {
		return nil
	}
	notes, err := probe.Do(f, probeIn{r.in.Task, r.job})
	r.note(notes)
	return err
}
