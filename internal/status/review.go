package status

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Review is what a person reads before they agree to the plan of a task. Its JSON is what `trellis review --json` prints.
type Review struct {
	Task     string         `json:"task"` // the directory's name
	Title    string         `json:"title"`
	Status   trellis.Status `json:"status"`
	Hash     string         `json:"hash"` // of what was read: an approval with another hash is refused
	Type     string         `json:"type"`
	Package  string         `json:"package"`
	Priority string         `json:"priority"`
	Branch   string         `json:"branch"`
	Base     string         `json:"base"`

	Asked     bool              `json:"asked"`     // approval by people is missing
	Approvers int               `json:"approvers"` // how many have to agree, 0: nobody is asked
	Agreed    []string          `json:"agreed"`    // who has agreed
	Approved  string            `json:"-"`         // by whom and when it was approved, in words, whatever became of the task since; "": it was not
	Why       []string          `json:"why"`       // why approval is needed, as far as the plan says
	Rejected  string            `json:"rejected"`  // why the requirement or the plan was rejected, "" if it was not
	Failed    string            `json:"-"`         // why the planning failed, "" if it did not
	Problems  []trellis.Problem `json:"problems"`  // what `trellis validate` says

	Summary      string                     `json:"summary"`
	Requirements []string                   `json:"requirements"`
	Decisions    []string                   `json:"decisions"` // design decisions
	Criteria     []pipeline.StatedCriterion `json:"criteria"`
	Verify       []string                   `json:"verify"` // commands that decide in the end
	Before       []string                   `json:"before"` // what must hold before the work begins
	Steps        []plan.Line                `json:"steps"`
	Files        []plan.File                `json:"files"`
	Touches      []string                   `json:"touches"` // globs
	Assumptions  []string                   `json:"assumptions"`
	Questions    []string                   `json:"questions"` // that prd.md and research.md leave open
	Left         []string                   `json:"left"`      // what was asked for and is left out, with the reason
	OutOfScope   []string                   `json:"out_of_scope"`
	Undo         []string                   `json:"undo"`
	Estimate     Estimate                   `json:"estimate"`
	Judge        *taskdir.Judge             `json:"judge"` // null: the plan was not judged
	Document     string                     `json:"document"`
}

// Estimate is what is known of how much work a plan is. A limit of 0 means that there is none.
type Estimate struct {
	Size    trellis.Size  `json:"size"`
	Steps   int           `json:"steps"`
	Rounds  int           `json:"rounds"` // at most, of check and debug
	Tokens  int64         `json:"tokens"`
	CostUSD float64       `json:"cost_usd"`
	Seconds int64         `json:"seconds"`
	Used    trellis.Usage `json:"used"`   // so far, by planning
	Likely  *Forecast     `json:"likely"` // by what earlier tasks took; null: there are too few
}

// maxReviewReads is how many times a review is read if files are saved while it is read.
const maxReviewReads = 5

// ReadReview reads what is going to be built from the directory of a task, all of it in the state with the hash in r.Hash.
func ReadReview(store taskdir.Store, dir string, cfg *config.Config) (r Review, err error) {
	for range maxReviewReads {
		t, err := store.Load(dir)
		if err != nil {
			return r, err
		}
		before, err := taskdir.PlanHash(dir, t)
		if err != nil {
			return r, err
		}
		if r, err = readReview(store, t, cfg); err != nil {
			return r, err
		}
		after, err := store.Load(dir)
		if err != nil {
			return r, err
		}
		if r.Hash, err = taskdir.PlanHash(dir, after); err != nil || r.Hash == before {
			return r, err
		}
	}
	return r, fmt.Errorf("reading %s: its files are being changed all the time", store.Rel(dir))
}

func readReview(store taskdir.Store, t *taskdir.Task, cfg *config.Config) (r Review, err error) {
	b, err := pipeline.LoadPlan(store, t.Dir)
	if errors.As(err, new(*flow.Failure)) {
		b, err = nil, nil // the problems of the review report it
	}
	if err != nil {
		return r, err
	}
	r = Review{Task: t.ID, Title: t.Title, Status: t.Status, Type: t.DevType, Package: t.Package, Priority: t.Priority, Branch: t.BranchName(), Base: t.BaseBranch,
		Summary: t.Description, Verify: t.Pipeline.Verify, Judge: t.Pipeline.Judge, Touches: t.Pipeline.Touches}
	if len(r.Verify) == 0 {
		r.Verify = cfg.Verify
	}
	if no := t.Pipeline.Rejection; t.Status == trellis.Rejected {
		r.Rejected = strings.TrimPrefix(no.Category+": "+no.Details, ": ")
	}
	if f := t.Pipeline.Failure; t.Status == trellis.Planning && f.Code != "" {
		r.Failed = strings.TrimSuffix(string(f.Code)+": "+f.Detail, ": ")
	}
	prd, err := document(t.Dir, taskdir.PRD)
	if err != nil {
		return r, err
	}
	notes, err := document(t.Dir, taskdir.Research)
	if err != nil {
		return r, err
	}
	r.Document, r.Questions = prd, append(questions(prd), questions(notes)...)
	r.Estimate = Estimate{Size: t.Pipeline.Size, Rounds: cfg.Limits.Rounds, Tokens: cfg.Limits.Tokens, CostUSD: cfg.Limits.CostUSD, Seconds: cfg.Limits.Seconds, Used: t.Pipeline.Usage}
	var p *plan.Plan
	if b != nil {
		p = b.Plan("")
		r.copyPlan(p)
		r.Steps, r.Estimate.Steps = b.ResolvedSteps(), len(p.Steps)
	}
	r.Criteria = pipeline.ReadCriteria(t.Dir, p)
	r.fillNilLists()
	return r, nil
}

// copyPlan copies what a plan says.
func (r *Review) copyPlan(p *plan.Plan) {
	r.Title, r.Summary = cmp.Or(r.Title, p.Title), cmp.Or(p.Summary, r.Summary)
	r.Requirements, r.Decisions, r.Files = p.Requirements, p.DesignDecisions, p.Files
	r.Assumptions, r.OutOfScope, r.Undo = p.Assumptions, p.OutOfScope, p.Rollback
	r.Touches = append(slices.Clone(r.Touches), p.Touches...)
	for _, c := range p.Preconditions {
		if c.Command != "" {
			c.Text = "`" + c.Command + "` succeeds"
		}
		r.Before = append(r.Before, c.Text)
	}
	for _, u := range p.Uncovered {
		r.Left = append(r.Left, u.Item+": "+u.Reason)
	}
}

// fillNilLists replaces nil lists by empty ones, for scripts.
func (r *Review) fillNilLists() {
	for _, list := range []*[]string{&r.Agreed, &r.Why, &r.Requirements, &r.Decisions, &r.Verify, &r.Before, &r.Touches, &r.Assumptions, &r.Questions, &r.Left, &r.OutOfScope, &r.Undo} {
		if *list == nil {
			*list = []string{}
		}
	}
	r.Problems = append([]trellis.Problem{}, r.Problems...)
	r.Criteria = append([]pipeline.StatedCriterion{}, r.Criteria...)
	r.Steps = append([]plan.Line{}, r.Steps...)
	r.Files = append([]plan.File{}, r.Files...)
}

// document returns the text of a file of a task, "" if there is none.
func document(dir, name string) (string, error) {
	data, err := taskdir.ReadFile(dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(data), err
}

// questions returns the items below headings of a text that say they are open questions.
func questions(document string) (list []string) {
	open := false
	for line := range strings.Lines(document) {
		line = strings.TrimSpace(line)
		if heading := strings.TrimLeft(line, "#"); heading != line {
			heading = strings.ToLower(strings.Trim(heading, " #:*"))
			open = heading == "questions" || heading == "open questions"
			continue
		}
		item := strings.TrimLeft(line, "-*+0123456789.) ")
		if open && item != line && item != "" && !strings.EqualFold(strings.Trim(item, "."), "none") {
			list = append(list, text.OneLine(item))
		}
	}
	return list
}
