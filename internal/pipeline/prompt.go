package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git/snapshot"
	"github.com/trellis-tasks/trellis/internal/sandbox"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/templates"
)

// prompts collects the data for the prompts of phases.
type prompts struct {
	place
	box      *sandbox.Box
	guard    *worktreeGuard
	inputs   *inputs
	leaks    *leaks
	readOnly *readerSnapshot
	steps    *stepRunner
	trust    *trustJudge
}

// Slots returns the slots of the prompt of a phase, or of a step of the plan.
func (pr *prompts) Slots(ctx context.Context, c flow.Call, r agentcall.Request) (map[string]string, []string, error) {
	var d stepPromptData
	if err := json.Unmarshal(r.Data, &d); err != nil {
		return nil, nil, fmt.Errorf("reading the request: %w", err)
	}
	m := pr.guard.worktree()
	if err := pr.guard.checkSame(m); err != nil {
		return nil, nil, err
	}
	ctx, err := pr.guard.confine(ctx, baseOf(r.Data))
	if err != nil {
		return nil, nil, err
	}
	if err := pr.repo.Unlock(ctx, r.Dir); err != nil { // an agent calls git too
		return nil, nil, err
	}
	if d.Path != "" {
		return pr.stepSlots(ctx, c, r, promptData{Job: d.Job, Content: d.Content})
	}
	return pr.phaseSlots(ctx, r)
}

func (pr *prompts) phaseSlots(ctx context.Context, r agentcall.Request) (map[string]string, []string, error) {
	var d promptData
	if err := json.Unmarshal(r.Data, &d); err != nil {
		return nil, nil, fmt.Errorf("reading the request: %w", err)
	}
	doc, own, err := pr.roleDocuments(ctx, d, r.Role, true)
	if err != nil {
		return nil, nil, err
	}
	slots, notes := map[string]string{"artifacts": doc.artifacts, "plan": doc.hint}, doc.notes
	if r.Role == trellis.Accept {
		return slots, notes, pr.acceptSlots(ctx, d, slots)
	}
	slots["context"], slots["verify"], slots["baseline"] = own, lines(d.Job.Verify), lines(d.Baseline)
	slots["sandbox"] = pr.box.PromptText(ctx, string(r.Role), d.Job.Worktree)
	if slots["protected"], err = pr.protectedText(d); err != nil {
		return nil, nil, err
	}
	if r.Role != trellis.Implement {
		slots["base"] = d.Job.BaseCommit
		if slots["diffstat"], err = pr.listChanges(ctx, d.Job); err != nil {
			return nil, nil, err
		}
	}
	switch r.Role {
	case trellis.Check:
		if len(d.Job.Verify) == len(d.Baseline) { // no command decides
			slots["markers"] = strings.Join(d.Content.Markers, ", ")
		}
	case trellis.Debug:
		err = pr.debugSlots(d, slots)
	}
	return slots, notes, err
}

// protectedText lists the globs of protected paths, and the paths that the plan may change nevertheless.
func (pr *prompts) protectedText(d promptData) (string, error) {
	allowed, err := pr.inputs.allowedPaths(d.Job, d.Content.Hash)
	if err != nil || len(allowed) == 0 {
		return lines(d.Job.Protected), err
	}
	return lines(d.Job.Protected) + "\nThese may change, as the plan says: a person approved it.\n" + lines(allowed), nil
}

func lines(list []string) string { return strings.Join(list, "\n") }

// listChanges lists what the worktree changes against the base. While nothing is committed, git status is enough.
func (pr *prompts) listChanges(ctx context.Context, j Job) (string, error) {
	head, err := pr.repo.Refs().Head(ctx, j.Worktree)
	if err != nil {
		return "", err
	}
	if head != j.BaseCommit {
		list, _, err := pr.diff(ctx, j, 0)
		return list, err
	}
	entries, err := pr.repo.Index().Status(ctx, j.Worktree, NeverCommitted(j)...)
	var b strings.Builder
	for i, e := range entries {
		if i == statLines {
			fmt.Fprintf(&b, "… and %d more\n", len(entries)-i)
			break
		}
		fmt.Fprintf(&b, "%s %s\n", e.Code, e.Path)
	}
	return b.String(), err
}

// diff returns what the worktree changes against the base: up to limit bytes of the diff, or with 0 the list of files.
func (pr *prompts) diff(ctx context.Context, j Job, limit int) (list, diff string, err error) {
	snap := pr.readOnly.Load()
	if snap == nil {
		if snap, err = snapshot.New(pr.repo).Snapshot(ctx, j.Worktree, NeverCommitted(j)...); err != nil {
			return "", "", err
		}
		defer snap.Close()
	}
	if limit == 0 {
		list, err = snap.DiffStat(ctx, j.BaseCommit)
		return list, "", err
	}
	diff, err = snap.Diff(ctx, j.BaseCommit, limit)
	return list, strings.ToValidUTF8(diff, "�"), err
}

// diffCap is how much of a diff the accept agent is shown, in bytes. The agent can read the rest.
const diffCap = 48 << 10

// commandResults describes how commands ended, with the end of their output.
func (pr *prompts) commandResults(checks []CommandResult) (string, error) {
	var b strings.Builder
	for _, c := range checks {
		output, err := pr.task.output(c.Output)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "$ %s\nexit code %d\n%s\n\n", c.Command, c.Code, tail(output, 2<<10))
	}
	return b.String(), nil
}

// previewer shows prompts without a run.
type previewer struct {
	agents   agentcall.Agents
	claimer  *claimer
	observer *observer
	prompts  *prompts
}

// Preview returns the prompt that an agent in this role would get for the task as it is now, and notes on what would be left out.
// Nothing is claimed; if there is no worktree, the main checkout is shown instead.
func (pv *previewer) Preview(ctx context.Context, role trellis.Role, in Input) (p templates.Prompt, notes []string, err error) {
	job, k, err := pv.claimer.preview(ctx, in)
	if err != nil {
		return p, nil, err
	}
	if _, err := os.Stat(job.Worktree); errors.Is(err, fs.ErrNotExist) {
		job.Worktree = job.Repo
	}
	content, _, err := pv.observer.contentOf(k, job)
	if err != nil {
		return p, nil, err
	}
	d := promptData{Job: job, Content: content,
		Trouble: &trouble{Code: trellis.VerifyFailed, Detail: "(what failed, with the output of the command, is shown here)"}}
	for _, c := range d.Content.Criteria {
		d.Open = append(d.Open, c.ID)
	}
	data, err := agentcall.Encode(d)
	if err != nil {
		return p, nil, err
	}
	slots, notes, err := pv.prompts.Slots(ctx, flow.Call{}, agentcall.Request{Role: role, Data: data, Dir: job.Worktree})
	if err != nil {
		return p, nil, err
	}
	p, err = pv.agents.Render(string(role), slots)
	return p, notes, err
}
