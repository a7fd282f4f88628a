package board

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/terminal"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// timeOfDay returns the local time of day, "" for the zero time.
func timeOfDay(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format(time.TimeOnly)
}

func noTaskError(id string) error {
	return app.WithHints(app.AsKind(app.ErrNotFound, fmt.Errorf("there is no task %q", trellis.Visible(clip(id, 100)))), "trellis list")
}

type taskPage struct {
	status.Task
	Card     card
	Tab      string
	Next     string // the next command
	Orders   []order
	Step     *waitingStep   // nil: no step waits for a person
	Review   *status.Review // nil: its plan can't be read
	Stuck    string         // why the plan can't be read
	Criteria []criterion
	Spans    []span
	Longest  float64
	Usage    []fact
	Facts    []fact
	Files    []app.TaskFile
	Report   string
	ReportOf string // the file that has the report
	Proofs   *proofs
	Diff     *diffPage
	Log      []terminal.ScrollLine
	Early    bool // there is more log than is shown
	Reads    bool
}

// waitingStep is a step that waits for a person, with the hash that an approval of it is bound to.
type waitingStep struct {
	Path, Title, Description, Hash string
	Lets                           []string // the steps that then run
}

// decision is the data of the form by which a person decides.
type decision struct {
	ID, Hash, Step string
	Reads          bool
}

// Decide returns the data of a form about a step, or with "" about the plan, that has this hash.
func (t *taskPage) Decide(hash, step string) decision { return decision{t.ID, hash, step, t.Reads} }

// fact is a name and what is known of it.
type fact struct{ Name, Says string }

// criterion is a criterion, with what the last run found.
type criterion struct{ ID, Text, Command, Level, Verdict, Evidence string }

// Tabs are the pages of a task.
func (t *taskPage) Tabs() []string { return []string{"", "log", "diff", "report", "files", "proofs"} }

// Named returns the title of a tab.
func (t *taskPage) Named(tab string) string {
	return map[string]string{"": "Overview", "log": "Log", "diff": "Diff", "report": "Report", "files": "Files", "proofs": "Proofs"}[tab]
}

// Commented reports whether the task can be sent back with comments on its diff, now or when its process has ended.
func (t *taskPage) Commented() bool {
	return !t.Reads && !slices.Contains([]trellis.Status{"", trellis.Planning, trellis.Completed, trellis.Rejected}, t.Status)
}

// Width returns how wide the bar of a phase is, in percent.
func (t *taskPage) Width(s span) int {
	if t.Longest <= 0 {
		return 1
	}
	return max(1, int(100*s.Seconds/t.Longest))
}

// taskDir returns the directory of the task that a request names, which must be one that was found on disk.
func (s *Server) taskDir(ctx context.Context, id string) (dir string, err error) {
	if !s.tasks.contains(ctx, id) {
		return "", noTaskError(id)
	}
	return filepath.Join(s.p.Store.Tasks(), id), nil
}

func (s *Server) task(ctx context.Context, r *http.Request) (string, error) {
	id, tab := r.PathValue("id"), r.PathValue("tab")
	if _, err := s.taskDir(ctx, id); err != nil {
		return "", err
	}
	seq := s.tasks.count()
	of := &taskStream{s, id, tab}
	t, err := of.read(ctx)
	if err != nil {
		return "", err
	}
	v, err := t.view()
	if err != nil {
		return "", err
	}
	end := 0
	if tab == "diff" {
		if t.Diff, err = s.diffOf(ctx, filepath.Join(s.p.Store.Tasks(), id), r.URL.Query()); err != nil {
			return "", err
		}
	}
	if tab == "log" || tab == "" {
		t.Log, end, _ = s.logs.openLog(id).Since(0, firstLines)
		t.Early = end > len(t.Log)
	}
	return render("task", page{t, v, s.streamURL(strings.TrimSuffix("/task/"+id+"/"+tab, "/"), nil, seq, end), s.o.ReadOnly})
}

// taskStream is the page of a task that is kept up to date.
type taskStream struct {
	s       *Server
	id, tab string
}

func (t *taskStream) task() string { return t.id }

func (t *taskStream) next(ctx context.Context, whole bool, log int) (v *view, besides string, end int, err error) {
	if end = log; t.tab == "log" || t.tab == "" {
		if besides, end, err = t.newLogLines(log); err != nil {
			return nil, "", end, err
		}
	}
	if !whole {
		return nil, besides, end, nil
	}
	p, err := t.read(ctx)
	if err != nil {
		return nil, "", end, err
	}
	v, err = p.view()
	return v, besides, end, err
}

// newLogLines returns the lines of the log that a tab lacks.
func (t *taskStream) newLogLines(from int) (string, int, error) {
	lines, end, whole := t.s.logs.openLog(t.id).Since(from, 0)
	if len(lines) == 0 {
		return "", end, nil
	}
	html, err := render("log-lines", lines)
	var b strings.Builder
	how := "beforeend"
	if whole {
		how = "innerHTML"
	}
	writePartial(&b, "log", how, html)
	return b.String(), end, err
}

// read reads the current content of the page.
func (t *taskStream) read(ctx context.Context) (*taskPage, error) {
	s, dir := t.s, filepath.Join(t.s.p.Store.Tasks(), t.id)
	task, err := readTask(s.p, s.p.Reader(), t.id)
	if err != nil {
		return nil, err
	}
	p := &taskPage{Task: task, Tab: t.tab, Reads: s.o.ReadOnly, Card: newCard(&task)}
	p.ID = p.Card.ID
	p.Next, _ = s.p.Next(ctx, dir) // an error leaves it empty
	p.Orders = ordersFor(&task)
	p.facts()
	switch t.tab {
	case "":
		p.overview(ctx, s, dir)
	case "files":
		p.Files, err = s.p.Edits().Files(dir)
	case "report":
		p.ReportOf, p.Report, err = s.p.Document(dir, taskdir.Report, taskdir.Rejected)
	case "proofs":
		p.Proofs, err = proofsOf(ctx, s.p, dir)
	case "log", "diff":
	default:
		err = app.AsKind(app.ErrNotFound, errNoPage)
	}
	return p, err
}

func (p *taskPage) overview(ctx context.Context, s *Server, dir string) {
	if q := status.PendingRequest(dir, s.o.Now()); q != nil {
		p.Step = &waitingStep{q.Path, q.Title, q.Description, q.Hash, q.Lets}
	}
	if r, err := s.p.Review(ctx, dir); err != nil {
		p.Stuck = err.Error()
	} else {
		p.Review = &r
	}
	found := status.Verdicts(dir)
	for _, c := range p.Task.Criteria {
		v := found[c.Text]
		p.Criteria = append(p.Criteria, criterion{c.ID, c.Text, c.Verify, c.Level, cmp.Or(v.Verdict, "open"), text.Clip(v.Evidence, 1000)})
	}
	p.Spans = s.logs.openLog(p.ID).phases()
	for _, one := range p.Spans {
		p.Longest = max(p.Longest, one.Seconds)
	}
}

// facts fills in the short facts of the page.
func (p *taskPage) facts() {
	add := func(list *[]fact, name, says string) {
		if says != "" {
			*list = append(*list, fact{name, says})
		}
	}
	add(&p.Facts, "type", p.DevType)
	add(&p.Facts, "package", p.Package)
	add(&p.Facts, "priority", p.Priority)
	add(&p.Facts, "assignee", p.Assignee)
	add(&p.Facts, "branch", p.Branch)
	add(&p.Facts, "base", p.BaseBranch)
	add(&p.Facts, "depends on", strings.Join(p.DependsOn, ", "))
	add(&p.Facts, "parent", p.Parent)
	add(&p.Facts, "children", strings.Join(p.Children, ", "))
	add(&p.Facts, "pull request", p.PRURL)
	u := p.Task.Usage
	if u.Tokens() == 0 && u.Seconds == 0 {
		return
	}
	add(&p.Usage, "time", text.Seconds(u.Seconds))
	add(&p.Usage, "tokens in", text.Tokens(u.InputTokens))
	add(&p.Usage, "tokens out", text.Tokens(u.OutputTokens))
	add(&p.Usage, "from cache", text.Tokens(u.CachedTokens))
	cost := "unknown"
	if u.CostUSD != nil {
		cost = text.Cost(u)
	}
	add(&p.Usage, "cost", cost)
}

// view returns the parts of the page that change while it is open.
func (p *taskPage) view() (*view, error) {
	v := &view{}
	below := map[string][]string{"": {"task-plan", "task-criteria", "task-timeline", "task-facts"}, "report": {"task-report"}, "files": {"task-files"}, "proofs": {"task-proofs"}}
	for _, name := range append([]string{"task-head", "task-now", "task-orders"}, below[p.Tab]...) {
		if err := v.add(name, name, p); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// proofs are what the records of the task's checks prove.
type proofs struct {
	Nothing  bool
	Says     string
	Findings []fact
	Open     []fact
	Records  []checkRecord
}

// checkRecord is a record of a check.
type checkRecord struct {
	Step, Kind, Command, At string
	Exit                    int
	Checks                  []fact
}

func proofsOf(ctx context.Context, p *app.Project, dir string) (*proofs, error) {
	r, err := runner.VerifyTask(ctx, p.Store, p.Repo.Refs(), dir)
	if err != nil {
		return nil, err
	}
	all := &proofs{Nothing: r.NothingToProve, Says: fmt.Sprintf("%d of %s with a check proven, by %s", len(r.Proven), text.Count(len(r.Proven)+len(r.Unproven), "step"), text.Count(len(r.Records), "record"))}
	for _, f := range r.Findings {
		all.Findings = append(all.Findings, fact{string(f.Fault), f.Message})
	}
	for _, f := range r.Unproven {
		if f.Step != "" {
			all.Open = append(all.Open, fact{f.Step, f.Message})
		}
	}
	for _, rec := range r.Records {
		one := checkRecord{rec.Step, rec.Kind, rec.Command, rec.Ended.Local().Format(time.DateTime), rec.Exit, nil}
		for _, c := range rec.Checks {
			one.Checks = append(one.Checks, fact{c.Kind, fmt.Sprintf("%s (exit %d)", c.Command, c.Exit)})
		}
		all.Records = append(all.Records, one)
	}
	return all, nil
}

// Document returns prd.md as HTML.
func (p *taskPage) Document() template.HTML { return markdown(p.Review.Document) }
