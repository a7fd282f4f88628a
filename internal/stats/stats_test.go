package stats_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/stats"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

var noon = time.Date(2026, 2, 3, 12, 0, 0, 0, time.Local)

// did is an activity of a run: its name, input and result.
type did struct {
	name    string
	in, out any
}

func asked(role trellis.Role, agent string, in, cached, out int64, cost float64) did {
	u := trellis.Usage{InputTokens: in, CachedTokens: cached, OutputTokens: out, Seconds: 10}
	if cost > 0 {
		u.CostUSD = &cost
	}
	return did{string(role), agentcall.Request{Role: role, Agent: agent}, agentcall.Reply{Usage: u}}
}

func checked(seconds float64) did {
	return did{"verify", nil, pipeline.Checks{Results: []pipeline.CommandResult{{Command: "make test", Seconds: seconds}, {Command: "make lint", Seconds: 1}}}}
}

func stood(s pipeline.TaskState) did { return did{"status", s, 1} }

func delivered(round int) did {
	return stood(pipeline.TaskState{Status: trellis.Review, Outcome: trellis.Delivered, Round: round})
}

// project is a repository whose tasks have journals of runs that never ran.
type project struct {
	testing.TB
	taskdir.Store
}

func newProject(t testing.TB) project { return project{t, taskdir.Store{Root: t.TempDir()}} }

// run writes a run of a task that ended at the time at.
func (p project) run(id string, in pipeline.Input, at time.Time, done ...did) {
	p.Helper()
	p.runBy(func() time.Time { return at }, id, in, done...)
	p.must(os.Chtimes(filepath.Join(p.Tasks(), id, taskdir.Journal), at, at))
}

// runBy writes a run of a task, with the clock now.
func (p project) runBy(now func() time.Time, id string, in pipeline.Input, done ...did) {
	p.Helper()
	dir := filepath.Join(p.Tasks(), id)
	run := filepath.Join(dir, taskdir.Run)
	raw, err := json.Marshal(in)
	p.must(err)
	p.must(os.MkdirAll(run, 0o755))
	if _, err := os.Stat(filepath.Join(dir, taskdir.TaskJSON)); err != nil {
		p.must(os.WriteFile(filepath.Join(dir, taskdir.TaskJSON), []byte(`{"status": "review"}`), 0o644))
	}
	var acts []flow.Activity
	known := map[string]bool{}
	next := 0
	for _, d := range done {
		if !known[d.name] {
			known[d.name] = true
			acts = append(acts, flow.Act[any, any](d.name).With(func(context.Context, flow.Call, any) (any, error) {
				if err, failed := done[next].out.(error); failed {
					return nil, err
				}
				return done[next].out, nil
			}))
		}
	}
	j, err := journal.Open(journal.Options{Dir: run, Activities: acts, Now: now})
	p.must(err)
	defer j.Close()
	p.must(j.Begin(journal.Spec{Run: fmt.Sprintf("%s/%d", id, j.History().Number+1), Flow: pipeline.Flow, Code: 1, Input: raw}))
	_, err = journal.Execute(context.Background(), j, func(f flow.Flow, _ pipeline.Input) (struct{}, error) {
		for next = range done {
			if _, err := flow.Act[any, any](done[next].name).Do(f, done[next].in); errors.Is(err, flow.ErrSuspended) {
				return struct{}{}, err
			}
		}
		return struct{}{}, nil
	})
	if !errors.Is(err, flow.ErrSuspended) {
		p.must(err)
	}
}

func (p project) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

func (p project) table(since time.Time, by stats.Grouping) stats.Table {
	p.Helper()
	r, err := (&stats.Reader{Store: p.Store}).Read(since)
	p.must(err)
	return r.Table(by)
}

// filled returns a project with a task that needed a second run, one that was delivered at once and archived, and a rejected one.
func filled(t testing.TB) project {
	p := newProject(t)
	p.run("02-01-auth", pipeline.Input{}, noon.AddDate(0, 0, -3), asked(trellis.Implement, "claude", 100, 300, 10, 0.5), checked(5),
		stood(pipeline.TaskState{Status: trellis.Failed, Outcome: trellis.OutcomeFailed, Round: 2, Failure: flow.Fail("verify_failed", "")}))
	p.run("02-01-auth", pipeline.Input{Retries: 1}, noon, asked(trellis.Debug, "codex", 50, 0, 5, 0), delivered(1))
	p.run("02-02-list", pipeline.Input{}, noon, asked(trellis.Implement, "claude", 10, 30, 1, 0.25), delivered(1))
	p.must(os.MkdirAll(filepath.Join(p.Tasks(), "archive", "2026-02"), 0o755))
	p.must(os.Rename(filepath.Join(p.Tasks(), "02-02-list"), filepath.Join(p.Tasks(), "archive", "2026-02", "02-02-list")))
	p.must(os.MkdirAll(filepath.Join(p.Tasks(), "02-03-no"), 0o755))
	p.must(os.WriteFile(filepath.Join(p.Tasks(), "02-03-no", taskdir.TaskJSON), []byte(`{"status": "rejected"}`), 0o644))
	p.must(os.WriteFile(filepath.Join(p.Tasks(), "02-03-no", taskdir.Rejected), nil, 0o644))
	p.must(os.Chtimes(filepath.Join(p.Tasks(), "02-03-no", taskdir.Rejected), noon, noon))
	return p
}

// Scripts rely on these keys, and on a value of every type even if there is nothing to report.
func TestJSON(t *testing.T) {
	p := filled(t)
	got, err := json.MarshalIndent(p.table(time.Time{}, stats.ByAgent), "", " ")
	p.must(err)
	const want = `{
 "since": "",
 "by": "agent",
 "total": {
  "key": "",
  "tasks": 3,
  "calls": 3,
  "failed_calls": 0,
  "refused": 0,
  "agent_seconds": 30,
  "check_seconds": 6,
  "check_runs": 1,
  "input_tokens": 160,
  "cached_tokens": 330,
  "output_tokens": 16,
  "cache_hits": 0.673469387755102,
  "cache_missed": 0,
  "cost_usd": 0.75,
  "cost_estimated": false,
  "cost_unknown": 1,
  "ends": {
   "delivered": 2,
   "first_pass": 1,
   "no_change_needed": 0,
   "failed": 0,
   "cancelled": 0,
   "rejected": 1,
   "rounds": 4,
   "worked": 2,
   "first_pass_rate": 0.5
  }
 },
 "rows": [
  {
   "key": "claude",
   "tasks": 2,
   "calls": 2,
   "failed_calls": 0,
   "refused": 0,
   "agent_seconds": 20,
   "check_seconds": 0,
   "check_runs": null,
   "input_tokens": 110,
   "cached_tokens": 330,
   "output_tokens": 11,
   "cache_hits": 0.75,
   "cache_missed": 0,
   "cost_usd": 0.75,
   "cost_estimated": false,
   "cost_unknown": 0,
   "ends": null
  },
  {
   "key": "codex",
   "tasks": 1,
   "calls": 1,
   "failed_calls": 0,
   "refused": 0,
   "agent_seconds": 10,
   "check_seconds": 0,
   "check_runs": null,
   "input_tokens": 50,
   "cached_tokens": 0,
   "output_tokens": 5,
   "cache_hits": 0,
   "cache_missed": 0,
   "cost_usd": null,
   "cost_estimated": false,
   "cost_unknown": 1,
   "ends": null
  }
 ],
 "failures": [],
 "broken": [],
 "problems": []
}`
	if string(got) != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func keys(t stats.Table) (list []string) {
	for _, r := range t.Rows {
		list = append(list, fmt.Sprintf("%s %d", r.Key, r.Calls))
	}
	return list
}

func TestRows(t *testing.T) {
	p := filled(t)
	for by, want := range map[stats.Grouping]string{
		stats.ByPhase: "implement 2, verify 0, debug 1",
		stats.ByAgent: "claude 2, codex 1",
		stats.ByDay:   "2026-01-31 1, 2026-02-03 2",
		stats.ByTask:  "02-01-auth 2, 02-02-list 1, 02-03-no 0",
	} {
		if got := strings.Join(keys(p.table(time.Time{}, by)), ", "); got != want {
			t.Errorf("%s: got %s, want %s", by, got, want)
		}
	}
}

// CheckRuns is the time of all checks divided by that of the last run that passed; a result of an earlier run took no time.
func TestCheckRuns(t *testing.T) {
	p := newProject(t)
	ran := func(activity string, r pipeline.CommandResult) did {
		r.Command = "make test"
		return did{activity, nil, pipeline.Checks{Results: []pipeline.CommandResult{r}}}
	}
	p.run("02-01-a", pipeline.Input{}, noon, ran("baseline", pipeline.CommandResult{Seconds: 7, Earlier: true}), ran("verify", pipeline.CommandResult{Seconds: 4, Code: 1}),
		ran("verify", pipeline.CommandResult{Seconds: 10}), ran("final-verify", pipeline.CommandResult{Seconds: 10, Earlier: true}), delivered(2))
	p.run("02-02-b", pipeline.Input{}, noon, ran("baseline", pipeline.CommandResult{Seconds: 6}), ran("verify", pipeline.CommandResult{Seconds: 3, Code: 1}),
		stood(pipeline.TaskState{Outcome: trellis.OutcomeFailed, Round: 1, Failure: flow.Fail("verify_failed", "")}))
	got := p.table(time.Time{}, stats.ByTask)
	if got.Total.CheckSeconds != 23 || got.Total.CheckRuns == nil || *got.Total.CheckRuns != 1.4 {
		t.Errorf("got %v s of checks, and of those that passed %v of one run; want 23 and 1.4", got.Total.CheckSeconds, got.Total.CheckRuns)
	}
	if a, b := got.Rows[0].CheckRuns, got.Rows[1].CheckRuns; a == nil || *a != 1.4 || b != nil {
		t.Errorf("got %v and %v, want 1.4 and none", a, b)
	}
}

// A run that was not written to since is not counted, but is remembered as the first of its task.
func TestSince(t *testing.T) {
	p := filled(t)
	got := p.table(noon.Add(-time.Hour), stats.ByTask)
	if got.Total.Calls != 2 || got.Total.Ends.Rounds != 2 || got.Total.Ends.FirstPass != 1 || got.Total.Ends.Delivered != 2 || got.Total.Ends.Rejected != 1 {
		t.Errorf("got %+v, %+v", got.Total, *got.Total.Ends)
	}
	if want := noon.Add(-time.Hour).UTC().Format(time.RFC3339); got.Since != want {
		t.Errorf("got %q, want %q", got.Since, want)
	}
	if got := p.table(noon.Add(time.Hour), stats.ByDay); got.Total.Tasks != 0 || len(got.Rows) != 0 {
		t.Errorf("got %+v", got)
	}
}

// Refused answers, failed calls and the reasons why tasks failed are counted.
func TestRefusals(t *testing.T) {
	p := newProject(t)
	answered := func(role trellis.Role, answer string) did {
		return did{string(role), agentcall.Request{Role: role, Agent: "claude"}, agentcall.Reply{Answer: json.RawMessage(answer), Usage: trellis.Usage{Seconds: 1}}}
	}
	failing := did{"check", agentcall.Request{Role: trellis.Check, Agent: "claude"}, agentcall.Reply{Failure: flow.Fail("agent_exit", ""), Usage: trellis.Usage{Seconds: 1}}}
	p.run("02-01-a", pipeline.Input{}, noon, answered(trellis.Judge, `{"pass": false}`), answered(trellis.Judge, `{"pass": true}`), answered(trellis.Evaluate, `{"decision": "accept"}`),
		answered(trellis.Accept, `{"criteria": [{"id": "A1", "verdict": "met"}, {"id": "A2", "verdict": "unmet"}]}`), failing,
		stood(pipeline.TaskState{Outcome: trellis.OutcomeFailed, Round: 3, Failure: flow.Fail("acceptance_unmet", "")}))
	got := p.table(time.Time{}, stats.ByPhase)
	if got.Total.Refused != 2 || got.Total.FailedCalls != 1 || got.Total.CostUSD != nil || got.Total.CostUnknown != 5 || got.Total.CacheHits != nil {
		t.Errorf("got %+v", got.Total)
	}
	if len(got.Failures) != 1 || got.Failures[0] != (stats.Failures{Code: "acceptance_unmet", Tasks: 1}) {
		t.Errorf("got %+v", got.Failures)
	}
}

// A journal that can't be read to its end is named, and what is before the damage counts.
func TestDamage(t *testing.T) {
	p := newProject(t)
	p.run("02-01-a", pipeline.Input{}, noon, asked(trellis.Implement, "claude", 1, 0, 1, 0.5), asked(trellis.Check, "claude", 1, 0, 1, 0.5), delivered(1))
	path := filepath.Join(p.Tasks(), "02-01-a", taskdir.Journal)
	data, err := os.ReadFile(path)
	p.must(err)
	lines := strings.SplitAfter(string(data), "\n")
	lines[3] = "nonsense\n"
	p.must(os.WriteFile(path, []byte(strings.Join(lines, "")), 0o644))
	got := p.table(time.Time{}, stats.ByTask)
	if len(got.Problems) != 1 || !strings.HasPrefix(got.Problems[0], ".trellis/tasks/02-01-a/run/journal.jsonl: ") || got.Total.Calls != 1 {
		t.Errorf("got %q and %d calls", got.Problems, got.Total.Calls)
	}
}

// A reader that is used again sees what was written since, and nothing that is gone.
func TestReadAgain(t *testing.T) {
	p := filled(t)
	reader := &stats.Reader{Store: p.Store}
	calls := func(since time.Time) int {
		r, err := reader.Read(since)
		p.must(err)
		return r.Table(stats.ByTask).Total.Calls
	}
	if got := calls(time.Time{}); got != 3 {
		t.Errorf("got %d calls, want 3", got)
	}
	p.run("02-01-auth", pipeline.Input{Retries: 2}, noon.Add(time.Minute), asked(trellis.Check, "claude", 1, 0, 1, 0.5), delivered(1))
	if got := calls(noon.Add(time.Second)); got != 1 {
		t.Errorf("got %d calls since, want 1", got)
	}
	if got := calls(time.Time{}); got != 4 {
		t.Errorf("got %d calls with one more run, want 4", got)
	}
	p.must(os.RemoveAll(filepath.Join(p.Tasks(), "02-01-auth")))
	if got := calls(time.Time{}); got != 1 {
		t.Errorf("got %d calls without the task, want 1", got)
	}
}

func TestParseSince(t *testing.T) {
	for text, want := range map[string]time.Time{
		"7d": noon.AddDate(0, 0, -7), "24h": noon.Add(-24 * time.Hour), "90m": noon.Add(-90 * time.Minute), "0d": noon,
		"2026-02-01": time.Date(2026, 2, 1, 0, 0, 0, 0, time.Local), "2026-02-01T08:30": time.Date(2026, 2, 1, 8, 30, 0, 0, time.Local),
		"2026-02-01T08:30:00Z": time.Date(2026, 2, 1, 8, 30, 0, 0, time.UTC),
	} {
		if got, err := stats.ParseSince(text, noon); err != nil || !got.Equal(want) {
			t.Errorf("%s: got %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "-1d", "-1h", "yesterday", "7 d", "7dd", "2026-13-01", "99999999999999999999d"} {
		if got, err := stats.ParseSince(text, noon); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
}

// The commands of criteria are checks, too: each run of them counts once, wherever it is repeated, and CheckRuns includes them.
func TestChecksOfCriteria(t *testing.T) {
	criterion := func(met, earlier bool) pipeline.CriterionResult {
		return pipeline.CriterionResult{Criterion: pipeline.Criterion{ID: "A1", Verify: "sh accept.sh"}, Verdict: "met", Proven: met, Seconds: 4, Earlier: earlier}
	}
	checks := func(name string, earlier bool, judged ...pipeline.CriterionResult) did {
		return did{name, nil, pipeline.Checks{Results: []pipeline.CommandResult{{Command: "make test", Seconds: 6, Earlier: earlier}}, Judged: judged}}
	}
	p := newProject(t)
	p.run("02-01-a", pipeline.Input{}, noon, checks("verify", false, criterion(false, false)), checks("verify", false, criterion(true, false)),
		did{"criteria", nil, []pipeline.CriterionResult{criterion(true, true)}}, checks("final-verify", true, criterion(true, true)), delivered(2))
	p.run("02-02-b", pipeline.Input{}, noon, checks("verify", false), did{"criteria", nil, []pipeline.CriterionResult{criterion(true, false)}},
		checks("final-verify", true), delivered(1)) // in place, where criteria are an activity of their own
	got := p.table(time.Time{}, stats.ByTask)
	for i, want := range []struct{ seconds, runs float64 }{{20, 2}, {10, 1}} {
		if r := got.Rows[i]; r.CheckSeconds != want.seconds || r.CheckRuns == nil || *r.CheckRuns != want.runs {
			t.Errorf("%s: got %v s, %v", r.Key, r.CheckSeconds, r.CheckRuns)
		}
	}
	if rows := p.table(time.Time{}, stats.ByPhase).Rows; len(rows) != 1 || rows[0].Key != "verify" {
		t.Errorf("got %+v", rows)
	}
	if len(got.Broken) != 1 || got.Broken[0] != (stats.FailedCommand{Command: "sh accept.sh", Times: 1}) {
		t.Errorf("got %+v", got.Broken)
	}
}

// Days are those of the time zone that a project names: the same hour is on different days in two zones.
func TestDaysOfAZone(t *testing.T) {
	p := newProject(t)
	p.run("02-01-a", pipeline.Input{}, time.Date(2026, 2, 3, 23, 30, 0, 0, time.UTC), asked(trellis.Implement, "claude", 10, 0, 1, 0.5), delivered(1))
	east := time.FixedZone("east", 3600)
	for want, zone := range map[string]*time.Location{"2026-02-03": time.UTC, "2026-02-04": east} {
		r, err := (&stats.Reader{Store: p.Store, Zone: zone}).Read(time.Time{})
		p.must(err)
		if rows := r.Table(stats.ByDay).Rows; len(rows) != 1 || rows[0].Key != want || rows[0].Calls != 1 || rows[0].Ends.Delivered != 1 {
			t.Errorf("in %s: got %+v", zone, rows)
		}
	}
	if got, err := stats.ParseSince("2026-02-04", noon.In(east)); err != nil || !got.Equal(time.Date(2026, 2, 3, 23, 0, 0, 0, time.UTC)) {
		t.Errorf("got %v, %v", got, err)
	}
}

// No duration is negative, even if the clock was set back meanwhile.
func TestClockSetBack(t *testing.T) {
	p := newProject(t)
	at := noon
	p.runBy(func() time.Time { at = at.Add(-time.Hour); return at }, "02-01-a", pipeline.Input{}, stood(pipeline.TaskState{Status: trellis.InProgress, Phase: "implement", Round: 1}),
		asked(trellis.Implement, "claude", 10, 0, 1, 0.5), stood(pipeline.TaskState{Status: trellis.InProgress, Phase: "check", Round: 1}), delivered(1))
	r, err := (&stats.Reader{Store: p.Store}).Read(time.Time{})
	p.must(err)
	runs, phases := slices.Collect(r.Runs()), slices.Collect(r.Phases())
	if len(runs) != 1 || runs[0].Took != 0 || len(phases) != 2 || phases[0].Took != 0 || phases[1].Took != 0 {
		t.Errorf("got %+v, %+v", runs, phases)
	}
}

// BenchmarkRead reads a project of 10,000 tasks, each with a run of two rounds.
func BenchmarkRead(b *testing.B) {
	p := newProject(b)
	pad := strings.Repeat("a sentence of a prompt's data. ", 130) // 4 kB, as a claim and a request have
	big := func(role trellis.Role) did {
		d := asked(role, "claude", 100, 300, 10, 0.5)
		r := d.in.(agentcall.Request)
		r.Data, _ = json.Marshal(pad)
		d.in = r
		return d
	}
	p.run("02-01-0", pipeline.Input{}, noon, big(trellis.Implement), big(trellis.Check), checked(5), big(trellis.Debug), big(trellis.Check), checked(5), big(trellis.Accept), checked(5), delivered(2))
	from := filepath.Join(p.Tasks(), "02-01-0")
	for i := 1; i < 10_000; i++ {
		p.must(os.CopyFS(filepath.Join(p.Tasks(), fmt.Sprintf("02-01-%d", i)), os.DirFS(from)))
	}
	st, err := os.Stat(filepath.Join(from, taskdir.Journal))
	p.must(err)
	read := func(b *testing.B, reader *stats.Reader) {
		r, err := reader.Read(time.Time{})
		p.must(err)
		if got := r.Table(stats.ByTask).Total.Calls; got != 50_000 {
			b.Fatalf("got %d calls, want 50,000", got)
		}
	}
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			read(b, &stats.Reader{Store: p.Store})
		}
		b.ReportMetric(float64(st.Size())/1e3, "kB/journal")
	})
	b.Run("again", func(b *testing.B) {
		reader := &stats.Reader{Store: p.Store}
		read(b, reader)
		for b.Loop() {
			read(b, reader)
		}
	})
}

// Calls are counted by the model that answered. An estimated cost is marked as such, and a cache that could have been hit and was
// not counts, as does each command that failed after work was done.
func TestModelsCacheAndChecks(t *testing.T) {
	p := newProject(t)
	call := func(role trellis.Role, model string, in, cached int64, cost float64) did {
		d := asked(role, "codex", in, cached, 1, cost)
		reply := d.out.(agentcall.Reply)
		reply.Model, reply.Usage.CostEstimated = model, cost > 0
		return did{d.name, d.in, reply}
	}
	failing := pipeline.Checks{Results: []pipeline.CommandResult{{Command: "make test", Seconds: 5, Code: 2}, {Command: "make lint", Seconds: 1}}}
	p.run("02-01-auth", pipeline.Input{}, noon, did{"baseline", nil, failing}, call(trellis.Implement, "gpt-5.5", 50_000, 0, 0.25), did{"verify", nil, failing},
		call(trellis.Debug, "gpt-5.5", 50_000, 0, 0.25), call(trellis.Debug, "gpt-5.5", 1000, 49_000, 0.05), call(trellis.Accept, "", 9000, 0, 0), checked(5), delivered(1))
	got := p.table(time.Time{}, stats.ByModel)
	if len(got.Rows) != 2 || got.Rows[0].Key != "gpt-5.5" || got.Rows[1].Key != "codex's own" {
		t.Fatalf("got rows %+v", got.Rows)
	}
	if r := got.Rows[0]; r.Calls != 3 || !r.Estimated || *r.CostUSD != 0.55 || r.CacheMissed != 1 || r.CostUnknown != 0 {
		t.Errorf("got %+v", r)
	}
	if r := got.Rows[1]; r.Calls != 1 || r.Estimated || r.CostUSD != nil || r.CostUnknown != 1 {
		t.Errorf("got %+v", r)
	}
	if !got.Total.Estimated || got.Total.CacheMissed != 1 {
		t.Errorf("got in all %+v", got.Total)
	}
	if want := []stats.FailedCommand{{Command: "make test", Times: 1}}; !slices.Equal(got.Broken, want) {
		t.Errorf("got %+v, want %+v", got.Broken, want)
	}
}

// told writes the usage that a call without a reply has noted.
func (p project) told(id, entry, usage string) {
	p.Helper()
	dir := filepath.Join(p.Tasks(), id, taskdir.Run, filepath.FromSlash(entry))
	p.must(os.MkdirAll(dir, 0o755))
	p.must(os.WriteFile(filepath.Join(dir, "usage.json"), []byte(usage), 0o644))
}

// The usage of a call counts even if it got no reply, because it was cancelled, was cut off, or is under way. A call that was not
// made used nothing, and its cost is known.
func TestCallsWithoutReply(t *testing.T) {
	p := newProject(t)
	call := func(out any) did {
		return did{"implement", agentcall.Request{Role: trellis.Implement, Agent: "mine"}, out}
	}
	p.run("02-01-a", pipeline.Input{}, noon, call(&flow.Failure{Code: agentcall.Cancelled}),
		call(agentcall.Reply{Failure: &flow.Failure{Code: string(trellis.BudgetTokens)}}), asked(trellis.Check, "mine", 10, 0, 1, 0.5), call(flow.ErrSuspended))
	p.told("02-01-a", "1/implement#1/1", `{"input_tokens": 300, "cost_usd": 2, "seconds": 4}`)
	p.told("02-01-a", "1/implement#1/2", `{"input_tokens": 9, "cost_usd": 9, "seconds": 9}`) // not in the journal
	reader := &stats.Reader{Store: p.Store}
	total := func() stats.Row {
		r, err := reader.Read(time.Time{})
		p.must(err)
		return r.Table(stats.ByPhase).Total
	}
	if got := total(); got.Calls != 3 || got.FailedCalls != 1 || got.InputTokens != 310 || *got.CostUSD != 2.5 || got.AgentSeconds != 14 || got.CostUnknown != 0 {
		t.Errorf("got %+v", got)
	}
	for _, usage := range []string{`{"input_tokens": 70, "seconds": 5}`, `{"input_tokens": 80, "seconds": 6}`} { // calls under way
		p.told("02-01-a", "1/implement#3/1", usage)
		var noted trellis.Usage
		p.must(json.Unmarshal([]byte(usage), &noted))
		if got := total(); got.Calls != 4 || got.InputTokens != 310+noted.InputTokens || got.CostUnknown != 1 {
			t.Errorf("with %s noted: %+v", usage, got)
		}
		r, err := reader.Read(time.Time{})
		p.must(err)
		if ended := slices.Collect(r.Calls()); len(ended) != 3 { // counters leave out a call under way, as they would fall if it failed
			t.Errorf("with %s noted others count %d calls", usage, len(ended))
		}
	}
}

// An answer that is known from earlier is not counted as a call of the run that uses it.
func TestAnswersThatAreReused(t *testing.T) {
	p := newProject(t)
	p.run("02-01-auth", pipeline.Input{}, noon, asked(trellis.Implement, "claude", 100, 300, 10, 0.5),
		did{string(trellis.Check), agentcall.Request{Role: trellis.Check, Agent: "claude"}, agentcall.Reply{Known: true}}, delivered(1))
	r, err := (&stats.Reader{Store: p.Store}).Read(time.Time{})
	p.must(err)
	if calls := slices.Collect(r.Calls()); len(calls) != 1 {
		t.Errorf("got %d calls: %+v", len(calls), calls)
	}
}
