// Package objective is `trellis objective`: commands that work on roadmaps, whose steps become tasks.
package objective

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/roadmap"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// objectives implements the commands that work on roadmaps.
type objectives struct{ *command.Console }

// Command returns `trellis objective`: roadmaps whose steps become tasks. check is its subcommand that checks objectives.
func Command(a *command.Console, check *cli.Command) *cli.Command {
	cmd := objectives{a}
	return &cli.Command{
		Name:  "objective",
		Usage: "work with roadmaps, whose steps become tasks",
		Subcommands: []*cli.Command{
			cmd.listCommand(),
			cmd.showCommand(),
			cmd.nextCommand(),
			check,
			cmd.planCommand(),
			cmd.reconcileCommand(),
			cmd.newCommand(),
		},
	}
}

// forObjective returns an action that calls do with the objective that the first argument names.
func (cmd objectives) forObjective(do func(c *cli.Context, p *app.Project, name string) error) cli.ActionFunc {
	return cmd.ForProject(func(c *cli.Context, p *app.Project) error {
		name, err := Name(cmd.Console, p, c.Args().First())
		if err != nil {
			return err
		}
		return do(c, p, name)
	})
}

// Name returns the name of the objective that arg stands for: a name, or the path of its file, from the current folder
// or from the top of the repository. For the path of a file elsewhere the error matches roadmap.ErrNotFound.
func Name(a *command.Console, p *app.Project, arg string) (string, error) {
	path := filepath.ToSlash(filepath.Clean(arg))
	name, isFile := strings.CutSuffix(path, ".md")
	if !strings.Contains(path, "/") {
		if isFile {
			return name, nil
		}
		return arg, nil
	}
	path = a.Path(arg)
	name = filepath.Base(name)
	for _, at := range []string{path, filepath.Join(p.Root, arg)} {
		if isFile && sameFolder(filepath.Dir(at), filepath.Dir(filepath.Join(p.Root, roadmap.File(name)))) {
			return name, nil
		}
	}
	err := fmt.Errorf("%w: %s is not a file of .trellis/objectives", roadmap.ErrNotFound, arg)
	if _, there := os.Stat(path); there == nil && roadmap.CheckName(name) == nil {
		return "", app.WithHints(err, "move it to "+roadmap.File(name)+" and type trellis objective check "+trellis.ShellWord(name))
	}
	return "", app.WithHints(err, "trellis objective list")
}

// sameFolder reports whether two paths lead to one folder, which need not exist.
func sameFolder(a, b string) bool {
	one, err := os.Stat(a)
	two, otherErr := os.Stat(b)
	return a == b || err == nil && otherErr == nil && os.SameFile(one, two)
}

// Load reads an objective. If its file can't be relied on, it returns an error with the part that could be read.
func Load(p *app.Project, name string) (*roadmap.Roadmap, error) {
	r, err := roadmap.Load(p.Root, name)
	if errors.Is(err, roadmap.ErrNotFound) {
		return nil, app.WithHints(err, nameHints(p, name)...)
	}
	return r, err
}

func nameHints(p *app.Project, name string) []string {
	names, err := roadmap.Names(p.Root)
	if err != nil || len(names) == 0 {
		return []string{"trellis objective new NAME"}
	}
	if near := trellis.Nearest(name, names); near != "" {
		return []string{"did you mean: " + near}
	}
	return []string{"trellis objective list"}
}

// Plans returns the tasks that steps were planned as. They are read at the first call.
type Plans func() (*roadmap.StepTasks, error)

func NewPlans(p *app.Project) Plans {
	return sync.OnceValues(func() (*roadmap.StepTasks, error) { return roadmap.ReadStepTasks(p.Store, false) })
}

// taskStatuses returns a function for the status of an objective's tasks; see [roadmap.Tasks].
func (l Plans) taskStatuses(name string) roadmap.Tasks {
	return func(plan string) (trellis.Status, bool) {
		works, err := l()
		if err != nil {
			return "", true // the status is unknown
		}
		return works.Tasks(name)(plan)
	}
}

// draft returns the directory name of the task that a step is being planned as, even if that was cut off; "" if there is none.
func (l Plans) draft(name, step string) string {
	works, err := l()
	if err != nil {
		return ""
	}
	if work, ok := works.Of(name, step); ok && work.Draft {
		return work.Name()
	}
	return ""
}

// Candidates returns the names of objectives, for completion.
func Candidates(a *command.Console) (list []string) {
	p, err := a.OpenRepository()
	if err != nil {
		return nil
	}
	names, _ := roadmap.Names(p.Root) // names that can't be listed are not offered
	for _, n := range names {
		list = append(list, n+"\tobjective")
	}
	return list
}

// StepCandidates returns the ids of the steps of the objective that one of words names, for completion.
func StepCandidates(a *command.Console, words []string) (list []string) {
	p, err := a.OpenRepository()
	if err != nil {
		return nil
	}
	for _, w := range words {
		name, err := Name(a, p, w)
		if err != nil {
			continue
		}
		r, _ := roadmap.Load(p.Root, name) // a file with mistakes has steps too
		if r == nil {
			continue
		}
		for _, s := range r.Steps {
			list = append(list, s.ID+"\t"+strings.ReplaceAll(s.Description, "\t", " "))
		}
		return list
	}
	return nil
}
