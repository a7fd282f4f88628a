package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/terminal"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// looks says of a tool that it changes nothing.
var looks = &sdk.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: new(bool)}

func (s *server) addReading(to *sdk.Server) {
	add(to, s, sdk.Tool{Name: "task_list", Description: "Tasks: id, status, title, what they wait for. By priority, then id.", Annotations: looks}, s.list)
	add(to, s, sdk.Tool{Name: "task_show", Description: "One task: where it stands and the next command, or one of its documents.", Annotations: looks}, s.show)
	add(to, s, sdk.Tool{Name: "task_logs", Description: "What was done for a task: phases, checks, what agents said. The last lines, unless before or after is given.", Annotations: looks}, s.logs)
	add(to, s, sdk.Tool{Name: "task_review", Description: "What a task will build, to decide about its plan: criteria, steps, files, open questions; and the hash that a decision names.", Annotations: looks}, s.review)
	add(to, s, sdk.Tool{Name: "objective_next", Description: "The next step of an objective (roadmap); without a name all objectives.", Annotations: looks}, s.objective)
}

type listIn struct {
	Status string `json:"status,omitempty" jsonschema:"only this one, as ready, in_progress, review, failed"`
	From   int    `json:"from,omitempty" jsonschema:"pass over so many"`
}

// listed is how many tasks an answer has.
const listed = 40

func (s *server) list(_ context.Context, in listIn) (string, error) {
	var f status.Filter
	if in.Status != "" {
		if !slices.Contains(trellis.Statuses, trellis.Status(in.Status)) {
			return "", app.Usagef("there is no status %q: it is one of %s", text.Clip(trellis.Visible(in.Status), 40), statuses())
		}
		f.Statuses = []trellis.Status{trellis.Status(in.Status)}
	}
	tasks, err := s.p.Reader().Tasks(f)
	if err != nil {
		return "", err
	}
	from := min(max(in.From, 0), len(tasks))
	part := tasks[from:min(from+listed, len(tasks))]
	if len(part) == 0 {
		return fmt.Sprintf("no tasks; there are %d in all of what was asked for\nnext: task_plan", len(tasks)), nil
	}
	var b strings.Builder
	if err := terminal.Table(&b, part, terminal.Style{Width: 160}, s.o.Now()); err != nil {
		return "", err
	}
	if rest := len(tasks) - from - len(part); rest > 0 {
		fmt.Fprintf(&b, "%d more; go on with from=%d\n", rest, from+len(part))
	}
	return b.String(), nil
}

func statuses() string {
	var names []string
	for _, s := range trellis.Statuses {
		names = append(names, string(s))
	}
	return strings.Join(names, ", ")
}

type showIn struct {
	Task string `json:"task" jsonschema:"its id"`
	What string `json:"what,omitempty" jsonschema:"status (default), prd, plan, report or diff"`
	From int    `json:"from,omitempty" jsonschema:"go on at this byte of a long document"`
}

// documents are the files that a client can see by a word.
var documents = map[string]string{"prd": "prd.md", "plan": "plan.json", "report": "report.md"}

func (s *server) show(ctx context.Context, in showIn) (string, error) {
	dir, err := s.task(in.Task)
	if err != nil {
		return "", err
	}
	w := &window{from: max(in.From, 0), most: maxAnswer}
	switch name, is := documents[in.What]; {
	case is:
		var said string
		if said, err = s.p.Document(dir, name); err == nil && said == "" {
			said = fmt.Sprintf("%s has no %s\n", filepath.Base(dir), name)
		}
		fmt.Fprint(w, trellis.Visible(said))
	case in.What == "diff":
		var began bool
		if began, err = s.p.Diff(ctx, dir, false, w); err == nil && !began {
			fmt.Fprintf(w, "nothing was done for %s yet\n", filepath.Base(dir))
		}
	case in.What == "" || in.What == "status":
		err = s.standing(ctx, dir, w)
	default:
		err = app.Usagef("what %q is none of status, prd, plan, report, diff", text.Clip(trellis.Visible(in.What), 40))
	}
	return w.String(), err
}

// standing writes where a task stands, and the command that comes next.
func (s *server) standing(ctx context.Context, dir string, w *window) error {
	t, err := s.p.Reader().Task(dir)
	if err != nil {
		return err
	}
	if err := terminal.Show(w, t, terminal.Style{Width: 160}); err != nil {
		return err
	}
	next, err := s.p.Next(ctx, dir)
	if next != "" {
		fmt.Fprintf(w, "next: %s\n", next)
	}
	return err
}

type logsIn struct {
	Task   string `json:"task" jsonschema:"its id"`
	Run    int    `json:"run,omitempty" jsonschema:"only this run; 0 is all"`
	Before int    `json:"before,omitempty" jsonschema:"lines before this one"`
	After  int    `json:"after,omitempty" jsonschema:"lines after this one: what is new"`
}

const (
	loggedLines = 100
	loggedBytes = 4 << 20 // of the end of what an agent left
	lineWidth   = 400     // letters
)

func (s *server) logs(_ context.Context, in logsIn) (string, error) {
	dir, err := s.task(in.Task)
	if err != nil {
		return "", err
	}
	l := &status.Log{Dir: dir, Run: max(in.Run, 0), Decode: agents.Decoder, Tail: loggedBytes}
	said, over, err := l.Next()
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	print := terminal.LogPrinter{W: &b, Whole: "trellis logs --full " + filepath.Base(dir)}
	for _, one := range said {
		if err := print.Print(one); err != nil {
			return "", err
		}
	}
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if b.Len() == 0 {
		lines = nil
	}
	return excerpt(lines, in, over), nil
}

// excerpt is a part of lines that a client asked for, with where it stands among them.
func excerpt(lines []string, in logsIn, over bool) string {
	from, end := len(lines)-loggedLines, len(lines)
	switch {
	case in.After > 0:
		from = min(in.After, end)
		end = min(from+loggedLines, end)
	case in.Before > 0:
		end = min(in.Before-1, end)
		from = end - loggedLines
	}
	from = max(from, 0)
	var b strings.Builder
	for i := from; i < end; i++ {
		line := text.Clip(lines[i], lineWidth)
		if b.Len()+len(line) > maxAnswer {
			end = i
			break
		}
		b.WriteString(line + "\n")
	}
	if from == end {
		return fmt.Sprintf("no lines there; there are %d\n", len(lines))
	}
	fmt.Fprintf(&b, "lines %d to %d of %d", from+1, end, len(lines))
	if from > 0 {
		fmt.Fprintf(&b, "; earlier ones with before=%d", from+1)
	}
	if end < len(lines) || !over {
		fmt.Fprintf(&b, "; later ones with after=%d", end)
	}
	return b.String() + "\n"
}

type taskIn struct {
	Task string `json:"task" jsonschema:"its id"`
	From int    `json:"from,omitempty" jsonschema:"go on at this byte"`
}

func (s *server) review(ctx context.Context, in taskIn) (string, error) {
	dir, err := s.task(in.Task)
	if err != nil {
		return "", err
	}
	w := &window{from: max(in.From, 0), most: maxAnswer}
	if asked := status.Asked(dir, s.o.Now()); asked != nil {
		fmt.Fprintf(w, "step %s waits for people: %s\n%s\nhash: %s (of this step, for task_approve and task_reject with step)\n\n",
			trellis.Visible(asked.Path), trellis.Visible(asked.Title), trellis.Visible(asked.Description), asked.Hash)
	}
	r, err := s.p.Review(ctx, dir)
	if err != nil {
		return "", err
	}
	fmt.Fprintf(w, "hash: %s (of this plan, for task_approve and task_reject)\n", r.Hash)
	err = terminal.Review(w, r, terminal.Style{})
	return w.String(), err
}

type objectiveIn struct {
	Objective string `json:"objective,omitempty" jsonschema:"its name"`
}

func (s *server) objective(_ context.Context, in objectiveIn) (string, error) {
	all, err := s.p.Objectives()
	if err != nil {
		return "", err
	}
	w := &window{most: maxAnswer}
	found := false
	for _, o := range all {
		if in.Objective == "" || o.Name == in.Objective {
			found = true
			tell(w, o)
		}
	}
	switch {
	case found:
		return w.String(), nil
	case in.Objective == "":
		return "there are no objectives\n", nil
	}
	return "", app.WithHints(app.AsKind(app.ErrNotFound, errors.New("there is no objective "+text.Clip(fmt.Sprintf("%q", in.Objective), 100))), "objective_next without a name")
}

// tell tells how an objective stands.
func tell(w *window, o app.Objective) {
	done, of := 0, 0
	var next *app.ObjectiveStep
	for _, ph := range o.Phases {
		for i, step := range ph.Steps {
			of++
			if step.Over() {
				done++
			}
			if step.ID == o.Next {
				next = &ph.Steps[i]
			}
		}
	}
	fmt.Fprintf(w, "%s: %s, %d of %d steps done\n", trellis.Visible(o.Name), trellis.Visible(o.Title), done, of)
	if next != nil {
		fmt.Fprintf(w, "  next step %s: %s\n", trellis.Visible(next.ID), trellis.Visible(text.Clip(text.OneLine(next.Description), 500)))
		if next.Task != "" {
			fmt.Fprintf(w, "  its task: %s (%s)\n", next.Task, next.Status)
		}
	}
	if o.Why != "" {
		fmt.Fprintf(w, "  %s\n", trellis.Visible(text.OneLine(o.Why)))
	}
	for _, problem := range o.Problems {
		fmt.Fprintf(w, "  %s\n", trellis.Visible(problem.Error()))
	}
}
