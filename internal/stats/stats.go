// Package stats adds up what tasks took, from the journals of all existing tasks, including archived ones: time, tokens, cost
// and cache hits of agents, seconds of checks, rounds, rejections and outcomes.
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

// Grouping says by what the rows of a table are grouped.
type Grouping string

const (
	ByPhase Grouping = "phase"
	ByAgent Grouping = "agent"
	ByModel Grouping = "model" // as agents reported it, else as it was requested
	ByDay   Grouping = "day"   // in the reader's time zone
	ByTask  Grouping = "task"
)

// Groupings lists all groupings.
var Groupings = []Grouping{ByPhase, ByAgent, ByModel, ByDay, ByTask}

// Record is what is known about the tasks of a project since a time.
type Record struct {
	Since    time.Time // zero: from the beginning
	Problems []string  // what could not be read and is therefore not counted
	zone     *time.Location
	calls    []call
	tasks    []task
	runs     []*run
}

// call is a Call with additional internal data.
type call struct {
	Call
	task           string
	at             time.Time
	failedCommands []string                 // commands that failed
	ended          bool                     // false: still running, or interrupted
	made           *agentcall.CompletedCall // set until Missed is known
}

// task is a task with recorded work.
type task struct {
	id        string
	size      trellis.Size
	rounds    int
	at        time.Time // when its last run or planning ended; zero: none did
	end       end
	code      trellis.Code
	firstPass bool

	checkSeconds, fullCheckSeconds float64 // seconds of all checks of its runs, and of one full run of them, 0 if none passed
}

// end is how a task's last run, or its planning, ended.
type end int

const (
	open end = iota
	delivered
	unneeded // there was nothing to do
	failed
	cancelled
	rejected
)

// Table contains the numbers of a record, grouped by By. Its JSON is the output of `trellis stats --json`.
type Table struct {
	Since    string          `json:"since"` // RFC 3339, UTC; "": from the beginning
	By       Grouping        `json:"by"`
	Total    Row             `json:"total"`
	Rows     []Row           `json:"rows"`
	Failures []Failures      `json:"failures"` // why tasks failed, the most frequent first
	Broken   []FailedCommand `json:"broken"`   // commands that failed after work was done, the most frequent first, at most ten
	Problems []string        `json:"problems"` // what could not be read and is therefore not counted
}

// Failures is the number of tasks that failed with a code.
type Failures struct {
	Code  trellis.Code `json:"code"`
	Tasks int          `json:"tasks"`
}

// FailedCommand is how often a command failed after work was done: a check of the project or of a step.
type FailedCommand struct {
	Command string `json:"command"`
	Times   int    `json:"times"`
}

// Row contains what was used and the outcomes, for one key.
type Row struct {
	Key          string   `json:"key"` // the phase, agent, model, day or task; "" for the total
	Tasks        int      `json:"tasks"`
	Calls        int      `json:"calls"`         // of agents
	FailedCalls  int      `json:"failed_calls"`  // failed, or got an unusable answer
	Refused      int      `json:"refused"`       // the answer was no: evaluate and judge about a plan, accept about the work
	AgentSeconds float64  `json:"agent_seconds"` // working time of agents
	CheckSeconds float64  `json:"check_seconds"` // of the project's own commands
	CheckRuns    *float64 `json:"check_runs"`    // seconds of checks divided by those of one full run of them, for tasks with a full run; null: there are none
	InputTokens  int64    `json:"input_tokens"`  // without cached tokens
	CachedTokens int64    `json:"cached_tokens"`
	OutputTokens int64    `json:"output_tokens"`
	CacheHits    *float64 `json:"cache_hits"`   // cached share of the input; null: no input
	CacheMissed  int      `json:"cache_missed"` // calls that got no input from the cache although they could have
	CostUSD      *float64 `json:"cost_usd"`     // as reported by agents or by list prices; null: unknown for all calls
	Estimated    bool     `json:"cost_estimated"`
	CostUnknown  int      `json:"cost_unknown"` // calls with unknown cost
	Ends         *Ends    `json:"ends"`         // null when grouped by phase, agent or model
}

// Ends counts how tasks ended.
type Ends struct {
	Delivered     int      `json:"delivered"`
	FirstPass     int      `json:"first_pass"` // delivered by the first run without debugging
	Unneeded      int      `json:"no_change_needed"`
	Failed        int      `json:"failed"`
	Cancelled     int      `json:"cancelled"`
	Rejected      int      `json:"rejected"`
	Rounds        int      `json:"rounds"`          // of check and debug, total
	Worked        int      `json:"worked"`          // tasks with at least one round
	FirstPassRate *float64 `json:"first_pass_rate"` // FirstPass divided by Delivered + Failed; null: none of those
}

// Tokens returns the number of all tokens.
func (r Row) Tokens() int64 { return r.InputTokens + r.CachedTokens + r.OutputTokens }

// Table groups the numbers.
func (r *Record) Table(by Grouping) Table {
	t := Table{By: by, Rows: []Row{}, Failures: r.failures(), Broken: r.brokenCommands(), Problems: append([]string{}, r.Problems...)}
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
		all.addCall(c)
		if key := r.keyOfCall(by, c); key != "" {
			row(key).addCall(c)
		}
	}
	for _, k := range r.tasks {
		all.addTask(k)
		if key := r.keyOfTask(by, k); key != "" {
			row(key).addTask(k)
		}
	}
	t.Total = all.row(true)
	for _, s := range rows {
		t.Rows = append(t.Rows, s.row(by == ByDay || by == ByTask))
	}
	slices.SortFunc(t.Rows, by.compare)
	return t
}

// keyOfCall returns the key of the row that a call belongs to, "" for none.
func (r *Record) keyOfCall(by Grouping, c call) string {
	switch by {
	case ByPhase:
		return c.Phase
	case ByAgent:
		return c.Agent
	case ByModel:
		return c.modelName()
	case ByDay:
		return r.day(c.at)
	}
	return c.task
}

// modelName returns the model of a call, "" for commands.
func (c call) modelName() string {
	if c.Agent == "" {
		return ""
	}
	return cmp.Or(c.Model, c.Agent+"'s own")
}

// keyOfTask returns the key of the row that the end of a task belongs to, "" for none.
func (r *Record) keyOfTask(by Grouping, t task) string {
	switch {
	case by == ByTask:
		return t.id
	case by == ByDay && !t.at.IsZero():
		return r.day(t.at)
	}
	return ""
}

// day returns the day of a time in the record's time zone.
func (r *Record) day(t time.Time) string { return t.In(r.zone).Format(time.DateOnly) }

func (by Grouping) compare(a, b Row) int {
	switch by {
	case ByPhase:
		return cmp.Or(cmp.Compare(phasePosition(a.Key), phasePosition(b.Key)), cmp.Compare(a.Key, b.Key))
	case ByAgent, ByModel:
		return cmp.Or(cmp.Compare(b.Tokens(), a.Tokens()), cmp.Compare(a.Key, b.Key))
	}
	return cmp.Compare(a.Key, b.Key)
}

// phaseOrder lists phases in the order in which a task goes through them.
var phaseOrder = []string{string(trellis.Evaluate), string(trellis.Research), string(trellis.TaskSpec), string(trellis.Plan), string(trellis.PRD), string(trellis.Judge),
	"baseline", string(trellis.Implement), stepsPhase, string(trellis.Heal), string(trellis.Grade), string(trellis.Check), "verify", string(trellis.Accept), string(trellis.Debug), "final-verify"}

// stepsPhase is the phase of commands that steps of a plan run.
const stepsPhase = "steps"

// phasePosition returns the position of a phase in phaseOrder; unknown phases come last.
func phasePosition(phase string) int {
	if i := slices.Index(phaseOrder, phase); i >= 0 {
		return i
	}
	return len(phaseOrder)
}

// failures counts the codes with which tasks failed.
func (r *Record) failures() []Failures {
	count := map[trellis.Code]int{}
	for _, t := range r.tasks {
		if t.end == failed {
			count[t.code]++
		}
	}
	return byFrequency(count, func(code trellis.Code, n int) Failures { return Failures{code, n} })
}

// maxBroken is the maximum number of failed commands in a table.
const maxBroken = 10

// brokenCommands counts the commands that failed.
func (r *Record) brokenCommands() []FailedCommand {
	count := map[string]int{}
	for _, c := range r.calls {
		for _, command := range c.failedCommands {
			count[command]++
		}
	}
	list := byFrequency(count, func(command string, n int) FailedCommand { return FailedCommand{command, n} })
	return list[:min(len(list), maxBroken)]
}

// byFrequency returns rows for the keys of count, the most frequent first.
func byFrequency[K cmp.Ordered, Row any](count map[K]int, row func(K, int) Row) []Row {
	list := []Row{}
	for _, key := range slices.SortedFunc(maps.Keys(count), func(a, b K) int { return cmp.Or(count[b]-count[a], cmp.Compare(a, b)) }) {
		list = append(list, row(key, count[key]))
	}
	return list
}

// sum accumulates a row.
type sum struct {
	counts Row
	ends   Ends
	tasks  map[string]bool

	checkSeconds, fullCheckSeconds float64
}

func newSum(key string) *sum { return &sum{counts: Row{Key: key}, tasks: map[string]bool{}} }

func (s *sum) addCall(c call) {
	s.tasks[c.task] = true
	s.counts.CheckSeconds += c.CheckSeconds
	if c.Agent == "" {
		return
	}
	s.counts.Calls++
	s.counts.FailedCalls += oneIf(c.Failed)
	s.counts.Refused += oneIf(c.Refused)
	s.counts.CacheMissed += oneIf(c.Missed)
	s.counts.AgentSeconds += c.Usage.Seconds
	s.counts.InputTokens += c.Usage.InputTokens
	s.counts.CachedTokens += c.Usage.CachedTokens
	s.counts.OutputTokens += c.Usage.OutputTokens
	s.counts.CostUnknown += oneIf(c.Usage.Unpriced() || c.Usage.CostPartial)
	if c.Usage.CostUSD == nil {
		return
	}
	cost := *c.Usage.CostUSD
	if s.counts.CostUSD != nil {
		cost += *s.counts.CostUSD
	}
	s.counts.CostUSD, s.counts.Estimated = &cost, s.counts.Estimated || c.Usage.CostEstimated
}

func (s *sum) addTask(t task) {
	s.tasks[t.id] = true
	if t.fullCheckSeconds > 0 {
		s.checkSeconds, s.fullCheckSeconds = s.checkSeconds+t.checkSeconds, s.fullCheckSeconds+t.fullCheckSeconds
	}
	s.ends.Rounds += t.rounds
	s.ends.Worked += oneIf(t.rounds > 0)
	s.ends.FirstPass += oneIf(t.firstPass)
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

// row returns the accumulated row.
func (s *sum) row(ends bool) Row {
	r := s.counts
	r.Tasks = len(s.tasks)
	r.CheckRuns = share(s.checkSeconds, s.fullCheckSeconds)
	r.CacheHits = share(float64(r.CachedTokens), float64(r.InputTokens+r.CachedTokens))
	if ends {
		e := s.ends
		e.FirstPassRate = share(float64(e.FirstPass), float64(e.Delivered+e.Failed))
		r.Ends = &e
	}
	return r
}

func oneIf(is bool) int {
	if is {
		return 1
	}
	return 0
}

// share returns part divided by whole, nil if whole is 0.
func share(part, whole float64) *float64 {
	if whole == 0 {
		return nil
	}
	s := part / whole
	return &s
}

// ParseSince parses a point in time: a duration before now, such as 7d or 24h, or a date or time in the time zone of now.
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
