package planner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/research"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// maxConstraints is how many a TaskSpec has at most.
const maxConstraints = 12

// settle keeps the TaskSpec, or a stub of the requirement. What a person gave as a constraint is in it in any case.
func (a *Acts) settle(_ context.Context, c flow.Call, in settleIn) (out settled, err error) {
	var spec plan.TaskSpec
	if out.Said.Stub = in.Answer == nil; out.Said.Stub {
		requirement, err := taskdir.ReadFile(a.Dir, taskdir.Requirement)
		if err != nil {
			return out, fmt.Errorf("reading the requirement: %w", err)
		}
		spec = plan.Stub(agentcall.Within(string(requirement), plan.MaxBytes/2)) // a larger one could not be read
	} else {
		s, problems := plan.ParseTaskSpec(in.Answer)
		if s == nil {
			return out, fmt.Errorf("reading the TaskSpec: %v", problems)
		}
		spec = *s
	}
	all := append([]string{}, in.Constraints...)
	for _, said := range spec.Constraints {
		switch {
		case slices.Contains(all, said):
		case len(all) < maxConstraints:
			all = append(all, said)
		default:
			out.Warnings = append(out.Warnings, fmt.Sprintf("taskspec.json has no room for its constraint %q beside those that were given", said))
		}
	}
	spec.Constraints, out.Warnings = all, agentcall.Few(out.Warnings, maxNoted)
	out.Said.Valid, out.Said.Goals, out.Said.Acceptance, out.Said.Priority = !out.Said.Stub, len(spec.Goals), len(spec.Acceptance), spec.Priority
	out.Spec, err = a.keep(c, taskdir.TaskSpec, indented(spec))
	return out, err
}

// indented is v as people read JSON.
func indented(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		panic(err) // our own types have a JSON form
	}
	return b.Bytes()
}

// keep writes a file of this call below run/ and returns its name there.
func (a *Acts) keep(c flow.Call, name string, data []byte) (agentcall.Ref, error) {
	rel := filepath.Join(agentcall.Folder(c), name)
	path := filepath.Join(a.Dir, taskdir.Run, rel)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return agentcall.Ref{}, fmt.Errorf("keeping %s: %w", name, err)
	}
	return agentcall.Ref{Path: filepath.ToSlash(rel), SHA256: agentcall.Sum(data), Bytes: len(data)}, a.Disk.WriteFile(path, data, 0o600)
}

// facts are what a plan is checked against in this project.
func (a *Acts) facts(g ground) (plan.Facts, error) {
	f := plan.Facts{MaxSteps: a.Config.Planning.MaxSteps, Exists: a.exists, Missing: a.project().Missing, Confirmed: &g.Commands}
	if g.TaskSpec == nil {
		return f, nil
	}
	text, err := a.read(*g.TaskSpec)
	if err != nil {
		return f, err
	}
	var problems []string
	if f.Spec, problems = plan.ParseTaskSpec([]byte(text)); f.Spec == nil {
		return f, fmt.Errorf("reading the TaskSpec: %v", problems)
	}
	return f, nil
}

// exists reports whether the main checkout has a path.
func (a *Acts) exists(path string) (bool, error) {
	root, err := os.OpenRoot(a.Repo.Main)
	if err != nil {
		return false, err
	}
	defer root.Close()
	_, err = root.Stat(filepath.FromSlash(path))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// faults says what is wrong with a planned answer.
func (a *Acts) faults(g ground, answer json.RawMessage) []string {
	f, err := a.facts(g)
	if err != nil {
		return []string{"/: " + err.Error()}
	}
	p, problems := plan.Parse(answer)
	if p != nil {
		problems = append(problems, p.Check(f)...)
		if len(p.Requirements) == 0 {
			problems = append(problems, plan.Problem{Pointer: "/requirements", Message: "name at least one: they become prd.md"})
		}
		if oneLine(p.Summary) == "" {
			problems = append(problems, plan.Problem{Pointer: "/summary", Message: "say in a paragraph what is done, for whom and why: it becomes prd.md"})
		}
	}
	var wrong []string
	for _, p := range problems {
		if !p.Warning {
			wrong = append(wrong, p.Words())
		}
	}
	return wrong
}

// draft keeps a plan that the checks found nothing in, in the form that plan.json is going to have.
func (a *Acts) draft(_ context.Context, c flow.Call, in draftIn) (d Draft, err error) {
	text, err := plan.Format(in.Answer)
	if err != nil {
		return d, err
	}
	facts, err := a.facts(in.Ground)
	if err != nil {
		return d, err
	}
	p, problems := plan.Parse(text)
	if p == nil {
		return d, flow.Fail(string(trellis.Internal), "plan.json can't be read any more: %s", problems[0].Words())
	}
	for _, p := range append(problems, p.Check(facts)...) {
		d.Warnings = append(d.Warnings, taskdir.Plan+": "+p.Words())
	}
	d.Warnings = agentcall.Few(d.Warnings, maxNoted)
	d.Title, d.Steps = title(p.Title), len(p.Steps)
	d.Guarded = p.Protected(func(path string) bool {
		return config.Protects(append(slices.Clone(a.Config.Protected), in.Ground.Protected...), path)
	})
	d.Plan, err = a.keep(c, taskdir.Plan, text)
	return d, err
}

// maxNotes is how much of the research's technical notes prd.md holds, in bytes.
const maxNotes = 8 << 10

// technicalNotes are those of the research.
func (a *Acts) technicalNotes(ref *agentcall.Ref) (string, error) {
	if ref == nil {
		return "", nil
	}
	text, err := a.read(*ref)
	return agentcall.Within(research.Parse([]byte(text)).Notes, maxNotes), err
}

// plannedDocument is prd.md of a plan.
func (a *Acts) plannedDocument(in writeIn, of *roadmapStep) (Document, error) {
	text, err := a.read(*in.Plan)
	if err != nil {
		return Document{}, err
	}
	p, problems := plan.Parse([]byte(text))
	if p == nil {
		return Document{}, fmt.Errorf("reading the plan: %s", problems[0].Words())
	}
	d := Document{Title: title(p.Title), Summary: p.Summary, Requirements: p.Requirements, DesignDecisions: p.DesignDecisions, OutOfScope: p.OutOfScope}
	of.take(p)
	for _, c := range p.Acceptance {
		d.Acceptance = append(d.Acceptance, Criterion{Criterion: c.Criterion, Verify: c.Verify, Level: c.Level})
	}
	d.TechnicalNotes, err = a.technicalNotes(in.Research)
	return d, err
}

// place writes files of the planning into the directory. One that this planning has not got goes: it is an earlier
// planning's.
func (a *Acts) place(c flow.Call, name string, ref *agentcall.Ref) error {
	if ref == nil {
		return a.discard(c, name)
	}
	text, err := a.read(*ref)
	if err != nil {
		return err
	}
	return a.rewrite(c, name, []byte(text))
}

// rewrite gives a file of the planning its content. What it had, which a person may have saved meanwhile, is kept with
// this call.
func (a *Acts) rewrite(c flow.Call, name string, text []byte) error {
	return a.Disk.Edit(filepath.Join(a.Dir, name), func(old []byte) ([]byte, error) {
		return text, a.keepOther(c, name, old, text)
	})
}

// discard removes a file that the planning has not got, and keeps what it had.
func (a *Acts) discard(c flow.Call, name string) error {
	path := filepath.Join(a.Dir, name)
	old, err := durable.ReadSettled(path)
	if err == nil {
		err = a.keepOther(c, name, old, nil)
	}
	if err == nil {
		err = os.Remove(path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing %s of an earlier planning: %w", name, err)
	}
	return nil
}

// keepOther keeps what a file had before, when it is to have something else.
func (a *Acts) keepOther(c flow.Call, name string, old, text []byte) error {
	if len(old) == 0 || bytes.Equal(old, text) {
		return nil
	}
	_, err := a.keep(c, filepath.Join("before", name), old)
	return err
}

// replaced are the files that a planning writes anew.
var replaced = []string{taskdir.PRD, taskdir.Plan, taskdir.TaskSpec, taskdir.Research, taskdir.ImplementContext, taskdir.CheckContext, taskdir.DebugContext}

// keepReplaced copies what the directory holds of them, since a person may have edited it.
func (a *Acts) keepReplaced(c flow.Call) (kept map[string]agentcall.Ref, err error) {
	kept = map[string]agentcall.Ref{}
	for _, name := range replaced {
		data, err := taskdir.ReadFile(a.Dir, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("keeping what an earlier planning wrote: %w", err)
		}
		if kept[name], err = a.keep(c, filepath.Join("before", name), data); err != nil {
			return nil, err
		}
	}
	return kept, nil
}
