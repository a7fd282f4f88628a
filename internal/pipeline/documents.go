package pipeline

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/contextfiles"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// documents are the task's own texts and its context files, divided into what all phases share and the rest.
type documents struct {
	artifacts  string
	source     contextfiles.Source
	phaseRows  map[string][]contextfiles.Row // context files that are not shared, by phase
	shownFiles map[string][]byte             // contents of the files of the checkout that were included so far, by path
	caps       contextfiles.Caps
	hint       string // the plan's text on how the work goes
	notes      []string
}

// phases are the phases whose prompts begin with the same text.
var phases = []string{"implement", "check", "debug"}

func (pr *prompts) documents(d promptData) (documents, error) {
	dir := pr.inputs.folder(d.Content.Hash)
	doc := documents{phaseRows: map[string][]contextfiles.Row{}, shownFiles: map[string][]byte{}, source: contextfiles.Source{
		Main: d.Job.Repo, Worktree: d.Job.Worktree, Task: pr.store.Rel(pr.task.dir), Inputs: dir, Name: pr.shownPath}}
	doc.source.Shown = func(path string, content []byte) { doc.shownFiles[path] = content }
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
		return !hasPath(rows["check"], r.Path) || !hasPath(rows["debug"], r.Path)
	})
	for _, p := range phases {
		doc.phaseRows[p] = slices.DeleteFunc(rows[p], func(r contextfiles.Row) bool { return hasPath(common, r.Path) })
	}
	var own []contextfiles.Row
	for _, name := range []string{taskdir.PRD, taskdir.Info, taskdir.Design} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			own = append(own, contextfiles.Row{Type: contextfiles.Artifact, Path: doc.source.Task + "/" + name, Reason: map[string]string{taskdir.PRD: "what is asked for"}[name]})
		}
	}
	doc.caps = contextfiles.DefaultCaps()
	text, notes := contextfiles.Assemble(doc.source, append(own, common...), doc.caps)
	before, more, err := pr.priorDecisions(d.Content.Hash, doc.caps.Remaining(text))
	text += before
	doc.artifacts, doc.caps, doc.notes = text, doc.caps.Remaining(text), append(noteTexts(notes), more...)
	return doc, err
}

// roleDocuments returns the documents, and in own the files of the checkout that only this role gets. hinted adds the plan's hint.
func (pr *prompts) roleDocuments(ctx context.Context, d promptData, role trellis.Role, hinted bool) (doc documents, own string, err error) {
	err = pr.trust.readTrusted(ctx, func() (map[string][]byte, error) {
		if doc, err = pr.documents(d); err != nil {
			return nil, err
		}
		var more []string
		if hinted {
			doc.hint, more, err = pr.planHint(d.Content.Hash, doc.caps)
			doc.notes, doc.caps = append(doc.notes, more...), doc.caps.Remaining(doc.hint)
		}
		if role != trellis.Accept {
			own, more = doc.phaseContext(string(role))
			doc.notes = append(doc.notes, more...)
		}
		return doc.shownFiles, err
	})
	return doc, own, err
}

// shownPath returns the path where an agent finds a file: those of the task are copied into the worktree.
func (pr *prompts) shownPath(path string) string {
	if name, ok := strings.CutPrefix(path, pr.store.Rel(pr.task.dir)+"/"); ok {
		return runtimeDir + "/task/" + name
	}
	return path
}

// phaseContext returns the context files that only this phase gets.
func (d documents) phaseContext(phase string) (string, []string) {
	if len(d.phaseRows[phase]) == 0 {
		return "", nil
	}
	text, notes := contextfiles.Assemble(d.source, d.phaseRows[phase], d.caps)
	return text, noteTexts(notes)
}

func noteTexts(notes []contextfiles.Note) (list []string) {
	for _, n := range notes {
		list = append(list, fmt.Sprintf("%s is not shown in full: %s", n.Path, n.Why))
	}
	return list
}

func hasPath(rows []contextfiles.Row, path string) bool {
	return slices.ContainsFunc(rows, func(r contextfiles.Row) bool { return r.Path == path })
}

// readRows returns the rows of a frozen context file, nil if there is none.
func readRows(dir, name string) ([]contextfiles.Row, error) {
	data, err := taskdir.ReadOptional(dir, name)
	if data == nil {
		return nil, err
	}
	rows, _ := contextfiles.Parse(name, data) // problems were found when the file was taken in
	return rows, nil
}

// priorDecisions returns what TaskSpec and plan say about all of the work, whoever does or judges it, within caps, and a note if
// the text was cut.
func (pr *prompts) priorDecisions(hash string, caps contextfiles.Caps) (text string, notes []string, err error) {
	var parts []string
	if spec, _ := pr.inputs.taskSpec(hash); spec != nil { // its problems were reported when it was taken in
		parts = append(parts, specText(spec))
	}
	p, err := pr.inputs.frozenPlan(hash)
	if err != nil {
		return "", nil, err
	}
	if p != nil {
		parts = append(parts, p.Basis())
	}
	if len(parts) == 0 {
		return "", nil, nil
	}
	text, notes = cutToFit(strings.Join(parts, "\n"), caps)
	return "### Decided before the work\nWhere this differs from the documents, they hold.\n\n" + text + "\n", notes, nil
}

// planHint returns the plan's text on how the work goes, within caps, and a note if the text was cut.
func (pr *prompts) planHint(hash string, caps contextfiles.Caps) (text string, notes []string, err error) {
	p, err := pr.inputs.frozenPlan(hash)
	if p == nil || err != nil {
		return "", nil, err
	}
	text, notes = cutToFit(p.Course(), caps)
	return text, notes, nil
}

// cutToFit cuts a text of the plan to the room that is left in the prompt.
func cutToFit(text string, caps contextfiles.Caps) (string, []string) {
	room := max(0, min(caps.Artifact, caps.Total))
	if len(text) <= room {
		return text, nil
	}
	rest := fmt.Sprintf("\n… %d bytes in all; the rest is in %s/task/%s and %s", len(text), runtimeDir, taskdir.Plan, taskdir.TaskSpec)
	return strings.ToValidUTF8(text[:room], "") + rest, []string{taskdir.Plan + " is not shown in full: the prompt has no room for all of it"}
}

func specText(spec *plan.TaskSpec) string {
	return "# What the requirement was taken to mean\n\n" + spec.Hint()
}

type section struct {
	title string
	lines []string
}

// decisions returns the parts of a plan that hold whatever its steps are.
func decisions(p *plan.Plan) []section {
	left := section{title: "Left out"}
	for _, u := range p.Uncovered {
		left.lines = append(left.lines, u.Item+": "+u.Reason)
	}
	return []section{{"Design decisions", p.DesignDecisions}, {"Assumptions", p.Assumptions}, left, {"Out of scope", p.OutOfScope}}
}

// write adds the section as a list under its heading, unless it is empty.
func (s section) write(b *strings.Builder) {
	if len(s.lines) == 0 {
		return
	}
	fmt.Fprintf(b, "## %s\n\n", s.title)
	for _, l := range s.lines {
		fmt.Fprintf(b, "- %s\n", text.OneLine(l))
	}
	b.WriteByte('\n')
}
