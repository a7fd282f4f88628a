package proof

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// ExpectedState is the current state, for proofs to be compared with. The caller provides it; Verify itself reads only
// proofs.jsonl and Run.
type ExpectedState struct {
	Task      string   // the task that the proofs must belong to
	Runs      []string // runs of the task; nil: not known
	Plan      string   // hash of the plan; "" if there is none
	Steps     []Step   // all steps of the plan
	Commit    string   // commit of the branch; "": not known, or the work is not committed yet
	Tree      string   // tree of that commit; "" likewise
	Run       fs.FS    // the folder run/; nil: it was removed
	Head      string   // head of the chain as stated in a report; "": not stated
	Delivered bool     // the task was reported as completely proven
}

// Step is a step of the current plan.
type Step struct {
	Path  string // path of ids; in a loop without the items of the loop: "each/build"
	Hash  string
	Check bool // the step has something to prove
	Loop  bool // the step is repeated for each item; only the run knew their number
}

// Report is the result of Verify.
type Report struct {
	NothingToProve bool      // there is no plan, and nothing had to be proven
	Overall        string    // head of the chain, set if every step with a check is proven and nothing is wrong
	Records        []Proof   // records without a fault
	Proven         []string  // paths of proven steps
	Unchecked      []string  // steps without a check, or in a loop without items; they are never proven
	Unproven       []Finding // steps without a proof; stale ones, and all in a delivered task, are usually in Findings too
	Findings       []Finding
	NotRechecked   int // number of outputs that are no longer kept here
}

// OK reports whether nothing is wrong. Before delivery some steps may still be unproven.
func (a *Report) OK() bool { return len(a.Findings) == 0 }

// Verify compares the records of dir with themselves, with each other, with the output that was kept, and with w.
// docs/reference/proofs.md says what that detects and what no such comparison can detect. An error means that something could not
// be read; nothing is changed.
func Verify(dir string, w ExpectedState) (*Report, error) {
	data, err := readProofs(dir)
	if err != nil {
		return nil, err
	}
	c := readChain(data, w.Task, w.Runs)
	a := &Report{Records: c.validProofs(), Findings: c.findings()}
	if len(c.entries) == 0 && w.Plan == "" && len(w.Steps) == 0 && w.Head == "" {
		a.NothingToProve = true
		return a, nil
	}
	a.checkSteps(w, a.OK())
	if n := len(c.entries); n == 0 || c.entries[n-1].finding == nil {
		a.checkTip(w)
	}
	for _, p := range a.Records {
		if err := a.checkOutputs(w.Run, p); err != nil {
			return nil, fmt.Errorf("reading output of line %d of %s: %w", p.Line, ProofsFile, err)
		}
	}
	a.checkHead(c, w)
	if a.OK() && len(a.Unproven) == 0 && (len(a.Proven) > 0 || a.last().isPassedFinal()) {
		a.Overall = c.head()
	}
	a.sort(filepath.Join(dir, ProofsFile))
	return a, nil
}

// sort sorts findings by line, those without one last, and sets their file.
func (a *Report) sort(file string) {
	for _, list := range [][]Finding{a.Findings, a.Unproven} {
		slices.SortStableFunc(list, func(x, y Finding) int {
			if x.Line == 0 || y.Line == 0 {
				return y.Line - x.Line
			}
			return x.Line - y.Line
		})
		for i := range list {
			list[i].File = file
		}
	}
}

func (a *Report) add(f *Finding) { a.Findings = append(a.Findings, *f) }

// last returns the last record without a fault, or a zero Proof.
func (a *Report) last() Proof {
	if len(a.Records) == 0 {
		return Proof{}
	}
	return a.Records[len(a.Records)-1]
}

// isPassedFinal reports whether p is a final record with exit code 0.
func (p Proof) isPassedFinal() bool { return p.Kind == Final && p.Exit == 0 }

// checkOutputs compares the kept output of commands with the record.
func (a *Report) checkOutputs(run fs.FS, p Proof) error {
	for _, d := range p.Outputs() {
		if d == (Digest{}) {
			continue
		}
		if gone, err := outputNotKept(run, d.Path); err != nil {
			return err
		} else if gone {
			a.NotRechecked++
			continue
		}
		why, err := d.difference(run)
		if err != nil {
			return err
		}
		if why != "" {
			a.add(newFinding(Changed, p, "its output run/%s %s", d.Path, why))
		}
	}
	return nil
}

// outputNotKept reports whether output is not kept at all: it never was, or the folder of its run was removed. It returns false if only
// the file is missing.
func outputNotKept(run fs.FS, path string) (bool, error) {
	folder, _, inFolder := strings.Cut(path, "/")
	if run == nil || path == "" {
		return true, nil
	}
	if !inFolder {
		folder = "."
	}
	_, err := fs.Stat(run, folder)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return false, err
}

// difference returns how the file in run differs from the recorded one, or "".
func (d Digest) difference(run fs.FS) (string, error) {
	info, err := fs.Stat(run, d.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "is missing", nil
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "is not a file", nil
	case info.Size() != d.Bytes:
		return fmt.Sprintf("was changed: it has %d bytes, %d were recorded", info.Size(), d.Bytes), nil
	}
	f, err := run.Open(d.Path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum, err := digest(f)
	if err != nil || sum == d.SHA256 {
		return "", err
	}
	return "was changed: it has another sha256 than was recorded", nil
}

// checkSteps compares records with the steps of the plan. If the chain was changed, missing proofs are not reported as separate
// findings.
func (a *Report) checkSteps(w ExpectedState, whole bool) {
	records := map[string][]Proof{}
	for _, p := range a.Records {
		if p.Kind == Final {
			continue
		}
		path, there := w.planPath(p.Step)
		if !there && p.PlanHash == w.Plan {
			a.add(newFinding(Stale, p, "the plan has no step %s", p.Step))
		}
		records[path] = append(records[path], p)
	}
	for _, s := range w.Steps {
		list := records[s.Path]
		if !s.Check || s.Loop && len(list) == 0 {
			a.Unchecked = append(a.Unchecked, s.Path)
			continue
		}
		f := unprovenFinding(s, list)
		if f == nil {
			a.Proven = append(a.Proven, s.Path)
			continue
		}
		f.Step = s.Path
		a.Unproven = append(a.Unproven, *f)
		if whole && (w.Delivered || f.Fault == Stale) {
			a.add(f)
		}
	}
}

// planPath returns the path, in the plan, of the step that a record's path names, and whether the plan has it.
func (w ExpectedState) planPath(path string) (string, bool) {
	for _, s := range w.Steps {
		if s.Path == path {
			return path, true
		}
	}
	loop := withoutItems(path)
	return loop, slices.ContainsFunc(w.Steps, func(s Step) bool { return s.Loop && s.Path == loop })
}

// withoutItems returns "each/build" for "each/item-2/build".
func withoutItems(path string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(path, "/"), isItem), "/")
}

func isItem(part string) bool {
	n, ok := strings.CutPrefix(part, "item-")
	return ok && n != "" && strings.Trim(n, "0123456789") == ""
}

// unprovenFinding returns a finding if a step is not proven. Records of an earlier definition are ignored once there is one of the
// current definition. For each path the last record counts, so each item of a loop must be proven.
func unprovenFinding(s Step, list []Proof) *Finding {
	if len(list) == 0 {
		return newFinding(Missing, Proof{}, "step %s has no proof", s.Path)
	}
	last := map[string]Proof{}
	for _, p := range list {
		if p.StepHash == s.Hash {
			last[p.Step] = p
		}
	}
	if len(last) == 0 {
		return newFinding(Stale, list[len(list)-1], "step %s was changed after this proof", s.Path)
	}
	for _, p := range list {
		if p.Exit != 0 && last[p.Step].Line == p.Line {
			return newFinding(Missing, p, "step %s is not proven: its last check exited with %d", p.Step, p.Exit)
		}
	}
	return nil
}

// checkTip compares the last record with the plan and the branch, and checks that it is one that may end a chain.
func (a *Report) checkTip(w ExpectedState) {
	p := a.last()
	switch {
	case p.Line == 0 && w.Delivered:
		a.add(newFinding(Missing, p, "it is missing or empty, and the task was delivered"))
		return
	case p.Line == 0:
		return
	case w.Delivered && p.Kind != Final:
		a.add(newFinding(Missing, p, "the task was delivered, and no proof of the committed tree ends the chain"))
	case w.Delivered && p.Exit != 0:
		a.add(newFinding(Missing, p, "the task was delivered, and its last proof exited with %d", p.Exit))
	}
	switch {
	case p.PlanHash != "" && w.Plan == "":
		a.add(newFinding(Stale, p, "the plan was removed after this proof"))
	case p.PlanHash != w.Plan:
		a.add(newFinding(Stale, p, "the plan was edited after this proof"))
	}
	if w.Tree != "" && w.Tree != p.Tree || w.Tree == "" && w.Commit != "" && w.Commit != p.Commit {
		a.add(newFinding(Stale, p, "the branch moved after this proof: it was of %s, now there is %s",
			describeTree(p.Commit, p.Tree), describeTree(w.Commit, w.Tree)))
	}
}

func describeTree(commit, tree string) string {
	short := func(s string) string { return s[:min(len(s), 12)] }
	switch {
	case commit == "" && tree == "":
		return "no commit"
	case tree == "":
		return "commit " + short(commit)
	case commit == "":
		return "tree " + short(tree)
	}
	return fmt.Sprintf("tree %s in commit %s", short(tree), short(commit))
}

// checkHead compares the end of the chain with the reported head. Before delivery the chain may have grown since the report.
func (a *Report) checkHead(c *chain, w ExpectedState) {
	i, there := c.byHash[w.Head]
	switch {
	case w.Head == "" || w.Head == c.head():
	case !there:
		a.add(newFinding(Broken, Proof{}, "the records do not lead to the head %s that was reported: they were cut off or replaced", w.Head))
	case w.Delivered:
		a.add(newFinding(Broken, c.entries[i].proof, "the chain was reported to end with this record: what follows was added"))
	}
}
