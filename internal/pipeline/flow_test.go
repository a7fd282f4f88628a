package pipeline_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Results of activities. well returns those of a run in which nothing goes wrong, and tests replace some of them.
const (
	job = `{"title": "Say bye", "repo": "/r", "branch": "feature/bye", "base_branch": "main", "base_commit": "base", "worktree": "/w", "verify": ["make"],
		"choices": {}, "limits": {"rounds": 3, "attempts": 3}, "baseline": true, "setup": {}, "commit_type": "feat"}`
	green          = `{"results": [{"command": "make", "code": 0}], "tree": "t1"}`
	red            = `{"results": [{"command": "make", "code": 1}], "tree": "t1"}`
	reflogText     = `{"text": {"path": "answer.md", "bytes": 4}, "excerpt": "done", "tool_calls": 1}`
	nothing        = `{"text": {"path": "answer.md", "bytes": 0}, "tool_calls": 0}`
	content        = `{"hash": "h1", "criteria": [{"id": "A1", "text": "it says bye"}], "approved": true, "markers": ["DONE"]}`
	open           = `[{"id": "A1", "text": "it says bye", "verdict": ""}]`
	provenCriteria = `[{"id": "A1", "text": "it says bye", "verdict": "met", "proven": true}]`
	half           = `[{"id": "A1", "text": "it says bye", "verdict": ""}, {"id": "A2", "text": "ls does it", "verify": "ls", "verdict": "unmet", "proven": true}]`
	met            = `{"text": {"bytes": 4}, "tool_calls": 1, "answer": {"criteria": [{"id": "A1", "verdict": "met", "evidence": "greet.sh:1"}]}}`
	notMet         = `{"text": {"bytes": 4}, "tool_calls": 1, "answer": {"criteria": [{"id": "A1", "verdict": "unmet", "evidence": "nowhere"}]}}`
	unfit          = `{"text": {"bytes": 4}, "tool_calls": 1, "problems": ["/criteria: is missing"]}`
	made           = `{"sha": "c1"}`
	beside         = `{"baseline_beside": true}`
	checksResult   = `{"results": [{"command": "make", "code": 0}], "fresh": true}`
)

// round lists the calls of a whole round, from the review of the change to its proofs.
const round = "observe check verify observe criteria accept commit final-verify seal"

// well returns the results of a run in which nothing goes wrong.
func well() map[string][]any {
	return map[string][]any{"claim": {job}, "status": {`1`}, "prepare": {`{}`}, "baseline": {green}, "observe": {content}, "implement": {reflogText}, "check": {reflogText},
		"verify": {green}, "criteria": {open}, "accept": {met}, "commit": {made}, "final-verify": {checksResult}, "seal": {`"head"`}, "report": {`{}`}, "debug": {reflogText},
		"changed": {`{"tree": "t2"}`}, "unmended": {`{}`}}
}

// with returns job with parts of its JSON replaced, given as pairs of old and new text.
func with(replace ...string) string { return strings.NewReplacer(replace...).Replace(job) }

// The result of each activity decides which one is called next. calls lists all calls except those that write task.json.
func TestFlow(t *testing.T) {
	t.Parallel()
	follows := with(`"commit_type"`, `"delivery": {"update": "rebase"}, "commit_type"`)
	pushes := with(`"commit_type"`, `"delivery": {"push": true}, "commit_type"`)
	conflict := `{"base": "new", "clash": {"files": ["greet.sh"]}, "checks": {"tree": "t3"}}`
	hook := `{"hook": "CHANGES is missing"}`
	limited := `{"failure": {"code": "rate_limited", "at": "2026-01-02T03:04:05Z", "resume_at": "2026-01-02T03:04:06Z"}}`
	retry := &flow.Failure{Code: string(trellis.PushFailed), Detail: "no network", Retryable: true}
	for name, c := range map[string]struct {
		change  map[string][]any
		in      pipeline.Input
		signals map[string][]string
		calls   string
		status  trellis.Status
		outcome trellis.Outcome
		code    trellis.Code // of the failure that ends the run; "" if it ends well
		detail  string       // part of the detail of that failure
		slept   []time.Duration
	}{
		"all is well": {calls: "claim prepare baseline observe implement " + round + " report", status: trellis.Review, outcome: trellis.Delivered},

		"no baseline is wanted": {change: map[string][]any{"claim": {with(`"baseline": true`, `"baseline": false`)}},
			calls: "claim prepare observe implement " + round + " report", status: trellis.Review, outcome: trellis.Delivered},
		"a command can't run at base": {change: map[string][]any{"baseline": {`{"results": [{"command": "make", "code": 127, "tail": "make: not found"}]}`}},
			calls: "claim prepare baseline report", status: trellis.Failed, outcome: trellis.OutcomeFailed, code: trellis.HookFailed, detail: "worktree.setup"},
		"a command has no network at base": {change: map[string][]any{"baseline": {`{"results": [{"command": "make", "code": 1, "offline": true}]}`}},
			calls: "claim prepare baseline report", status: trellis.Failed, outcome: trellis.OutcomeFailed, code: trellis.HookFailed, detail: "network"},
		"a command that fails at base decides nothing": {change: map[string][]any{"baseline": {red}, "verify": {`{"results": [{"command": "make", "code": 1, "known": true}], "tree": "t1"}`},
			"check": {`{"text": {"bytes": 4}, "excerpt": "fine\n\nDONE", "tool_calls": 1}`}},
			calls: "claim prepare baseline observe implement " + round + " report", status: trellis.Review, outcome: trellis.Delivered},

		"the baseline runs beside the work": {change: map[string][]any{"prepare": {beside}},
			calls: "claim prepare observe implement baseline " + round + " report", status: trellis.Review, outcome: trellis.Delivered},
		"what fails beside the work is asked again, and passes alone": {change: map[string][]any{"prepare": {beside}, "baseline": {red, green}, "verify": {red}},
			in: pipeline.Input{}, calls: "claim prepare observe implement baseline baseline observe check verify observe debug observe check verify report", status: trellis.Failed, outcome: trellis.OutcomeFailed, code: trellis.NoProgress},
		"what fails beside the work and alone is forgiven": {change: map[string][]any{"prepare": {beside}, "baseline": {red}, "verify": {`{"results": [{"command": "make", "code": 1, "known": true}], "tree": "t1"}`},
			"check": {`{"text": {"bytes": 4}, "excerpt": "fine\n\nDONE", "tool_calls": 1}`}},
			calls: "claim prepare observe implement baseline baseline " + round + " report", status: trellis.Review, outcome: trellis.Delivered},
		"what can't run beside the work ends it after the first agent": {change: map[string][]any{"prepare": {beside}, "baseline": {`{"results": [{"command": "make", "code": 127, "tail": "make: not found"}]}`}},
			calls: "claim prepare observe implement baseline baseline report", status: trellis.Failed, outcome: trellis.OutcomeFailed, code: trellis.HookFailed, detail: "worktree.setup"},
		"a run that an older trellis began does not": {in: pipeline.Input{Code: 7}, change: map[string][]any{"prepare": {beside}},
			calls: "claim prepare baseline observe implement " + round + " report", status: trellis.Review, outcome: trellis.Delivered},

		"implement says and does nothing": {change: map[string][]any{"implement": {nothing}, "changed": {`{"unchanged": true}`}},
			calls: "claim prepare baseline observe implement changed report", status: trellis.Failed, outcome: trellis.OutcomeFailed, code: trellis.EmptyOutput},
		"implement says nothing and has changed something": {change: map[string][]any{"implement": {nothing}, "changed": {`{"tree": "t1"}`}},
			calls: "claim prepare baseline observe implement changed " + round + " report", status: trellis.Review, outcome: trellis.Delivered},
		"an earlier run implemented the same content": {in: pipeline.Input{Implemented: "h1"},
			calls: "claim prepare baseline observe " + round + " report", status: trellis.Review, outcome: trellis.Delivered},
		"what an earlier run implemented is lost": {in: pipeline.Input{Implemented: "h1"}, change: map[string][]any{"prepare": {`{"lost": true}`}},
			calls: "claim prepare baseline observe implement " + round + " report", status: trellis.Review, outcome: trellis.Delivered},

		"no command decides, and check ends with its marker": {change: map[string][]any{"verify": {`{"tree": "t1"}`}, "check": {`{"text": {"bytes": 4}, "excerpt": "fine\n\n**DONE**", "tool_calls": 1}`}},
			calls: "claim prepare baseline observe implement " + round + " report", status: trellis.Review, outcome: trellis.Delivered},
		"no command decides, and check does not end with its marker": {change: map[string][]any{"verify": {`{"tree": "t1"}`}},
			calls:  "claim prepare baseline observe implement observe check verify observe debug observe check verify report",
			status: trellis.Failed, outcome: trellis.OutcomeFailed, code: trellis.NoProgress, detail: "did not end with DONE"},

		"verify is red, and debug mends it": {change: map[string][]any{"verify": {red, green}},
			calls:  "claim prepare baseline observe implement observe check verify observe debug " + round + " report",
			status: trellis.Review, outcome: trellis.Delivered},
		"verify is red on the same tree again": {change: map[string][]any{"verify": {red}},
			calls:  "claim prepare baseline observe implement observe check verify observe debug observe check verify report",
			status: trellis.Failed, outcome: trellis.OutcomeFailed, code: trellis.NoProgress, detail: "`make` exited with 1"},
		"verify stays red until there are no rounds left": {change: map[string][]any{"verify": {red, strings.Replace(red, "t1", "t2", 1), strings.Replace(red, "t1", "t3", 1)}},
			calls:  "claim prepare baseline observe implement observe check verify observe debug observe check verify observe debug observe check verify report",
			status: trellis.Failed, outcome: trellis.OutcomeFailed, code: trellis.VerifyFailed, detail: "after 3 rounds"},
		"nothing was changed, and verify is red": {change: map[string][]any{"verify": {`{"results": [{"command": "make", "code": 1}], "unchanged": true}`}},
			calls:  "claim prepare baseline observe implement observe check verify observe debug observe check verify report",
			status: trellis.Failed, outcome: trellis.OutcomeFailed, code: trellis.EmptyDiff, detail: "nothing was changed"},
		"a protected path is changed, and debug takes it back": {change: map[string][]any{"verify": {`{"results": [{"command": "make", "code": 0}], "tree": "t1", "protected": ["go.sum"]}`, green}},
			calls:  "claim prepare baseline observe implement observe check verify observe debug " + round + " report",
			status: trellis.Review, outcome: trellis.Delivered},
		"a protected path stays changed": {change: map[string][]any{"verify": {`{"tree": "t1", "protected": ["go.sum"]}`, `{"tree": "t2", "protected": ["go.sum"]}`, `{"tree": "t3", "protected": ["go.sum"]}`}},
			calls:  "claim prepare baseline observe implement observe check verify observe debug observe check verify observe debug observe check verify report",
			status: trellis.Failed, outcome: trellis.OutcomeFailed, code: trellis.ProtectedPath, detail: "go.sum"},
		"settings of git are bent": {change: map[string][]any{"verify": {`{"tree": "t1", "bent": ["core.autocrlf"]}`, green}},
			calls:  "claim prepare baseline observe implement observe check verify observe debug " + round + " report",
			status: trellis.Review, outcome: trellis.Delivered},

		"commands prove all criteria": {change: map[string][]any{"criteria": {provenCriteria}},
			calls: "claim prepare baseline observe implement observe check verify observe criteria commit final-verify seal report", status: trellis.Review, outcome: trellis.Delivered},
		"a criterion is not met, and debug mends it": {change: map[string][]any{"accept": {notMet, met}},
			calls:  "claim prepare baseline observe implement observe check verify observe criteria accept observe debug " + round + " report",
			status: trellis.Review, outcome: trellis.Delivered},
		"nobody can judge a criterion": {change: map[string][]any{"accept": {unfit}},
			calls:  "claim prepare baseline observe implement observe check verify observe criteria accept accept report",
			status: trellis.Failed, outcome: trellis.OutcomeFailed, code: trellis.AcceptanceUnmet, detail: "A1 is unknown: it says bye; the accept agent's answer is invalid: "},
		"nobody can judge a criterion, and nothing was changed": {change: map[string][]any{"verify": {`{"results": [{"command": "make", "code": 0}], "tree": "t1", "unchanged": true}`}, "accept": {unfit}},
			calls:  "claim prepare baseline observe implement observe check verify observe criteria accept accept report",
			status: trellis.Failed, outcome: trellis.OutcomeFailed, code: trellis.EmptyDiff, detail: "the accept agent's answer is invalid: "},
		"the judge says nothing at all": {change: map[string][]any{"accept": {&flow.Failure{Code: string(trellis.EmptyOutput)}, met}},
			calls:  "claim prepare baseline observe implement observe check verify observe criteria accept observe debug " + round + " report",
			status: trellis.Review, outcome: trellis.Delivered},
		"one is not met, and nobody can judge another": {change: map[string][]any{"criteria": {half, provenCriteria}, "accept": {unfit}},
			calls:  "claim prepare baseline observe implement observe check verify observe criteria accept accept observe debug observe check verify observe criteria commit final-verify seal report",
			status: trellis.Review, outcome: trellis.Delivered},
		"nobody can judge one that only should be met": {change: map[string][]any{"criteria": {strings.Replace(open, `"text"`, `"should": true, "text"`, 1)}, "accept": {unfit}},
			calls:  "claim prepare baseline observe implement " + strings.Replace(round, "accept", "accept accept", 1) + " report",
			status: trellis.Review, outcome: trellis.Delivered},
		"nobody can judge a criterion, in a run that an older trellis began": {in: pipeline.Input{Code: 11}, change: map[string][]any{"accept": {unfit}},
			calls:  "claim prepare baseline observe implement observe check verify observe criteria accept accept observe debug observe check verify observe criteria accept accept report",
			status: trellis.Failed, outcome: trellis.OutcomeFailed, code: trellis.NoProgress, detail: "A1 is unknown"},
		"the answer of accept is repaired": {change: map[string][]any{"accept": {unfit, met}},
			calls:  "claim prepare baseline observe implement " + strings.Replace(round, "accept", "accept accept", 1) + " report",
			status: trellis.Review, outcome: trellis.Delivered},
		"one that should be met is not": {change: map[string][]any{"criteria": {strings.Replace(open, `"text"`, `"should": true, "text"`, 1)}, "accept": {notMet}},
			calls: "claim prepare baseline observe implement " + round + " report", status: trellis.Review, outcome: trellis.Delivered},

		"a hook refuses the commit, and debug mends it": {change: map[string][]any{"commit": {hook, made}},
			calls:  "claim prepare baseline observe implement observe check verify observe criteria accept commit observe debug " + round + " report",
			status: trellis.Review, outcome: trellis.Delivered},
		"a hook refuses the commit again": {change: map[string][]any{"commit": {hook}},
			calls:  "claim prepare baseline observe implement observe check verify observe criteria accept commit observe debug observe check verify observe criteria accept commit report",
			status: trellis.Failed, outcome: trellis.OutcomeFailed, code: trellis.NoProgress, detail: "CHANGES is missing"},
		"there are secrets, and debug takes them out": {change: map[string][]any{"commit": {`{"leaks": ["a.txt:1 token"]}`, made}},
			calls:  "claim prepare baseline observe implement observe check verify observe criteria accept commit observe debug " + round + " report",
			status: trellis.Review, outcome: trellis.Delivered},
		"there are secrets still": {change: map[string][]any{"commit": {`{"leaks": ["a.txt:1 token"]}`}},
			calls:  "claim prepare baseline observe implement observe check verify observe criteria accept commit observe debug observe check verify observe criteria accept commit report",
			status: trellis.Failed, outcome: trellis.OutcomeFailed, code: trellis.SecretFound, detail: "a.txt:1 token"},
		"all that was changed is left out of commits": {change: map[string][]any{"commit": {`{"nothing": true}`}},
			calls:  "claim prepare baseline observe implement observe check verify observe criteria accept commit report",
			status: trellis.Failed, outcome: trellis.OutcomeFailed, code: trellis.EmptyDiff},

		"nothing is to do, and a command proves it": {change: map[string][]any{"verify": {`{"results": [{"command": "make", "code": 0}], "unchanged": true}`}, "criteria": {provenCriteria}, "ground": {`[]`}, "discard": {`{}`}},
			calls:  "claim prepare baseline observe implement observe check verify observe criteria ground discard report",
			status: trellis.Completed, outcome: trellis.NoChangeNeeded},
		"nothing was done, and only a claim says that it need not be": {change: map[string][]any{"verify": {`{"results": [{"command": "make", "code": 0}], "unchanged": true}`}, "ground": {`["A1"]`}},
			calls:  "claim prepare baseline observe implement observe check verify observe criteria accept ground report",
			status: trellis.Failed, outcome: trellis.OutcomeFailed, code: trellis.EmptyDiff, detail: "A1"},

		"the base has not moved": {change: map[string][]any{"claim": {follows}, "update": {`{}`}, "probe": {`[]`}},
			calls:  "claim prepare baseline observe implement observe check verify observe criteria accept commit update final-verify seal probe report",
			status: trellis.Review, outcome: trellis.Delivered},
		"the base has moved on in conflict, and debug mends it": {change: map[string][]any{"claim": {follows}, "update": {conflict, `{"base": "new", "checks": {"tree": "t4"}}`}, "probe": {`["in the way of 02-02-hi"]`}},
			calls: "claim prepare baseline observe implement observe check verify observe criteria accept commit update " +
				"observe debug observe check unmended verify observe criteria accept commit update final-verify seal probe report",
			status: trellis.Review, outcome: trellis.Delivered},
		"files hold both sides still": {change: map[string][]any{"claim": {follows}, "update": {conflict}, "unmended": {`{"stray": ["greet.sh"], "tree": "t3"}`}},
			calls: "claim prepare baseline observe implement observe check verify observe criteria accept commit update " +
				"observe debug observe check unmended report",
			status: trellis.Failed, outcome: trellis.OutcomeFailed, code: trellis.Conflict, detail: "fixed nothing"},
		"the base has all of it by now": {change: map[string][]any{"claim": {follows}, "update": {`{"base": "new", "checks": {"unchanged": true}}`}, "criteria": {provenCriteria},
			"verify": {green, `{"results": [{"command": "make", "code": 0}], "unchanged": true}`}, "ground": {`[]`}, "discard": {`{}`}},
			calls:  "claim prepare baseline observe implement observe check verify observe criteria commit update verify observe criteria ground discard report",
			status: trellis.Completed, outcome: trellis.NoChangeNeeded},

		"what passes in the worktree fails in a fresh checkout": {change: map[string][]any{"final-verify": {`{"results": [{"command": "make", "code": 1}], "fresh": true, "unseen": ["lib.o"]}`, checksResult}},
			calls: "claim prepare baseline observe implement observe check verify observe criteria accept commit final-verify observe debug " + round + " report", status: trellis.Review, outcome: trellis.Delivered},
		"the commit does not hold all of the work": {change: map[string][]any{"final-verify": {`{"stray": ["lib.go"]}`, checksResult}},
			calls: "claim prepare baseline observe implement observe check verify observe criteria accept commit final-verify observe debug " + round + " report", status: trellis.Review, outcome: trellis.Delivered},
		"the commit holds secrets": {change: map[string][]any{"final-verify": {`{"leaks": ["a.txt:1 token"]}`, checksResult}},
			calls: "claim prepare baseline observe implement observe check verify observe criteria accept commit final-verify observe debug " + round + " report", status: trellis.Review, outcome: trellis.Delivered},
		"a criterion is not met in the commit": {change: map[string][]any{"final-verify": {`{"results": [{"command": "make", "code": 0}], "fresh": true, "judged": [{"id": "A1", "verdict": "unmet"}]}`, checksResult}},
			calls: "claim prepare baseline observe implement observe check verify observe criteria accept commit final-verify observe debug " + round + " report", status: trellis.Review, outcome: trellis.Delivered},

		"tokens are used up": {in: pipeline.Input{Used: trellis.Usage{InputTokens: 60, OutputTokens: 50}}, change: map[string][]any{"claim": {with(`"attempts": 3`, `"attempts": 3, "tokens": 100`)}},
			calls: "claim prepare baseline observe report", status: trellis.Paused, code: trellis.BudgetTokens, detail: "110 tokens of limits.tokens, which is 100"},
		"time is used up": {in: pipeline.Input{Used: trellis.Usage{Seconds: 61}}, change: map[string][]any{"claim": {with(`"attempts": 3`, `"attempts": 3, "seconds": 60`)}},
			calls: "claim prepare baseline observe report", status: trellis.Paused, code: trellis.BudgetTime},
		"an agent that uses up the rest ends the run": {change: map[string][]any{"claim": {with(`"attempts": 3`, `"attempts": 3, "tokens": 100`)}, "implement": {strings.Replace(reflogText, `"tool_calls"`, `"usage": {"input_tokens": 200}, "tool_calls"`, 1)}},
			calls: "claim prepare baseline observe implement observe report", status: trellis.Paused, code: trellis.BudgetTokens},
		"an agent fails for a passing reason": {change: map[string][]any{"implement": {`{"failure": {"code": "agent_exit", "retryable": true}}`, reflogText}},
			calls: "claim prepare baseline observe implement implement " + round + " report", status: trellis.Review, outcome: trellis.Delivered, slept: []time.Duration{10 * time.Second}},
		"a limit lasts longer than it says": {change: map[string][]any{"implement": {limited, limited, reflogText}},
			calls: "claim prepare baseline observe implement implement implement " + round + " report", status: trellis.Review, outcome: trellis.Delivered, slept: []time.Duration{time.Second, 10 * time.Second}},
		"a limit lasts longer, in a run that an older trellis began": {in: pipeline.Input{Code: 10}, change: map[string][]any{"implement": {limited, limited, reflogText}},
			calls: "claim prepare baseline observe implement implement implement " + round + " report", status: trellis.Review, outcome: trellis.Delivered, slept: []time.Duration{time.Second, time.Second}},
		"an agent fails for good": {change: map[string][]any{"implement": {`{"failure": {"code": "agent_auth"}}`}},
			calls: "claim prepare baseline observe implement report", status: trellis.Failed, outcome: trellis.OutcomeFailed, code: trellis.AgentAuth},

		"the plan waits for a yes, and gets it": {change: map[string][]any{"claim": {with(`"commit_type"`, `"unapproved": true, "approval": 1, "commit_type"`), job}}, signals: map[string][]string{"approval": {""}},
			calls: "claim claim prepare baseline observe implement " + round + " report", status: trellis.Review, outcome: trellis.Delivered},
		"the plan is changed and waits for another yes": {change: map[string][]any{"observe": {content, `{"hash": "h2", "criteria": [], "approved": false}`, strings.Replace(content, "h1", "h2", 1)}}, signals: map[string][]string{"approval": {""}},
			calls: "claim prepare baseline observe implement observe observe check verify observe criteria accept commit final-verify seal report", status: trellis.Review, outcome: trellis.Delivered},

		"what was verified is pushed": {change: map[string][]any{"claim": {pushes}, "deliver": {`{"pushed": true}`}},
			calls: "claim prepare baseline observe implement " + round + " deliver report", status: trellis.Review, outcome: trellis.Delivered},
		"the remote is away for a moment": {change: map[string][]any{"claim": {pushes}, "deliver": {retry, retry, `{"pushed": true}`}},
			calls:  "claim prepare baseline observe implement " + round + " deliver deliver deliver report",
			status: trellis.Review, outcome: trellis.Delivered, slept: []time.Duration{10 * time.Second, 20 * time.Second}},
		"the remote refuses": {change: map[string][]any{"claim": {pushes}, "deliver": {&flow.Failure{Code: string(trellis.PushFailed), Detail: "protected branch"}}},
			calls:  "claim prepare baseline observe implement " + round + " deliver report",
			status: trellis.Failed, outcome: trellis.OutcomeFailed, code: trellis.PushFailed, detail: "protected branch"},
		"what could not be pushed is pushed by the next run": {in: pipeline.Input{Undelivered: &pipeline.Report{Content: "h1", Commit: "c1", Checks: pipeline.Checks{Tree: "t2"}}}, change: map[string][]any{"claim": {pushes}, "deliver": {`{"pushed": true}`}},
			calls: "claim prepare observe changed deliver report", status: trellis.Review, outcome: trellis.Delivered},
		"what could not be pushed was changed since": {in: pipeline.Input{Undelivered: &pipeline.Report{Content: "h1", Commit: "c1", Checks: pipeline.Checks{Tree: "t1"}}}, change: map[string][]any{"claim": {pushes}, "deliver": {`{"pushed": true}`}},
			calls: "claim prepare observe changed baseline observe implement " + round + " deliver report", status: trellis.Review, outcome: trellis.Delivered},

		"a run of code that is not there yet": {in: pipeline.Input{Code: pipeline.Code + 1}, code: trellis.JournalDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &scripted{T: t, Results: well(), Signals: c.signals}
			maps.Copy(p.Results, c.change)
			in := c.in
			if in.Task = "02-01-bye"; in.Code == 0 {
				in.Code = pipeline.Code
			}
			rep, err := pipeline.Run(nil)(p.Flow(), in)
			if got := strings.Join(p.Names("status"), " "); got != c.calls {
				t.Errorf("called\n     %s\nwant %s", got, c.calls)
			}
			fail := (*flow.Failure)(nil)
			if errors.As(err, &fail); err != nil && fail == nil || (fail != nil) != (c.code != "") || fail != nil && (fail.Code != string(c.code) || !strings.Contains(fail.Detail, c.detail)) {
				t.Errorf("it ended with %v, want %q with %q", err, c.code, c.detail)
			}
			if !slices.Equal(p.Slept, c.slept) {
				t.Errorf("it slept %v, want %v", p.Slept, c.slept)
			}
			if c.calls == "" {
				return
			}
			var told pipeline.TaskState
			if p.Last("status", &told); told.Status != c.status || told.Outcome != c.outcome || rep.Outcome != c.outcome {
				t.Errorf("task.json says %s, %s and the report %s; want %s, %s", told.Status, told.Outcome, rep.Outcome, c.status, c.outcome)
			}
			if c.outcome == trellis.Delivered && (rep.Commit != "c1" || told.Commit != "c1") {
				t.Errorf("the commit is %q, and %q in task.json", rep.Commit, told.Commit)
			}
		})
	}
}

// Debug is told what is wrong: the failed command, the unmet criterion, the message of the hook and so on.
func TestFlowTellsDebug(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		activity string
		results  []any
		want     string
	}{
		"a red command":      {"verify", []any{red, green}, `"failed":[{"code":1,"command":"make"`},
		"a criterion":        {"accept", []any{notMet, met}, `"unmet":[{"evidence":"nowhere","id":"A1"`},
		"a hook":             {"commit", []any{`{"hook": "CHANGES is missing", "output": {"path": "hook.log", "bytes": 3}}`, made}, `CHANGES is missing`},
		"secrets":            {"commit", []any{`{"leaks": ["a.txt:1 token"]}`, made}, `a.txt:1 token`},
		"a protected path":   {"verify", []any{`{"tree": "t1", "protected": ["go.sum"]}`, green}, `protected paths were changed: go.sum`},
		"the fresh checkout": {"final-verify", []any{`{"results": [{"command": "make", "code": 1}], "fresh": true, "unseen": ["lib.o"]}`, checksResult}, `files that git ignores are in the worktree and not in the commit: lib.o`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &scripted{T: t, Results: well()}
			p.Results[c.activity] = c.results
			if _, err := pipeline.Run(nil)(p.Flow(), pipeline.Input{Code: pipeline.Code, Task: "02-01-bye"}); err != nil {
				t.Fatal(err)
			}
			var told struct {
				Data struct {
					Trouble any `json:"trouble"`
				} `json:"data"`
			}
			if p.Last("debug", &told); !strings.Contains(compact(t, told.Data.Trouble), c.want) {
				t.Errorf("debug is told %s, want %s", compact(t, told.Data.Trouble), c.want)
			}
		})
	}
}

// A suspended run reports no end; a cancelled run calls report, and task.json says that it was cancelled.
func TestFlowStops(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err    error
		calls  string
		status trellis.Status
	}{
		"cut off":    {flow.ErrSuspended, "claim prepare baseline observe implement", trellis.InProgress},
		"called off": {flow.ErrCancelled, "claim prepare baseline observe implement report", trellis.Cancelled},
	} {
		p := &scripted{T: t, Results: well()}
		p.Results["implement"] = []any{c.err}
		_, err := pipeline.Run(nil)(p.Flow(), pipeline.Input{Code: pipeline.Code, Task: "02-01-bye"})
		if got := strings.Join(p.Names("status"), " "); got != c.calls || !errors.Is(err, c.err) {
			t.Errorf("%s: called %s, and ended with %v", name, got, err)
		}
		var told pipeline.TaskState
		if p.Last("status", &told); told.Status != c.status {
			t.Errorf("%s: task.json says %s", name, told.Status)
		}
	}
	p := &scripted{T: t, Results: well()}
	p.Results["claim"] = []any{with(`"commit_type"`, `"unapproved": true, "approval": 1, "commit_type"`)}
	_, err := pipeline.Run(nil)(p.Flow(), pipeline.Input{Code: pipeline.Code, Task: "02-01-bye"})
	var told pipeline.TaskState
	if p.Last("status", &told); !errors.Is(err, flow.ErrSuspended) || told.Status != trellis.Waiting || !told.Asks {
		t.Errorf("without a yes: %v, and task.json says %+v", err, told)
	}
}

// The cost of a run is marked as partial if a call did not report its cost, except in a run of older code, which did not
// mark it: its replay has to match its journal.
func TestFlowTellsPartOfTheCost(t *testing.T) {
	t.Parallel()
	for code, partial := range map[int]bool{pipeline.Code: true, 9: false} {
		p := &scripted{T: t, Results: well()}
		p.Results["implement"] = []any{strings.Replace(reflogText, `"tool_calls"`, `"usage": {"input_tokens": 5, "cost_usd": 0.5}, "tool_calls"`, 1)}
		p.Results["check"] = []any{strings.Replace(reflogText, `"tool_calls"`, `"usage": {"input_tokens": 5, "cost_usd": null}, "tool_calls"`, 1)}
		rep, err := pipeline.Run(nil)(p.Flow(), pipeline.Input{Code: code, Task: "02-01-bye"})
		if err != nil {
			t.Fatal(err)
		}
		var told pipeline.TaskState
		p.Last("status", &told)
		for _, u := range []trellis.Usage{rep.Usage, told.Usage} {
			if u.CostUSD == nil || *u.CostUSD != 0.5 || u.CostPartial != partial {
				t.Errorf("code %d: got %+v", code, u)
			}
		}
	}
}

// The steps of a plan replace implement. A step that fails goes to debug, which uses up a round.
func TestFlowRunsSteps(t *testing.T) {
	t.Parallel()
	b, problems := plan.Load(plan.LoadOptions{File: "plan.json", Read: func(string) ([]byte, error) {
		return []byte(`{"schema_version": 1, "title": "Say bye", "steps": [{"id": "note", "type": "script", "command": "echo bye > NOTES"},
			{"id": "add", "type": "prompt", "prompt": "Teach it --bye."}, {"id": "test", "type": "script", "command": "make", "proof": {"type": "test"}}]}`), nil
	}})
	if b == nil {
		t.Fatal(problems)
	}
	steps := fmt.Sprintf(`{"hash": "h1", "bundle": %q, "steps": true, "criteria": [{"id": "A1", "text": "it says bye"}], "approved": true}`, b.Hash)
	ran := func(code int) string { return fmt.Sprintf(`{"command": "echo", "code": %d, "tail": "no"}`, code) }
	for name, c := range map[string]struct {
		script []any
		in     pipeline.Input
		calls  string
		code   trellis.Code
	}{
		"each once":                       {script: []any{ran(0)}, calls: "begin script end begin implement end " + round + " report"},
		"one fails, and debug mends it":   {script: []any{ran(1), ran(0)}, calls: "begin script changed observe debug script end begin implement end " + round + " report"},
		"one fails as before":             {script: []any{ran(1)}, calls: "begin script changed observe debug script changed report", code: trellis.NoProgress},
		"an earlier run did all of them":  {in: pipeline.Input{Implemented: "h1"}, calls: round + " report"},
		"one of code 1 gives it to agent": {in: pipeline.Input{Code: 1}, calls: "implement observe check verify observe criteria accept commit final-verify report"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &scripted{T: t, Results: well()}
			maps.Copy(p.Results, map[string][]any{"observe": {steps}, "begin": {`{}`}, "end": {`{}`}, "script": c.script})
			in := c.in
			if in.Task = "02-01-bye"; in.Code == 0 {
				in.Code = pipeline.Code
			}
			_, err := pipeline.Run(func(hash string) (*plan.Bundle, error) { return b, nil })(p.Flow(), in)
			if got, want := strings.Join(p.Names("status"), " "), "claim prepare baseline observe "+c.calls; got != want {
				t.Errorf("called\n     %s\nwant %s", got, want)
			}
			if fail := (*flow.Failure)(nil); errors.As(err, &fail) != (c.code != "") || fail != nil && fail.Code != string(c.code) {
				t.Errorf("it ended with %v, want %q", err, c.code)
			}
		})
	}
}

func compact(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
