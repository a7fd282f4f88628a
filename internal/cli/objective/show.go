package objective

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/roadmap"
	"github.com/trellis-tasks/trellis/internal/terminal"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

func (cmd objectives) showCommand() *cli.Command {
	return &cli.Command{
		Name:      "show",
		Usage:     "show an objective, its phases and steps, and the status of their tasks",
		ArgsUsage: "OBJECTIVE",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "graph", Usage: "print the dependency graph instead, as `mermaid|dot`"},
			command.JSONFlag(),
		},
		Description: command.Manual(`A bar shows how much of a phase is finished, and how much is in progress. A planned step is shown with
the current status of its task. In a graph, solid lines are stated dependencies, dashed ones the step before.`,
			[]int{command.ExitDone, command.ExitUsage, command.ExitNotFound}, "trellis objective show gateway", "trellis objective show gateway --graph dot | dot -Tsvg > gateway.svg"),
		Action: cmd.forObjective(func(c *cli.Context, p *app.Project, name string) error {
			format := c.String("graph")
			if c.IsSet("graph") && !slices.Contains(roadmap.Graphs, format) {
				return app.Usagef("unknown graph %q (one of %s)", format, strings.Join(roadmap.Graphs, ", "))
			}
			if format != "" && c.Bool("json") {
				return app.Usagef("--graph and --json are two ways to print one thing")
			}
			return cmd.show(p, name, format, c.Bool("json"))
		}),
	}
}

// objectiveView is what objective show --json prints.
type objectiveView struct {
	objectiveRow
	Phases []objectivePhase `json:"phases"`
}

type objectivePhase struct {
	ID    string          `json:"id"`
	Title string          `json:"title"`
	Line  int             `json:"line"`
	Steps []objectiveStep `json:"steps"`
}

// objectiveStep is a step, with the status of its task.
type objectiveStep struct {
	ID          string         `json:"id"`
	Description string         `json:"description"`
	Phase       string         `json:"phase"`
	State       roadmap.State  `json:"state"`
	Plan        string         `json:"plan"`
	TaskStatus  trellis.Status `json:"task_status"` // "" if it is not planned, or its task is missing or can't be read
	PRs         []string       `json:"prs"`
	DependsOn   []string       `json:"depends_on"`
	Stated      bool           `json:"stated"` // depends_on comes from the row
	Line        int            `json:"line"`

	taskExists bool   // the task of the plan exists
	draft      string // directory name of the task that it is being planned as; "" if it is not
}

func newObjectiveStep(s roadmap.Step, tasks roadmap.Tasks) objectiveStep {
	o := objectiveStep{ID: s.ID, Description: s.Description, Phase: s.Phase, State: s.State, Plan: s.Plan, Stated: s.Stated, Line: s.Line,
		PRs: append([]string{}, s.PRs...), DependsOn: append([]string{}, s.DependsOn...)}
	if s.Plan != "" {
		o.TaskStatus, o.taskExists = tasks(s.Plan)
	}
	return o
}

// isUnmerged reports whether the work of a step is done, but not merged yet.
func (s *objectiveStep) isUnmerged() bool {
	return (s.State == roadmap.InProgress || s.State == roadmap.Planning) && s.TaskStatus == trellis.Review
}

func (cmd objectives) show(p *app.Project, name, graph string, asJSON bool) error {
	r, err := Load(p, name)
	if r == nil {
		return err
	}
	if graph != "" {
		text, err := r.Graph(graph)
		fmt.Fprint(cmd.Stdout, text)
		return err
	}
	plans := NewPlans(p)
	tasks := plans.taskStatuses(r.Name)
	v := objectiveView{objectiveRow: summary(r, err != nil, tasks), Phases: []objectivePhase{}}
	for _, ph := range r.Phases {
		phase := objectivePhase{ph.ID, ph.Title, ph.Line, []objectiveStep{}}
		for _, i := range ph.Steps {
			step := newObjectiveStep(r.Steps[i], tasks)
			step.draft = plans.draft(r.Name, step.ID)
			phase.Steps = append(phase.Steps, step)
		}
		v.Phases = append(v.Phases, phase)
	}
	return cmd.Print(asJSON, v, func() error { return v.print(cmd.Console) })
}

func (v *objectiveView) print(a *command.Console) error {
	style := a.Style(a.Stdout)
	fmt.Fprintf(a.Stdout, "%s  %s\n", v.Name, oneLine(v.Title))
	fmt.Fprintf(a.Stdout, "  file      %s\n", v.File)
	if v.Auto {
		fmt.Fprintln(a.Stdout, "  advances  by itself (auto_advance)")
	}
	if v.Next != nil {
		fmt.Fprintf(a.Stdout, "  next      %s\n            %s\n", oneLine(v.Next.words()), oneLine(v.Next.Why))
	}
	for i := range v.Problems {
		fmt.Fprintf(a.Stdout, "  problem   %s\n", oneLine(v.Problems[i].Error()))
	}
	for _, p := range v.Phases {
		p.print(a, style)
	}
	return nil
}

func (p *objectivePhase) print(a *command.Console, style terminal.Style) {
	var c objectiveCount
	width, merges := 0, 0
	for _, s := range p.Steps {
		c.add(s.State)
		if s.isUnmerged() {
			merges++
		}
		width = max(width, text.Width(oneLine(s.ID)))
	}
	if p.Title != "" {
		fmt.Fprintf(a.Stdout, "\n%s", oneLine(p.Title))
	}
	fmt.Fprintf(a.Stdout, "\n%s %d of %d", bar(c), c.finished(), c.Total)
	if merges > 0 {
		fmt.Fprintf(a.Stdout, ", %d to be merged", merges)
	}
	fmt.Fprintln(a.Stdout)
	for _, s := range p.Steps {
		fmt.Fprintln(a.Stdout, strings.TrimRight(s.line(width, style), " "))
	}
}

// bar returns a bar that shows how much of a phase is over, and how much is under way.
func bar(c objectiveCount) string {
	const width = 20
	over, begun := 0, 0
	if c.Total > 0 {
		over = width * c.finished() / c.Total
		begun = width*(c.finished()+c.Planning+c.InProgress)/c.Total - over
	}
	return "[" + strings.Repeat("█", over) + strings.Repeat("▒", begun) + strings.Repeat("·", width-over-begun) + "]"
}

// stateColour has the colours of the states that people should notice.
var stateColour = map[roadmap.State]string{roadmap.Planning: "36", roadmap.InProgress: "36", roadmap.Done: "32", roadmap.Blocked: "31"}

func (s *objectiveStep) line(width int, style terminal.Style) string {
	state := terminal.Paint(text.Pad(strings.ReplaceAll(string(s.State), "_", " "), 11), stateColour[s.State], style.Colour)
	does, link := oneLine(s.Description), ""
	if l := s.link(); l != "" {
		link = "  (" + oneLine(l) + ")"
	}
	if room := style.Width - width - len("  ") - 11 - 2*len("  "); style.Width > 0 {
		does = text.Clip(does, max(room-text.Width(link), min(24, room)))
		link = text.Clip(link, max(room-text.Width(does), 0))
	}
	return "  " + text.Pad(oneLine(s.ID), width) + "  " + state + "  " + does + link
}

// link returns what a step was made into: its pull requests and its task.
func (s *objectiveStep) link() string {
	links := slices.Clone(s.PRs)
	switch {
	case s.Plan == "" && s.draft != "":
		links = append(links, "being planned as "+s.draft)
	case s.Plan == "":
	case s.TaskStatus != "":
		links = append(links, fmt.Sprintf("plan %s, %s", s.Plan, s.TaskStatus))
	case s.taskExists:
		links = append(links, fmt.Sprintf("plan %s, which can't be read", s.Plan))
	case strings.HasPrefix(s.Plan, "#"):
		links = append(links, "plan "+s.Plan)
	default:
		links = append(links, fmt.Sprintf("plan %s, which is not here", s.Plan))
	}
	return strings.Join(links, ", ")
}
