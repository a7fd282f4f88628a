package pipeline

import (
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// resumeVerified continues with the commit that an earlier run verified and could not deliver, unless something was changed since:
// it brings the commit up to its base and verifies it there. If something is wrong then, the rounds begin with that.
func (r *run) resumeVerified(f flow.Flow) (done bool, err error) {
	was := r.in.Undelivered
	if was == nil || r.in.Feedback != nil { // feedback means more work in any case
		return false, nil
	}
	in := f.In("verified")
	content, err := r.observe(in, "deliver")
	if err != nil || content.Hash != was.Content {
		return false, err
	}
	now, err := changed.Do(in, checksIn{Job: r.job})
	if err != nil || now.Tree != was.Checks.Tree {
		return false, err
	}
	rep := *was
	rep.Usage, rep.Attempts, rep.Worktree, rep.Delivery = r.rep.Usage, r.rep.Attempts, r.rep.Worktree, Delivery{}
	r.rep, r.round = rep, rep.Rounds
	f = f.In("follow")
	moved, found, err := r.update(f)
	if err == nil && moved && found == nil {
		found, err = r.final(f)
	}
	r.deliveryTrouble = found
	return found == nil, err
}

// isUndelivered reports whether a run ended with a verified commit that could not be delivered.
func isUndelivered(in concludeIn) bool {
	if in.Failure == nil || in.Report.Commit == "" {
		return false
	}
	code := trellis.Code(in.Failure.Code)
	return code == trellis.PushFailed || code == trellis.PRFailed
}
