package planner

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/ask"
	"github.com/trellis-tasks/trellis/internal/flow"
	"github.com/trellis-tasks/trellis/internal/research"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/specs"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Caps of what a prompt says about the project, in bytes.
const (
	readmeCap   = 6 << 10
	workflowCap = 8 << 10
	treeCap     = 200 // entries
)

// describe is what the project is, for prompts: the head of its README, workflow.md, the index of its
// specs and its top-level tree.
func (a *Acts) describe() (text string, files bool) {
	var b strings.Builder
	root := a.Repo.Main
	for _, name := range []string{"README.md", "README", "readme.md", "README.rst"} {
		if data, err := os.ReadFile(filepath.Join(root, name)); err == nil {
			fmt.Fprintf(&b, "# %s\n\n%s\n\n", name, head(data, readmeCap))
			break
		}
	}
	if data, err := os.ReadFile(filepath.Join(root, ".trellis", "workflow.md")); err == nil {
		fmt.Fprintf(&b, "# .trellis/workflow.md\n\n%s\n\n", head(data, workflowCap))
	}
	if index := a.specIndex(); index != "" {
		fmt.Fprintf(&b, "# Guidelines (.trellis/spec)\n\n%s\n", index)
	}
	entries, err := os.ReadDir(root)
	if err == nil {
		b.WriteString("# Top of the tree\n\n")
		for i, e := range entries {
			if e.Name() == ".git" {
				continue
			}
			files = files || e.Name() != ".trellis" && e.Name() != ".gitignore"
			if i < treeCap {
				fmt.Fprintf(&b, "%s%s\n", e.Name(), map[bool]string{true: "/"}[e.IsDir()])
			}
		}
	}
	return b.String(), files
}

func head(data []byte, n int) string {
	if len(data) <= n {
		return strings.ToValidUTF8(string(data), "�")
	}
	return strings.ToValidUTF8(string(data[:n]), "") + "\n[cut here]"
}

func (a *Acts) specIndex() string {
	list, err := specs.List(a.Repo.Main)
	if err != nil {
		return ""
	}
	var b strings.Builder
	for _, s := range list {
		fmt.Fprintf(&b, "- %s", s.Path)
		for _, say := range []string{s.Description, s.ReadWhen} {
			if say != "" {
				fmt.Fprintf(&b, ": %s", say)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Slots are what a planning role's prompt is made of.
func (a *Acts) Slots(_ context.Context, _ flow.Call, r ask.Request) (map[string]string, []string, error) {
	var d about
	if err := json.Unmarshal(r.Data, &d); err != nil {
		return nil, nil, fmt.Errorf("reading the request: %w", err)
	}
	requirement, err := os.ReadFile(filepath.Join(a.Dir, taskdir.Requirement))
	if err != nil {
		return nil, nil, fmt.Errorf("reading the requirement: %w", err)
	}
	slots := map[string]string{"requirement": string(requirement), "name": d.Input.Name, "dev_type": d.Input.DevType}
	if d.Input.Feedback != "" {
		slots["feedback"] = d.Input.Feedback + a.lastRejection()
	}
	if d.Verdict != nil {
		slots["evaluation"] = fmt.Sprintf("size: %s\n%s\n%s", d.Verdict.Size, d.Verdict.Details, strings.Join(d.Verdict.Suggestions, "\n"))
	}
	if r.Role != trellis.PRD {
		if slots["project"], err = a.read(d.Project); err != nil {
			return nil, nil, err
		}
	}
	if r.Role == trellis.Research {
		slots["specs"] = a.specIndex()
		if d.Sent > 0 {
			slots["feedback"] = "The answer before this one was given without opening a single file. Look at the code first, then answer.\n" + slots["feedback"]
		}
	}
	if r.Role == trellis.PRD && d.Research != nil {
		if slots["research"], err = a.read(*d.Research); err != nil {
			return nil, nil, err
		}
	}
	return slots, nil, nil
}

// lastRejection is the verdict that the feedback is about.
func (a *Acts) lastRejection() string {
	last := ""
	for n := 1; ; n++ {
		data, err := os.ReadFile(filepath.Join(a.Dir, fmt.Sprintf("REJECTED-%d.md", n)))
		if err != nil {
			break
		}
		last = "\n\nIt answers this verdict:\n\n" + string(data)
	}
	return last
}

func (a *Acts) read(ref ask.Ref) (string, error) {
	data, err := os.ReadFile(filepath.Join(a.Dir, taskdir.Run, filepath.FromSlash(ref.Path)))
	if err != nil {
		return "", fmt.Errorf("reading what an earlier call said: %w", err)
	}
	if ask.Sum(data) != ref.SHA256 {
		return "", fmt.Errorf("%s was changed since it was written", ref.Path)
	}
	return string(data), nil
}

// Check says what a planning answer lacks beyond its schema.
func (a *Acts) Check(r ask.Request, answer json.RawMessage) []string {
	if r.Role != trellis.Research {
		return nil
	}
	res := research.Parse(answer)
	var wrong []string
	for _, name := range research.ContextFiles[:2] {
		if len(res.Context[name]) == 0 {
			wrong = append(wrong, "## "+name+": has no line of the form `- path: P, reason: R`")
		}
	}
	if len(wrong) == 1 { // one phase without context is filled with base entries
		return nil
	}
	return wrong
}

// Watch looks whether a planning agent, which may only read, changed the main checkout. People may be
// editing there, so a change is reported and stays.
func (a *Acts) Watch(ctx context.Context, _ ask.Request) (func(context.Context) ([]string, *flow.Failure, error), error) {
	before, err := a.dirty(ctx)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (notes []string, _ *flow.Failure, err error) {
		after, err := a.dirty(ctx)
		for path, state := range after {
			if before[path] != state {
				notes = append(notes, path+" was changed while an agent that may only read was at work")
			}
		}
		slices.Sort(notes)
		return notes, nil, err
	}, nil
}

// dirty are the uncommitted files of the main checkout, and how each differs.
func (a *Acts) dirty(ctx context.Context) (map[string]string, error) {
	entries, err := a.Repo.Status(ctx, a.Repo.Main, ".trellis/tasks", ".trellis/.runtime")
	if err != nil {
		return nil, err
	}
	list := map[string]string{}
	for _, e := range entries {
		list[e.Path] = e.Code
	}
	return list, nil
}

// Env is what planning agents find in their environment besides what every agent does.
func (a *Acts) Env(in Input) []string {
	env := []string{"PLAN_TASK_NAME=" + in.Name, "PLAN_DEV_TYPE=" + in.DevType, "PLAN_TASK_DIR=" + a.Dir,
		"PLAN_REQUIREMENT_FILE=" + filepath.Join(a.Dir, taskdir.Requirement)}
	if data, err := os.ReadFile(filepath.Join(a.Dir, taskdir.Requirement)); err == nil && len(data) <= 64<<10 && !strings.ContainsRune(string(data), 0) {
		env = append(env, "PLAN_REQUIREMENT="+string(data))
	}
	return env
}
