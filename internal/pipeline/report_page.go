package pipeline

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/workflow"
)

// page returns report.md: how the run ended, what was checked with which result, what the plan left to people, and what the run
// used up. feedback is people's feedback on the work before the run.
func page(in concludeIn, h *journal.History, p *plan.Plan, feedback string) string {
	var b strings.Builder
	r := in.Report
	fmt.Fprintf(&b, "# Report: %s\n\n", cmp.Or(in.Job.Title, in.Task))
	fmt.Fprintf(&b, "- Task: %s\n- Outcome: %s\n", in.Task, outcome(r, in.Failure))
	if in.Failure != nil {
		fmt.Fprintf(&b, "- Failure: `%s` %s\n", in.Failure.Code, text.OneLine(in.Failure.Detail))
		if info, ok := trellis.Code(in.Failure.Code).Info(); ok {
			fmt.Fprintf(&b, "- What to do: %s\n", strings.ReplaceAll(info.Todo, "DIR", in.Task))
		}
	}
	rows := [][2]string{{"Branch", r.Branch}, {"Base", r.Base}, {"Stacked on", stackedOn(r)}, {"Commit", r.Commit}, {"Pushed to", pushedTo(r.Delivery)}, {"Pull request", r.Delivery.PRURL}}
	for _, m := range r.Delivery.Modules {
		rows = append(rows, [2]string{"Pull request of " + m.Path, m.URL + ", merge that first"})
	}
	for _, f := range append(rows, [2]string{"Worktree", r.Worktree}, [2]string{"Sandbox", sandboxUse(h)}) {
		if f[1] != "" {
			fmt.Fprintf(&b, "- %s: %s\n", f[0], f[1])
		}
	}
	fmt.Fprintf(&b, "- Rounds: %d, attempts: %d\n- %s\n", max(r.Rounds, 1), r.Attempts+1, UsageText(r.Usage))
	if all, once := CheckSeconds(h); once > 0 {
		fmt.Fprintf(&b, "- Checks: %.1f s, %.1f times one run of all of them (%.1f s)\n", all, all/once, once)
	}
	b.WriteByte('\n')
	if feedback != "" {
		fmt.Fprintf(&b, "## Feedback\n\nWhat a person said about the work before this run:\n\n%s\n\n", quote(feedback))
	}
	criteriaTable(&b, r.Criteria)
	stepTable(&b, in, p, h.Code)
	checkTable(&b, in)
	if len(r.Checks.Defining) > 0 {
		fmt.Fprintf(&b, "These files say what the checks do, and were changed: %s\n\n", strings.Join(r.Checks.Defining, ", "))
	}
	if p != nil {
		planSections(&b, p, r.Outcome == trellis.OutcomeFailed)
	}
	if r.Checks.Stat != "" {
		fmt.Fprintf(&b, "## Changes\n\n```\n%s```\n\n", r.Checks.Stat)
	}
	if len(r.Delivery.Commands) > 0 {
		fmt.Fprintf(&b, "## To deliver it\n\n```\n%s\n```\n\n", strings.Join(r.Delivery.Commands, "\n"))
	}
	phaseTable(&b, h)
	uncachedNotes(&b, h)
	if len(r.Notes) > 0 {
		b.WriteString("## Notes\n\n")
		for _, n := range r.Notes {
			fmt.Fprintf(&b, "- %s\n", text.OneLine(n))
		}
	}
	return b.String()
}

// sandboxUse names the sandbox in which agents and commands ran, and says how many of all their calls did, "" if none.
func sandboxUse(h *journal.History) string {
	name, in, all := "", 0, 0
	count := func(sandbox string) {
		all++
		if sandbox != "" {
			name = sandbox
			in++
		}
	}
	for _, e := range h.Calls {
		var reply agentcall.Reply
		var checks Checks
		switch ran := commandOf(e); {
		case !e.Done || e.Fail != nil:
		case slices.Contains(Roles(), trellis.Role(e.Activity)) && json.Unmarshal(e.Out, &reply) == nil:
			count(reply.Sandbox)
		case ran.Command != "":
			count(ran.Sandbox)
		case json.Unmarshal(e.Out, &checks) == nil:
			for _, c := range checks.Results {
				count(c.Sandbox)
			}
		}
	}
	if in == 0 {
		return ""
	}
	return fmt.Sprintf("%s, %d of %d calls of agents and commands", name, in, all)
}

// stackedOn says on which task's branch the work began, "" if on the base branch.
func stackedOn(r Report) string {
	if r.Stacked == "" {
		return ""
	}
	return r.Stacked + ", which was not merged: merge that first"
}

// planSections writes what a plan tells people who review the work: its decisions, assumptions and omissions, and for a failed
// run how to roll back.
func planSections(b *strings.Builder, p *plan.Plan, failed bool) {
	list := append(decisions(p), section{"Preconditions", preconditionTexts(p)})
	if failed {
		list = append(list, section{"Rollback", p.Rollback})
	}
	for _, s := range list {
		s.write(b)
	}
}

func outcome(r Report, fail *flow.Failure) string {
	if r.Outcome != "" {
		return string(r.Outcome)
	}
	return "paused: " + fail.Code
}

// UsageText describes what agents used, in words.
func UsageText(u trellis.Usage) string {
	cost := "cost unknown"
	if u.CostUSD != nil {
		cost = fmt.Sprintf("%.4f USD", *u.CostUSD)
	}
	if u.CostEstimated {
		cost = "about " + cost + ", estimated by list prices"
	}
	if u.CostPartial {
		cost += ", and the cost of calls that did not report it"
	}
	return fmt.Sprintf("Agents: %.0f s, %d tokens in (%d cached), %d out, %s", u.Seconds, u.InputTokens+u.CachedTokens, u.CachedTokens, u.OutputTokens, cost)
}

// CheckSeconds returns how many seconds the project's checks, including those of criteria, ran in a run, and how many one run of all
// of them takes, by the last one that passed: 0 if none did.
func CheckSeconds(h *journal.History) (all, once float64) {
	criteria := 0.0
	for _, e := range h.Calls {
		found, ran := ChecksIn(e)
		if !ran {
			continue
		}
		commands, now := Checks{Results: found.Results}.seconds()
		judged, more := Checks{Judged: found.Judged}.seconds()
		all += now + more
		if e.Activity == string(baseline) || len(found.Skipped) > 0 || anyFailed(found.Results) {
			continue
		}
		if e.Activity != string(prove) {
			once = commands
		}
		if judged > 0 { // else the criteria were decided in another activity
			criteria = judged
		}
	}
	if once > 0 {
		once += criteria
	}
	return all, once
}

// ChecksIn returns the results of the project's commands in an activity, including those of criteria, false if it ran none.
func ChecksIn(e journal.Entry) (c Checks, ran bool) {
	switch e.Activity {
	case string(baseline), string(verify), string(final):
		ran = e.Done && json.Unmarshal(e.Out, &c) == nil
	case string(prove):
		ran = e.Done && json.Unmarshal(e.Out, &c.Judged) == nil
	}
	return c, ran
}

// seconds returns how many seconds the commands take, and for how many of these they ran in this activity.
func (c Checks) seconds() (all, now float64) {
	add := func(seconds float64, earlier bool) {
		if all += seconds; !earlier {
			now += seconds
		}
	}
	for _, r := range c.Results {
		add(r.Seconds, r.Earlier)
	}
	for _, j := range c.Judged {
		add(j.Seconds, j.Earlier)
	}
	return all, now
}

func criteriaTable(b *strings.Builder, list []CriterionResult) {
	if len(list) == 0 {
		return
	}
	b.WriteString("## Acceptance Criteria\n\n| | Criterion | Level | Verdict | Evidence |\n| --- | --- | --- | --- | --- |\n")
	for _, j := range list {
		level := "must"
		if j.Should {
			level = "should"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", j.ID, cell(j.Text), level, j.Verdict, cell(j.Evidence))
	}
	b.WriteByte('\n')
}

// stepTable writes the results of the plan's steps, which of them did not end well and why, and what is proven.
func stepTable(b *strings.Builder, in concludeIn, p *plan.Plan, code int) {
	if p == nil || code < 2 { // runs of these versions gave the whole plan to one agent
		return
	}
	r, verifying := in.Report.Steps, len(p.Steps)-p.VerificationAt()
	switch {
	case r.Steps == 0 && in.Report.Implemented == "":
		return
	case r.Steps == 0:
		b.WriteString("## Steps\n\nAn earlier run did the steps of the plan.\n\n")
	default:
		fmt.Fprintf(b, "## Steps\n\n| Done | Failed | Blocked | Let pass | Skipped |\n| --- | --- | --- | --- | --- |\n| %d | %d | %d | %d | %d |\n\n",
			r.Done, r.Failed, r.Blocked, r.Tolerate, max(0, r.Skipped-verifying))
	}
	failedStepTable(b, r)
	if len(r.Empty) > 0 {
		fmt.Fprintf(b, "Loops without items, for which nothing was done: %s.\n\n", strings.Join(r.Empty, ", "))
	}
	if in.Report.Proofs != "" {
		fmt.Fprintf(b, "All that has a check is proven. The head of proofs.jsonl is `%s`; `trellis verify %s` checks all of it again.\n\n", in.Report.Proofs, in.Task)
	} else {
		fmt.Fprintf(b, "`trellis verify %s` names what is proven so far.\n\n", in.Task)
	}
}

// failedStepTable writes the steps that did not end well, with their causes.
func failedStepTable(b *strings.Builder, r workflow.Report) {
	if len(r.Worst) == 0 {
		return
	}
	b.WriteString("| Step | State | Exit | Why |\n| --- | --- | --- | --- |\n")
	for _, o := range r.Worst {
		state, exit := string(o.State), ""
		if o.Tolerated {
			state += ", let pass"
		}
		if o.Code != 0 {
			exit = fmt.Sprint(o.Code)
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", cell(o.Path), state, exit, cell(o.Detail))
	}
	if more := r.Failed + r.Blocked + r.Tolerate - len(r.Worst); more > 0 {
		fmt.Fprintf(b, "| and %d more | | | |\n", more)
	}
	b.WriteByte('\n')
}

func checkTable(b *strings.Builder, in concludeIn) {
	r := in.Report
	if reached := len(in.Job.Verify) == 0 || len(r.Checks.Results) > 0; !r.Executed && reached {
		what, why := r.Undecided()
		fmt.Fprintf(b, "**%s**: %s. The verdict is the agents' own.\n\n", what, why)
	}
	if len(r.Checks.Results) == 0 {
		return
	}
	where := ""
	if r.Checks.Fresh {
		where = " in a fresh checkout of the commit"
	}
	fmt.Fprintf(b, "## Checks\n\nCommands from %s, run by Trellis%s.\n\n| Command | Exit | Seconds | At base | Output |\n| --- | --- | --- | --- | --- |\n", in.Job.VerifySource, where)
	for _, c := range r.Checks.Results {
		base := "not run"
		for _, was := range r.Baseline.Results {
			if was.Command == c.Command {
				base = fmt.Sprint("exit ", was.Code)
				if was.RunForTask != "" {
					base += " (run for " + was.RunForTask + ")"
				}
			}
		}
		if c.Forgiven {
			base += " (forgiven)"
		}
		fmt.Fprintf(b, "| `%s` | %d | %.1f | %s | run/%s `%.12s` |\n", cell(c.Command), c.Code, c.Seconds, base, c.Output.Path, c.Output.SHA256)
	}
	b.WriteByte('\n')
	for _, c := range r.Checks.Results {
		if c.Code != 0 && c.Tail != "" {
			fmt.Fprintf(b, "`%s` ended with:\n\n```\n%s\n```\n\n", c.Command, strings.ReplaceAll(c.Tail, "```", "'''"))
		}
	}
}

// phaseTable writes one row for each completed activity that is worth telling.
func phaseTable(b *strings.Builder, h *journal.History) {
	b.WriteString("## Phases\n\n| What | Began | Seconds | Result |\n| --- | --- | --- | --- |\n")
	for _, e := range h.Calls {
		if !e.Done || !worthTelling(e) {
			continue
		}
		fmt.Fprintf(b, "| %s | %s | %.1f | %s |\n", e.ID, e.Started.UTC().Format(time.DateTime), max(0, e.Finished.Sub(e.Started)).Seconds(), cell(activityResult(e))) // 0: the clock was set back
	}
	b.WriteByte('\n')
}

// uncachedNotes names the phases whose calls could have had part of their input from the provider's cache, but had none.
func uncachedNotes(b *strings.Builder, h *journal.History) {
	var made []agentcall.CompletedCall
	var ids []string
	for _, e := range h.Calls {
		m := agentcall.CompletedCall{Began: e.Started, Ended: e.Finished}
		if e.Done && slices.Contains(Roles(), trellis.Role(e.Activity)) && json.Unmarshal(e.In, &m.Request) == nil && json.Unmarshal(e.Out, &m.Reply) == nil {
			made, ids = append(made, m), append(ids, e.ID)
		}
	}
	for i, missed := range agentcall.Uncached(made) {
		if missed {
			fmt.Fprintf(b, "None of the input of %s came from the provider's cache, although the call before it began with the same text: %d tokens cost their full price.\n\n",
				ids[i], made[i].Reply.Usage.InputTokens)
		}
	}
}

// activityResult returns the result of an activity, in a few words.
func activityResult(e journal.Entry) string {
	var reply agentcall.Reply
	var checks Checks
	switch {
	case e.Fail != nil:
		return e.Fail.Code
	case slices.Contains(Roles(), trellis.Role(e.Activity)) && json.Unmarshal(e.Out, &reply) == nil:
		return replyResult(reply)
	case (e.Activity == string(baseline) || e.Activity == string(verify) || e.Activity == string(final)) && json.Unmarshal(e.Out, &checks) == nil:
		return checksResult(checks)
	}
	if ran := commandOf(e); ran.Code != 0 {
		return fmt.Sprintf("exit %d: `%s`", ran.Code, ran.Command)
	}
	return "done"
}

// commandOf returns how the command ended that an activity of a step ran, the zero value if it ran none.
func commandOf(e journal.Entry) workflow.CommandResult {
	var ran workflow.CommandResult
	if json.Unmarshal(e.Out, &ran) != nil || ran.Command == "" {
		return workflow.CommandResult{}
	}
	return ran
}

func replyResult(r agentcall.Reply) string {
	how := "done"
	switch {
	case r.Failure != nil:
		how = r.Failure.Code
	case len(r.Problems) > 0:
		how = "invalid answer: " + text.Cut(r.Problems[0], 200)
	}
	if u := r.Usage; u.Tokens() > 0 || u.CostUSD != nil {
		how += fmt.Sprintf(", %d tokens, %s%s", u.Tokens(), text.Cost(u), cacheShare(u))
	}
	return how
}

// cacheShare says how much of the input came from the provider's cache, "" if nothing did.
func cacheShare(u trellis.Usage) string {
	if u.CachedTokens == 0 {
		return ""
	}
	return fmt.Sprintf(", %.0f%% of the input cached", 100*float64(u.CachedTokens)/float64(u.InputTokens+u.CachedTokens))
}

func checksResult(c Checks) string {
	var failed []string
	for _, r := range c.Results {
		if r.Code != 0 {
			failed = append(failed, fmt.Sprintf("`%s` exit %d", r.Command, r.Code))
		}
	}
	if len(c.Protected) > 0 {
		failed = append(failed, "protected paths changed")
	}
	if len(failed) == 0 {
		return "passed"
	}
	return "failed: " + strings.Join(failed, ", ")
}

// worthTelling reports whether people want to see an activity. Of the activities of the plan's steps, besides agent calls, they
// see only those that failed.
func worthTelling(e journal.Entry) bool {
	switch e.Activity {
	case string(writeStatus), string(observe), string(claim), string(conclude):
		return false
	}
	return !workflow.IsDetail(e.Activity) || e.Fail != nil || commandOf(e).Code != 0
}

// quote returns a foreign text as a block of Markdown that nothing in the text can end.
func quote(s string) string { return "    " + strings.ReplaceAll(s, "\n", "\n    ") }

func cell(s string) string {
	return text.Cut(strings.ReplaceAll(text.OneLine(s), "|", "\\|"), 300)
}
