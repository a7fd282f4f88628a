package planner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/research"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// prompts makes the prompts of the planning roles, and checks their answers.
type prompts struct {
	drafter
	record  record
	trusted func(ctx context.Context, texts map[string][]byte) error
}

// slots returns the slots of a planning role's prompt.
func (p prompts) slots(ctx context.Context, _ flow.Call, r agentcall.Request) (map[string]string, []string, error) {
	var d promptData
	if err := json.Unmarshal(r.Data, &d); err != nil {
		return nil, nil, fmt.Errorf("reading the request: %w", err)
	}
	requirement, err := p.record.requirement()
	if err != nil {
		return nil, nil, err
	}
	at := func(name string) string { return filepath.ToSlash(p.record.store.Rel(filepath.Join(p.dir, name))) }
	texts := map[string][]byte{at(taskdir.Requirement): requirement}
	s := slotBuilder{prompts: p, values: map[string]string{"requirement": string(requirement)}}
	s.values["constraints"] = strings.Join(d.Input.Constraints, "\n")
	s.values["background"] = strings.Join(d.Input.Background, "\n\n")
	if d.Input.Feedback != "" {
		s.values["feedback"] = d.Input.Feedback
		name, verdict := p.lastRejection()
		if name != "" {
			s.values["feedback"] += "\n\nIt answers this verdict:\n\n" + string(verdict)
			texts[at(name)] = verdict
		}
	}
	if p.trusted != nil {
		if err := p.trusted(ctx, texts); err != nil {
			return nil, nil, err
		}
	}
	if r.Role != trellis.Judge {
		s.values["name"], s.values["dev_type"] = d.Input.Name, d.Input.DevType
	}
	if d.Verdict != nil && r.Role != trellis.Judge {
		s.values["evaluation"] = fmt.Sprintf("size: %s\n%s\n%s", d.Verdict.Size, d.Verdict.Details, strings.Join(d.Verdict.Suggestions, "\n"))
	}
	switch r.Role {
	case trellis.Evaluate:
		s.addEvaluate(d)
	case trellis.Research:
		s.addResearch(d)
	case trellis.PRD:
		s.addFile("research", d.Research)
		s.addContextFiles(d.Input.Context)
	case trellis.Plan:
		s.addPlan(d)
	case trellis.Judge:
		s.addJudge(d)
	}
	return s.values, s.notes, s.err
}

// slotBuilder collects the slots of one prompt.
type slotBuilder struct {
	prompts
	values map[string]string
	notes  []string
	err    error
}

func (s *slotBuilder) addFile(slot string, ref *agentcall.Ref) {
	if ref == nil || s.err != nil {
		return
	}
	s.values[slot], s.err = s.read(*ref)
}

// addGround adds what was found out before the plan.
func (s *slotBuilder) addGround(g *ground) {
	if g == nil {
		return
	}
	s.values["commands"], s.values["protected"] = strings.Join(g.Commands, "\n"), strings.Join(g.Protected, "\n")
	if g.TaskSpec == nil || s.err != nil {
		return
	}
	f, err := s.facts(*g)
	if s.err = err; err == nil {
		s.values["taskspec"] = f.Spec.Hint()
	}
}

// contextCap is how much of each file that a person named a prompt shows, in bytes.
const contextCap = 16 << 10

func (s *slotBuilder) addContextFiles(paths []string) {
	var b strings.Builder
	for _, path := range paths {
		if strings.HasSuffix(path, "/") {
			fmt.Fprintf(&b, "# %s\n\nA folder. Look into it.\n\n", path)
			continue
		}
		data, err := durable.ReadBelow(s.repo.Main, path, durable.MaxRecords)
		if err != nil {
			s.notes = append(s.notes, fmt.Sprintf("%s, which was named with --context, is not shown: %v", path, err))
			continue
		}
		if len(data) > contextCap {
			s.notes = append(s.notes, fmt.Sprintf("%s, which was named with --context, is not shown in full: %d of %d bytes", path, contextCap, len(data)))
		}
		fmt.Fprintf(&b, "# %s\n\n%s\n\n", path, head(data, contextCap))
	}
	s.values["context"] = b.String()
}

// check returns what is wrong with a planning answer besides violations of its schema.
func (p prompts) check(r agentcall.Request, answer json.RawMessage) []string {
	switch r.Role {
	case trellis.TaskSpec, trellis.PRD:
		return answerFaults(r.Role, answer)
	case trellis.Research:
		return emptyContexts(answer)
	case trellis.Judge:
		return p.judgeFaults(r, answer)
	case trellis.Plan:
		var d promptData
		if err := json.Unmarshal(r.Data, &d); err != nil || d.Ground == nil {
			return []string{fmt.Sprintf("/: the request can't be read: %v", err)}
		}
		return p.faults(*d.Ground, answer)
	}
	return nil
}

// mend fixes what can be fixed in an answer without another call.
func (p prompts) mend(r agentcall.Request, answer json.RawMessage) (mended json.RawMessage, notes []string) {
	switch r.Role {
	case trellis.TaskSpec:
		return plan.RepairTaskSpec(answer)
	case trellis.Plan:
		return p.convertTascer(r, answer)
	}
	return answer, nil
}

// Preview returns the slots of the prompt that an agent in a planning role would get for the task as it is now.
func (d Deps) Preview(ctx context.Context, role trellis.Role, in Input) (map[string]string, error) {
	a, err := d.researcher().previewData(in)
	if err != nil {
		return nil, err
	}
	dir := d.record().relative()
	if _, err := os.Lstat(filepath.Join(d.Dir, taskdir.Requirement)); errors.Is(err, fs.ErrNotExist) {
		return nil, &trellis.Problem{File: dir + "/" + taskdir.Requirement, Message: "there is none: nobody planned this task", Hint: "write what is wanted into it"}
	}
	if role == trellis.Judge && a.Plan == nil {
		return nil, &trellis.Problem{File: dir, Message: "there is no plan.json to judge yet", Hint: "trellis plan --retry " + trellis.ShellWord(dir)}
	}
	if role == trellis.Plan {
		a.Plan = nil // as for the first plan
	}
	data, err := agentcall.Encode(a)
	if err != nil {
		return nil, err
	}
	slots, _, err := d.prompts().slots(ctx, flow.Call{}, agentcall.Request{Role: role, Data: data})
	return slots, err
}

// previewData returns the data of a planning that has got as far as the files of the directory.
func (r researcher) previewData(in Input) (a promptData, err error) {
	text, _ := r.describe()
	a = promptData{Input: in, Ground: &ground{}}
	if a.Project, err = r.keepPreview("project.md", []byte(text)); err != nil {
		return a, err
	}
	for name, to := range map[string]**agentcall.Ref{taskdir.Research: &a.Research, taskdir.TaskSpec: &a.Ground.TaskSpec, taskdir.Plan: &a.Plan} {
		if *to, err = r.copyForPreview(name); err != nil {
			return a, err
		}
	}
	var report research.Report
	if a.Research != nil {
		text, err := r.read(*a.Research)
		if err != nil {
			return a, err
		}
		report = research.Parse([]byte(text))
	}
	var found Findings
	r.addConfirmed(r.decidingCommands(in.Verify), report, &found)
	a.Ground.Commands, a.Ground.Protected = found.Commands, found.Protected
	return a, nil
}

// copyForPreview returns a reference to a copy of a file of the directory, nil if there is none.
func (f files) copyForPreview(name string) (*agentcall.Ref, error) {
	data, err := taskdir.ReadOptional(f.dir, name)
	if data == nil {
		return nil, err
	}
	ref, err := f.keepPreview(name, data)
	return &ref, err
}

func (f files) keepPreview(name string, data []byte) (agentcall.Ref, error) {
	return f.keepAt(filepath.Join("preview", name), data)
}
