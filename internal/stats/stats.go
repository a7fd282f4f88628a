// Package stats counts what tasks took: time, tokens, cost and cache hits of agents, seconds of checks, rounds, refusals and
// ends, from the journals of all tasks that there are, archived ones too.
package stats

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// By is what numbers are told apart by.
type By string

const (
	ByPhase By = "phase"
	ByAgent By = "agent"
	ByModel By = "model" // that agents told, or were asked for
	ByDay   By = "day"   // of the reader's time zone
	ByTask  By = "task"
)

// Kinds are all of By.
var Kinds = []By{ByPhase, ByAgent, ByModel, ByDay, ByTask}

// Record is what is known of the tasks of a project since a time.
type Record struct {
	Since    time.Time // zero: from the beginning
	Problems []string  // what could not be read, and so is not counted
	zone     *time.Location
	calls    []call
	tasks    []task
	runs     []*run
}

// call is a Call with what else is known of it.
type call struct {
	Call
	task   string
	at     time.Time
	broken []string        // commands that failed
	ended  bool            // else it is under way, or was cut off
	asked  *agentcall.Made // until it is known whether it missed
}

// task is one that something was done for.
type task struct {
	id        string
	size      trellis.Size
	rounds    int
	at        time.Time // it came to its last end; zero: to none
	end       end
	code      trellis.Code
	firstPass bool

	checks, once float64 // seconds of the checks of its runs, and of one run of them, 0 when none passed
}

// end is how a task's last run ended, or its planning.
type end int

const (
	open end = iota
	delivered
	unneeded // there was nothing to do
	failed
	cancelled
	rejected
)

// Table is the numbers of a record, told apart by something. Its JSON is what `trellis stats --json` prints.
type Table struct {
	Since    string     `json:"since"` // RFC 3339, UTC; "": from the beginning
	By       By         `json:"by"`
	Total    Row        `json:"total"`
	Rows     []Row      `json:"rows"`
	Failures []Failures `json:"failures"` // why tasks failed, the most frequent first
	Broken   []Broken   `json:"broken"`   // commands that failed after work was done, the most frequent first, at most ten
	Problems []string   `json:"problems"` // what could not be read, and so is not counted
}

// Failures are how many tasks failed with a code.
type Failures struct {
	Code  trellis.Code `json:"code"`
	Tasks int          `json:"tasks"`
}

// Broken is how often a command failed after work was done: a check, or one of a step.
type Broken struct {
	Command string `json:"command"`
	Times   int    `json:"times"`
}

// Row is what was used and what came of it.
type Row struct {
	Key          string   `json:"key"` // the phase, agent, model, day or task; "" of the total
	Tasks        int      `json:"tasks"`
	Calls        int      `json:"calls"`         // of agents
	FailedCalls  int      `json:"failed_calls"`  // ended with a failure, or with an answer that is none
	Refused      int      `json:"refused"`       // said no: evaluate and judge to a plan, accept to the work
	AgentSeconds float64  `json:"agent_seconds"` // that agents worked
	CheckSeconds float64  `json:"check_seconds"` // of the project's own commands
	CheckRuns    *float64 `json:"check_runs"`    // seconds of checks for each second of one run of all of them, of tasks that came to one; null: none did
	InputTokens  int64    `json:"input_tokens"`  // without cached ones
	CachedTokens int64    `json:"cached_tokens"`
	OutputTokens int64    `json:"output_tokens"`
	CacheHits    *float64 `json:"cache_hits"`   // share of the input that was cached; null: there was no input
	CacheMissed  int      `json:"cache_missed"` // calls of whose input nothing was cached, although some of it could have been
	CostUSD      *float64 `json:"cost_usd"`     // as far as agents told, or prices tell; null: none did
	Estimated    bool     `json:"cost_estimated"`
	CostUnknown  int      `json:"cost_unknown"` // calls of which nobody knows what they cost
	Ends         *Ends    `json:"ends"`         // null where numbers are told apart by phase or agent
}

// Ends are what became of tasks.
type Ends struct {
	Delivered     int      `json:"delivered"`
	FirstPass     int      `json:"first_pass"` // of them: by the first run, and nothing had to be debugged
	Unneeded      int      `json:"no_change_needed"`
	Failed        int      `json:"failed"`
	Cancelled     int      `json:"cancelled"`
	Rejected      int      `json:"rejected"`
	Rounds        int      `json:"rounds"`          // of check and debug, in all
	Worked        int      `json:"worked"`          // tasks that came to a round
	FirstPassRate *float64 `json:"first_pass_rate"` // first passes of those delivered or failed; null: there is none
}

// Tokens are all of them.
func (r Row) Tokens() int64 { return r.InputTokens + r.CachedTokens + r.OutputTokens }

// Table tells the numbers apart.
func (r *Record) Table(by By) Table {
	t := Table{By: by, Rows: []Row{}, Failures: r.failures(), Broken: r.broken(), Problems: append([]string{}, r.Problems...)}
	if !r.Since.IsZero() {
		t.Since = r.Since.UTC().Format(time.RFC3339)
	}
	all, rows := newSum(""), map[string]*sum{}
	row := func(key string) *sum {
		if rows[key] == nil {
			rows[key] = newSum(key)
		}
		return rows[key]
	}
	for _, c := range r.calls {
		all.call(c)
		if key := r.keyOfCall(by, c); key != "" {
			row(key).call(c)
		}
	}
	for _, k := range r.tasks {
		all.task(k)
		if key := r.keyOfTask(by, k); key != "" {
			row(key).task(k)
		}
	}
	t.Total = all.row(true)
	for _, s := range rows {
		t.Rows = append(t.Rows, s.row(by == ByDay || by == ByTask))
	}
	slices.SortFunc(t.Rows, by.compare)
	return t
}

// keyOfCall is the row that a call belongs to, "" for none.
func (r *Record) keyOfCall(by By, c call) string {
	switch by {
	case ByPhase:
		return c.Phase
	case ByAgent:
		return c.Agent
	case ByModel:
		return c.modelled()
	case ByDay:
		return r.day(c.at)
	}
	return c.task
}

// modelled is the model of a call, "" for commands.
func (c call) modelled() string {
	if c.Agent == "" {
		return ""
	}
	return cmp.Or(c.Model, c.Agent+"'s own")
}

// keyOfTask is the row that the end of a task belongs to, "" for none.
func (r *Record) keyOfTask(by By, t task) string {
	switch {
	case by == ByTask:
		return t.id
	case by == ByDay && !t.at.IsZero():
		return r.day(t.at)
	}
	return ""
}

// day is the one that a time belongs to.
func (r *Record) day(t time.Time) string { return t.In(r.zone).Format(time.DateOnly) }

func (by By) compare(a, b Row) int {
	switch by {
	case ByPhase:
		return cmp.Or(cmp.Compare(place(a.Key), place(b.Key)), cmp.Compare(a.Key, b.Key))
	case ByAgent, ByModel:
		return cmp.Or(cmp.Compare(b.Tokens(), a.Tokens()), cmp.Compare(a.Key, b.Key))
	}
	return cmp.Compare(a.Key, b.Key)
}

// order is that in which a task meets its phases.
var order = []string{string(trellis.Evaluate), string(trellis.Research), string(trellis.TaskSpec), string(trellis.Plan), string(trellis.PRD), string(trellis.Judge),
	"baseline", string(trellis.Implement), steps, string(trellis.Heal), string(trellis.Grade), string(trellis.Check), "verify", string(trellis.Accept), string(trellis.Debug), "final-verify"}

// steps is the phase of commands that steps of a plan run.
const steps = "steps"

// place is where a phase stands among the others; one that nobody knows is the last.
func place(phase string) int {
	if i := slices.Index(order, phase); i >= 0 {
		return i
	}
	return len(order)
}

// failures are the codes with which tasks failed.
func (r *Record) failures() []Failures {
	count := map[trellis.Code]int{}
	for _, t := range r.tasks {
		if t.end == failed {
			count[t.code]++
		}
	}
	return mostFirst(count, func(code trellis.Code, n int) Failures { return Failures{code, n} })
}

// mostBroken is how many commands are named.
const mostBroken = 10

// broken are the commands that failed, each with how often.
func (r *Record) broken() []Broken {
	count := map[string]int{}
	for _, c := range r.calls {
		for _, command := range c.broken {
			count[command]++
		}
	}
	list := mostFirst(count, func(command string, n int) Broken { return Broken{command, n} })
	return list[:min(len(list), mostBroken)]
}

// mostFirst are rows of what was counted, the most frequent first.
func mostFirst[K cmp.Ordered, Row any](count map[K]int, row func(K, int) Row) []Row {
	list := []Row{}
	for _, key := range slices.SortedFunc(maps.Keys(count), func(a, b K) int { return cmp.Or(count[b]-count[a], cmp.Compare(a, b)) }) {
		list = append(list, row(key, count[key]))
	}
	return list
}

// sum is a row that is being added up.
type sum struct {
	is    Row
	ends  Ends
	tasks map[string]bool

	checks, once float64
}

func newSum(key string) *sum { return &sum{is: Row{Key: key}, tasks: map[string]bool{}} }

func (s *sum) call(c call) {
	s.tasks[c.task] = true
	s.is.CheckSeconds += c.CheckSeconds
	if c.Agent == "" {
		return
	}
	s.is.Calls++
	s.is.FailedCalls += one(c.Failed)
	s.is.Refused += one(c.Refused)
	s.is.CacheMissed += one(c.Missed)
	s.is.AgentSeconds += c.Usage.Seconds
	s.is.InputTokens += c.Usage.InputTokens
	s.is.CachedTokens += c.Usage.CachedTokens
	s.is.OutputTokens += c.Usage.OutputTokens
	s.is.CostUnknown += one(c.Usage.Unpriced() || c.Usage.CostPartial)
	if c.Usage.CostUSD == nil {
		return
	}
	cost := *c.Usage.CostUSD
	if s.is.CostUSD != nil {
		cost += *s.is.CostUSD
	}
	s.is.CostUSD, s.is.Estimated = &cost, s.is.Estimated || c.Usage.CostEstimated
}

func (s *sum) task(t task) {
	s.tasks[t.id] = true
	if t.once > 0 {
		s.checks, s.once = s.checks+t.checks, s.once+t.once
	}
	s.ends.Rounds += t.rounds
	s.ends.Worked += one(t.rounds > 0)
	s.ends.FirstPass += one(t.firstPass)
	switch t.end {
	case delivered:
		s.ends.Delivered++
	case unneeded:
		s.ends.Unneeded++
	case failed:
		s.ends.Failed++
	case cancelled:
		s.ends.Cancelled++
	case rejected:
		s.ends.Rejected++
	}
}

// row is what was added up.
func (s *sum) row(ends bool) Row {
	r := s.is
	r.Tasks = len(s.tasks)
	r.CheckRuns = share(s.checks, s.once)
	r.CacheHits = share(float64(r.CachedTokens), float64(r.InputTokens+r.CachedTokens))
	if ends {
		e := s.ends
		e.FirstPassRate = share(float64(e.FirstPass), float64(e.Delivered+e.Failed))
		r.Ends = &e
	}
	return r
}

func one(is bool) int {
	if is {
		return 1
	}
	return 0
}

// share is a part of a whole, nil where that is nothing.
func share(part, whole float64) *float64 {
	if whole == 0 {
		return nil
	}
	s := part / whole
	return &s
}

// ParseSince is a time that a person names: so long before now, as 7d and 24h, or a date or a time, in the time zone of now.
func ParseSince(text string, now time.Time) (time.Time, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n := 0
		if _, err := fmt.Sscanf(days+";", "%d;", &n); err == nil && n >= 0 {
			return now.AddDate(0, 0, -n), nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.DateOnly, "2006-01-02T15:04", time.RFC3339} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a time: so long ago, as 7d and 24h are, or a date, as 2026-02-01 is", text)
}
