package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/events"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/git/snapshot"
	"github.com/trellis-tasks/trellis/internal/sandbox"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

const verify flow.Act[checksIn, Checks] = "verify"

const changed flow.Act[checksIn, Checks] = "changed"

type checksIn struct {
	Job         Job               `json:"job"`
	Forgiven    []string          `json:"known,omitempty"`    // commands that failed at base and are forgiven
	Content     string            `json:"content,omitempty"`  // content hash whose plan may change protected paths
	Plan        bool              `json:"plan,omitempty"`     // run the checks at the end of that plan too
	Fingerprint map[string]string `json:"footing,omitempty"`  // taken when the worktree was made ready
	Filled      []string          `json:"filled,omitzero"`    // see [Prepared]
	Tree        string            `json:"tree,omitempty"`     // final: the tree that was verified
	Criteria    []Criterion       `json:"criteria,omitempty"` // criteria that a command has to prove; final: those that one proved
	Fresh       bool              `json:"fresh,omitempty"`    // run in a fresh checkout of what the worktree holds
	Later       []string          `json:"later,omitempty"`    // commands that are not run after another one has failed
	Passed      *FreshResults     `json:"passed,omitempty"`   // final: results that need not be repeated in the same tree and environment
}

// FreshResults is the result of commands in a fresh checkout of a tree, in one environment.
type FreshResults struct {
	Tree        string            `json:"tree"`
	Environment string            `json:"environment"`
	Results     []CommandResult   `json:"results,omitempty"`
	Judged      []CriterionResult `json:"judged,omitempty"`
}

// Checks is the result of the project's own commands on a tree. Its JSON is part of journals, where some names are older.
type Checks struct {
	Results          []CommandResult   `json:"results,omitempty"`
	Tree             string            `json:"tree,omitempty"`
	Unchanged        bool              `json:"unchanged,omitempty"`   // the tree is that of the base
	UncommittedPaths []string          `json:"stray,omitempty"`       // paths that are not in the commit, or can't be in one; nothing was run
	Protected        []string          `json:"protected,omitempty"`   // changed although they are protected
	Defining         []string          `json:"defining,omitempty"`    // changed files that define what the commands do
	Stat             string            `json:"stat,omitempty"`        // short list of what was changed
	UnsafeSettings   []string          `json:"bent,omitempty"`        // settings with which git would not commit the files as they are; nothing was run
	Fresh            bool              `json:"fresh,omitempty"`       // the commands ran in a fresh checkout
	Judged           []CriterionResult `json:"judged,omitempty"`      // the criteria that commands decided there
	Leaks            []string          `json:"leaks,omitempty"`       // final: places of secrets in the commit
	IgnoredFiles     []string          `json:"unseen,omitempty"`      // files that git ignores in the worktree; only if a check failed without them
	Skipped          []string          `json:"skipped,omitempty"`     // commands that were not run after another one failed
	Environment      string            `json:"environment,omitempty"` // a hash of what the results depend on besides the files
	Notes            []string          `json:"notes,omitempty"`
}

// CommandResult is the result of one command.
type CommandResult struct {
	Command    string        `json:"command"`
	Code       int           `json:"code"`
	Seconds    float64       `json:"seconds"`
	Tail       string        `json:"tail,omitempty"`
	Sandbox    string        `json:"sandbox,omitempty"`  // name of the sandbox that it ran in
	Isolated   *bool         `json:"isolated,omitempty"` // whether it had no network; nil in records of older versions of Trellis
	Offline    bool          `json:"offline,omitempty"`  // it seems to have failed for lack of a network
	Output     agentcall.Ref `json:"output"`
	Forgiven   bool          `json:"known,omitempty"`   // it failed at base already, and the task does not ask for it to be fixed
	RunForTask string        `json:"of,omitempty"`      // baseline: the task for which it ran, if that was another one
	Earlier    bool          `json:"earlier,omitempty"` // it was not run again: it had passed on the same files in the same environment
}

// isolated reports whether the command is known to have run without a network (none is true) or with one (none is false).
func (c CommandResult) isolated(none bool) bool { return c.Isolated != nil && *c.Isolated == none }

// verify lets the project's own commands decide, or without any, the markers of the check agent.
func (r *run) verify(f flow.Flow, missing []string) (*trouble, error) {
	if err := r.enter(f, "verify"); err != nil {
		return nil, err
	}
	in := checksIn{Job: r.job, Forgiven: r.rep.Baseline.forgiven(r.namedCommands), Content: r.rep.Content, Fingerprint: r.fingerprint, Filled: r.filledSubmodules}
	if r.in.Code > 6 {
		in.Later = r.job.slowCommands(r.rep.Baseline)
	}
	if r.in.Code > 6 && r.job.verifiesFresh() {
		in.Fresh, in.Plan, in.Criteria = true, true, commandCriteria(r.criteria)
	}
	res, err := verify.Do(f, in)
	if err != nil {
		return nil, err
	}
	r.freshResults, res.Judged = reusableResults(res), nil
	r.rep.Checks = res
	r.rep.note(res.Notes)
	if found := forbiddenTrouble(res, res.Tree); found != nil {
		return found, nil
	}
	if err := failedOffline(r.in.Task, r.rep.Baseline.Results, res.Results); err != nil {
		return nil, err
	}
	return r.failedCommands(res, missing).addMissingFiles(res), nil
}

// verifiesFresh reports whether verify runs in a fresh checkout already, so that final verify need not run again if the commit is
// what was verified. Submodules are checked out at their own commits, which the work does not have yet.
func (j Job) verifiesFresh() bool { return !j.InPlace && len(j.Modules) == 0 }

// quickSeconds is the most seconds that a command takes that is run after another one failed: its result may save a round.
const quickSeconds = 10

// slowCommands returns the commands that are not run after another one has failed: those that were not quick at base.
func (j Job) slowCommands(base Checks) (list []string) {
	if j.VerifyAll {
		return nil
	}
	for _, line := range j.Verify {
		if !slices.ContainsFunc(base.Results, func(c CommandResult) bool { return c.Command == line && c.Seconds <= quickSeconds }) {
			list = append(list, line)
		}
	}
	return list
}

// reusableResults returns the results that final verify need not repeat, nil if they are not from a fresh checkout.
func reusableResults(res Checks) *FreshResults {
	if !res.Fresh || res.Environment == "" {
		return nil
	}
	return &FreshResults{Tree: res.Tree, Environment: res.Environment, Results: res.Results, Judged: res.Judged}
}

// judged returns the criteria that commands decided in a fresh checkout.
func (p *FreshResults) judged() []CriterionResult {
	if p == nil {
		return nil
	}
	return p.Judged
}

// failedOffline returns a failure if a command fails without the network that it had at base: a run may continue after the
// settings, or Trellis, were changed. Nobody can tell whether the work is the cause.
func failedOffline(task string, base, now []CommandResult) error {
	for _, c := range now {
		if c.Code == 0 || c.Forgiven || !c.isolated(true) {
			continue
		}
		had := func(b CommandResult) bool {
			return b.Command == c.Command && b.isolated(false) && (b.Code == 0 || c.Offline)
		}
		if slices.ContainsFunc(base, had) {
			return flow.Fail(string(trellis.HookFailed), "`%s` exited with %d without a network, which it had when it was run at base, so it says nothing about the work: %s, then trellis retry %s",
				c.Command, c.Code, sandbox.NetworkHint(sandbox.Verify), task)
		}
	}
	return nil
}

// failedCommands returns the trouble of failed commands, nil if all that count passed.
func (r *run) failedCommands(res Checks, missing []string) *trouble {
	t := &trouble{Code: trellis.VerifyFailed, Tree: r.rep.Checks.Tree}
	var reasons []string
	deciding := 0
	for _, c := range res.Results {
		if !c.Forgiven {
			deciding++
		}
		if c.Code != 0 && !c.Forgiven {
			t.Failed = append(t.Failed, c)
			reasons = append(reasons, shortText(fmt.Sprintf("`%s` exited with %d", c.Command, c.Code)))
		}
	}
	r.rep.Executed = r.rep.Executed || deciding > 0
	if deciding == 0 && len(missing) > 0 {
		reasons = append(reasons, "no command decides, and the check agent did not end with "+strings.Join(missing, ", "))
	}
	if len(reasons) == 0 {
		return nil
	}
	t.Detail = joinFirst(reasons)
	if len(res.Skipped) > 0 {
		t.Detail += "; not run after that: " + joinFirst(res.Skipped)
	}
	return t
}

// addMissingFiles adds to the detail which files a fresh checkout lacked because git would not commit them.
func (t *trouble) addMissingFiles(c Checks) *trouble {
	if t != nil && c.Fresh && len(c.IgnoredFiles) > 0 {
		t.Detail += "; in a fresh checkout, without what git does not commit: " + joinFirst(c.IgnoredFiles)
	}
	return t
}

// forbiddenTrouble returns the trouble of a change that no work may make, whatever the commands say.
func forbiddenTrouble(c Checks, tree string) *trouble {
	switch {
	case len(c.UnsafeSettings) > 0:
		return &trouble{Code: trellis.ProtectedPath, Detail: "settings by which git commits something else than what is there were changed: " + joinFirst(c.UnsafeSettings), Tree: tree}
	case len(c.UncommittedPaths) > 0:
		return uncommittedTrouble(c, tree)
	case len(c.Protected) > 0:
		return &trouble{Code: trellis.ProtectedPath, Detail: "protected paths were changed: " + strings.Join(c.Protected, ", "), Tree: tree}
	}
	return nil
}

// verifier runs the commands in the worktree.
type verifier struct {
	place
	commands    *commands
	environment *fingerprinter
	inputs      *inputs
	repairer    *repairer
	restorer    *restorer
	passes      *passRecords
	onCheck     func(flow.Call, CheckNews)
}

// verify runs the deciding commands, in order, and describes what was changed. What the commands leave behind is undone: the tree
// that is committed is the tree that they judged.
func (v *verifier) verify(ctx context.Context, c flow.Call, in checksIn) (out Checks, err error) {
	if err := v.checkEnvironment(ctx, c, in, &out); err != nil || len(out.UnsafeSettings) > 0 {
		return out, err
	}
	snap, notes, end, err := v.restorer.begin(ctx, c, in.Job)
	if err != nil {
		return out, err
	}
	defer end(&err)
	out.Notes = append(out.Notes, notes...)
	if err := v.describeChange(ctx, in, snap, &out); err != nil || len(out.UncommittedPaths) > 0 {
		return out, err
	}
	if err := v.runAll(ctx, c, in, &out); err != nil || len(out.Results) == 0 {
		return out, err
	}
	undone, err := snap.Restore(ctx, v.task.backupRef(c))
	return out.noteUndone(pathsOf(undone)), err
}

// freshVerifier is the effect of baseline, verify and final verify: it runs the commands in a fresh checkout, and leaves to its
// verifier what runs in the worktree.
type freshVerifier struct {
	repo     *git.Repo
	fresh    *freshCheckout
	inputs   *inputs
	leaks    *leaks
	prover   *prover
	restorer *restorer
	verifier *verifier
}

// verify is [verifier.verify] in a fresh checkout of a commit of the worktree's files, which no ref names. What the commands do
// there does not affect the worktree. If they pass, the commands of the criteria run there too.
func (fv *freshVerifier) verify(ctx context.Context, c flow.Call, in checksIn) (out Checks, err error) {
	if !in.Fresh {
		return fv.verifier.verify(ctx, c, in)
	}
	if err := fv.verifier.checkEnvironment(ctx, c, in, &out); err != nil || len(out.UnsafeSettings) > 0 {
		return out, err
	}
	text := message(commitIn{Job: in.Job, Task: fv.verifier.task.id()})
	commit, tree, err := snapshot.New(fv.repo).Commit(ctx, in.Job.Worktree, text, NeverCommitted(in.Job)...)
	if err != nil {
		return out, err
	}
	changes, err := fv.repo.History().ChangesBetween(ctx, in.Job.BaseCommit, commit)
	if err != nil {
		return out, err
	}
	out.Tree = tree
	if err := fv.verifier.describe(ctx, in, changes, &out); err != nil || len(out.UncommittedPaths) > 0 {
		return out, err
	}
	if list, err := fv.verifier.decidingCommands(in); err != nil || len(list)+len(in.Criteria) == 0 {
		return out, err
	}
	if err := fv.run(ctx, c, in, commit, &out); err != nil {
		return out, err
	}
	for _, ch := range changes {
		if ch.Submodule() && ch.Kind == 'A' && !allPassed(out) {
			out.IgnoredFiles = append(out.IgnoredFiles, ch.Path+" (a repository within the work tree)")
		}
	}
	return out, nil
}

// run runs the commands in a fresh checkout of commit.
func (fv *freshVerifier) run(ctx context.Context, c flow.Call, in checksIn, commit string, out *Checks) error {
	err := fv.fresh.do(ctx, c, in.Job, commit, func(fresh Job, broken *CommandResult) error {
		out.Fresh = true
		if broken != nil {
			out.Results = []CommandResult{*broken}
			return nil
		}
		there := in
		there.Job = fresh
		err := fv.verifier.runAll(ctx, c, there, out)
		if err != nil || anyFailed(out.Results) {
			return err
		}
		out.Judged, err = fv.prover.proveEach(ctx, c, proveIn{Job: fresh, Criteria: in.Criteria, Judged: in.Passed.judged()})
		return err
	})
	if err != nil {
		return err
	}
	return fv.recordIgnored(ctx, in.Job, out)
}

// checkEnvironment compares the environment with its fingerprint, and undoes changes that no agent may make.
func (v *verifier) checkEnvironment(ctx context.Context, c flow.Call, in checksIn, out *Checks) (err error) {
	if out.Environment, out.UnsafeSettings, out.Notes, err = v.environment.checkDrift(ctx, in); err != nil || len(out.UnsafeSettings) > 0 {
		return err
	}
	notes, err := v.repairer.repair(ctx, c, in.Job)
	out.Notes = append(out.Notes, notes...)
	return err
}

// unseenSubmodules returns the submodules that are not checked out but hold files, which git does not see: an agent wrote them.
func (v *verifier) unseenSubmodules(ctx context.Context, in checksIn) (list []string, err error) {
	filled, err := v.repo.Index().PopulatedSubmodules(ctx, in.Job.Worktree)
	for _, path := range filled {
		if !slices.Contains(in.Filled, path) {
			list = append(list, fmt.Sprintf("%s/ (a submodule that is not checked out: git sees none of the files in its folder; take them out, or let worktree.setup run `git submodule update --init %s`)", path, trellis.ShellWord(path)))
		}
	}
	return list, err
}

// runAll runs the deciding commands in order, as many at once as the job allows. Commands that passed already are not run again.
func (v *verifier) runAll(ctx context.Context, c flow.Call, in checksIn, out *Checks) error {
	commands, err := v.decidingCommands(in)
	if err != nil {
		return err
	}
	r := &commandsRun{verifier: v, call: c, in: in, total: len(commands), results: make([]*CommandResult, len(commands))}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(max(1, in.Job.VerifyParallel))
	for _, i := range in.runOrder(commands) {
		g.Go(func() error { return r.run(ctx, i, commands[i]) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for i, res := range r.results {
		if res == nil {
			out.Skipped = append(out.Skipped, commands[i])
			continue
		}
		out.Results = append(out.Results, *res)
	}
	return nil
}

// runOrder returns the indexes of commands in the order in which they start: as listed, since a command may need what an earlier
// one made. If several run at once, none may need another, and those that a failure would skip come last.
func (in checksIn) runOrder(commands []string) (places []int) {
	var later []int
	for i, line := range commands {
		if in.Job.VerifyParallel > 1 && slices.Contains(in.Later, line) {
			later = append(later, i)
		} else {
			places = append(places, i)
		}
	}
	return append(places, later...)
}

// commandsRun is one run of the commands, several of which may be running at once.
type commandsRun struct {
	*verifier
	call  flow.Call
	in    checksIn
	total int

	mu      sync.Mutex
	failed  bool
	results []*CommandResult // nil: not run
}

// run runs the i-th command, unless it passed already, or another one failed after which it is not run.
func (r *commandsRun) run(ctx context.Context, i int, line string) error {
	if known := r.in.Passed.commandResult(line); known != nil {
		r.results[i] = known
		return nil
	}
	r.mu.Lock()
	skip := r.failed && slices.Contains(r.in.Later, line)
	r.mu.Unlock()
	if skip {
		return nil
	}
	res, err := r.commands.run(ctx, r.call, sandbox.Verify, fmt.Sprintf("check-%d", i+1), r.in.Job.Worktree, line, r.in.Job.Limits.Command)
	if err != nil {
		return err
	}
	res.Forgiven = res.Code != 0 && slices.Contains(r.in.Forgiven, line)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results[i], r.failed = &res, r.failed || res.Code != 0 && !res.Forgiven
	return r.reportCheck(r.call, CheckNews{Check: res.event(i+1, r.total)})
}

// commandResult returns the result of a command, nil if it was not run.
func (p *FreshResults) commandResult(line string) *CommandResult {
	if p == nil {
		return nil
	}
	for _, r := range p.Results {
		if r.Command == line {
			r.Earlier = true
			return &r
		}
	}
	return nil
}

// CheckNewsFile is a file beside the output of an activity's commands, with one [CheckNews] per line, written while the activity runs.
// Other processes read it.
const CheckNewsFile = "checks.jsonl"

// CheckNews is news of an activity's commands: how one of them ended, or, with Wait, what they wait for.
type CheckNews struct {
	events.Check
	Wait *events.Wait `json:"wait,omitempty"`
}

// reportCheck reports news in this process, and to other processes in CheckNewsFile.
func (v *verifier) reportCheck(c flow.Call, news CheckNews) error {
	if v.onCheck != nil {
		v.onCheck(c, news)
	}
	folder, err := v.task.folder(c)
	if err != nil {
		return err
	}
	line, err := json.Marshal(news)
	if err != nil {
		return fmt.Errorf("encoding how a command ended: %w", err)
	}
	return v.task.disk.Append(filepath.Join(folder, CheckNewsFile), line, 0o600)
}

// event returns the result of the n-th of several commands as an event for the user interfaces.
func (c CommandResult) event(n, of int) events.Check {
	return events.Check{Command: c.Command, N: n, Of: of, Code: c.Code, Last: text.LastLine(c.Tail), Forgiven: c.Forgiven, Seconds: c.Seconds}
}

// Told returns all results as events for the user interfaces.
func (c Checks) Told() (list []events.Check) {
	for i, r := range c.Results {
		list = append(list, r.event(i+1, len(c.Results)))
	}
	return list
}

// decidingCommands returns the commands to run: those of the job, followed by those of the plan that are not among them.
func (v *verifier) decidingCommands(in checksIn) ([]string, error) {
	if !in.Plan {
		return in.Job.Verify, nil
	}
	p, err := v.inputs.frozenPlan(in.Content)
	if err != nil || p == nil {
		return in.Job.Verify, err
	}
	all := slices.Clone(in.Job.Verify)
	for _, line := range p.Verification() {
		if !slices.Contains(all, line) {
			all = append(all, line)
		}
	}
	return all, nil
}

// describeChange records the tree that the commands are about to judge, and what it changes against the base.
func (v *verifier) describeChange(ctx context.Context, in checksIn, snap *snapshot.Snapshot, out *Checks) error {
	j := in.Job
	changes, err := snap.Changes(ctx, j.BaseCommit)
	if err != nil {
		return err
	}
	out.Tree = snap.Tree
	return v.describe(ctx, in, changes, out)
}

// describe records what a tree changes against the base. Changes that commits leave out are not listed, even if an agent has
// committed them, but the tree does not count as unchanged: results on it need not hold at the base.
func (v *verifier) describe(ctx context.Context, in checksIn, changes []git.Change, out *Checks) (err error) {
	j := in.Job
	if out.Protected, err = v.inputs.protectedChanges(j, in.Content, changes); err != nil {
		return err
	}
	out.Unchanged = len(changes) == 0
	changes = slices.DeleteFunc(slices.Clone(changes), func(ch git.Change) bool { return git.Covers(NeverCommitted(j), ch.Path) })
	out.Stat = stat(changes)
	finder := newDefiningFinder(j.Worktree, j.Verify)
	for _, ch := range changes {
		if what := finder.definingChange(ch); what != "" {
			out.Defining = append(out.Defining, what)
		}
	}
	out.Defining = shortList(out.Defining)
	if in.Filled != nil {
		out.UncommittedPaths, err = v.unseenSubmodules(ctx, in)
	}
	return err
}

// changed describes what a phase has changed in the worktree.
func (v *verifier) changed(ctx context.Context, _ flow.Call, in checksIn) (out Checks, err error) {
	snap, err := snapshot.New(v.repo).Snapshot(ctx, in.Job.Worktree, NeverCommitted(in.Job)...)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, snap.Close()) }()
	err = v.describeChange(ctx, in, snap, &out)
	return out, err
}

func pathsOf(changes []git.Change) (paths []string) {
	for _, ch := range changes {
		paths = append(paths, ch.Path)
	}
	return paths
}

// noteUndone notes files that the commands left behind.
func (c Checks) noteUndone(paths []string) Checks {
	if len(paths) > 0 {
		c.Notes = append(c.Notes, "the checks changed files, which was undone: "+strings.Join(shortList(paths), ", "))
	}
	return c
}

// statLines is how many changed files a summary names.
const statLines = 50

func stat(changes []git.Change) string {
	var b strings.Builder
	more, added, deleted := 0, 0, 0 // sums over the files that are not listed
	for i, ch := range changes {
		if a, d := max(ch.Added, 0), max(ch.Deleted, 0); i < statLines {
			fmt.Fprintf(&b, "%c %s +%d -%d\n", ch.Kind, shortList([]string{ch.Path})[0], a, d)
		} else {
			more, added, deleted = more+1, added+a, deleted+d
		}
	}
	if more > 0 {
		fmt.Fprintf(&b, "… and %s +%d -%d\n", text.Count(more, "more file"), added, deleted)
	}
	return b.String()
}
