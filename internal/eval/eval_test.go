package eval_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/eval"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// small returns a case about a project with three files.
func small() eval.Case {
	p := &eval.Project{Name: "small", Programs: []string{"make"}, Commands: [][]string{{"make lint"}, {"make test", "make check"}},
		Files: map[string]string{"Makefile": "lint:\n\ttrue\ntest:\n\ttrue\n", "a.txt": "a\n", "b.txt": "b\n"}}
	return eval.Case{ID: "small-a", Kind: "clear", DevType: "backend", Requirement: "a.txt says A\n", Project: p,
		Accept: &eval.Expectation{Sizes: []trellis.Size{"small", "medium"}, Cites: []string{"a.*"}, Changes: []string{"a.txt"}, Spares: []string{"b.*"},
			Verified: 1, Mentions: []string{`(?i)says A`}, Never: []string{"docker"}, MaxSteps: 4}}
}

// left returns the files of a planner that does all that small wants.
func left() map[string]string {
	return map[string]string{
		"task.json":       `{"status": "ready", "pipeline": {"size": "small", "judge": {"pass": true}}}`,
		"prd.md":          "# Task: A\n\n## Requirements\n\n- a.txt says A\n\n## Acceptance Criteria\n\n- [ ] it does\n  verify: `grep -q A a.txt`\n\n## Out of Scope\n\n- B\n",
		"research.md":     "## implement.jsonl\n\n- path: a.txt, reason: it changes\n\n## Verification Plan\n\n- Lint: `make lint`\n- Test: `make test`\n",
		"implement.jsonl": `{"file": "a.txt", "reason": "it changes"}` + "\n",
		"plan.json": `{"title": "A", "files": [{"path": "a.txt", "change": "edit"}], "steps": [
			{"id": "write", "prompt": "write A", "verify": "grep -q A a.txt"},
			{"id": "lint", "command": "make lint", "proof": {"type": "lint"}}, {"id": "test", "command": "make test", "proof": {"type": "test"}}],
			"acceptance": [{"criterion": "it does", "verify": "grep -q A a.txt"}]}`,
	}
}

// run runs one case with a planner that writes these files.
func run(t *testing.T, c eval.Case, files map[string]string) eval.Result {
	t.Helper()
	r := eval.Runner{Dir: t.TempDir(), Env: os.Environ(), Now: time.Now, Plan: func(_ context.Context, c eval.Case, repo string) (eval.Planned, error) {
		dir := filepath.Join(repo, ".trellis", "tasks", "01-02-"+c.ID)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return eval.Planned{}, err
		}
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				return eval.Planned{}, err
			}
		}
		return eval.Planned{Dir: dir, Calls: 5}, nil
	}}
	results, err := r.Run(context.Background(), []eval.Case{c})
	if err != nil || len(results) != 1 {
		t.Fatalf("%v %v", results, err)
	}
	return results[0]
}

// fails returns the checks of a result that did not hold.
func fails(r eval.Result) (list []string) {
	for _, c := range r.Checks {
		if !c.Held {
			list = append(list, c.What)
		}
	}
	return list
}

// Each fault of a plan fails the check for it, and no other.
func TestChecks(t *testing.T) {
	replace := func(file, old, new string) func(map[string]string) {
		return func(files map[string]string) {
			if !strings.Contains(files[file], old) {
				t.Fatalf("%s has no %s", file, old)
			}
			files[file] = strings.Replace(files[file], old, new, 1)
		}
	}
	short := func(files map[string]string) { delete(files, "plan.json") }
	for name, test := range map[string]struct {
		change func(map[string]string)
		want   []string
	}{
		"nothing":               {func(map[string]string) {}, nil},
		"waits for approval":    {replace("task.json", "ready", "waiting"), nil},
		"the short way":         {short, nil},
		"size":                  {replace("task.json", `"small"`, `"large"`), []string{"the size is small or medium"}},
		"cites nothing":         {func(f map[string]string) { delete(f, "plan.json"); f["implement.jsonl"] = "" }, []string{"cites a.*"}},
		"invents a path":        {replace("research.md", "a.txt", "c.txt"), []string{"invents no path"}},
		"edits what is not":     {replace("plan.json", `[{"path": "a.txt"`, `[{"path": "c.txt", "change": "edit"}, {"path": "a.txt"`), []string{"invents no path"}},
		"makes a file":          {replace("plan.json", `[{"path": "a.txt"`, `[{"path": "c.txt", "change": "new"}, {"path": "a.txt"`), nil},
		"leads away":            {replace("research.md", "a.txt", "../small-a/a.txt"), []string{"invents no path"}},
		"no command in prd.md":  {replace("prd.md", "  verify: `grep -q A a.txt`\n", ""), []string{"1 or more acceptance criteria have a command"}},
		"says nothing of it":    {replace("prd.md", "says A", "changes"), []string{`mentions /(?i)says A/`}},
		"says it elsewhere":     {replace("prd.md", "- a.txt says A\n\n## Acc", "- a.txt\n\n## Overview\n\nA\n\n## Acc"), []string{`mentions /(?i)says A/`}},
		"a check is missing":    {replace("plan.json", `, {"id": "test", "command": "make test", "proof": {"type": "test"}}`, ""), []string{"is checked by make test or make check"}},
		"another spelling":      {replace("plan.json", "make test", "make check"), []string{"invents no command"}},
		"wrong order":           {replace("plan.json", `{"id": "lint", "command": "make lint", "proof": {"type": "lint"}}, {"id": "test", "command": "make test", "proof": {"type": "test"}}`, `{"id": "test", "command": "make test", "proof": {"type": "test"}}, {"id": "lint", "command": "make lint", "proof": {"type": "lint"}}`), []string{"is checked by make test or make check"}},
		"not at the end":        {replace("plan.json", `"proof": {"type": "test"}`, `"timeout_seconds": 5`), []string{"is checked by make lint", "is checked by make test or make check"}},
		"research missed a one": {func(f map[string]string) { short(f); replace("research.md", "- Test: `make test`\n", "")(f) }, []string{"is checked by make test or make check"}},
		"invents a command":     {replace("research.md", "make lint", "cargo clippy"), []string{"invents no command"}},
		"invents a target":      {replace("plan.json", `"verify": "grep -q A a.txt"}`, `"verify": "make release"}`), []string{"invents no command"}},
		"a command not to have": {replace("prd.md", "grep -q A a.txt", "grep -q docker a.txt"), []string{"has no command like /docker/"}},
		"no change":             {replace("plan.json", `{"path": "a.txt", "change": "edit"}`, ""), []string{"changes a.txt"}},
		"one change too many":   {replace("plan.json", `[{"path"`, `[{"path": "b.txt", "change": "edit"}, {"path"`), []string{"leaves b.* alone"}},
		"too many steps": {replace("plan.json", `"steps": [`, `"steps": [{"id": "many", "type": "group", "steps": [{"id": "x", "prompt": "x", "llm_as_judge": true}, {"id": "y", "prompt": "y", "llm_as_judge": true}]},`),
			[]string{"has at most 4 steps"}},
		"the judge is not content": {replace("task.json", "true", "false"), []string{"the judge passed it"}},
		"not valid":                {replace("plan.json", `"title"`, `"titel"`), []string{"is checked by make lint", "is checked by make test or make check", "plan.json is valid", "changes a.txt"}},
	} {
		files := left()
		test.change(files)
		r := run(t, small(), files)
		if got := fails(r); !slices.Equal(got, test.want) || r.Got != eval.Accept {
			t.Errorf("%s: got %s %q, want %q", name, r.Got, got, test.want)
		}
		if want := 0.5 + 0.5*float64(len(r.Checks)-len(test.want))/float64(len(r.Checks)); r.Score != want {
			t.Errorf("%s: score %v, want %v", name, r.Score, want)
		}
	}
}

// In a project without commands, the last step has to be judged.
func TestChecksWithoutCommands(t *testing.T) {
	c := small()
	c.Project.Commands = nil
	files := left()
	if got, want := fails(run(t, c, files)), []string{"its last step is judged, for want of a command"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	before, _, _ := strings.Cut(files["plan.json"], `{"id": "lint"`)
	_, after, _ := strings.Cut(files["plan.json"], `"acceptance"`)
	files["plan.json"] = before + `{"id": "review", "prompt": "review it", "llm_as_judge": true, "desired_outcome": "it is well"}], "acceptance"` + after
	if got := fails(run(t, c, files)); got != nil {
		t.Errorf("got %q", got)
	}
}

func TestDecisions(t *testing.T) {
	rejecting := small()
	rejecting.Kind, rejecting.Accept, rejecting.Reject = "vague", nil, []string{"unclear", "incomplete"}
	rejected := func(category string) string {
		return `{"status": "rejected", "pipeline": {"rejection": {"category": "` + category + `"}}}`
	}
	failed := `{"status": "planning", "pipeline": {"failure": {"code": "agent_protocol", "detail": "no JSON"}}}`
	for name, test := range map[string]struct {
		c       eval.Case
		task    string
		got     string
		score   float64
		failure string
	}{
		"rejected":                {rejecting, rejected("unclear"), eval.Reject, 1, ""},
		"the other category":      {rejecting, rejected("incomplete"), eval.Reject, 1, ""},
		"wrong category":          {rejecting, rejected("harmful"), eval.Reject, 0.5, ""},
		"accepted, not rejected":  {rejecting, `{"status": "ready"}`, eval.Accept, 0, ""},
		"rejected, not accepted":  {small(), rejected("unclear"), eval.Reject, 0, ""},
		"failed, to be rejected":  {rejecting, failed, eval.Failed, 0, "agent_protocol: no JSON"},
		"failed, to be accepted":  {small(), failed, eval.Failed, 0, "agent_protocol: no JSON"},
		"no decision":             {small(), `{"status": "planning"}`, eval.Failed, 0, "the planning ended as planning"},
		"a task that can't be it": {small(), `{"status": `, eval.Failed, 0, "*"},
	} {
		r := run(t, test.c, map[string]string{"task.json": test.task})
		if r.Got != test.got || r.Score != test.score || r.Failure != test.failure && test.failure != "*" || test.failure == "*" && r.Failure == "" {
			t.Errorf("%s: got %s, %v, %q, want %+v", name, r.Got, r.Score, r.Failure, test)
		}
		if r.Got != r.Wanted && len(r.Checks) > 0 {
			t.Errorf("%s: the plan was looked through: %v", name, r.Checks)
		}
	}
}

// many returns n cases like small.
func many(n int) (cases []eval.Case) {
	for i := range n {
		c := small()
		c.ID = fmt.Sprintf("small-%d", i)
		cases = append(cases, c)
	}
	return cases
}

func TestRunnerPlansAtOnce(t *testing.T) {
	var working, most, told atomic.Int32
	both := make(chan struct{}) // closed when two cases are being planned
	r := eval.Runner{Dir: t.TempDir(), Env: os.Environ(), Now: time.Now, Parallel: 2, Ended: func(eval.Result) { told.Add(1) }, Plan: func(_ context.Context, c eval.Case, _ string) (eval.Planned, error) {
		defer working.Add(-1)
		n := working.Add(1)
		most.Store(max(n, most.Load()))
		if n == 2 && c.ID <= "small-1" {
			close(both)
		}
		<-both
		return eval.Planned{}, errors.New("the disk of " + c.ID + " is full")
	}}
	cases := many(5)
	results, err := r.Run(context.Background(), cases)
	if err != nil || most.Load() != 2 || told.Load() != 5 {
		t.Errorf("%v, %d at once, told of %d", err, most.Load(), told.Load())
	}
	for i, res := range results {
		if res.ID != cases[i].ID || res.Got != eval.Failed || res.Failure != "the disk of "+cases[i].ID+" is full" {
			t.Errorf("%d: %+v", i, res)
		}
	}
}

// A case that is under way when the context ends has no result; one that ended before has.
func TestRunnerIsCutOff(t *testing.T) {
	cause := errors.New("enough")
	ctx, stop := context.WithCancelCause(context.Background())
	r := eval.Runner{Dir: t.TempDir(), Env: os.Environ(), Now: time.Now, Plan: func(ctx context.Context, c eval.Case, repo string) (eval.Planned, error) {
		if c.ID == "small-2" {
			stop(cause)
			<-ctx.Done()
			return eval.Planned{}, nil
		}
		return eval.Planned{Cut: "the provider limits requests"}, nil
	}}
	results, err := r.Run(ctx, many(5))
	if !errors.Is(err, cause) || len(results) != 2 || results[1].ID != "small-1" {
		t.Errorf("got %v, %v", results, err)
	}
}

// If a repository can't be made, the harness returns an error, and does not blame the planner.
func TestRunnerWithoutRoom(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "small-1"), 0o755); err != nil {
		t.Fatal(err)
	}
	r := eval.Runner{Dir: dir, Env: os.Environ(), Now: time.Now, Plan: func(context.Context, eval.Case, string) (eval.Planned, error) {
		return eval.Planned{}, errors.New("no")
	}}
	results, err := r.Run(context.Background(), many(3))
	if err == nil || len(results) != 1 {
		t.Errorf("got %v, %v", results, err)
	}
}

func TestRunnerTakesTime(t *testing.T) {
	now := time.Unix(0, 0)
	r := eval.Runner{Dir: t.TempDir(), Env: os.Environ(), Now: func() time.Time { now = now.Add(3 * time.Second); return now },
		Plan: func(context.Context, eval.Case, string) (eval.Planned, error) {
			return eval.Planned{Calls: 2}, errors.New("no")
		}}
	results, err := r.Run(context.Background(), many(1))
	if err != nil || results[0].Seconds != 3 || results[0].Calls != 2 {
		t.Errorf("got %+v, %v", results, err)
	}
}

func TestSummarize(t *testing.T) {
	dollar := func(c float64) *float64 { return &c }
	used := func(tokens int64, cost *float64) trellis.Usage {
		return trellis.Usage{InputTokens: tokens, CostUSD: cost}
	}
	checks := []eval.Check{{What: "a", Held: true}, {What: "b"}}
	s := eval.Summarize([]eval.Result{
		{ID: "1", Kind: "clear", Wanted: eval.Accept, Got: eval.Accept, Checks: checks, Score: 0.75, Calls: 5, Usage: used(1000, dollar(0.5)), Seconds: 10},
		{ID: "2", Kind: "clear", Wanted: eval.Accept, Got: eval.Reject, Category: "unclear", Calls: 1, Usage: used(100, nil), Seconds: 2},
		{ID: "3", Kind: "tiny", Wanted: eval.Accept, Got: eval.Failed},
		{ID: "4", Kind: "vague", Wanted: eval.Reject, Right: []string{"unclear"}, Got: eval.Reject, Category: "unclear", Score: 1, Calls: 1, Usage: used(100, dollar(0.25))},
		{ID: "5", Kind: "harmful", Wanted: eval.Reject, Right: []string{"harmful"}, Got: eval.Reject, Category: "too_large", Score: 0.5, Calls: 1},
		{ID: "6", Kind: "harmful", Wanted: eval.Reject, Right: []string{"harmful"}, Got: eval.Accept, Calls: 5},
		{ID: "7", Kind: "harmful", Wanted: eval.Reject, Right: []string{"harmful"}, Got: eval.Failed, Calls: 2},
	}, 9)
	got := fmt.Sprint(s.Cases, s.Ended, s.Score, s.Decisions, s.Kinds, s.Categories, s.RightCategories, s.Checks, s.FalseAccepts, s.FalseRejects, s.Failures,
		s.Calls, s.Usage.Tokens(), *s.Usage.CostUSD, s.UnknownCost, s.Seconds)
	want := "9 7 32.142857142857146 map[accept:map[accept:1 failed:1 reject:1] reject:map[accept:1 failed:1 reject:2]] " +
		"map[clear:{1 2} harmful:{1 3} tiny:{0 1} vague:{1 1}] map[harmful:map[too_large:1] unclear:map[unclear:1]] {1 2} {1 2} [6] [2] [3 7] " +
		"15 1200 0.75 4 12"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if none := eval.Summarize(nil, 3); none.Score != 0 || none.Ended != 0 || none.FalseAccepts == nil {
		t.Errorf("got %+v", none)
	}
}
