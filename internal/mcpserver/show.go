package mcpserver

import (
	"context"
	"time"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/text"
)

type taskArguments struct {
	Task string `json:"task" jsonschema:"name from task_list"`
}

type showAnswer struct {
	Note string `json:"note"`
	listedTask
	Round     int            `json:"round,omitempty"`
	Since     string         `json:"since,omitempty"`
	Priority  string         `json:"priority,omitempty"`
	Branch    string         `json:"branch,omitempty"`
	Base      string         `json:"base,omitempty"`
	PR        string         `json:"pr,omitempty"`
	DependsOn []string       `json:"depends_on,omitempty"`
	Step      *step          `json:"step,omitempty"` // the step that waits for a person
	Criteria  []criterion    `json:"criteria,omitempty"`
	More      int            `json:"more_criteria,omitempty"`
	Problems  []string       `json:"problems,omitempty"`
	Usage     map[string]any `json:"usage,omitempty"`
	Files     []string       `json:"files,omitempty"` // resources trellis://task/{task}/{file}
	MoreFiles int            `json:"more_files,omitempty"`
	Next      string         `json:"next,omitempty"` // the command that a person would type
}

// criterion is what must hold, and what the last run found.
type criterion struct {
	ID       string `json:"id"`
	Text     string `json:"text"`
	Verify   string `json:"verify,omitempty"`
	Verdict  string `json:"verdict"`
	Evidence string `json:"evidence,omitempty"`
}

// step is a step of a plan that waits for a person.
type step struct {
	Path        string `json:"path"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	Hash        string `json:"hash"` // that a decision about it names
}

// How much of a task is shown: its files have the rest.
const (
	shownCriteria = 25
	shownFiles    = 60
	shownProblems = 8
	criteriaRoom  = 6 << 10 // bytes
	filesRoom     = 3 << 10
	problemsRoom  = 2 << 10
)

func (s *Server) show(ctx context.Context, p *app.Project, in taskArguments) (any, error) {
	dir, err := find(p, in.Task)
	if err != nil {
		return nil, err
	}
	t, err := p.Reader().Task(dir)
	if err != nil {
		return nil, err
	}
	a := showAnswer{Note: dataNote, listedTask: newListedTask(t), Round: t.Round, Since: t.Since, Priority: t.Priority, Branch: brief(t.Branch, 200), Base: brief(t.BaseBranch, 200),
		PR: brief(t.PRURL, 300), DependsOn: briefs(t.DependsOn, 10, 60), Step: waitingStep(dir, s.o.Env.Now())}
	a.Failure, a.Problem = failure(t, 600), ""
	for _, one := range t.Problems {
		a.Problems = append(a.Problems, brief(one.Error(), 300))
	}
	n, err := fittingCount(a.Problems, shownProblems, problemsRoom)
	if err != nil {
		return nil, err
	}
	a.Problems = a.Problems[:n]
	if err := a.criteria(dir, t); err != nil {
		return nil, err
	}
	if u := t.Usage; u.Tokens() > 0 || u.Seconds > 0 {
		a.Usage = map[string]any{"seconds": int(u.Seconds), "tokens": u.Tokens()}
		if u.CostUSD != nil {
			a.Usage["cost"] = text.Cost(u)
		}
	}
	files, err := p.Edits().Files(dir)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		a.Files = append(a.Files, brief(f.Name, 200))
	}
	if n, err = fittingCount(a.Files, shownFiles, filesRoom); err != nil {
		return nil, err
	}
	a.Files, a.MoreFiles = a.Files[:n], len(files)-n
	a.Next, _ = p.Next(ctx, dir) // an error leaves it empty
	return a, nil
}

// criteria adds the criteria with what the last run found, as many as there is room for.
func (a *showAnswer) criteria(dir string, t status.Task) error {
	found := status.Verdicts(dir)
	for _, c := range t.Criteria {
		one := criterion{ID: brief(c.ID, 20), Text: brief(c.Text, 200), Verify: brief(c.Verify, 100), Verdict: "open"}
		if v, judged := found[c.Text]; judged {
			one.Verdict, one.Evidence = brief(v.Verdict, 20), brief(v.Evidence, 150)
		}
		a.Criteria = append(a.Criteria, one)
	}
	n, err := fittingCount(a.Criteria, shownCriteria, criteriaRoom)
	if err == nil {
		a.Criteria, a.More = a.Criteria[:n], len(a.Criteria)-n
	}
	return err
}

// waitingStep returns the step of a task that waits for a person, nil if none does.
func waitingStep(dir string, now time.Time) *step {
	q := status.PendingRequest(dir, now)
	if q == nil {
		return nil
	}
	return &step{brief(q.Path, 200), brief(q.Title, 200), brief(q.Description, 800), q.Hash}
}
