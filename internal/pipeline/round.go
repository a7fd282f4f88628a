package pipeline

import (
	"fmt"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/sandbox"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// trouble is why a round did not end in a verified commit.
type trouble struct {
	Code   trellis.Code  `json:"code"`
	Detail string        `json:"detail"`
	Failed []Check       `json:"failed,omitempty"`
	Unmet  []Judged      `json:"unmet,omitempty"`
	Output agentcall.Ref `json:"output,omitzero"` // a hook's
	Tree   string        `json:"tree"`            // that it was found on
}

// same reports whether nothing has changed since: the same failure of the same tree.
func (t *trouble) same(u *trouble) bool {
	return u != nil && t.Code == u.Code && t.Detail == u.Detail && t.Tree == u.Tree
}

// rounds goes on until a round ends in a verified commit, or there are none left.
func (r *run) rounds(f flow.Flow) error {
	last, err := r.opening(f)
	if err != nil {
		return err
	}
	for r.round = 1; ; r.round++ {
		found, err := r.oneRound(f.In(fmt.Sprintf("round-%d", r.round)), last)
		switch {
		case err != nil:
			return err
		case found == nil:
			return nil
		case found.same(last) && found.Code == trellis.SecretFound:
			return flow.Fail(string(found.Code), "round %d did not take out the secrets: %s", r.round, found.Detail)
		case found.same(last) && found.Code == trellis.Conflict:
			return flow.Fail(string(found.Code), "round %d mended nothing: %s", r.round, found.Detail)
		case found.same(last):
			return flow.Fail(string(trellis.NoProgress), "round %d ended as the one before, and nothing was changed in between: %s", r.round, found.Detail)
		case r.round+r.spent >= r.job.Limits.Rounds:
			return flow.Fail(string(found.Code), "after %d rounds: %s", r.round, found.Detail)
		}
		last = found
	}
}

// oneRound is debug (when there is something to mend), check, verify, accept, commit, update, final verify. It
// returns what is still wrong, nil when the work is done.
func (r *run) oneRound(f flow.Flow, last *trouble) (*trouble, error) {
	if last != nil {
		if err := r.debug(f, last); err != nil {
			return nil, err
		}
	}
	missing, err := r.check(f)
	if err != nil {
		return nil, err
	}
	if found, err := r.unmended(f); found != nil || err != nil {
		return found, err
	}
	if found, err := r.judged(f, missing); found != nil || err != nil || r.rep.Checks.Unchanged {
		return found, err
	}
	if found, err := r.commit(f); found != nil || err != nil {
		return found, err
	}
	if _, found, err := r.update(f); found != nil || err != nil {
		return found, err
	}
	if r.rep.Checks.Unchanged { // the base has all of it now
		return r.judged(f.In("again"), nil)
	}
	return r.final(f)
}

// judged is verify and accept, and the end of the work when there is nothing to do.
func (r *run) judged(f flow.Flow, missing []string) (*trouble, error) {
	if found, err := r.verify(f, missing); found != nil || err != nil {
		return found, err
	}
	if found, err := r.accept(f); found != nil || err != nil {
		return found, err
	}
	if r.rep.Checks.Unchanged {
		return nil, r.nothingToDo(f)
	}
	return nil, nil
}

func (r *run) debug(f flow.Flow, last *trouble) error {
	content, err := r.observe(f, "debug")
	if err != nil {
		return err
	}
	if err := r.enter(f, "debug"); err != nil {
		return err
	}
	reply, err := r.ask(f, trellis.Debug, r.job.Limits.Debug, about{Content: content, Trouble: last})
	if err != nil {
		return err
	}
	return r.silent(f, reply, last.Tree)
}

// check lets a fresh session review the change and mend what it finds. It returns the markers that are
// missing at the end of its report, which count when there is no command to decide.
func (r *run) check(f flow.Flow) (missing []string, err error) {
	content, err := r.observe(f, "check")
	if err != nil {
		return nil, err
	}
	if err := r.enter(f, "check"); err != nil {
		return nil, err
	}
	reply, err := r.ask(f, trellis.Check, r.job.Limits.Check, about{Content: content})
	for _, m := range content.Markers {
		if !endsWith(reply.Excerpt, m, len(content.Markers)) {
			missing = append(missing, m)
		}
	}
	return missing, err
}

// endsWith reports whether a marker stands alone on one of the last n lines of a text.
func endsWith(text, marker string, n int) bool {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i := len(lines) - 1; i >= 0 && n > 0; i-- {
		line := strings.Trim(lines[i], " \t\r`*_.-")
		if line == "" {
			continue
		}
		if line == marker {
			return true
		}
		n--
	}
	return false
}

// verify lets the project's own commands decide; without any, the markers of the check agent.
func (r *run) verify(f flow.Flow, missing []string) (*trouble, error) {
	if err := r.enter(f, "verify"); err != nil {
		return nil, err
	}
	res, err := verify.Do(f, checksIn{Job: r.job, Known: r.known(), Content: r.rep.Content, Footing: r.foot})
	if err != nil {
		return nil, err
	}
	r.rep.Checks = res
	r.note(res.Notes)
	if found := forbidden(res, res.Tree); found != nil {
		return found, nil
	}
	if err := r.cutOff(res.Results); err != nil {
		return nil, err
	}
	return r.judge(res.Results, missing), nil
}

// cutOff fails where a command that had the network when it was run at base has none now, and fails: a run goes on after
// settings, or Trellis, were changed. Nobody can tell whether that is the work's doing.
func (r *run) cutOff(results []Check) error {
	for _, c := range results {
		if c.Code == 0 || c.Known || !c.isolated(true) {
			continue
		}
		had := func(b Check) bool { return b.Command == c.Command && b.isolated(false) && (b.Code == 0 || c.Offline) }
		if slices.ContainsFunc(r.rep.Baseline.Results, had) {
			return flow.Fail(string(trellis.HookFailed), "`%s` ended with %d without a network, which it had when it was run at base, so it says nothing about the work: %s, then trellis retry %s",
				c.Command, c.Code, sandbox.NetworkHint(sandbox.Verify), r.in.Task)
		}
	}
	return nil
}

// isolated reports whether it is known that a command had no network, or with false that it had one.
func (c Check) isolated(none bool) bool { return c.Isolated != nil && *c.Isolated == none }

// forbidden is the trouble that a change makes which no work may bring, whatever the commands say.
func forbidden(c Checks, tree string) *trouble {
	switch {
	case len(c.Bent) > 0:
		return &trouble{Code: trellis.ProtectedPath, Detail: "settings by which git commits something else than what is there were changed: " + tell(c.Bent), Tree: tree}
	case len(c.Protected) > 0:
		return &trouble{Code: trellis.ProtectedPath, Detail: "protected paths were changed: " + strings.Join(c.Protected, ", "), Tree: tree}
	}
	return nil
}

// final runs the commands once more, those of the criteria too, on the commit and nothing else.
func (r *run) final(f flow.Flow) (*trouble, error) {
	if err := r.enter(f, "final-verify"); err != nil {
		return nil, err
	}
	tree := r.rep.Checks.Tree
	in := checksIn{Job: r.job, Known: r.known(), Footing: r.foot, Tree: tree, Criteria: proven(r.rep.Criteria), Content: r.rep.Content, Plan: r.in.Code > 1}
	res, err := final.Do(f, in)
	if err != nil {
		return nil, err
	}
	r.rep.Checks.Results, r.rep.Checks.Fresh = res.Results, res.Fresh
	r.note(res.Notes)
	if len(res.Stray) > 0 {
		return &trouble{Code: trellis.CommitFailed, Detail: "the commit does not hold all of the work: " + strings.Join(res.Stray, ", "), Tree: tree}, nil
	}
	if len(res.Leaks) > 0 {
		return leaked(res.Leaks, tree), nil
	}
	if found := forbidden(res, tree); found != nil {
		return found, nil
	}
	if err := r.cutOff(res.Results); err != nil {
		return nil, err
	}
	if found := r.judge(res.Results, nil); found != nil {
		return found.alone(res), nil
	}
	if found := unmet(res.Judged, tree); found != nil {
		return found.alone(res), nil
	}
	if r.in.Code < 2 {
		return nil, nil
	}
	r.rep.Proofs, err = seal.Do(f, sealIn{r.in.Task, r.job, r.rep.Content, r.rep.Commit, res.Results})
	return nil, err
}

// proven are the criteria that a command judged, as they are asked of the commit.
func proven(judged []Judged) (list []Criterion) {
	for _, j := range judged {
		if j.Proven && !j.Should {
			list = append(list, j.Criterion)
		}
	}
	return list
}

// alone says where the trouble was found, when that is where nothing but the commit was.
func (t *trouble) alone(c Checks) *trouble {
	if !c.Fresh {
		return t
	}
	t.Detail = "in a fresh checkout of the commit, " + t.Detail
	if len(c.Unseen) > 0 {
		t.Detail += "; files that git ignores are in the worktree and not in the commit: " + tell(c.Unseen)
	}
	return t
}

// judge is the trouble that failed commands make, nil when those that count passed.
func (r *run) judge(results []Check, missing []string) *trouble {
	t := &trouble{Code: trellis.VerifyFailed, Tree: r.rep.Checks.Tree}
	var said []string
	deciding := 0
	for _, c := range results {
		if !c.Known {
			deciding++
		}
		if c.Code != 0 && !c.Known {
			t.Failed = append(t.Failed, c)
			said = append(said, short(fmt.Sprintf("`%s` ended with %d", c.Command, c.Code)))
		}
	}
	r.rep.Executed = r.rep.Executed || deciding > 0
	if deciding == 0 && len(missing) > 0 {
		said = append(said, "no command decides, and the check agent did not end with "+strings.Join(missing, ", "))
	}
	if len(said) == 0 {
		return nil
	}
	t.Detail = tell(said)
	return t
}

// accept judges the criteria: those with a command by running it, the others by a session that took no
// part. What nobody can tell is unmet.
func (r *run) accept(f flow.Flow) (*trouble, error) {
	content, err := r.observe(f, "accept")
	if err != nil {
		return nil, err
	}
	if err := r.enter(f, "accept"); err != nil {
		return nil, err
	}
	judged, err := prove.Do(f, proveIn{Job: r.job, Criteria: content.Criteria})
	if err != nil {
		return nil, err
	}
	open := pending(judged)
	if len(open) > 0 {
		if judged, err = r.askAccept(f, content, judged, open); err != nil {
			return nil, err
		}
	}
	for _, j := range judged {
		r.rep.Executed = r.rep.Executed || j.Verify != ""
	}
	r.rep.Criteria = judged
	return unmet(judged, r.rep.Checks.Tree), nil
}

func (r *run) askAccept(f flow.Flow, content Content, judged []Judged, open []string) ([]Judged, error) {
	reply, err := r.ask(f, trellis.Accept, r.job.Limits.Accept, about{Content: content, Open: open, Checks: r.rep.Checks.Results, Stat: r.rep.Checks.Stat})
	why := "the accept agent did not answer to it"
	if fail := answerless(err); fail != nil {
		why, err = "the accept agent gave no usable answer: "+fail.Code, nil
	}
	if err != nil {
		return nil, err
	}
	return merge(judged, reply, why)
}

// unmet is the trouble that criteria make, nil when each that blocks is met.
func unmet(judged []Judged, tree string) *trouble {
	t := &trouble{Code: trellis.AcceptanceUnmet, Tree: tree}
	var said []string
	for _, j := range judged {
		if j.Verdict != "met" && !j.Should {
			t.Unmet = append(t.Unmet, j)
			said = append(said, short(fmt.Sprintf("%s is %s: %s", j.ID, j.Verdict, j.Text)))
		}
	}
	if len(t.Unmet) == 0 {
		return nil
	}
	t.Detail = tell(said)
	return t
}

// nothingToDo ends a run that changed nothing: fine when each criterion is proven at base, by a command
// or by evidence that names a file there. The bare claim that all is well is not enough.
func (r *run) nothingToDo(f flow.Flow) error {
	if r.in.React != nil {
		return flow.Fail(string(trellis.EmptyDiff), "all of the work was taken back")
	}
	bare, err := ground.Do(f, proveIn{Job: r.job, Judged: r.rep.Criteria})
	if err != nil {
		return err
	}
	if len(bare) > 0 {
		return flow.Fail(string(trellis.EmptyDiff), "nothing was changed, and nothing but a claim says that it need not be (%s)", strings.Join(bare, ", "))
	}
	r.rep.Outcome = trellis.NoChangeNeeded
	return nil
}

func (r *run) commit(f flow.Flow) (*trouble, error) {
	if err := r.enter(f, "commit"); err != nil {
		return nil, err
	}
	in := commitIn{Job: r.job, Task: r.in.Task, Seen: r.seen()}
	if r.in.React != nil {
		in.Why = r.in.React.Code
	}
	made, err := commit.Do(f, in)
	if err != nil {
		return nil, err
	}
	if found, err := r.refused(made); found != nil || err != nil {
		return found, err
	}
	if made.Nothing {
		return nil, flow.Fail(string(trellis.EmptyDiff), "there is nothing to commit: all that was changed is left out of commits")
	}
	r.rep.Commit = made.SHA
	r.job.Clash = nil
	return nil, nil
}

// refused is the trouble that keeps work from being committed.
func (r *run) refused(made Committed) (*trouble, error) {
	r.note(made.Notes)
	if len(made.Leaks) > 0 {
		return leaked(made.Leaks, r.rep.Checks.Tree), nil
	}
	if made.Hook != "" {
		return &trouble{Code: trellis.CommitFailed, Detail: "a git hook refused the commit: " + made.Hook, Output: made.Output, Tree: r.rep.Checks.Tree}, nil
	}
	return nil, nil
}

// leaked is the trouble that secrets make.
func leaked(places []string, tree string) *trouble {
	return &trouble{Code: trellis.SecretFound, Detail: "there are secrets in what was changed, which belong into configuration that is not committed: " + tell(places), Tree: tree}
}

// tell joins sentences, the first of them when there are many.
func tell(said []string) string {
	if len(said) > 10 {
		said = append(said[:10:10], fmt.Sprintf("and %d more", len(said)-10))
	}
	return strings.Join(said, "; ")
}
