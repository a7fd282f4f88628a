package runner_test

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// logged is one line of .plan-log.
type logged struct {
	event string
	said  map[string]string
}

// log reads .plan-log and checks what holds for each ended planning: it begins and ends with the planning, in order of time, and each start
// has one end with its duration.
func (w *world) log(dir string) (events []logged) {
	w.Helper()
	pair := regexp.MustCompile(`([a-z_]+)=("(?:[^"\\]|\\.)*"|\[.*\]|\S+)`)
	open, last := map[string]int{}, ""
	for line := range strings.Lines(w.File(dir, ".plan-log")) {
		if strings.HasPrefix(line, "== ") {
			events = nil
			continue
		}
		at, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		event, more, _ := strings.Cut(rest, " ")
		e := logged{event, map[string]string{}}
		for _, m := range pair.FindAllStringSubmatch(more, -1) {
			e.said[m[1]] = m[2]
		}
		events = append(events, e)
		if role, ok := strings.CutSuffix(event, "_started"); ok {
			open[role]++
		} else if role, ok := strings.CutSuffix(event, "_finished"); !ok || open[role] == 0 {
			w.Errorf("%s is not an end of what was started:\n%s", event, line)
		} else {
			open[role]--
			if s, err := strconv.ParseFloat(e.said["seconds"], 64); role != "plan" && (err != nil || s < 0 || e.said["attempts"] == "") {
				w.Errorf("it does not say how long %s took: %s", role, line)
			}
		}
		if !strings.HasPrefix(event, "plan_started") && at < last {
			w.Errorf("%s is out of order", line)
		}
		last = max(last, at)
	}
	if len(events) < 2 || events[0].event != "plan_started" || events[len(events)-1].event != "plan_finished" {
		w.Errorf("the log is %v", events)
	}
	for role, n := range open {
		if n != 0 {
			w.Errorf("%s was started and not finished %d times:\n%s", role, n, w.File(dir, ".plan-log"))
		}
	}
	return events
}

// asked returns the roles that were called, in order of their starts.
func asked(events []logged) string {
	var list []string
	for _, e := range events {
		if role, ok := strings.CutSuffix(e.event, "_started"); ok && slices.Contains([]string{"evaluate", "research", "taskspec", "planner", "judge", "prd"}, role) {
			list = append(list, role)
		}
	}
	return strings.Join(list, " ")
}

// find returns the nth event of a name, from 0; -1 is the last.
func find(events []logged, name string, n int) map[string]string {
	var all []map[string]string
	for _, e := range events {
		if e.event == name {
			all = append(all, e.said)
		}
	}
	if n < 0 {
		n = len(all) - 1
	}
	if n < 0 || n >= len(all) {
		return nil
	}
	return all[n]
}

// says checks the values of an event: "key=value", "key=begin of the value…", or "!key" for a key that must not be there.
func (e logged) says(w *world, want ...string) {
	w.Helper()
	for _, s := range want {
		if key, not := strings.CutPrefix(s, "!"); not {
			if v, there := e.said[key]; there {
				w.Errorf("%s says %s=%s", e.event, key, v)
			}
			continue
		}
		if key, value, _ := strings.Cut(s, "="); e.said[key] != value && (!strings.HasSuffix(value, "…") || !strings.HasPrefix(e.said[key], strings.TrimSuffix(value, "…"))) {
			w.Errorf("%s says %s=%s, want %s", e.event, key, e.said[key], value)
		}
	}
}

// .plan-log records the calls of each planning in order, and their results.
func TestPlanLog(t *testing.T) {
	t.Parallel()
	mood := with(runnertest.Spec(), "mood", "fine")
	auth := runnertest.Obj{"fail": runnertest.Obj{"code": "agent_auth", "detail": "no key"}}
	gone := runnertest.Obj{"exit": 3, "answer": ""}
	reject := runnertest.Answer(runnertest.Obj{"decision": "reject", "category": "unclear", "details": "what?", "suggestions": []string{"say what"}})
	loose := runnertest.Careful("small").With("plan", runnertest.Answer(uncovered()))
	type says map[string][]string // by event, "#n" for the nth: the expected values
	for name, c := range soak.Rows(t, map[string]struct {
		script runnertest.Script
		change func(*runner.Site)
		asked  string // | between calls at the same time
		says   says
	}{
		"all": {runnertest.Careful("small"), nil, "evaluate research|taskspec planner judge", says{
			"evaluate_finished": {"valid=true", "repaired=false", "attempts=1", "agent=rehearsal", "tokens=0", "!error"},
			"taskspec_finished": {"valid=true", "repaired=false", "stub=false", "attempts=1", "goals=1", "priority=high", "!error"},
			"plan_started":      {"priority=unset"},
			"planner_started":   {"priority=high", "goals=1", "taskspec=valid"}, // edge C11
			"planner_finished":  {"priority=high", "goals=1", "taskspec=valid"},
			"plan_finished":     {"decision=accept", "size=small", "confidence=0.90", "status=ready", "calls=5", "steps=2", "priority=high", "goals=1", "!error"}}},
		"TaskSpec off": {runnertest.Careful("small"), func(s *runner.Site) { s.Config.Planning.TaskSpec = false }, "evaluate research planner judge", says{
			"planner_started": {"taskspec=none"}, "plan_finished": {"status=ready", "calls=4", "goals=0", "priority=unset"}}},
		"TaskSpec mended": {runnertest.Careful("small").With("taskspec", runnertest.Answer(mood), runnertest.Answer(runnertest.Spec())), nil, "evaluate research|taskspec|taskspec planner judge", says{
			"taskspec_finished#0": {"valid=false", "repaired=false", "problems=[\"/mood: is not a known key…", "!stub"},
			"taskspec_started#1":  {"why=\"/mood: is not a known key…"},
			"taskspec_finished#1": {"valid=true", "repaired=true", "stub=false"}}},
		"TaskSpec invalid for good": {loose.With("taskspec", runnertest.Answer(mood)), nil, "evaluate research|taskspec|taskspec planner judge", says{
			"taskspec_finished#1": {"valid=false", "repaired=true", "stub=true", "goals=0", "priority=normal"},
			"plan_finished":       {"status=ready", "priority=normal", "goals=0"}}},
		"TaskSpec agent failed": {loose.With("taskspec", gone), nil, "evaluate research|taskspec planner judge", says{
			"taskspec_finished": {"valid=false", "stub=true", "error=agent_exit"}, "plan_finished": {"status=ready"}}},
		"tiny": {runnertest.Careful("tiny"), nil, "evaluate research prd", says{"plan_finished": {"status=ready", "size=tiny", "steps=0", "goals=0"}}},
		"rejected": {runnertest.Careful("small").With("evaluate", reject), nil, "evaluate", says{
			"plan_finished": {"decision=reject", "status=rejected", "calls=1", "!error"}}},
		"evaluate talks": {runnertest.Careful("small").With("evaluate", runnertest.Answer("fine")), nil, "evaluate evaluate", says{
			"evaluate_finished#1": {"valid=false", "repaired=true"}, "plan_finished": {"error=agent_protocol:", "!decision"}}},
		"evaluate fails": {runnertest.Careful("small").With("evaluate", auth), nil, "evaluate", says{
			"evaluate_finished": {"valid=false", "error=agent_auth"}, "plan_finished": {"error=agent_auth:"}}},
		"research fails": {runnertest.Careful("small").With("research", auth), nil, "evaluate research|taskspec", says{
			"research_finished": {"valid=false", "error=agent_auth"}, "taskspec_finished": {"stub=false"}, "plan_finished": {"error=agent_auth:"}}},
		"no plan": {runnertest.Careful("small").With("plan", runnertest.Answer("no")), nil, "evaluate research|taskspec planner planner planner", says{
			"planner_started#2": {"round=3"}, "planner_finished#2": {"valid=false"}, "plan_finished": {"error=agent_protocol:"}}},
		"the judge says no, then fails": {runnertest.Careful("small").With("judge", runnertest.Verdict(false, "split add_flag"), auth), nil, "evaluate research|taskspec planner judge planner judge", says{
			"planner_started#1": {"round=2", "why=\"judge, 1 of 2: split add_flag\""}, "judge_finished#1": {"error=agent_auth"}, "plan_finished": {"error=agent_auth:"}}},
		"the judge says no for good": {runnertest.Careful("small").With("judge", runnertest.Verdict(false, "split add_flag")), nil, "evaluate research|taskspec planner judge planner judge planner judge", says{
			"plan_finished": {"status=waiting", "calls=9"}}},
	}, "all", "TaskSpec mended", "research fails", "the judge says no for good", "rejected", "tiny") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.script.String())
			if c.change != nil {
				c.change(w.Site)
			}
			res := w.planned()
			events := w.log(res.Dir)
			if got := asked(events); !slices.Equal(together(got), together(strings.ReplaceAll(c.asked, "|", " "))) || !ordered(got, c.asked) {
				t.Errorf("asked were %s, want %s", got, c.asked)
			}
			for event, want := range c.says {
				event, nth, ok := strings.Cut(event, "#")
				n := -1
				if ok {
					n, _ = strconv.Atoi(nth)
				}
				logged{event, find(events, event, n)}.says(w, want...)
			}
			if failed := res.Failure != nil; failed != (res.Status == trellis.Planning) {
				t.Errorf("it is %s, %v", res.Status, res.Failure)
			}
		})
	}
}

func together(list string) []string { return slices.Sorted(slices.Values(strings.Fields(list))) }

// ordered reports whether the calls came group by group, in any order within a group.
func ordered(got, want string) bool {
	left := strings.Fields(got)
	for _, group := range strings.Fields(want) {
		n := len(strings.Split(group, "|"))
		if len(left) < n || !slices.Equal(together(strings.Join(left[:n], " ")), together(strings.ReplaceAll(group, "|", " "))) {
			return false
		}
		left = left[n:]
	}
	return len(left) == 0
}
