package planner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/plan"
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
		if data, err := durable.ReadBelow(root, name, durable.MaxDocument); err == nil {
			fmt.Fprintf(&b, "# %s\n\n%s\n\n", name, head(data, readmeCap))
			break
		}
	}
	if data, err := durable.ReadBelow(root, ".trellis/workflow.md", durable.MaxDocument); err == nil {
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
func (a *Acts) Slots(ctx context.Context, _ flow.Call, r agentcall.Request) (map[string]string, []string, error) {
	var d about
	if err := json.Unmarshal(r.Data, &d); err != nil {
		return nil, nil, fmt.Errorf("reading the request: %w", err)
	}
	requirement, err := taskdir.ReadFile(a.Dir, taskdir.Requirement)
	if err != nil {
		return nil, nil, a.unasked(err)
	}
	at := func(name string) string { return filepath.ToSlash(a.Store.Rel(filepath.Join(a.Dir, name))) }
	texts := map[string][]byte{at(taskdir.Requirement): requirement}
	s := slots{a: a, said: map[string]string{"requirement": string(requirement)}}
	s.said["constraints"] = strings.Join(d.Input.Constraints, "\n")
	s.said["background"] = strings.Join(d.Input.Background, "\n\n")
	if d.Input.Feedback != "" {
		s.said["feedback"] = d.Input.Feedback
		name, verdict := a.lastRejection()
		if name != "" {
			s.said["feedback"] += "\n\nIt answers this verdict:\n\n" + string(verdict)
			texts[at(name)] = verdict
		}
	}
	if a.Trusted != nil {
		if err := a.Trusted(ctx, texts); err != nil {
			return nil, nil, err
		}
	}
	if r.Role != trellis.Judge {
		s.said["name"], s.said["dev_type"] = d.Input.Name, d.Input.DevType
	}
	if d.Verdict != nil && r.Role != trellis.Judge {
		s.said["evaluation"] = fmt.Sprintf("size: %s\n%s\n%s", d.Verdict.Size, d.Verdict.Details, strings.Join(d.Verdict.Suggestions, "\n"))
	}
	switch r.Role {
	case trellis.Evaluate:
		s.file("project", &d.Project)
	case trellis.Research:
		s.file("project", &d.Project)
		s.named(d.Input.Context)
		s.said["specs"] = a.specIndex()
		if d.Sent > 0 {
			s.said["feedback"] = "The answer before this one was given without opening a single file. Look at the code first, then answer.\n" + s.said["feedback"]
		}
	case trellis.PRD:
		s.file("research", d.Research)
		s.named(d.Input.Context)
	case trellis.Plan:
		s.named(d.Input.Context)
		s.plan(d)
	case trellis.Judge:
		s.judge(d)
	}
	return s.said, s.notes, s.err
}

// unasked is the error of a directory that nobody planned.
func (a *Acts) unasked(err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the requirement: %w", err)
	}
	return &trellis.Problem{File: a.relative() + "/" + taskdir.Requirement, Message: "there is none: nobody planned this task", Hint: "write what is wanted into it"}
}

// slots gathers what goes into a prompt.
type slots struct {
	a     *Acts
	said  map[string]string
	notes []string
	err   error
}

// file puts a kept file into a slot.
func (s *slots) file(slot string, ref *agentcall.Ref) {
	if ref == nil || s.err != nil {
		return
	}
	s.said[slot], s.err = s.a.read(*ref)
}

func (s *slots) plan(d about) {
	s.file("research", d.Research)
	s.file("previous", d.Plan)
	s.said["specs"], s.said["max_steps"] = s.a.specIndex(), strconv.Itoa(s.a.Config.Planning.MaxSteps)
	s.ground(d.Ground)
	s.said["problems"], s.said["verdicts"] = sentBack(d.Tries, byChecks), sentBack(d.Tries, byJudge)
}

func (s *slots) judge(d about) {
	s.file("research", d.Research)
	s.file("plan", d.Plan)
	s.ground(d.Ground)
	delete(s.said, "protected")
}

// ground is what was found out before the plan.
func (s *slots) ground(g *ground) {
	if g == nil {
		return
	}
	s.said["commands"], s.said["protected"] = strings.Join(g.Commands, "\n"), strings.Join(g.Protected, "\n")
	if g.TaskSpec == nil || s.err != nil {
		return
	}
	f, err := s.a.facts(*g)
	if s.err = err; err == nil {
		s.said["taskspec"] = f.Spec.Hint()
	}
}

// sentBack is what plans came back with, round by round.
func sentBack(tries []try, by string) string {
	var b strings.Builder
	for i, t := range tries {
		if t.By == by {
			fmt.Fprintf(&b, "Plan %d:\n", i+1)
			bullets(&b, t.Said)
		}
	}
	return b.String()
}

// contextCap is how much of one file that a person named a prompt shows, in bytes.
const contextCap = 16 << 10

// named shows the files that a person named.
func (s *slots) named(paths []string) {
	var b strings.Builder
	for _, path := range paths {
		if strings.HasSuffix(path, "/") {
			fmt.Fprintf(&b, "# %s\n\nA folder. Look into it.\n\n", path)
			continue
		}
		data, err := durable.ReadBelow(s.a.Repo.Main, path, durable.MaxRecords)
		if err != nil {
			s.notes = append(s.notes, fmt.Sprintf("%s, which was named with --context, is not shown: %v", path, err))
			continue
		}
		if len(data) > contextCap {
			s.notes = append(s.notes, fmt.Sprintf("%s, which was named with --context, is not shown in full: %d of %d bytes", path, contextCap, len(data)))
		}
		fmt.Fprintf(&b, "# %s\n\n%s\n\n", path, head(data, contextCap))
	}
	s.said["context"] = b.String()
}

// lastRejection is the verdict that the feedback is about, and its file, "" when there is none.
func (a *Acts) lastRejection() (file string, verdict []byte) {
	for n := 1; ; n++ {
		next := fmt.Sprintf("REJECTED-%d.md", n)
		data, err := taskdir.ReadFile(a.Dir, next)
		if err != nil {
			return file, verdict
		}
		file, verdict = next, data
	}
}

func (a *Acts) read(ref agentcall.Ref) (string, error) {
	data, err := durable.ReadBelow(filepath.Join(a.Dir, taskdir.Run), ref.Path, durable.MaxJournal)
	if err != nil {
		return "", fmt.Errorf("reading what an earlier call said: %w", err)
	}
	if agentcall.Sum(data) != ref.SHA256 {
		return "", fmt.Errorf("%s was changed since it was written", ref.Path)
	}
	return string(data), nil
}

// Check says what a planning answer lacks beyond its schema.
func (a *Acts) Check(r agentcall.Request, answer json.RawMessage) []string {
	switch r.Role {
	case trellis.TaskSpec, trellis.PRD:
		return unkept(r.Role, answer)
	case trellis.Research:
		return unread(answer)
	case trellis.Judge:
		return a.undecided(r, answer)
	case trellis.Plan:
		var d about
		if err := json.Unmarshal(r.Data, &d); err != nil || d.Ground == nil {
			return []string{fmt.Sprintf("/: the request can't be read: %v", err)}
		}
		return a.faults(*d.Ground, answer)
	}
	return nil
}

// Mend puts right what costs nothing in an answer.
func (a *Acts) Mend(r agentcall.Request, answer json.RawMessage) (mended json.RawMessage, notes []string) {
	switch r.Role {
	case trellis.TaskSpec:
		return plan.Salvage(answer)
	case trellis.Plan:
		return a.adopt(r, answer)
	}
	return answer, nil
}

// adopt takes over a plan that is in the form of tascer.
func (a *Acts) adopt(r agentcall.Request, answer json.RawMessage) (json.RawMessage, []string) {
	var d about
	if json.Unmarshal(r.Data, &d) != nil || d.Ground == nil {
		return answer, nil
	}
	f, err := a.facts(*d.Ground)
	if err != nil {
		return answer, nil // the check says so
	}
	ours, passed, adopted := plan.Adopt(answer, f)
	if !adopted {
		return answer, nil
	}
	notes := []string{"the plan came in the form of tascer: it is taken over as a plan.json"}
	for _, p := range passed {
		notes = append(notes, "tascer: "+p.Words())
	}
	return ours, notes
}

// unkept says that an answer is too large to stand in a record beside what people say, and of a TaskSpec what keeps
// it from being read.
func unkept(role trellis.Role, answer json.RawMessage) (wrong []string) {
	if n := agentcall.Recorded(answer); n > maxShort {
		return []string{agentcall.TooLong(n, maxShort)}
	}
	if role == trellis.TaskSpec {
		_, wrong = plan.ParseTaskSpec(answer)
	}
	return wrong
}

// unread says which context a research lacks.
func unread(answer []byte) (wrong []string) {
	res := research.Parse(answer)
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

// undecided says where a judge contradicts itself or does not say what to mend.
func (a *Acts) undecided(r agentcall.Request, answer []byte) []string {
	var o Opinion
	var d about
	if err := errors.Join(json.Unmarshal(answer, &o), json.Unmarshal(r.Data, &d)); err != nil {
		return []string{"/: " + err.Error()}
	}
	all := true
	for _, met := range o.Criteria {
		all = all && met
	}
	switch {
	case len(o.Criteria) > 0 && o.Pass != all:
		return []string{"/pass: is true exactly when all criteria are"}
	case !o.Pass && !a.namesStep(d.Plan, o.Feedback):
		return []string{"/feedback: name the id of a step and what to change in it"}
	}
	return nil
}

// namesStep reports whether a text names a step of the plan.
func (a *Acts) namesStep(ref *agentcall.Ref, text string) bool {
	if ref == nil {
		return false
	}
	said, err := a.read(*ref)
	if err != nil {
		return false
	}
	p, _ := plan.Parse([]byte(said))
	return p != nil && slices.ContainsFunc(p.IDs(), func(id string) bool { return mentions(text, id) })
}

// mentions reports whether a text has an id as a word of its own. `add` is not meant by "address".
func mentions(text, id string) bool {
	words := strings.FieldsFunc(strings.ReplaceAll(text, `\_`, "_"), func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return slices.ContainsFunc(words, func(w string) bool { return strings.Trim(w, "_") == id })
}

// Watch looks whether the main checkout was changed while a planning agent, which may only read, was at work. People
// may be editing there, so a change is reported and stays. What was seen after one call is what the next begins with.
func (a *Acts) Watch(ctx context.Context, _ flow.Call, _ agentcall.Request) (func(context.Context) ([]string, *flow.Failure, error), error) {
	before, err := a.lastSeen(ctx)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (notes []string, _ *flow.Failure, err error) {
		after, err := a.looks(ctx)
		if err != nil {
			return nil, nil, err
		}
		for _, path := range after.Since(*before) {
			notes = append(notes, path+" was changed while an agent that may only read was at work")
		}
		a.mu.Lock()
		a.seen = after
		a.mu.Unlock()
		return notes, nil, nil
	}, nil
}

func (a *Acts) lastSeen(ctx context.Context) (*git.Looks, error) {
	a.mu.Lock()
	seen := a.seen
	a.mu.Unlock()
	if seen != nil {
		return seen, nil
	}
	return a.looks(ctx)
}

// looks is how the main checkout looks, without what is Trellis' own.
func (a *Acts) looks(ctx context.Context) (*git.Looks, error) {
	l, err := a.Repo.LooksOf(ctx, a.Repo.Main, ".trellis/tasks", ".trellis/objectives", ".trellis/.runtime")
	return &l, err
}

// Env is what planning agents find in their environment besides what every agent does.
func (a *Acts) Env(in Input) []string {
	env := []string{"PLAN_TASK_NAME=" + in.Name, "PLAN_DEV_TYPE=" + in.DevType, "PLAN_TASK_DIR=" + a.Dir,
		"PLAN_REQUIREMENT_FILE=" + filepath.Join(a.Dir, taskdir.Requirement)}
	if data, err := taskdir.ReadFile(a.Dir, taskdir.Requirement); err == nil && len(data) <= 64<<10 && !strings.ContainsRune(string(data), 0) {
		env = append(env, "PLAN_REQUIREMENT="+string(data))
	}
	return env
}
