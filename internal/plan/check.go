package plan

// Facts are what a plan is checked against. What has its zero value is not checked.
type Facts struct {
	MaxSteps  int
	Exists    func(path string) (bool, error) // whether the repository has the path
	Missing   func(command string) string     // why a command can't run here, "" when it can
	Confirmed *[]string                       // commands that the research confirmed, in their order; an empty list: this project has none
	Spec      *TaskSpec                       // whose acceptance items must be covered
}

// Check says what is wrong with the plan beyond its schema, in the order of the file.
func (p *Plan) Check(f Facts) []Problem {
	if f.MaxSteps > 0 && len(p.Steps) > f.MaxSteps {
		return []Problem{{Pointer: "/steps", Message: "too many steps"}}
	}
	return nil
}

// Kind is the step's type, or what follows from its fields where it has none.
func (s Step) Kind() string {
	switch {
	case s.Type != "":
		return s.Type
	case s.Workflow != "":
		return Workflow
	case s.Command != "":
		return Script
	case s.Prompt != "":
		return Prompt
	case s.Message != "":
		return Log
	case len(s.Steps) > 0:
		return Group
	}
	return ""
}

// Verification are the commands of the plan's verification steps: the script steps at its end that prove
// tests, lint or a build.
func (p *Plan) Verification() []string {
	var commands []string
	for i := len(p.Steps) - 1; i >= 0; i-- {
		s := p.Steps[i]
		if s.Kind() != Script || s.Proof == nil || s.Proof.Type != "test" && s.Proof.Type != "lint" && s.Proof.Type != "build" {
			break
		}
		commands = append([]string{s.Command}, commands...)
	}
	return commands
}

// Protected are the files of the plan that a project protects.
func (p *Plan) Protected(globs func(path string) bool) []string {
	var paths []string
	for _, f := range p.Files {
		if globs(f.Path) {
			paths = append(paths, f.Path)
		}
	}
	return paths
}
