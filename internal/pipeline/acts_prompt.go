package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/contextfiles"
	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// diffCap is how much of a change the accept agent is shown, in bytes. It can read the rest.
const diffCap = 48 << 10

// Slots are what the prompt of a phase, or of a step of the plan, is made of.
func (pr *prompts) Slots(ctx context.Context, c flow.Call, r agentcall.Request) (map[string]string, []string, error) {
	var d stepAbout
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
		return pr.stepSlots(ctx, c, r, about{Job: d.Job, Content: d.Content})
	}
	return pr.phaseSlots(ctx, r)
}

func (pr *prompts) phaseSlots(ctx context.Context, r agentcall.Request) (map[string]string, []string, error) {
	var d about
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
	slots["sandbox"] = pr.box.Words(ctx, string(r.Role), d.Job.Worktree)
	if slots["protected"], err = pr.protectedText(d); err != nil {
		return nil, nil, err
	}
	if r.Role != trellis.Implement {
		slots["base"] = d.Job.BaseCommit
		if slots["diffstat"], err = pr.listChanges(ctx, d.Job); err != nil {
			return nil, nil, err
		}
	}
	if r.Role == trellis.Check && len(d.Job.Verify) == len(d.Baseline) { // no command decides
		slots["markers"] = strings.Join(d.Content.Markers, ", ")
	}
	if r.Role == trellis.Debug && d.Trouble.Code == trellis.Conflict && d.Job.Clash != nil {
		slots["conflict"] = d.Job.Clash.Said
	}
	if r.Role == trellis.Debug {
		if slots["failure"], slots["review"], err = pr.failureTexts(d.Trouble); err != nil {
			return nil, nil, err
		}
	}
	return slots, notes, nil
}

// protectedText are the globs of what must stay as it is, and the paths that are let off.
func (pr *prompts) protectedText(d about) (string, error) {
	allowed, err := pr.inputs.allowed(d.Job, d.Content.Hash)
	if err != nil || len(allowed) == 0 {
		return lines(d.Job.Protected), err
	}
	return lines(d.Job.Protected) + "\nThese may change, as the plan says: a person agreed to it.\n" + lines(allowed), nil
}

func lines(list []string) string { return strings.Join(list, "\n") }

// documents are the task's own texts and its context, taken apart into what all phases share and the rest.
type documents struct {
	artifacts string
	source    contextfiles.Source
	rest      map[string][]contextfiles.Row // by phase
	shown     map[string][]byte             // files of the checkout, by path, so far
	caps      contextfiles.Caps
	hint      string // of TaskSpec and plan
	notes     []string
}

// phases are those that share the beginning of their prompts.
var phases = []string{"implement", "check", "debug"}

func (pr *prompts) documents(d about) (documents, error) {
	dir := pr.inputs.folder(d.Content.Hash)
	doc := documents{rest: map[string][]contextfiles.Row{}, shown: map[string][]byte{}, source: contextfiles.Source{
		Main: d.Job.Repo, Worktree: d.Job.Worktree, Task: pr.store.Rel(pr.task.dir), Inputs: dir, Name: pr.shownPath}}
	doc.source.Shown = func(path string, content []byte) { doc.shown[path] = content }
	rows := map[string][]contextfiles.Row{}
	for _, p := range phases {
		list, err := readRows(dir, p+".jsonl")
		if err != nil {
			return doc, err
		}
		rows[p] = list
	}
	if rows["debug"] == nil {
		rows["debug"] = slices.Clone(rows["check"])
	}
	common := slices.DeleteFunc(slices.Clone(rows["implement"]), func(r contextfiles.Row) bool {
		return !has(rows["check"], r.Path) || !has(rows["debug"], r.Path)
	})
	for _, p := range phases {
		doc.rest[p] = slices.DeleteFunc(rows[p], func(r contextfiles.Row) bool { return has(common, r.Path) })
	}
	var own []contextfiles.Row
	for _, name := range []string{taskdir.PRD, taskdir.Info, taskdir.Design} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			own = append(own, contextfiles.Row{Type: contextfiles.Artifact, Path: doc.source.Task + "/" + name, Reason: map[string]string{taskdir.PRD: "what is asked for"}[name]})
		}
	}
	doc.caps = contextfiles.DefaultCaps()
	text, notes := contextfiles.Assemble(doc.source, append(own, common...), doc.caps)
	doc.artifacts, doc.caps, doc.notes = text, doc.caps.After(text), say(notes)
	return doc, nil
}

// roleDocuments are the documents with what a role alone is shown of the checkout, and before that, when it is wanted, the hint.
func (pr *prompts) roleDocuments(ctx context.Context, d about, role trellis.Role, hinted bool) (doc documents, own string, err error) {
	err = pr.trust.readTrusted(ctx, func() (map[string][]byte, error) {
		if doc, err = pr.documents(d); err != nil {
			return nil, err
		}
		var more []string
		if hinted {
			doc.hint, more, err = pr.planHint(role, d.Content.Hash, doc.caps)
			doc.notes, doc.caps = append(doc.notes, more...), doc.caps.After(doc.hint)
		}
		if role != trellis.Accept {
			own, more = doc.own(string(role))
			doc.notes = append(doc.notes, more...)
		}
		return doc.shown, err
	})
	return doc, own, err
}

// shownPath is where an agent finds a file: those of the task are laid out in the worktree.
func (pr *prompts) shownPath(path string) string {
	if name, ok := strings.CutPrefix(path, pr.store.Rel(pr.task.dir)+"/"); ok {
		return runtimeDir + "/task/" + name
	}
	return path
}

// own are the entries that only this phase gets.
func (d documents) own(phase string) (string, []string) {
	if len(d.rest[phase]) == 0 {
		return "", nil
	}
	text, notes := contextfiles.Assemble(d.source, d.rest[phase], d.caps)
	return text, say(notes)
}

func say(notes []contextfiles.Note) (list []string) {
	for _, n := range notes {
		list = append(list, fmt.Sprintf("%s is not shown in full: %s", n.Path, n.Why))
	}
	return list
}

func has(rows []contextfiles.Row, path string) bool {
	return slices.ContainsFunc(rows, func(r contextfiles.Row) bool { return r.Path == path })
}

// readRows are the rows of a frozen context file, nil when there is none.
func readRows(dir, name string) ([]contextfiles.Row, error) {
	data, err := taskdir.ReadFile(dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	rows, _ := contextfiles.Parse(name, data) // its problems were found when it was taken in
	return rows, nil
}

func (pr *prompts) acceptSlots(ctx context.Context, d about, slots map[string]string) (err error) {
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

// listChanges names what the worktree changes of the base. As long as nothing is committed git's status says it.
func (pr *prompts) listChanges(ctx context.Context, j Job) (string, error) {
	head, err := pr.repo.Head(ctx, j.Worktree)
	if err != nil {
		return "", err
	}
	if head != j.BaseCommit {
		list, _, err := pr.diff(ctx, j, 0)
		return list, err
	}
	entries, err := pr.repo.Status(ctx, j.Worktree, Outside(j)...)
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

// diff is what the worktree changes of the base: up to limit bytes of the diff, or with 0 the list of files.
func (pr *prompts) diff(ctx context.Context, j Job, limit int) (list, diff string, err error) {
	snap := pr.readOnly.current()
	if snap == nil {
		if snap, err = pr.repo.Snapshot(ctx, j.Worktree, Outside(j)...); err != nil {
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

// commandResults says how commands ended, with the end of what they said.
func (pr *prompts) commandResults(checks []Check) (string, error) {
	var b strings.Builder
	for _, c := range checks {
		said, err := pr.task.output(c.Output)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "$ %s\nexit code %d\n%s\n\n", c.Command, c.Code, tail(said, 2<<10))
	}
	return b.String(), nil
}

// failureTail is how much of each failed command's output the debug agent is shown, in bytes.
const failureTail = 16 << 10

// failureTexts is what went wrong, for the debug agent: what Trellis says of it, and what others wrote.
func (pr *prompts) failureTexts(t *trouble) (ours, theirs string, err error) {
	if !t.foreign() {
		ours, err = pr.describe(t)
		return ours, "", err
	}
	theirs, err = pr.task.output(t.Output)
	return fmt.Sprintf("%s: %s\n", t.Code, t.Detail), theirs, err
}

// describe is what went wrong, for the debug agent.
func (pr *prompts) describe(t *trouble) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", t.Code, t.Detail)
	for _, c := range t.Failed {
		text, err := pr.task.output(c.Output)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "\n$ %s\nexit code %d\n%s\n", c.Command, c.Code, tail(text, failureTail))
	}
	for _, j := range t.Unmet {
		fmt.Fprintf(&b, "\n%s (%s): %s\n%s\n", j.ID, j.Verdict, j.Text, j.Evidence)
	}
	if t.Output.Path != "" {
		text, err := pr.task.output(t.Output)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "\n%s\n", tail(text, failureTail))
	}
	return b.String(), nil
}

func (d *taskDir) output(ref agentcall.Ref) (string, error) {
	data, err := durable.ReadBelow(d.runDir, ref.Path, durable.MaxJournal)
	if err != nil {
		return "", fmt.Errorf("reading a command's output: %w", err)
	}
	return string(data), nil
}

// Check says what an answer lacks beyond its schema: accept names exactly the criteria that were asked;
// what it leaves out counts as unknown.
func (pr *prompts) Check(r agentcall.Request, answer json.RawMessage) (wrong []string) {
	if r.Role != trellis.Accept {
		return pr.steps.effects().Check(r, answer)
	}
	var d about
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

// looker looks again after a call what it left, and puts right what it may. A change is noted, or fails the call.
type looker = func(context.Context) ([]string, *flow.Failure, error)

// Watch sees to it that what an agent does is done in the worktree that was made for it.
func (cw *callWatch) Watch(ctx context.Context, c flow.Call, r agentcall.Request) (looker, error) {
	m := cw.guard.worktree()
	if err := cw.guard.checkSame(m); err != nil {
		return nil, err
	}
	ctx, err := cw.guard.confine(ctx, baseOf(r.Data))
	if err != nil {
		return nil, err
	}
	main, err := cw.checkout.watch(ctx, c, r)
	if err != nil {
		return nil, err
	}
	standards, err := cw.standards.watch(c)
	if err != nil {
		return nil, err
	}
	tree := looker(func(context.Context) ([]string, *flow.Failure, error) { return nil, nil, nil })
	if r.Permission == trellis.PermitRead {
		if tree, err = cw.watchReader(ctx, c, r); err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context) ([]string, *flow.Failure, error) {
		ctx, err := cw.guard.confine(ctx, baseOf(r.Data))
		if err != nil {
			return nil, nil, err
		}
		notes, fail, err := tree(ctx)
		if gone := cw.guard.checkSame(m); gone != nil {
			fail, err = flow.AsFailure(gone), nil
		}
		more, moved, mainErr := main(ctx)
		if fail == nil {
			fail = moved
		}
		told, standardsErr := standards(fmt.Sprintf("the %s agent was at work", r.Role))
		return slices.Concat(notes, told, more), fail, errors.Join(err, mainErr, standardsErr)
	}, nil
}

// watchReader sees to it that a role that may only read leaves the worktree as it was: what it changed is undone,
// and fails its call.
func (cw *callWatch) watchReader(ctx context.Context, c flow.Call, r agentcall.Request) (looker, error) {
	var d about
	if err := json.Unmarshal(r.Data, &d); err != nil {
		return nil, fmt.Errorf("reading the request: %w", err)
	}
	before, err := cw.repo.Snapshot(ctx, r.Dir, Outside(d.Job)...)
	if err != nil {
		return nil, err
	}
	cw.readOnly.set(before)
	return func(ctx context.Context) (notes []string, _ *flow.Failure, err error) {
		cw.readOnly.set(nil)
		defer func() { err = errors.Join(err, before.Close()) }()
		undone, err := before.Restore(ctx, cw.task.backupRef(c))
		if err != nil {
			return nil, nil, err
		}
		if len(undone) == 0 {
			return notes, nil, nil
		}
		var paths []string
		for _, ch := range undone {
			paths = append(paths, ch.Path)
		}
		return notes, flow.Fail(string(trellis.ProtectedPath), "the %s agent may only read, but changed %s; that was undone", r.Role, strings.Join(few(paths), ", ")), nil
	}, nil
}

// state is how the main checkout looks, without what is Trellis' own. People may be at work there.
func (mw *mainWatch) state(ctx context.Context) (git.Looks, error) {
	l, err := mw.repo.LooksOf(ctx, mw.repo.Main, ".trellis/tasks", ".trellis/objectives", ".trellis/.runtime")
	if err == nil {
		mw.mu.Lock()
		mw.seen = &l
		mw.mu.Unlock()
	}
	return l, err
}

// set keeps the snapshot that a watched call began with, for its prompt to show.
func (rs *readerSnapshot) set(snap *git.Snapshot) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.snap = snap
}

func (rs *readerSnapshot) current() *git.Snapshot {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.snap
}
