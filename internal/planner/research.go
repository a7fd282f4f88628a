package planner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/contextfiles"
	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/research"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/specs"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Research: one agent reads the code base. What it cites is checked against the main checkout and becomes research.md and the
// context files; without a usable answer only the base entries are the context.

const digest flow.Act[digestIn, Findings] = "digest"

// Findings is the result of the research, checked against the repository.
type Findings struct {
	Scope     string         `json:"scope,omitempty"`
	DevType   string         `json:"dev_type,omitempty"` // the chosen type, if nobody named one
	Commands  []string       `json:"commands,omitempty"`
	Protected []string       `json:"protected,omitempty"`
	Warnings  []string       `json:"warnings,omitempty"`
	Contexts  map[string]int `json:"contexts"`
	NewArea   bool           `json:"new_area,omitempty"` // nothing usable was found
}

type digestIn struct {
	Input    Input          `json:"input"`
	Research *agentcall.Ref `json:"research,omitempty"`
}

// exploration is what is known about the work before it is planned.
type exploration struct {
	research *agentcall.Ref // the answer of the research agent, nil if it was not usable
	findings Findings
	taskSpec *settled // nil: not asked for
}

// explore has the code base researched and, at the same time, the requirement put into a fixed form.
func (p *planning) explore(f flow.Flow, b aheadCalls) (exploration, error) {
	var e exploration
	researchTally, taskSpecTally := tally{first: b.research}, tally{first: b.taskspec}
	branches := []flow.Branch{{Name: "research", Run: func(f flow.Flow) (err error) {
		e.research, e.findings, err = p.askResearch(f, &researchTally)
		return err
	}}}
	switch {
	case p.in.NoTaskSpec:
		p.skip("TaskSpec: --no-taskspec")
	case !p.sv.TaskSpec:
		p.skip("TaskSpec: planning.taskspec is false")
	default:
		branches = append(branches, flow.Branch{Name: "taskspec", Run: func(f flow.Flow) (err error) {
			e.taskSpec, err = p.specify(f, &taskSpecTally)
			return err
		}})
	}
	err := f.All(0, branches...)
	p.addTally(researchTally)
	p.addTally(taskSpecTally)
	p.rep.Contexts, p.rep.Commands = e.findings.Contexts, e.findings.Commands
	if e.taskSpec != nil {
		p.rep.TaskSpec = &e.taskSpec.Said
	}
	return e, err
}

// askResearch has the code base researched. An answer for which no file was read, although the repository has files, is sent back
// once, unless one was sent back before. Without a usable answer only the base entries remain.
func (p *planning) askResearch(f flow.Flow, t *tally) (*agentcall.Ref, Findings, error) {
	a := promptData{Verdict: &p.rep.Verdict}
	reply, err := p.askWithTally(f, t, trellis.Research, 1, a)
	if repaired := t.isRepeated() && p.in.Code > 1; err == nil && reply.ToolCalls == 0 && p.sv.HasFiles {
		if !repaired {
			a.Sent, a.Research = 1, &reply.Text
			reply, err = p.askWithTally(f, t, trellis.Research, 0, a)
		}
		if err == nil && reply.ToolCalls == 0 {
			t.warn("the research agent looked at no file, also when asked again")
		}
	}
	ref := &reply.Text
	noAnswer := []trellis.Code{trellis.AgentProtocol, trellis.EmptyOutput} // other failures end the planning
	if fail, ok := errors.AsType[*flow.Failure](err); ok && slices.Contains(noAnswer, trellis.Code(fail.Code)) {
		t.warn("the research gave nothing usable (" + fail.Error() + "): base context only")
		ref, err = nil, nil
	}
	if err != nil {
		return nil, Findings{}, err
	}
	found, err := digest.Do(f, digestIn{p.in, ref})
	t.warnings = append(t.warnings, found.Warnings...)
	return ref, found, err
}

type researcher struct {
	files
	checkout
	config *config.Config
}

// digest turns the research answer into research.md and the three context files.
func (r researcher) digest(_ context.Context, c flow.Call, in digestIn) (f Findings, err error) {
	var res research.Report
	if in.Research != nil {
		text, err := r.read(*in.Research)
		if err != nil {
			return f, err
		}
		if err := r.rewrite(c, taskdir.Research, []byte(text)); err != nil {
			return f, err
		}
		res = research.Parse([]byte(text))
	}
	f.Contexts, f.NewArea = map[string]int{}, len(res.Context) == 0
	if in.Input.ChooseType {
		f.DevType = kindOf(res)
		in.Input.DevType = f.DevType
	}
	var found []string
	for _, name := range research.ContextFiles {
		rows, warnings := r.validRows(name, res.Context[name])
		f.Warnings = append(f.Warnings, warnings...)
		for _, r := range rows {
			found = append(found, r.Path)
		}
		rows, err := r.withBase(in.Input, rows, found)
		if err != nil {
			return f, err
		}
		f.Contexts[name] = len(rows)
		if err := r.rewrite(c, name, contextfiles.Render(rows)); err != nil {
			return f, err
		}
	}
	f.Scope = res.Scope
	if f.Scope == "" || len(f.Scope) > trellis.MaxName {
		f.Scope, _, _ = strings.Cut(in.Input.Name, "-")
	}
	r.addConfirmed(r.decidingCommands(in.Input.Verify), res, &f)
	f.Warnings = agentcall.TruncateList(f.Warnings, maxWarnings)
	return f, nil
}

// kindOf returns the kind of work, by the files that a research says have to be changed, or else read. If there are none it is the
// kind for both sides.
func kindOf(res research.Report) string {
	cited := res.Context[taskdir.ImplementContext]
	if len(cited) == 0 {
		cited = res.Context[taskdir.CheckContext]
	}
	var paths []string
	for _, c := range cited {
		paths = append(paths, c.Path)
	}
	return trellis.KindOfFiles(paths)
}

// decidingCommands returns the verify commands that a person named: those of the task, or else those of the configuration.
func (r researcher) decidingCommands(task []string) []string {
	if len(task) > 0 {
		return task
	}
	return r.config.Verify
}

// addConfirmed adds the commands that can run here, first those of a person, then those of the research, and the paths that the
// research says must not be modified. What exceeds the limits is left out with a warning.
func (r researcher) addConfirmed(verify []string, res research.Report, f *Findings) {
	var left int
	r.addRunnable("verify", verify, f)
	r.addRunnable("research.md", res.Commands, f)
	if f.Commands, left = cutList(f.Commands, maxCommands); left > 0 {
		f.Warnings = slices.Insert(f.Warnings, 0, fmt.Sprintf("there are so many verification commands that the last %d of them are left out", left))
	}
	if f.Protected, left = cutList(res.Protected, maxProtected); left > 0 {
		f.Warnings = slices.Insert(f.Warnings, 0, fmt.Sprintf("research.md: it names so many paths that are not to be modified that the last %d of them are left out", left))
	}
}

// addRunnable adds the commands that can run here; from is their source.
func (r researcher) addRunnable(from string, commands []string, f *Findings) {
	for _, c := range commands {
		c = strings.TrimSpace(c)
		if why := r.missing(c); why != "" {
			f.Warnings = append(f.Warnings, fmt.Sprintf("%s: verification command `%s` is left out: %s", from, c, why))
			continue
		}
		if !slices.Contains(f.Commands, c) {
			f.Commands = append(f.Commands, c)
		}
	}
}

// validRows returns the cited paths that can be context.
func (r researcher) validRows(name string, list []research.Citation) (rows []contextfiles.Row, warnings []string) {
	for _, c := range list {
		rows = append(rows, newRow(c.Line, c.Path, c.Reason))
	}
	valid, problems := contextfiles.Checker{Root: r.repo.Main}.Check(taskdir.Research, rows)
	for _, p := range problems {
		if !p.Warning {
			warnings = append(warnings, fmt.Sprintf("%s:%d: left out of %s: %s", taskdir.Research, p.Line, name, p.Message))
		}
	}
	return valid, warnings
}

func newRow(line int, path, reason string) contextfiles.Row {
	r := contextfiles.Row{Line: line, Path: path, Reason: reason, Type: "file"}
	if strings.HasSuffix(path, "/") {
		r.Type = "directory"
	}
	return r
}

// withBase returns the entries that every task of this kind gets, followed by those that a person named, and by rows.
func (r researcher) withBase(in Input, rows []contextfiles.Row, found []string) ([]contextfiles.Row, error) {
	base, err := specs.Base(r.repo.Main, in.DevType, in.Package, found)
	if err != nil {
		return nil, err
	}
	var all, named []contextfiles.Row
	for _, b := range base {
		all = append(all, contextfiles.Row{Path: b.Path, Reason: b.Reason, Type: "file"})
	}
	for _, path := range in.Context {
		named = append(named, newRow(0, path, "named with --context"))
	}
	for _, r := range append(named, rows...) {
		if !slices.ContainsFunc(all, func(o contextfiles.Row) bool { return o.Path == r.Path }) {
			all = append(all, r)
		}
	}
	return all, nil
}

// addResearch adds what the research agent gets besides the requirement.
func (s *slotBuilder) addResearch(d promptData) {
	s.addFile("project", &d.Project)
	s.addContextFiles(d.Input.Context)
	s.values["specs"] = s.specIndex()
	if d.Sent > 0 {
		s.values["feedback"] = "The answer before this one was given without opening a single file. Look at the code first, then answer.\n" + s.values["feedback"]
	}
}

// emptyContexts returns the faults of a research that leaves implement.jsonl and check.jsonl empty; nil if only one is.
func emptyContexts(answer []byte) (wrong []string) {
	res := research.Parse(answer)
	for _, name := range research.ContextFiles[:2] {
		if len(res.Context[name]) == 0 {
			wrong = append(wrong, "## "+name+": has no line of the form `- path: P, reason: R`")
		}
	}
	if len(wrong) == 1 { // if only one is empty, base entries fill it
		return nil
	}
	return wrong
}
