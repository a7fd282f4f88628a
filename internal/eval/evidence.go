package eval

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/contextfiles"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/research"
	"github.com/trellis-tasks/trellis/taskdir"
)

// evidence is what a planning left on disk. The planner's own statements about itself are not part of it.
type evidence struct {
	task             *taskdir.Task
	prdText          string   // requirements and acceptance criteria of prd.md
	criteriaCommands []string // commands of its acceptance criteria
	contextPaths     []string // paths in context files
	research         research.Report
	plan             *plan.Plan // nil: there is no plan.json; empty: it is not valid
	planProblems     []string   // why plan.json is not valid
	project          research.Project
}

func readEvidence(p *Project, repo, dir string) (e evidence, err error) {
	e.project = research.Project{Root: repo, LookPath: p.LookPath}
	if e.task, err = (taskdir.Store{Root: repo}).Load(dir); err != nil {
		return e, err
	}
	prd, err := read(filepath.Join(dir, taskdir.PRD))
	if err != nil {
		return e, err
	}
	acceptance := section(prd, "Acceptance Criteria")
	e.prdText, e.criteriaCommands = section(prd, "Requirements")+acceptance, commandsIn(acceptance)
	found, err := read(filepath.Join(dir, taskdir.Research))
	if err != nil {
		return e, err
	}
	e.research = research.Parse([]byte(found))
	if e.contextPaths, err = contextPaths(dir); err != nil {
		return e, err
	}
	return e, e.readPlan(filepath.Join(dir, taskdir.Plan))
}

func (e *evidence) readPlan(file string) error {
	text, err := read(file)
	if err != nil || text == "" {
		return err
	}
	p, problems := plan.Parse([]byte(text))
	for _, problem := range problems {
		if !problem.Warning {
			e.planProblems = append(e.planProblems, problem.ForModel())
		}
	}
	if e.plan = p; p == nil {
		e.plan = &plan.Plan{}
	}
	return nil
}

func read(file string) (string, error) {
	data, err := taskdir.ReadFile(filepath.Dir(file), filepath.Base(file))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("reading what was planned: %w", err)
	}
	return string(data), nil
}

// section returns the part of prd.md below a heading. Trellis rendered the file, so no heading is inside a code fence.
func section(prd, heading string) string {
	_, rest, _ := strings.Cut("\n"+prd, "\n## "+heading+"\n")
	text, _, _ := strings.Cut(rest, "\n## ")
	return text
}

// commandsIn returns the commands below checkboxes, in the format of prd.md.
func commandsIn(acceptance string) (list []string) {
	for line := range strings.Lines(acceptance) {
		if span, ok := strings.CutPrefix(line, "  verify: "); ok {
			list = append(list, strings.Trim(strings.TrimSpace(span), "` "))
		}
	}
	return list
}

func contextPaths(dir string) (paths []string, err error) {
	names, err := taskdir.ContextFiles(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := read(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		rows, _ := contextfiles.Parse(name, []byte(text)) // invalid lines are skipped
		for _, r := range rows {
			if !slices.Contains(paths, r.Path) {
				paths = append(paths, r.Path)
			}
		}
	}
	return paths, nil
}

func (e evidence) changedPaths() (paths []string) {
	if e.plan != nil {
		for _, f := range e.plan.Files {
			paths = append(paths, f.Path)
		}
	}
	return paths
}

// decidingCommands returns the project's commands that decide about the work: those in the last steps of plan.json or, without one,
// those that the research found and that acceptance criteria name.
func (e evidence) decidingCommands() (commands []string) {
	if e.plan != nil {
		return e.plan.Verification()
	}
	for _, c := range e.research.Commands {
		if e.project.Missing(c) == "" {
			commands = append(commands, c)
		}
	}
	return append(commands, e.criteriaCommands...)
}

// proofCommands returns all commands with which the planner wants something to be proven.
func (e evidence) proofCommands() []string {
	commands := slices.Concat(e.research.Commands, e.criteriaCommands)
	if e.plan != nil {
		commands = append(commands, e.plan.Verification()...)
		for _, s := range allSteps(e.plan.Steps) {
			if s.Verify != "" && !strings.Contains(s.Verify, "{{") {
				commands = append(commands, s.Verify)
			}
		}
	}
	slices.Sort(commands)
	return slices.Compact(commands)
}

// allSteps returns all steps, with those of a group after the group.
func allSteps(list []plan.Step) (all []plan.Step) {
	for _, s := range list {
		all = append(append(all, s), allSteps(s.Steps)...)
	}
	return all
}

// inventedPaths returns the paths that the planner names but the repository doesn't have.
func (e evidence) inventedPaths() (paths []string) {
	var named []string
	for _, file := range research.ContextFiles {
		for _, c := range e.research.Context[file] {
			named = append(named, c.Path)
		}
	}
	if e.plan != nil {
		for _, f := range e.plan.Files {
			if f.Change != "new" {
				named = append(named, f.Path)
			}
		}
	}
	for _, path := range named {
		if !e.exists(path) && !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	return paths
}

func (e evidence) exists(path string) bool {
	if !filepath.IsLocal(filepath.FromSlash(path)) {
		return false
	}
	_, err := os.Stat(filepath.Join(e.project.Root, filepath.FromSlash(path)))
	return err == nil
}
