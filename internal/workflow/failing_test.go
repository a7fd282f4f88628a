package workflow_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/workflow"
)

// other adds a file with these steps that the bench's plan can call.
func (b *bench) other(name, steps string, more ...string) {
	b.others = map[string]*plan.Plan{name: newBench(b.T, steps, more...).bundle().Plan("")}
}

// Only steps that depend on a failed step are blocked, and each says why, whether steps run in order or in parallel.
func TestFailureBlocksItsBranch(t *testing.T) {
	const steps = `{"id": "a", "command": "exit 3"}, {"id": "b", "command": "true"}, {"id": "c", "command": "echo c >> log", "depends_on": []}, {"id": "d", "command": "echo d >> log"},
		{"id": "e", "command": "true", "depends_on": ["b", "d"]}`
	for _, more := range []string{`"parallel": false`, `"parallel": true`} {
		b := newBench(t, steps, more)
		rep := b.do(workflow.Options{})
		if rep.Failed != 1 || rep.Blocked != 2 || rep.Done != 2 || b.read("log") != "c\nd\n" {
			t.Errorf("%s: got %+v, log %q", more, rep, b.read("log"))
		}
		if last := rep.Worst[len(rep.Worst)-1]; last.Path != "e" || last.State != workflow.Blocked || last.Detail != "blocked by b, a, which failed" {
			t.Errorf("%s: got %+v", more, last)
		}
	}
}

// FailFast does not end a run for a failure that its step, or a step around it, tolerates.
func TestFailFastIsNotForWhatIsTolerated(t *testing.T) {
	for name, steps := range map[string]string{
		"a step":            `{"id": "a", "command": "exit 1", "continue_on_error": true}`,
		"a group":           `{"id": "g", "continue_on_error": true, "steps": [{"id": "a", "command": "exit 1"}]}`,
		"a loop":            `{"id": "l", "repeat": 2, "continue_on_error": true, "steps": [{"id": "a", "command": "exit 1"}]}`,
		"a group in a pool": `{"id": "l", "repeat": 2, "concurrency": 2, "continue_on_error": true, "steps": [{"id": "g", "steps": [{"id": "a", "command": "exit 1"}]}]}`,
	} {
		b := newBench(t, steps+`, {"id": "b", "command": "echo b >> log"}`)
		if rep := b.do(workflow.Options{FailFast: true}); rep.Failure() != nil || rep.Skipped != 0 || b.read("log") != "b\n" {
			t.Errorf("%s: got %+v, log %q", name, rep, b.read("log"))
		}
	}
}

// Rounds that are running when another round fails run to their end: none of their steps is skipped but counted as done.
func TestRoundsUnderWayEnd(t *testing.T) {
	const wait = "for i in $(seq 9000); do test -e failed && exit 0; sleep 0.05; done; exit 1"
	b := newBench(t, `{"id": "l", "repeat": 9, "concurrency": 2, "steps": [{"id": "a", "command": `+quoted("test {{item}} = 2 || { touch in; exit 0; }; "+wait)+`},
		{"id": "b", "command": `+quoted("test {{item}} != 1 || { while ! test -e in; do sleep 0.05; done; exit 1; }")+`}, {"id": "c", "command": "echo c{{item}} >> log"}]}`)
	tell := b.acts.Event
	b.acts.Event = func(e workflow.Event) {
		if tell(e); e.Type == workflow.StepFinished && e.Step == "l.1" {
			b.put("failed", "")
		}
	}
	rep := b.do(workflow.Options{})
	if rep.Failed != 2 || b.read("log") != "c2\n" { // the step and its loop
		t.Errorf("got %+v, log %q", rep, b.read("log"))
	}
	h, err := journal.Read(b.run)
	if err != nil {
		t.Fatal(err)
	}
	done, err := workflow.Finished(h)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"l.2", "l.2.c"} {
		if done[path] == "" {
			t.Errorf("%s is not finished", path)
		}
	}
	if done["l.1"] != "" || done["l.3"] != "" {
		t.Errorf("finished are %q", done)
	}
}

// If only parts of a step were selected, those parts are finished, but the step is not.
func TestPartIsNotTheWhole(t *testing.T) {
	for _, o := range []workflow.Options{{Only: "g.b"}, {From: "g.b"}, {To: "g.a"}, {Only: "l.2"}, {From: "l.2"}, {To: "l.1"}} {
		b := newBench(t, `{"id": "g", "steps": [{"id": "a", "command": "true"}, {"id": "b", "command": "true"}]}, {"id": "l", "repeat": 2, "command": "true", "depends_on": []}`)
		b.do(o)
		h, err := journal.Read(b.run)
		if err != nil {
			t.Fatal(err)
		}
		done, err := workflow.Finished(h)
		if whole := strings.Split(o.Only+o.From+o.To, ".")[0]; err != nil || done[whole] != "" || done[o.Only+o.From+o.To] == "" {
			t.Errorf("%+v: finished are %q, %v", o, done, err)
		}
	}
}

// Failures that a step tolerates are reported, and the run ends well: alone, in a loop, in a pool, in another file.
func TestTolerated(t *testing.T) {
	for name, steps := range map[string]string{
		"alone":        `{"id": "a", "command": "exit 1", "continue_on_error": true}`,
		"a loop":       `{"id": "a", "repeat": 3, "command": "echo {{item}} >> all; exit 1", "continue_on_error": true}`,
		"a pool":       `{"id": "a", "repeat": 3, "concurrency": 3, "command": "echo {{item}} >> all; exit 1", "continue_on_error": true}`,
		"in a round":   `{"id": "a", "repeat": 3, "steps": [{"id": "x", "command": "exit 1", "continue_on_error": true}, {"id": "y", "command": "echo {{item}} >> all"}]}`,
		"another file": `{"id": "a", "workflow": "other.json", "continue_on_error": true}`,
	} {
		b := newBench(t, steps+`, {"id": "b", "command": "echo b >> log"}`)
		b.other("other.json", `{"id": "x", "command": "exit 1"}`)
		rep := b.do(workflow.Options{})
		if rep.Failure() != nil || rep.Tolerate == 0 || rep.Failed+rep.Blocked != 0 || b.read("log") != "b\n" {
			t.Errorf("%s: got %+v, log %q", name, rep, b.read("log"))
		}
		lines := strings.Fields(b.read("all"))
		slices.Sort(lines)
		if got := strings.Join(lines, ""); name != "alone" && name != "another file" && got != "123" {
			t.Errorf("%s: rounds %q", name, got)
		}
	}
}

// A pool always runs as many rounds as it may: the third begins as soon as one of the first two has ended, even if the
// other is still running.
func TestPoolIsNoBatch(t *testing.T) {
	b := newBench(t, `{"id": "l", "repeat": 3, "concurrency": 2, "command": `+
		quoted("case {{item}} in 1) for i in $(seq 9000); do test -e third && exit 0; sleep 0.05; done; exit 1;; 3) touch third;; esac")+`}`)
	if rep := b.do(workflow.Options{}); rep.Failure() != nil {
		t.Errorf("got %+v", rep)
	}
	b = newBench(t, `{"id": "l", "repeat": 12, "concurrency": 3, "command": "mkdir in-{{item}}; set -- in-*; echo $# >> log; sleep 0.05; rmdir in-{{item}}"}`)
	b.do(workflow.Options{})
	for _, n := range strings.Fields(b.read("log")) {
		if n > "3" || len(n) > 1 {
			t.Errorf("%s rounds at a time", n)
		}
	}
}

// Events name the round that they belong to, even if several rounds run at once.
func TestEventsNameTheirRound(t *testing.T) {
	b := newBench(t, `{"id": "l", "for_each": ["x", "y"], "concurrency": 2, "steps": [{"id": "a", "command": "echo said-{{item}}"}, {"id": "b", "for_each": ["1", "2"], "as": "n", "command": "echo {{item}}{{n}}"}]}`)
	heard := b.hears()
	b.do(workflow.Options{})
	var got []string
	for _, e := range heard() {
		if e.Type == workflow.StepOutput {
			got = append(got, e.Step+" "+e.Text)
		}
	}
	slices.Sort(got)
	if want := "l.1.a said-x,l.1.b.1 x1,l.1.b.2 x2,l.2.a said-y,l.2.b.1 y1,l.2.b.2 y2"; strings.Join(got, ",") != want {
		t.Errorf("got %q", got)
	}
	var rounds []string
	for _, e := range b.events {
		if strings.HasPrefix(e, "step_iteration l.") && strings.Count(e, ".") == 1 {
			rounds = append(rounds, e)
		}
	}
	slices.Sort(rounds)
	if want := "step_iteration l.1 x,step_iteration l.2 y"; strings.Join(rounds, ",") != want {
		t.Errorf("got %q among %q", rounds, b.events)
	}
}

// The items of a loop are the lines that its command prints, without line endings; lines of white space are skipped. Any
// bytes are accepted; a step with more items than allowed fails with an error that says so.
func TestLinesOfALoop(t *testing.T) {
	for command, want := range map[string]string{
		`printf ' a b \n\n \t\nc\r\n'`: "[ a b ][c]",
		`printf 'no end'`:              "[no end]",
		`printf 'a\377b\n'`:            "[a\uFFFDb]",
		`echo a | cat; echo b >&2`:     "[a]",
		`false | true`:                 "its loop exited with 1",
		`seq 4001`:                     "too much to go through",
	} {
		b := newBench(t, `{"id": "l", "for_each": `+quoted(command)+`, "command": "printf '[%s]' \"$item\" >> log"}`)
		rep, err := b.start(t.Context(), workflow.Options{})
		got := b.read("log")
		if !strings.HasPrefix(want, "[") {
			got = fmt.Sprint(rep.Worst, err)
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", command, got, want)
		}
	}
}

// An interrupt in a step of another file, within a round, ends the run: no further step begins at any level, and none
// counts as failed. The run later resumes at that step.
func TestInterruptInAnotherFile(t *testing.T) {
	b := newBench(t, `{"id": "w", "repeat": 2, "workflow": "other.json", "continue_on_error": true}, {"id": "z", "command": "echo z >> log"}`)
	b.other("other.json", `{"id": "a", "command": "echo a >> log"}, {"id": "b", "command": "test -e go || sleep 3000; echo b >> log", "continue_on_error": true, "self_healing": true}, {"id": "c", "command": "echo c >> log"}`)
	ctx, cancel := context.WithCancel(t.Context())
	tell := b.acts.Event
	b.acts.Event = func(e workflow.Event) {
		if tell(e); e.Type == workflow.StepStarted && e.Step == "w.1.b" {
			cancel()
		}
	}
	if _, err := b.start(ctx, workflow.Options{}); err == nil || b.read("log") != "a\n" || len(b.calls) > 0 {
		t.Fatalf("got %v, log %q, asked %s", err, b.read("log"), b.roles())
	}
	b.acts.Event = tell
	b.put("go", "")
	if rep := b.do(workflow.Options{}); rep.Failure() != nil || b.read("log") != "a\nb\nc\na\nb\nc\nz\n" {
		t.Errorf("got %+v, log %q", rep, b.read("log"))
	}
}

// Failures in another file are reported with their full path, and fail the step that calls the file.
func TestAnotherFileFails(t *testing.T) {
	b := newBench(t, `{"id": "w", "workflow": "other.json", "vars": {"v": "{{x}}"}}, {"id": "z", "command": "true"}`, `"vars": {"x": "$& {{v}}"}`)
	b.other("other.json", `{"id": "a", "for_each": ["1"], "steps": [{"id": "in", "command": "echo '{{v}}' > said; exit 7"}]}`, `"vars": {"v": null}`)
	rep := b.do(workflow.Options{})
	if got := worst(rep); got.Path != "w.a.1.in" || got.Code != 7 || rep.Blocked != 1 || b.read("said") != "$& {{v}}\n" {
		t.Errorf("got %+v, said %q", rep, b.read("said"))
	}
	b.run = filepath.Join(t.TempDir(), "run")
	if rep = b.do(workflow.Options{From: "w.a.1.in", To: "w"}); worst(rep).Path != "w.a.1.in" || rep.Blocked != 0 {
		t.Errorf("from a step of it: %+v", rep)
	}
}

// A step without a check is not proven by having run, and neither is a step whose failed check is tolerated.
func TestNoProofWithoutACheck(t *testing.T) {
	b := newBench(t, `{"id": "a", "command": "true"}, {"id": "b", "message": "m"}, {"id": "c", "command": "true", "verify": "exit 1", "continue_on_error": true}, {"id": "d", "prompt": "p"}`)
	b.script(map[string][]agentcall.Reply{"implement": {{}}})
	if rep := b.do(workflow.Options{}); rep.Failure() != nil || len(b.proofs) != 0 {
		t.Errorf("got %+v, proofs %+v", rep, b.proofs)
	}
}

// A judged step has five attempts by default, and the grader is called after each.
func TestJudgeFiveTimes(t *testing.T) {
	b := newBench(t, `{"id": "a", "prompt": "do", "llm_as_judge": true}`)
	b.script(map[string][]agentcall.Reply{"implement": {{}}, "grade": {graded(false, "no")}})
	rep := b.do(workflow.Options{})
	if got := worst(rep).Detail; got != `step "a" failed judge evaluation after 5 attempts: no` || strings.Count(b.roles(), "grade") != 5 || strings.Count(b.roles(), "implement") != 5 {
		t.Errorf("got %q, asked %s", got, b.roles())
	}
}

// A request for approval names the steps that wait for it, also those that only come after the step in order.
func TestWhatAnApprovalLets(t *testing.T) {
	b := newBench(t, `{"id": "first", "type": "approval", "title": "1"}, {"id": "g", "steps": [{"id": "in", "type": "approval", "title": "2"}, {"id": "x", "command": "true"}, {"id": "y", "command": "true", "depends_on": ["in"]}]},
		{"id": "z", "command": "true", "risk": "high"}`)
	var got []string
	b.host.Wait = func(_ flow.Flow, q workflow.Request) error {
		got = append(got, q.Path+": "+strings.Join(q.Lets, " "))
		return nil
	}
	b.do(workflow.Options{})
	if want := "first: g, g.in: g.x g.y, z: z"; strings.Join(got, ", ") != want {
		t.Errorf("got %q, want %s", got, want)
	}
}

// The hash of what people approve changes with any edit of the step, and is otherwise the same.
func TestAgreedIsWhatIsThere(t *testing.T) {
	asked := func(steps string) (hash string) {
		b := newBench(t, steps)
		b.host.Wait = func(_ flow.Flow, q workflow.Request) error { hash = q.Hash; return nil }
		b.do(workflow.Options{})
		return hash
	}
	const step = `{"id": "a", "command": "echo a", "risk": "high"}`
	if asked(step) != asked(step) || asked(step) == asked(`{"id": "a", "command": "echo b", "risk": "high"}`) {
		t.Error("an edit leaves the hash as it is, or the hash is never the same")
	}
}

// Faults of a step fail the step, not the run: files that can't be written or read, commands that no system can run,
// loops with too many items.
func TestFaultsOfAStepAreItsOwn(t *testing.T) {
	long := strings.Repeat("x", 200000)
	for name, c := range map[string]struct{ step, want string }{
		"output is a folder":        {`{"id": "a", "command": "mkdir out; echo x", "output": "o"}`, "its output can't be kept: "},
		"output leads out":          {`{"id": "a", "command": "ln -s .. out; echo x", "output": "below"}`, "its output can't be kept: "},
		"output below a file":       {`{"id": "a", "command": "touch out; echo x", "output": "below"}`, "its output can't be kept: "},
		"a prompt makes a folder":   {`{"id": "a", "prompt": "p", "output": "o"}`, "it was to write out, which can't be read: it is a folder"},
		"proof is a folder":         {`{"id": "a", "command": "mkdir out", "proof": {"type": "file", "path": "out"}}`, "out can't be read: it is a folder"},
		"proof leads out":           {`{"id": "a", "command": "ln -s / out", "proof": {"type": "file", "path": "out/etc/passwd"}}`, "out/etc/passwd can't be read: "},
		"a long command":            {`{"id": "a", "command": "true ` + long + `"}`, "its command can't be run: "},
		"a long check":              {`{"id": "a", "command": "true", "verify": "true ` + long + `"}`, "its command can't be run: "},
		"a long check of a group":   {`{"id": "a", "steps": [{"id": "in", "command": "true"}], "verify": "true ` + long + `"}`, "its command can't be run: "},
		"a long command of a loop":  {`{"id": "a", "for_each": "true ` + long + `", "command": "true"}`, "its command can't be run: "},
		"a byte that no one can":    {`{"id": "a", "for_each": ["a\u0000b"], "command": "echo {{item}}"}`, "1 of 1 rounds failed, the first of them a.1: its command can't be run: "},
		"more items than there may": {`{"id": "a", "for_each": "seq 4001", "command": "true"}`, "its loop has too much to go through: "},
	} {
		for more, failed := range map[string]int{"": 1, `, "continue_on_error": true`: 0} {
			b := newBench(t, strings.TrimSuffix(c.step, "}")+more+`}, {"id": "z", "command": "echo z >> log", "depends_on": []}`, `"vars": {"o": "out", "below": "out/x"}`)
			b.agent = func(call) agentcall.Reply { b.put("out/x", ""); return agentcall.Reply{} }
			rep, err := b.start(t.Context(), workflow.Options{})
			if err != nil || rep.Failed != failed || rep.Tolerate != 1-failed || !strings.HasPrefix(worst(rep).Detail, c.want) || b.read("log") != "z\n" {
				t.Errorf("%s%s: got %.400s, %v, log %q", name, more, fmt.Sprintf("%+v", rep), err, b.read("log"))
			}
		}
	}
}
