package objective

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/roadmap"
	"github.com/trellis-tasks/trellis/internal/terminal"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

func (cmd objectives) listCommand() *cli.Command {
	return &cli.Command{
		Name:  "list",
		Usage: "list objectives, their progress, and what comes next",
		Flags: []cli.Flag{command.JSONFlag()},
		Description: command.Manual(`Reads every file in .trellis/objectives. An unreliable one is shown with its problems.`,
			[]int{command.ExitDone, command.ExitUsage}, "trellis objective list", "trellis objective list --json | jq '.[].next.step'"),
		Action: cmd.ForProject(func(c *cli.Context, p *app.Project) error {
			return cmd.list(p, c.Bool("json"))
		}),
	}
}

// objectiveRow is an objective in objective list --json.
type objectiveRow struct {
	Name     string            `json:"name"`
	Title    string            `json:"title"`
	File     string            `json:"file"`
	Auto     bool              `json:"auto_advance"`
	Steps    objectiveCount    `json:"steps"`
	Next     *objectiveNext    `json:"next"` // null: the file can't be relied on
	Problems []trellis.Problem `json:"problems"`

	unmerged int // steps whose work is done and not merged
}

// objectiveCount is the number of steps in each state.
type objectiveCount struct {
	Total      int `json:"total"`
	Pending    int `json:"pending"`
	Planning   int `json:"planning"`
	InProgress int `json:"in_progress"`
	Done       int `json:"done"`
	Blocked    int `json:"blocked"`
	Skipped    int `json:"skipped"`
}

func (c *objectiveCount) add(s roadmap.State) {
	c.Total++
	*map[roadmap.State]*int{roadmap.Pending: &c.Pending, roadmap.Planning: &c.Planning, roadmap.InProgress: &c.InProgress, roadmap.Done: &c.Done, roadmap.Blocked: &c.Blocked, roadmap.Skipped: &c.Skipped}[s]++
}

// finished returns the number of steps that need nothing more.
func (c objectiveCount) finished() int { return c.Done + c.Skipped }

// objectiveNext is what comes next in an objective.
type objectiveNext struct {
	Code roadmap.Code `json:"code"`
	Step string       `json:"step"` // "" unless code is next
	Why  string       `json:"why"`
	On   []string     `json:"on"`   // the steps that hold up the rest
	Plan string       `json:"plan"` // if code is waiting: the plan of the first of them
}

func newObjectiveNext(d roadmap.Decision) *objectiveNext {
	n := &objectiveNext{Code: d.Code, Why: d.Why, On: append([]string{}, d.On...), Plan: d.Plan}
	if d.Step != nil {
		n.Step = d.Step.ID
	}
	return n
}

// words returns the decision for people.
func (n *objectiveNext) words() string {
	switch {
	case n.Code == roadmap.Next:
		return n.Step
	case len(n.On) > 0:
		return fmt.Sprintf("%s: %s", n.Code, strings.Join(n.On, ", "))
	}
	return string(n.Code)
}

// summary returns the row of an objective. broken says that its file can't be relied on.
func summary(r *roadmap.Roadmap, broken bool, tasks roadmap.Tasks) objectiveRow {
	row := objectiveRow{Name: r.Name, Title: r.Title, File: roadmap.File(r.Name), Auto: r.Auto, Problems: append([]trellis.Problem{}, r.Check()...)}
	for _, s := range r.Steps {
		row.Steps.add(s.State)
		if step := newObjectiveStep(s, tasks); step.isUnmerged() {
			row.unmerged++
		}
	}
	if !broken {
		row.Next = newObjectiveNext(r.Next(tasks))
	}
	return row
}

func (cmd objectives) list(p *app.Project, asJSON bool) error {
	names, err := roadmap.Names(p.Root)
	if err != nil {
		return err
	}
	rows, plans := []objectiveRow{}, NewPlans(p)
	for _, name := range names {
		r, err := roadmap.Load(p.Root, name)
		problem := (*trellis.Problem)(nil)
		switch {
		case errors.Is(err, roadmap.ErrNotFound): // just removed
			continue
		case r == nil && !errors.As(err, &problem):
			return err
		case r == nil:
			rows = append(rows, objectiveRow{Name: name, Title: name, File: problem.File, Problems: []trellis.Problem{*problem}})
			continue
		}
		rows = append(rows, summary(r, err != nil, plans.taskStatuses(name)))
	}
	if asJSON {
		return terminal.JSON(cmd.Stdout, rows)
	}
	others, err := roadmap.Misnamed(p.Root)
	if err != nil {
		return err
	}
	for _, o := range others {
		cmd.Say("warning: %s", oneLine(o.Error()))
	}
	if len(rows) == 0 {
		cmd.Say("no objectives")
		cmd.Say("next: trellis objective new NAME")
		return nil
	}
	return printTable(cmd.Stdout, rows, cmd.Style(cmd.Stdout))
}

func printTable(w io.Writer, rows []objectiveRow, style terminal.Style) error {
	table := [][]string{{"OBJECTIVE", "DONE", "", "NEXT", "TITLE"}}
	for _, r := range rows {
		next, auto := "broken: ", ""
		if r.Auto {
			auto = "auto"
		}
		switch {
		case r.Next == nil:
			next += firstError(r.Problems)
		case r.Next.Code == roadmap.Stuck && len(r.Next.On) == 0: // no step is the reason
			next = fmt.Sprintf("%s: %s", r.Next.Code, r.Next.Why)
		case r.Next.Code == roadmap.Complete && r.unmerged > 0:
			next = fmt.Sprintf("complete, %d to be merged", r.unmerged)
		default:
			next = r.Next.words()
		}
		table = append(table, []string{oneLine(r.Name), fmt.Sprintf("%d/%d", r.Steps.finished(), r.Steps.Total), auto, oneLine(next), oneLine(r.Title)})
	}
	const objective, next, title = 0, 3, 4
	return terminal.Grid{Rows: table, Squeezes: []terminal.Squeeze{{Column: next, To: 16}, {Column: title, To: 24}, {Column: objective, To: 30}, {Column: next, To: 8}, {Column: title, To: 8}, {Column: objective, To: 12}}}.Print(w, style)
}

// firstError returns the first problem that is not a warning.
func firstError(problems []trellis.Problem) string {
	for _, p := range problems {
		if !p.Warning {
			return p.Error()
		}
	}
	return ""
}

// oneLine returns s on one line, with control characters made visible and tabs replaced.
func oneLine(s string) string {
	return strings.NewReplacer("\n", " ", "\t", " ").Replace(trellis.Visible(s))
}
