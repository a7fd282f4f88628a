package workflow_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/gittest"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/workflow"
)

func TestMain(m *testing.M) { gittest.VerifyTestMain(m) }

// bench runs the steps of a plan in a temporary folder, and records what happened.
type bench struct {
	*testing.T
	Dir    string
	run    string
	plan   string
	acts   *workflow.Effects
	host   workflow.Host
	agent  func(q call) agentcall.Reply // answers the calls of all roles; nil: no agent may be called
	people map[string]string            // answers to approvals by path of the step: "yes", or the reason for a no
	others map[string]*plan.Plan        // plans of the files that the plan calls, by file name
	mu     sync.Mutex
	events []string
	calls  []call
	proofs []workflow.Evidence
}

// call is one call of an agent.
type call struct {
	Role, Path string
	Data       workflow.PromptData
	Session    string
}

type prover struct{ b *bench }

func (p prover) Prove(_ context.Context, key string, e workflow.Evidence) (string, error) {
	p.b.mu.Lock()
	defer p.b.mu.Unlock()
	p.b.proofs = append(p.b.proofs, e)
	return fmt.Sprintf("proof-%d", len(p.b.proofs)), nil
}

const (
	agent  flow.Act[call, agentcall.Reply]     = "agent"
	people flow.Act[workflow.Request, *string] = "people"
)

// newBench returns a bench for a plan with these steps, as JSON; more holds further fields of the plan.
func newBench(t *testing.T, steps string, more ...string) *bench {
	t.Helper()
	b := &bench{T: t, Dir: t.TempDir(), run: filepath.Join(t.TempDir(), "run"), people: map[string]string{}}
	b.plan = `{"schema_version": 1, "title": "t"` + strings.Join(append([]string{""}, more...), ", ") + `, "steps": [` + steps + `]}`
	b.acts = &workflow.Effects{Dir: b.Dir, RunDir: b.run, Env: []string{"PATH=" + os.Getenv("PATH")}, Prover: prover{b}, Bundle: func(string) (*plan.Bundle, error) { return b.bundle(), nil },
		Event: func(e workflow.Event) {
			b.mu.Lock()
			defer b.mu.Unlock()
			item := ""
			if e.Item != nil {
				item = *e.Item
			}
			b.events = append(b.events, strings.TrimSpace(fmt.Sprintf("%s %s %s%s", e.Type, e.Step, e.State, item)))
		}}
	b.host = workflow.Host{
		Ask: func(f flow.Flow, q workflow.Question) (agentcall.Reply, error) {
			r, err := agent.Do(f, call{string(q.Role), q.Data.Path, q.Data, q.Session})
			if err == nil && r.Failure != nil {
				err = r.Failure
			}
			return r, err
		},
		Wait: func(f flow.Flow, q workflow.Request) error {
			why, err := people.Do(f, q)
			if err == nil && *why != "yes" {
				return flow.Fail("approval_rejected", "%s", *why)
			}
			return err
		}}
	return b
}

func (b *bench) bundle() *plan.Bundle {
	p, problems := plan.Parse([]byte(b.plan))
	if p == nil {
		b.Fatalf("the plan: %v", problems)
	}
	whole := &plan.Bundle{Hash: "h", Main: "plan.json", Plans: map[string]*plan.Plan{"plan.json": p}}
	maps.Copy(whole.Plans, b.others)
	return whole
}

// start begins a run of the plan with a journal in b.run, or resumes the run of that journal.
func (b *bench) start(ctx context.Context, o workflow.Options) (workflow.Report, error) {
	b.Helper()
	jo := journal.Options{Dir: b.run, Activities: append(b.acts.Activities(),
		agent.With(func(_ context.Context, _ flow.Call, q call) (agentcall.Reply, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.calls = append(b.calls, q)
			if b.agent == nil {
				return agentcall.Reply{}, fmt.Errorf("nobody plays %s of %s", q.Role, q.Path)
			}
			return b.agent(q), nil
		}),
		people.With(func(_ context.Context, _ flow.Call, q workflow.Request) (*string, error) {
			why, ok := b.people[q.Path]
			if !ok {
				return nil, fmt.Errorf("nobody answers for %s", q.Path)
			}
			return &why, nil
		}))}
	j, err := journal.Open(jo)
	if err != nil {
		b.Fatal(err)
	}
	defer j.Close()
	if j.History().Run == "" {
		raw, err := json.Marshal(o)
		if err == nil {
			err = j.Begin(journal.Spec{Run: "t/1", Flow: "test", Code: 1, Input: raw})
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	return journal.Execute(ctx, j, func(f flow.Flow, o workflow.Options) (workflow.Report, error) {
		return workflow.Run(f, b.bundle(), b.host, o)
	})
}

func (b *bench) do(o workflow.Options) workflow.Report {
	b.Helper()
	rep, err := b.start(context.Background(), o)
	if err != nil {
		b.Fatal(err)
	}
	return rep
}

func (b *bench) read(name string) string {
	b.Helper()
	data, err := os.ReadFile(filepath.Join(b.Dir, name))
	if err != nil {
		return "(" + err.Error()[strings.LastIndex(err.Error(), ":")+2:] + ")"
	}
	return string(data)
}

// ends returns path=state of the steps, in the order in which they ended.
func (b *bench) ends() string {
	var list []string
	for _, e := range b.events {
		if rest, ok := strings.CutPrefix(e, "step_finished "); ok {
			list = append(list, strings.Replace(rest, " ", "=", 1))
		}
	}
	return strings.Join(list, " ")
}

// verifyingRounds holds steps of a plan that verifies in a loop.
const verifyingRounds = `{"id": "a", "command": "echo a >> log"}, {"id": "l", "repeat": 2, "steps": [{"id": "t", "command": "echo t{{item}} >> log", "proof": {"type": "test"}}]}`

// Steps of each kind end in the expected state, with the expected effect on later steps.
func TestSteps(t *testing.T) {
	for name, c := range map[string]struct {
		steps, more string
		o           workflow.Options
		ends, file  string // ends is the result of bench.ends; file is the final content of "log"
		worst       string // detail of the first step that did not end well; "" if all did
	}{
		"in order": {`{"id": "a", "command": "echo a >> log"}, {"id": "b", "command": "echo b >> log"}`, "", workflow.Options{}, "a=done b=done", "a\nb\n", ""},
		"a failure blocks what depends on it": {`{"id": "a", "command": "exit 3"}, {"id": "b", "command": "echo b >> log"}, {"id": "c", "command": "echo c >> log", "depends_on": []}`, "",
			workflow.Options{}, "a=failed c=done", "c\n", "its command exited with 3"},
		"the chain of causes":       {`{"id": "a", "command": "exit 3"}, {"id": "b", "command": "true"}, {"id": "c", "command": "true"}`, "", workflow.Options{From: "a"}, "a=failed", "(no such file or directory)", "its command exited with 3"},
		"what is later comes first": {`{"id": "a", "command": "echo a >> log", "depends_on": ["b"]}, {"id": "b", "command": "echo b >> log", "depends_on": []}`, "", workflow.Options{}, "b=done a=done", "b\na\n", ""},
		"fail fast":                 {`{"id": "a", "command": "exit 3"}, {"id": "c", "command": "echo c >> log", "depends_on": []}`, "", workflow.Options{FailFast: true}, "a=failed c=skipped", "(no such file or directory)", "its command exited with 3"},
		"goes on":                   {`{"id": "a", "command": "exit 3", "continue_on_error": true}, {"id": "b", "command": "echo b >> log"}`, "", workflow.Options{}, "a=failed b=done", "b\n", "its command exited with 3"},
		"death by signal":           {`{"id": "a", "command": "kill -9 $$"}`, "", workflow.Options{}, "a=failed", "(no such file or directory)", "its command was ended by SIGKILL"},
		"time limit":                {`{"id": "a", "command": "sleep 60", "timeout_seconds": 0.1}`, "", workflow.Options{}, "a=failed", "(no such file or directory)", "its command took longer than its time limit"},
		"a pipe that fails":         {`{"id": "a", "command": "false | true"}`, "", workflow.Options{}, "a=failed", "(no such file or directory)", "its command exited with 1"},
		"verify":                    {`{"id": "a", "command": "true", "verify": "test -e nothing"}`, "", workflow.Options{}, "a=failed", "(no such file or directory)", "its check exited with 1"},
		"a child that stays":        {`{"id": "a", "command": "sleep 60 & echo a >> log"}`, "", workflow.Options{}, "a=done", "a\n", ""},
		"a message":                 {`{"id": "a", "message": "hello"}`, "", workflow.Options{}, "a=done", "(no such file or directory)", ""},
		"a group":                   {`{"id": "g", "steps": [{"id": "a", "command": "echo a >> log"}, {"id": "b", "command": "exit 4"}]}, {"id": "c", "command": "echo c >> log"}`, "", workflow.Options{}, "g.a=done g.b=failed g=failed", "a\n", "its command exited with 4"},
		"values are literal":        {`{"id": "a", "command": "echo '{{v}}' >> log"}`, `"vars": {"v": "$& $$5 {{w}} $1", "w": "no"}`, workflow.Options{}, "a=done", "$& $$5 {{w}} $1\n", ""},
		"repeat":                    {`{"id": "a", "command": "echo $item {{item}} >> log", "repeat": 3}`, "", workflow.Options{}, "a.1=done a.2=done a.3=done a=done", "1 1\n2 2\n3 3\n", ""},
		"a list":                    {`{"id": "a", "command": "echo \"$f\" >> log", "for_each": ["it's", "a \"b\" $c"], "as": "f"}`, "", workflow.Options{}, "a.1=done a.2=done a=done", "it's\na \"b\" $c\n", ""},
		"lines of a command":        {`{"id": "a", "command": "echo {{item}} >> log", "for_each": "printf '{{v}}\\ny\\n\\n'"}`, `"vars": {"v": "x"}`, workflow.Options{}, "a.1=done a.2=done a=done", "x\ny\n", ""},
		"no lines":                  {`{"id": "a", "command": "echo {{item}} >> log", "for_each": "true"}`, "", workflow.Options{}, "a=done", "(no such file or directory)", ""},
		"a loop's command fails":    {`{"id": "a", "command": "echo {{item}} >> log", "for_each": "echo x; exit 5"}`, "", workflow.Options{}, "a=failed", "(no such file or directory)", "the command of its loop exited with 5"},
		"a round fails":             {`{"id": "a", "command": "echo {{item}} >> log; test {{item}} != 2", "repeat": 3}`, "", workflow.Options{}, "a.1=done a.2=failed a=failed", "1\n2\n", "1 of 3 rounds failed, the first of them a.2: its command exited with 1"},
		"rounds go on":              {`{"id": "a", "command": "echo {{item}} >> log; test {{item}} != 2", "repeat": 3, "continue_on_error": true}`, "", workflow.Options{}, "a.1=done a.2=failed a.3=done a=failed", "1\n2\n3\n", "1 of 3 rounds failed, the first of them a.2: its command exited with 1"},
		"nested loops":              {`{"id": "o", "repeat": 2, "as": "x", "steps": [{"id": "i", "for_each": "echo {{x}}a; echo {{x}}b", "as": "y", "command": "echo {{x}} {{y}} $x $y >> log"}]}`, "", workflow.Options{}, "o.1.i.1=done o.1.i.2=done o.1.i=done o.1=done o.2.i.1=done o.2.i.2=done o.2.i=done o.2=done o=done", "1 1a 1 1a\n1 1b 1 1b\n2 2a 2 2a\n2 2b 2 2b\n", ""},
		"only one":                  {`{"id": "a", "command": "echo a >> log"}, {"id": "b", "command": "echo b >> log"}, {"id": "c", "command": "echo c >> log"}`, "", workflow.Options{Only: "2"}, "b=done", "b\n", ""},
		"from to":                   {`{"id": "a", "command": "echo a >> log"}, {"id": "b", "command": "echo b >> log"}, {"id": "c", "command": "echo c >> log"}, {"id": "d", "command": "echo d >> log"}`, "", workflow.Options{From: "b", To: "c"}, "b=done c=done", "b\nc\n", ""},
		"from a round":              {`{"id": "l", "repeat": 3, "steps": [{"id": "x", "command": "echo x{{item}} >> log"}, {"id": "y", "command": "echo y{{item}} >> log"}]}`, "", workflow.Options{From: "l.2.y"}, "l.2.y=done l.2=done l.3.x=done l.3.y=done l.3=done l=done", "y2\nx3\ny3\n", ""},
		"a round too far":           {`{"id": "l", "repeat": 2, "command": "echo {{item}} >> log"}`, "", workflow.Options{From: "l.99"}, "l=failed", "(no such file or directory)", "round 99 was asked for, and the loop has 2"},
		"a chosen round of a loop":  {`{"id": "l", "repeat": 3, "command": "echo {{item}} >> log"}`, "", workflow.Options{Only: "l.2"}, "l.2=done l=done", "2\n", ""},
		"output":                    {`{"id": "a", "command": "echo out; echo err >&2", "output": "o"}`, `"vars": {"o": "log"}`, workflow.Options{}, "a=done", "out\n", ""},
		"no output of a failure":    {`{"id": "a", "command": "echo out; exit 1", "output": "o"}`, `"vars": {"o": "sub/log"}`, workflow.Options{}, "a=failed", "(no such file or directory)", "its command exited with 1"},
		"output by item":            {`{"id": "a", "command": "echo {{item}}", "output": "o", "repeat": 2}, {"id": "b", "command": "cat o1 o2 > log"}`, `"vars": {"o": "o{{item}}"}`, workflow.Options{}, "a.1=done a.2=done a=done b=done", "1\n2\n", ""},
		"finished by an earlier run": {`{"id": "a", "command": "echo a >> log"}, {"id": "b", "command": "echo b >> log"}`, "",
			workflow.Options{Finished: map[string]string{"a": "its hash", "b": "of another time"}}, "b=done", "b\n", ""},
		"others verify":                 {`{"id": "a", "command": "echo a >> log"}, {"id": "t", "command": "echo t >> log", "proof": {"type": "test"}}`, "", workflow.Options{Verified: true}, "a=done", "a\n", ""},
		"others verify in rounds":       {verifyingRounds, "", workflow.Options{Verified: true, Grouped: true}, "a=done", "a\n", ""},
		"runs of old verify the rounds": {verifyingRounds, "", workflow.Options{Verified: true}, "a=done l.1.t=done l.1=done l.2.t=done l.2=done l=done", "a\nt1\nt2\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var more []string
			if c.more != "" {
				more = []string{c.more}
			}
			b := newBench(t, c.steps, more...)
			if c.o.Finished != nil {
				c.o.Finished["a"] = finished(t, c.steps)["a"]
			}
			rep := b.do(c.o)
			if got := b.ends(); got != c.ends {
				t.Errorf("ends\n%s, want\n%s", got, c.ends)
			}
			if got := b.read("log"); got != c.file {
				t.Errorf("log is %q, want %q", got, c.file)
			}
			worst := ""
			if len(rep.Worst) > 0 {
				worst = rep.Worst[0].Detail
			}
			if worst != c.worst {
				t.Errorf("got %q, want %q", worst, c.worst)
			}
			if (rep.Failure() == nil) != (worst == "" || strings.Contains(name, "go on") || strings.Contains(name, "goes on")) {
				t.Errorf("the run ended %v", rep.Failure())
			}
		})
	}
}

// finished runs the steps and returns those that were finished, in the form that the next run is given.
func finished(t *testing.T, steps string) map[string]string {
	b := newBench(t, steps)
	b.do(workflow.Options{})
	h, err := journal.Read(b.run)
	if err != nil {
		t.Fatal(err)
	}
	done, err := workflow.Finished(h)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// The detail of a blocked step names the chain of causes.
func TestBecause(t *testing.T) {
	b := newBench(t, `{"id": "a", "command": "exit 3"}, {"id": "b", "command": "true"}, {"id": "c", "command": "true"}`)
	rep := b.do(workflow.Options{})
	if len(rep.Worst) != 3 || rep.Worst[2].Detail != "blocked by b, a, which failed" || rep.Failed != 1 || rep.Blocked != 2 {
		t.Errorf("got %+v", rep)
	}
	if fail := rep.Failure(); fail == nil || fail.Code != "step_failed" || fail.Detail != "step a failed: its command exited with 3" {
		t.Errorf("got %v", fail)
	}
}

// Selecting a step that does not exist is an error that names the existing steps, or a similar one.
func TestChoicesThatMiss(t *testing.T) {
	for path, want := range map[string]string{"zzzz": "there is no step zzzz (there are ab, g)", "abb": "did you mean ab?", "7": "there is no step 7", "0": "there is no step 0", "g.z": "there is no step z", "ab.1": "nothing is below that"} {
		for _, o := range []workflow.Options{{Only: path}, {From: path}, {To: path}} {
			b := newBench(t, `{"id": "ab", "command": "true"}, {"id": "g", "steps": [{"id": "i", "command": "true"}]}`)
			if _, err := b.start(context.Background(), o); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: got %v, want %s", o, err, want)
			}
		}
	}
}

// Selecting a first step that comes after the last one is an error, not a run without steps.
func TestChoiceOfNothing(t *testing.T) {
	b := newBench(t, `{"id": "a", "command": "true"}, {"id": "b", "command": "true"}`)
	if _, err := b.start(context.Background(), workflow.Options{From: "b", To: "a"}); err == nil || !strings.Contains(err.Error(), "nothing would run") {
		t.Errorf("got %v", err)
	}
}

// Steps and rounds whose dependencies are done run in parallel: here each waits for a file of the other.
func TestTogether(t *testing.T) {
	meet := func(own, other string) string {
		return fmt.Sprintf("touch %s; for i in $(seq 9000); do test -e %s && exit 0; sleep 0.05; done; exit 1", own, other)
	}
	steps := fmt.Sprintf(`{"id": "a", "command": %q, "depends_on": []}, {"id": "b", "command": %q, "depends_on": []}, {"id": "c", "command": "echo c > log", "depends_on": ["a", "b"]}`, meet("a", "b"), meet("b", "a"))
	b := newBench(t, steps, `"parallel": true`)
	if rep := b.do(workflow.Options{}); rep.Done != 3 || b.read("log") != "c\n" {
		t.Errorf("got %+v, %q", rep, b.events)
	}
	b = newBench(t, `{"id": "l", "for_each": ["1 2", "2 1"], "concurrency": 2, "command": "set -- {{item}}; touch r$1; for i in $(seq 9000); do test -e r$2 && exit 0; sleep 0.05; done; exit 1"}`)
	if rep := b.do(workflow.Options{}); rep.Done != 1 {
		t.Errorf("got %+v, %q", rep, b.events)
	}
}

// Once a round of a pool has failed, no further round begins; with continue_on_error all rounds run.
func TestPoolEnds(t *testing.T) {
	const steps = `{"id": "l", "repeat": 50, "concurrency": 2, "command": "echo {{item}} >> log; exit 1"%s}`
	b := newBench(t, fmt.Sprintf(steps, ""))
	if rep := b.do(workflow.Options{}); rep.Failed != 1 || strings.Count(b.read("log"), "\n") > 4 {
		t.Errorf("got %+v, log %q", rep, b.read("log"))
	}
	b = newBench(t, fmt.Sprintf(steps, `, "continue_on_error": true`))
	if rep := b.do(workflow.Options{}); rep.Tolerate != 1 || strings.Count(b.read("log"), "\n") != 50 {
		t.Errorf("got %+v, log %q", rep, b.read("log"))
	}
}

// A run that was interrupted resumes where it was: no step that ended runs again.
func TestGoesOn(t *testing.T) {
	b := newBench(t, `{"id": "a", "command": "echo a >> log"}, {"id": "l", "repeat": 2, "command": "echo l{{item}} >> log"}, {"id": "b", "command": "echo b >> log; test -e let || sleep 3000"}, {"id": "c", "command": "echo c >> log"}`)
	ctx, cancel := context.WithCancel(context.Background())
	tell := b.acts.Event
	b.acts.Event = func(e workflow.Event) {
		if tell(e); e.Type == "step_started" && e.Step == "b" {
			cancel()
		}
	}
	if _, err := b.start(ctx, workflow.Options{}); err == nil {
		t.Fatal("it was not interrupted")
	}
	if err := os.WriteFile(filepath.Join(b.Dir, "let"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	b.acts.Event = tell
	rep := b.do(workflow.Options{})
	log := strings.Fields(b.read("log"))
	slices.Sort(log)
	if got := strings.Join(slices.Compact(log), " "); rep.Done != 4 || got != "a b c l1 l2" || len(log) > 6 {
		t.Errorf("got %+v, log %q", rep, log)
	}
}
