package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/sandbox"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

const prove flow.Act[proveIn, []CriterionResult] = "criteria"

const unproven flow.Act[proveIn, []string] = "ground" // returns the ids of criteria that only a claim says are met

// Criterion is one acceptance criterion of the work.
type Criterion struct {
	ID     string `json:"id"` // A1, A2, …
	Text   string `json:"text"`
	Verify string `json:"verify,omitempty"`
	Should bool   `json:"should,omitempty"` // a failure does not block
}

// CriterionResult is a criterion with its verdict. Proven is set if a command decided that it is met.
type CriterionResult struct {
	Criterion
	Verdict  string `json:"verdict"` // met, unmet, unknown
	Evidence string `json:"evidence,omitempty"`
	Proven   bool   `json:"proven,omitempty"`

	Seconds float64 `json:"seconds,omitempty"` // how long its command ran
	Earlier bool    `json:"earlier,omitempty"` // the command ran before this activity
}

type proveIn struct {
	Job      Job               `json:"job"`
	Criteria []Criterion       `json:"criteria"`
	Judged   []CriterionResult `json:"judged,omitempty"` // results that are known already
	Fresh    []CriterionResult `json:"fresh,omitempty"`  // results that commands decided in a fresh checkout
}

// accept judges the criteria: those with a command by running it, the others by a session that took no part in the work. A
// criterion without a usable verdict is unknown, which blocks the work like an unmet one.
func (r *run) accept(f flow.Flow) (*trouble, error) {
	content, err := r.observe(f, "accept")
	if err != nil {
		return nil, err
	}
	if err := r.enter(f, "accept"); err != nil {
		return nil, err
	}
	judged, err := prove.Do(f, proveIn{Job: r.job, Criteria: content.Criteria, Judged: r.freshResults.judged()})
	if err != nil {
		return nil, err
	}
	open, noAnswer := pending(judged), (*flow.Failure)(nil)
	if len(open) > 0 {
		if judged, noAnswer, err = r.askAccept(f, content, judged, open); err != nil {
			return nil, err
		}
	}
	for _, j := range judged {
		r.rep.Executed = r.rep.Executed || j.Verify != ""
	}
	r.rep.Criteria = judged
	found := unmetTrouble(judged, r.rep.Checks.Tree)
	if noAnswer != nil && noAnswer.Code == string(trellis.AgentProtocol) && r.in.Code > 11 && found.onlyUnknown() { // more work would not help
		return nil, flow.Fail(string(found.Code), "%s; %s", found.Detail, noAnswer.Detail)
	}
	return found.addMissingFiles(r.rep.Checks), nil
}

// onlyUnknown reports whether no criterion was judged unmet: some could not be judged.
func (t *trouble) onlyUnknown() bool {
	return t != nil && !slices.ContainsFunc(t.Unmet, func(c CriterionResult) bool { return c.Verdict != "unknown" })
}

// askAccept has the accept agent judge the open criteria. If its answer is not usable they are unknown, and noAnswer says why.
func (r *run) askAccept(f flow.Flow, content Content, judged []CriterionResult, open []string) (_ []CriterionResult, noAnswer *flow.Failure, _ error) {
	reply, err := r.ask(f, trellis.Accept, r.job.Limits.Accept, promptData{Content: content, Open: open, Checks: r.rep.Checks.Results, Stat: r.rep.Checks.Stat})
	why := "the accept agent did not answer to it"
	if noAnswer = noAnswerFailure(err); noAnswer != nil {
		why, err = "the accept agent gave no usable answer: "+noAnswer.Code, nil
	}
	if err != nil {
		return nil, nil, err
	}
	judged, err = fillVerdicts(judged, reply, why)
	return judged, noAnswer, err
}

// verdicts is the answer of the accept agent.
type verdicts struct {
	Criteria []struct {
		ID       string `json:"id"`
		Verdict  string `json:"verdict"`
		Evidence string `json:"evidence"`
	} `json:"criteria"`
}

// pending returns the ids of the criteria without a verdict so far.
func pending(judged []CriterionResult) (ids []string) {
	for _, j := range judged {
		if j.Verdict == "" {
			ids = append(ids, j.ID)
		}
	}
	return ids
}

// fillVerdicts fills in the accept agent's verdicts on the criteria that it was asked. Those that it did not answer are unknown,
// with why as the reason.
func fillVerdicts(judged []CriterionResult, reply agentcall.Reply, why string) ([]CriterionResult, error) {
	var answer verdicts
	if len(reply.Answer) > 0 && reply.Failure == nil {
		var err error
		if answer, err = agentcall.Decode[verdicts](reply); err != nil {
			return nil, err
		}
	}
	out := append([]CriterionResult(nil), judged...)
	for i := range out {
		if out[i].Verdict != "" {
			continue
		}
		out[i].Verdict, out[i].Evidence = "unknown", text.Cut(why, evidenceSize(len(out)))
		for _, v := range answer.Criteria {
			if v.ID == out[i].ID {
				out[i].Verdict, out[i].Evidence = v.Verdict, text.Cut(v.Evidence, evidenceSize(len(out)))
			}
		}
	}
	return out, nil
}

// noAnswerFailure returns the failure of an agent that ran but gave no usable answer, nil for any other error.
func noAnswerFailure(err error) *flow.Failure {
	fail := (*flow.Failure)(nil)
	if errors.As(err, &fail) && slices.Contains([]trellis.Code{trellis.AgentProtocol, trellis.EmptyOutput}, trellis.Code(fail.Code)) {
		return fail
	}
	return nil
}

// evidenceSize is the maximum length of the evidence for one of n criteria, in bytes.
func evidenceSize(n int) int { return min(maxText, 16<<10/max(n, 1)) }

// unmetTrouble returns the trouble of criteria, nil if each that blocks is met.
func unmetTrouble(judged []CriterionResult, tree string) *trouble {
	t := &trouble{Code: trellis.AcceptanceUnmet, Tree: tree}
	var reasons []string
	for _, j := range judged {
		if j.Verdict != "met" && !j.Should {
			t.Unmet = append(t.Unmet, j)
			reasons = append(reasons, shortText(fmt.Sprintf("%s is %s: %s", j.ID, j.Verdict, j.Text)))
		}
	}
	if len(t.Unmet) == 0 {
		return nil
	}
	t.Detail = joinFirst(reasons)
	return t
}

// acceptUnchanged accepts that a run changed nothing if each blocking criterion is proven at base, by a command or by evidence
// that names a file there. A mere claim that all is well is not enough.
func (r *run) acceptUnchanged(f flow.Flow) error {
	if r.in.React != nil || r.in.Feedback != nil && r.in.seenCommit() != "" {
		return flow.Fail(string(trellis.EmptyDiff), "all of the work was taken back")
	}
	bare, err := unproven.Do(f, proveIn{Job: r.job, Judged: r.rep.Criteria, Fresh: r.freshResults.judged()})
	if err != nil {
		return err
	}
	if len(bare) > 0 {
		return flow.Fail(string(trellis.EmptyDiff), "nothing was changed, and nothing but the agent's word says that no change is needed (%s)", strings.Join(bare, ", "))
	}
	r.rep.Outcome = trellis.NoChangeNeeded
	return nil
}

// prover is the effect of accept: it judges the criteria that name a command.
type prover struct {
	commands *commands
	fresh    *freshCheckout
	restorer *restorer
	task     *taskDir
}

// prove runs the command of each criterion that has one and was not judged by it yet. What the commands leave behind is undone, as
// with checks.
func (pv *prover) prove(ctx context.Context, c flow.Call, in proveIn) (out []CriterionResult, err error) {
	if !slices.ContainsFunc(in.Criteria, func(cr Criterion) bool { return cr.Verify != "" && resultOf(in.Judged, cr) == nil }) {
		return pv.proveEach(ctx, c, in)
	}
	snap, _, end, err := pv.restorer.begin(ctx, c, in.Job)
	if err != nil {
		return nil, err
	}
	defer end(&err)
	if out, err = pv.proveEach(ctx, c, in); err != nil {
		return nil, err
	}
	_, err = snap.Restore(ctx, pv.task.backupRef(c))
	return out, err
}

func (pv *prover) proveEach(ctx context.Context, c flow.Call, in proveIn) ([]CriterionResult, error) {
	var out []CriterionResult
	for _, cr := range in.Criteria {
		j := CriterionResult{Criterion: cr}
		if known := resultOf(in.Judged, cr); known != nil {
			j, j.Earlier = *known, true
		} else if cr.Verify != "" {
			res, err := pv.commands.run(ctx, c, sandbox.Verify, cr.ID, in.Job.Worktree, cr.Verify, in.Job.Limits.Command)
			if err != nil {
				return nil, err
			}
			j.Verdict, j.Proven, j.Seconds = "met", res.Code == 0, res.Seconds
			j.Evidence = fmt.Sprintf("`%s` exited with %d", cr.Verify, res.Code)
			if res.Code != 0 {
				j.Verdict = "unmet"
				j.Evidence = strings.TrimSuffix(j.Evidence+": "+res.Tail, ": ")
			}
			j.Evidence = text.Cut(j.Evidence, evidenceSize(len(in.Criteria)))
		}
		out = append(out, j)
	}
	return out, nil
}

// resultOf returns the result for a criterion, nil if there is none.
func resultOf(list []CriterionResult, cr Criterion) *CriterionResult {
	for i := range list {
		if list[i].Criterion == cr {
			return &list[i]
		}
	}
	return nil
}

// commandCriteria returns the criteria that a command decides.
func commandCriteria(list []Criterion) (out []Criterion) {
	for _, cr := range list {
		if cr.Verify != "" {
			out = append(out, cr)
		}
	}
	return out
}

// unproven returns the ids of the blocking criteria that are met only by somebody's claim. What a command proved has to hold in a fresh
// checkout too. Other evidence counts if it names an existing line of a file, but only if some criterion was proven by a command.
func (pv *prover) unproven(ctx context.Context, c flow.Call, in proveIn) (bare []string, err error) {
	held, err := pv.proveFresh(ctx, c, in)
	if err != nil {
		return nil, err
	}
	proven := slices.ContainsFunc(held, func(j CriterionResult) bool { return j.Proven && !j.Should })
	for _, j := range held {
		if !j.Should && !j.Proven && !(proven && namesLine(in.Job.Worktree, j.Evidence)) {
			bare = append(bare, j.ID)
		}
	}
	return bare, nil
}

// proveFresh resets the results that commands proved in the worktree but do not prove in a fresh checkout of its commit.
func (pv *prover) proveFresh(ctx context.Context, c flow.Call, in proveIn) (held []CriterionResult, err error) {
	fresh := func(j CriterionResult) bool { return !j.Proven || resultOf(in.Fresh, j.Criterion) != nil }
	if in.Job.InPlace || !slices.ContainsFunc(in.Judged, func(j CriterionResult) bool { return !fresh(j) }) {
		return in.Judged, nil
	}
	head, err := pv.restorer.repo.Refs().Head(ctx, in.Job.Worktree)
	if err != nil {
		return nil, err
	}
	err = pv.fresh.do(ctx, c, in.Job, head, func(there Job, broken *CommandResult) error {
		for _, j := range in.Judged {
			if fresh(j) {
				held = append(held, j)
				continue
			}
			if broken == nil {
				again, err := pv.proveEach(ctx, c, proveIn{Job: there, Criteria: []Criterion{j.Criterion}})
				if err != nil {
					return err
				}
				j.Proven = again[0].Proven
			}
			j.Proven = j.Proven && broken == nil
			held = append(held, j)
		}
		return nil
	})
	return held, err
}

// maxQuoted is the maximum size of a file whose lines evidence can name.
const maxQuoted = 16 << 20

// namesLine reports whether a text names an existing line of a file below root, as path:number.
func namesLine(root, evidence string) bool {
	for _, w := range strings.Fields(evidence) {
		path, rest, ok := strings.Cut(strings.Trim(w, "`*_,;()[]\"'."), ":")
		number, _, _ := strings.Cut(rest, ":")
		line, err := strconv.Atoi(number)
		if !ok || err != nil || line < 1 || !filepath.IsLocal(filepath.FromSlash(path)) {
			continue
		}
		data, err := durable.ReadBelow(root, path, maxQuoted)
		if err == nil && line <= strings.Count(string(data), "\n")+1 {
			return true
		}
	}
	return false
}

func (pr *prompts) acceptSlots(ctx context.Context, d promptData, slots map[string]string) (err error) {
	var b strings.Builder
	for _, c := range d.Content.Criteria {
		if slices.Contains(d.Open, c.ID) {
			fmt.Fprintf(&b, "%s: %s\n", c.ID, c.Text)
		}
	}
	slots["criteria"], slots["base"] = b.String(), d.Job.BaseCommit
	slots["diffstat"] = d.Stat
	_, diff, err := pr.diff(ctx, d.Job, diffCap)
	if err == nil {
		slots["diff"], err = pr.leaks.maskDiff(ctx, d.Job, diff)
	}
	if err == nil {
		slots["evidence"], err = pr.commandResults(d.Checks)
	}
	return err
}

// Check returns what is wrong with an answer besides violations of its schema: the accept agent may name only criteria that it was
// asked, each once. Those that it leaves out count as unknown.
func (pr *prompts) Check(r agentcall.Request, answer json.RawMessage) (wrong []string) {
	if r.Role != trellis.Accept {
		return pr.steps.effects().Check(r, answer)
	}
	var d promptData
	var v verdicts
	if err := errors.Join(json.Unmarshal(r.Data, &d), json.Unmarshal(answer, &v)); err != nil {
		return []string{"/: " + err.Error()}
	}
	seen := map[string]bool{}
	for i, c := range v.Criteria {
		switch {
		case !slices.Contains(d.Open, c.ID):
			wrong = append(wrong, fmt.Sprintf("/criteria/%d/id: %q was not asked (asked: %s)", i, c.ID, strings.Join(d.Open, ", ")))
		case seen[c.ID]:
			wrong = append(wrong, fmt.Sprintf("/criteria/%d/id: %q is judged twice", i, c.ID))
		}
		seen[c.ID] = true
	}
	return wrong
}
