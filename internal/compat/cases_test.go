package compat

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/workflow"
	"github.com/trellis-tasks/trellis/taskdir"
)

// A testCase is work that is done once, when it is recorded, and finished from each moment at which it was cut off.
type testCase struct {
	script    string            // that plays the agents
	files     map[string]string // of the repository, in addition to program
	work      map[string]string // in the checkout, not committed
	configure func(*runner.Site)
	cuts      []string // ids of activities; the world is recorded before their end is written
	// play does the work from its beginning. It may record the world at moments of its own.
	play func(r *recorder) result
	// resume continues in a world that was cut off, and returns how the work ended.
	resume func(w *world, cut string) result
	// again: the run that was cut off had ended, and another run continues.
	again bool
}

// result is how a case ended, in words that do not change between versions.
type result struct {
	status, outcome string
	run             string // the folder of the run
}

const bye = "repo/.trellis/tasks/01-01-bye"

var program = map[string]string{
	"greet.sh":            "echo \"Hello, ${1:-world}!\"\n",
	"test.sh":             "test \"$(sh greet.sh Ada)\" = 'Hello, Ada!'\n",
	".trellis/.gitignore": ".runtime/\ntasks/.new-*\n",
}

const (
	byePRD  = "# Say bye\n\n## Acceptance Criteria\n\n- [ ] it says bye\n  verify: `sh greet.sh --bye | grep -q Bye`\n- [ ] it is kind\n"
	says    = `if [ \"$1\" = --bye ]; then echo Bye; else echo \"Hello, ${1:-world}!\"; fi\n`
	working = `roles:
  implement:
    - run: ["echo implement >> $TRELLIS_REPO/../calls.log"]
      files: {greet.sh: "echo Bye\n"}
      answer: done
  check: [{answer: fine}]
  debug:
    - run: ["echo debug >> $TRELLIS_REPO/../calls.log"]
      files: {greet.sh: "` + says + `"}
      answer: mended
  accept: [{answer: {criteria: [{id: A2, verdict: met, evidence: "greet.sh:1"}]}}]
`
	limited = `roles:
  implement:
    - fail: {code: rate_limited, detail: slow down, resume_at: 2025-01-01T12:00:00Z}
    - run: ["echo implement >> $TRELLIS_REPO/../calls.log"]
      files: {greet.sh: "` + says + `"}
      answer: done
  check: [{answer: fine}]
  accept: [{answer: {criteria: [{id: A2, verdict: met, evidence: "greet.sh:1"}]}}]
`
	// editing changes the plan that people approved while it is carried out.
	editing = `roles:
  implement:
    - run: ["echo implement >> $TRELLIS_REPO/../calls.log", "sed -i.old s/Teach/Kindly.teach/ $TRELLIS_TASK_DIR/plan.json"]
      files: {greet.sh: "` + says + `"}
      answer: done
  check: [{answer: fine}]
  accept: [{answer: {criteria: [{id: A2, verdict: met, evidence: "greet.sh:1"}]}}]
`
	spending = `cat > /dev/null
echo $TRELLIS_ROLE >> $TRELLIS_REPO/../calls.log
echo '{"type": "usage", "usage": {"input_tokens": 900, "output_tokens": 200}}'
if test $TRELLIS_ROLE = accept; then
  echo '{"type": "result", "text": "{\"criteria\": [{\"id\": \"A2\", \"verdict\": \"met\", \"evidence\": \"greet.sh\"}]}"}'
else
  printf 'if [ "$1" = --bye ]; then echo Bye; else echo "Hello, ${1:-world}!"; fi\n' > greet.sh
  echo '{"type": "result", "text": "done"}'
fi
`
	stepsJSON = `{"schema_version": 1, "title": "Say bye", "files": [{"path": "greet.sh", "change": "edit"}],
 "steps": [
  {"id": "note", "type": "script", "command": "echo note >> ../../../calls.log; echo bye > NOTES"},
  {"id": "ask", "type": "approval", "title": "Shall it say bye?"},
  {"id": "count", "type": "script", "repeat": 2, "command": "echo count-{{item}} >> ../../../calls.log; echo {{item}} > COUNT", "proof": {"type": "file", "path": "COUNT"}},
  {"id": "say_bye", "type": "prompt", "prompt": "Teach greet.sh the flag --bye.", "verify": "sh greet.sh --bye"},
  {"id": "run_tests", "type": "script", "command": "sh test.sh", "proof": {"type": "test"}}],
 "acceptance": [{"criterion": "it says bye", "verify": "sh greet.sh --bye | grep -q Bye"}]}
`
	planJSON = `{"schema_version": 1, "title": "Say bye", "files": [{"path": "greet.sh", "change": "edit"}],
 "steps": [{"id": "say_bye", "type": "prompt", "prompt": "Teach greet.sh the flag --bye.", "verify": "sh greet.sh --bye"}],
 "acceptance": [{"criterion": "it says bye", "verify": "sh greet.sh --bye | grep -q Bye"}]}
`
	planning = `{"roles": {
 "evaluate": [{"answer": {"decision": "accept", "category": "", "details": "A flag.", "suggestions": [], "size": "small", "confidence": 0.9}}],
 "research": [{"answer": "## implement.jsonl\n- path: greet.sh, reason: the program\n## check.jsonl\n- path: test.sh, reason: its test\n## Suggested Scope\ngreet\n## Verification Plan\n- test: sh test.sh\n"}],
 "taskspec": [{"answer": {"user_intent": "say bye", "goals": ["a --bye flag"], "acceptance": ["it says bye"], "priority": "high"}}],
 "plan": [{"answer": {"schema_version": 1, "title": "Say bye", "summary": "greet.sh says bye.", "requirements": ["bye"], "design_decisions": ["a flag"],
   "files": [{"path": "greet.sh", "change": "edit"}],
   "steps": [{"id": "add_flag", "type": "prompt", "prompt": "Let the program take --bye.", "verify": "sh greet.sh --bye | grep -q Bye", "covers": ["it says bye"]},
    {"id": "run_tests", "type": "script", "command": "sh test.sh", "proof": {"type": "test"}}],
   "acceptance": [{"criterion": "it says bye", "verify": "sh greet.sh --bye | grep -q Bye", "level": "must"}]}}],
 "judge": [{"answer": {"pass": true, "feedback": "", "criteria": {"verification": true, "atomicity": true, "coverage": true, "vars": true}}}]}}
`
	refusing = `{"roles": {"evaluate": [{"answer": {"decision": "reject", "category": "unclear", "details": "It does not say what.", "suggestions": ["Say what."], "size": "small", "confidence": 0.9}}]}}
`
	// slow has calls that only end because they are called off.
	slow = `{"roles": {
 "evaluate": [{"sleep": "1s", "answer": {"decision": "reject", "category": "unclear", "details": "It does not say what.", "suggestions": ["Say what."], "size": "small", "confidence": 0.9}}],
 "research": [{"sleep": "10m", "answer": "nothing"}],
 "taskspec": [{"sleep": "10m", "answer": {}}]}}
`
	fileJSON = `{"schema_version": 1, "title": "Try it", "steps": [
 {"id": "first", "command": "echo first >> ../calls.log"},
 {"id": "write", "prompt": "Write out.txt."},
 {"id": "ask", "type": "approval", "title": "Go on?"},
 {"id": "last", "command": "echo last >> ../calls.log; test -f out.txt", "proof": {"type": "file", "path": "out.txt"}}]}
`
)

// task returns a task directory as a person writes it, with more files.
func task(prd string, more ...string) map[string]string {
	files := map[string]string{bye + "/prd.md": prd, bye + "/task.json": `{"status": "ready"}`,
		bye + "/implement.jsonl": `{"file": "greet.sh", "reason": "the program"}` + "\n",
		bye + "/check.jsonl":     `{"file": "test.sh", "reason": "its test"}` + "\n"}
	for i := 0; i < len(more); i += 2 {
		files[bye+"/"+more[i]] = more[i+1]
	}
	return files
}

func with(files map[string]string, name, text string) map[string]string {
	files[name] = text
	return files
}

// cases returns the recorded cases, by the name of their archive.
func cases() map[string]testCase {
	pushed := func(s *runner.Site) { s.Config.Delivery.Push = true }
	beside := func(s *runner.Site) { s.Config.Baseline, s.Config.Delivery.Push = "parallel", true }
	asked := func(s *runner.Site) { s.Config.Planning.Approval = "plan" }
	little := func(s *runner.Site) {
		s.Config.Agents.Default, s.Config.Limits.Tokens = "mine", 2000
		o := agents.Options{Environ: os.Environ(), Root: s.Repo.Main, Commands: map[string]agents.Command{
			"mine": {Argv: []string{"sh", filepath.Join(filepath.Dir(s.Repo.Main), "agent.sh")}, Output: "events"}}}
		s.Agent = func(name string) (agents.Agent, error) { return agents.New(name, o) }
	}
	planned := task("# Say bye\n\n## Acceptance Criteria\n\n- [ ] it says bye\n  verify: `sh greet.sh --bye | grep -q Bye`\n", "plan.json", stepsJSON,
		"task.json", `{"status": "ready", "pipeline": {"protected": ["*.sh"]}}`, "approvals.jsonl", `{"decision": "approve", "by": "ann"}`+"\n")
	quick := strings.Replace(limited, "    - fail: {code: rate_limited, detail: slow down, resume_at: 2025-01-01T12:00:00Z}\n", "", 1)
	return map[string]testCase{
		// Each phase of a task's run; the first check is red, so that there is a second round.
		"task": {script: working, work: task(byePRD), configure: pushed, play: startTask, resume: resumeTask,
			cuts: []string{"claim#1", "status#1", "prepare#1", "baseline#1", "observe#1", "implement#1", "round-1/check#1", "round-1/verify#1", "round-2/debug#1",
				"round-2/verify#1", "round-2/criteria#1", "round-2/accept#1", "round-2/commit#1", "round-2/final-verify#1", "round-2/seal#1", "deliver#1", "report#1", "status#4"}},
		// The same with code 8: checks at base run beside the work, and checks of the same tree run once.
		"beside": {script: working, work: task(byePRD), configure: beside, play: startTask, resume: resumeTask,
			cuts: []string{"claim#1", "prepare#1", "work/implement#1", "base/baseline#1", "round-1/verify#1", "round-2/debug#1", "round-2/verify#1", "round-2/accept#1",
				"round-2/commit#1", "round-2/final-verify#1", "deliver#1"}},
		// A task that is delivered is not run again.
		"delivered": {script: working, work: task(byePRD), configure: pushed, play: atEnd("delivered", startTask), resume: untouched},
		// A plan that people approved is edited while it is carried out: they have to approve it again.
		"approval": {script: editing, work: task(byePRD, "plan.json", planJSON), configure: asked, play: func(r *recorder) result {
			r.start()
			resumeApproved(r.world, "")
			r.take("waiting")
			return resumeApproved(r.world, "")
		}, resume: resumeApproved},
		// A plan with steps, of which some are done, one asks a person, and one is an agent's.
		"steps": {script: strings.Replace(quick, "  accept: [{answer: {criteria: [{id: A2, verdict: met, evidence: \"greet.sh:1\"}]}}]\n", "", 1), work: planned, play: func(r *recorder) result {
			r.start()
			r.take("waiting")
			return resumeStep(r.world, "")
		}, resume: resumeStep, cuts: []string{"steps/step-note/script#1", "steps/step-count/item-2/script#1", "steps/step-say_bye/implement#1", "round-1/final-verify#1"}},
		// The provider says when to ask again.
		"provider": {script: limited, work: task(byePRD), play: func(r *recorder) result {
			r.start()
			r.take("paused")
			return r.later()
		}, resume: resumeTask},
		// The task used up its budget, and a person raised that.
		"budget": {script: "roles: {}\n", work: with(task(byePRD), "agent.sh", spending), configure: little, again: true, play: func(r *recorder) result {
			r.start()
			r.take("paused")
			r.Site.Config.Limits.Tokens = 100000
			return r.start()
		}, resume: func(w *world, cut string) result {
			w.Site.Config.Limits.Tokens = 100000
			return resumeTask(w, cut)
		}},
		// A planning, cut off in each of its roles.
		"planning": {script: planning, play: plan1, resume: resumePlan,
			cuts: []string{"survey#1", "evaluate#1", "research/research#1", "research/digest#1", "taskspec/taskspec#1", "draft#1", "plan#1", "judge#1"}},
		// A planning of code 3, whose requirement is long enough for research and TaskSpec to be asked for beside evaluate, and one
		// whose requirement is rejected, so that both are called off.
		"ahead": {script: planning, play: planWordy, resume: resumePlan,
			cuts: []string{"survey#1", "evaluate/evaluate#1", "research/research#1", "taskspec/taskspec#1", "research/digest#1", "draft#1", "plan#1", "judge#1"}},
		"calledoff": {script: slow, play: planWordy, resume: resumePlan,
			cuts: []string{"evaluate/evaluate#1", "research/research#1", "taskspec/taskspec#1", "evaluate/call-off#1", "reject#1"}},
		// A planning whose requirement was rejected, and one whose plan a person rejected.
		"refused": {script: refusing, play: atEnd("refused", plan1), resume: untouched},
		"rejected": {script: planning, configure: asked, play: func(r *recorder) result {
			res := plan1(r)
			if err := r.Site.Approvals().Reject(r.path(res.run), "ann", "not now", ""); err != nil {
				r.Error(err)
			}
			r.take("rejected")
			return r.standing(res.run)
		}, resume: untouched},
		// A file of steps.
		"file": {script: "roles: {implement: [{files: {out.txt: one}, answer: wrote it}]}\n", work: map[string]string{"repo/steps.json": fileJSON}, play: func(r *recorder) result {
			res := runFile(r)
			r.take("waiting")
			return resumeFile(r.world, res.run)
		}, resume: func(w *world, _ string) result { return resumeFile(w, "") }, cuts: []string{"step-write/implement#1", "step-last/script#1"}},
	}
}

func (w *world) standing(dir string) result {
	w.Helper()
	t, err := w.Site.Store.Load(w.path(dir))
	if err != nil {
		w.Fatal(err)
	}
	return result{string(t.Status), string(t.Pipeline.Outcome), dir}
}

func (w *world) start() result {
	w.Helper()
	res, err := w.Site.Starter().Start(context.Background(), w.path(bye), runner.RunOptions{})
	if err != nil {
		w.Fatal(err)
	}
	if res.Failure != nil {
		w.Logf("%s: %v", res.Status, res.Failure)
	}
	return w.standing(bye)
}

func startTask(r *recorder) result         { return r.start() }
func resumeTask(w *world, _ string) result { return w.start() }

// untouched starts a task that is at its end, for which nothing must be done.
func untouched(w *world, _ string) result {
	w.Helper()
	before := w.journals()
	if _, err := w.Site.Starter().Start(context.Background(), w.path(bye), runner.RunOptions{}); err != nil {
		w.Logf("start: %v", err)
	}
	if after := w.journals(); !maps.Equal(before, after) {
		w.Errorf("something was done: %s", after)
	}
	return w.standing(bye)
}

// atEnd records the world when everything is over.
func atEnd(name string, play func(*recorder) result) func(*recorder) result {
	return func(r *recorder) result {
		res := play(r)
		r.take(name)
		return res
	}
}

func resumeApproved(w *world, _ string) result {
	w.Helper()
	if _, err := w.Site.Approvals().Approve(w.path(bye), "ann", ""); err != nil {
		w.Error(err)
	}
	return w.start()
}

// resumeStep continues to where the run asks for a person, approves the step, and continues to the end.
func resumeStep(w *world, _ string) result {
	w.Helper()
	if res := w.start(); res.status != string(trellis.Waiting) {
		return res
	}
	if _, _, err := w.Site.Approvals().DecideStep(w.path(bye), proof.Approval{Step: "ask", Decision: proof.Approve, By: "ann"}); err != nil {
		w.Error(err)
	}
	return w.start()
}

// later continues a recording with its clock set ahead to the time at which the provider wants to be asked again.
func (r *recorder) later() result {
	now := clock()
	r.Site.Now = func() time.Time { return now().Add(3 * time.Hour) }
	return r.start()
}

func plan1(r *recorder) result { return r.plan("greet.sh --bye says bye") }

func planWordy(r *recorder) result {
	return r.plan("greet.sh takes the flag --bye. With it, it says Bye and nothing else; without it, all stays as it is, whatever else it is given.")
}

func (r *recorder) plan(requirement string) result {
	r.Helper()
	res, err := r.Site.PlanRunner().Plan(context.Background(), runner.PlanOptions{New: taskdir.New{Name: "bye", DevType: "backend"}, Requirement: requirement})
	if err != nil {
		r.Fatal(err)
	}
	return r.standing(strings.TrimPrefix(res.Dir, r.Root+"/"))
}

func resumePlan(w *world, _ string) result {
	w.Helper()
	drafts, err := filepath.Glob(w.path("repo/.trellis/tasks/.new-*"))
	if err != nil || len(drafts) != 1 {
		w.Fatalf("the drafts are %q, %v", drafts, err)
	}
	res, err := w.Site.PlanRunner().Replan(context.Background(), drafts[0], runner.PlanOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return w.standing(strings.TrimPrefix(res.Dir, w.Root+"/"))
}

func nobody(runner.FileRun, []workflow.Event) {}

func runFile(r *recorder) result {
	r.Helper()
	b, problems := plan.Load(plan.LoadOptions{File: "steps.json", Read: func(path string) ([]byte, error) { return os.ReadFile(filepath.Join(r.Dir, path)) }})
	if b == nil {
		r.Fatal(problems)
	}
	res, err := r.Site.FileRunner().RunFile(context.Background(), runner.FileOptions{File: filepath.Join(r.Dir, "steps.json"), Bundle: b, Steps: workflow.Options{Dir: r.Dir}}, nobody)
	if err != nil {
		r.Fatal(err)
	}
	return r.file(res)
}

func (w *world) file(res runner.FileRun) result {
	if res.Failure != nil {
		w.Logf("the file: %v", res.Failure)
	}
	return result{fmt.Sprintf("done %d, waits %d", res.Report.Done, len(res.Waits)), fmt.Sprintf("proven %d", res.Proven), strings.TrimPrefix(res.Dir, w.Root+"/")}
}

// resumeFile continues the only run of a file, through its question to people.
func resumeFile(w *world, _ string) result {
	w.Helper()
	runs, err := filepath.Glob(w.path("repo/.trellis/.runtime/runs/*"))
	if err != nil || len(runs) != 1 {
		w.Fatalf("the runs are %q, %v", runs, err)
	}
	resume := func() runner.FileRun {
		res, err := w.Site.FileRunner().ResumeFile(context.Background(), filepath.Base(runs[0]), runner.FileOptions{Steps: workflow.Options{Dir: w.Dir}}, nobody)
		if err != nil {
			w.Fatal(err)
		}
		return res
	}
	res := resume()
	if len(res.Waits) == 1 {
		if _, _, err := w.Site.Approvals().DecideStep(runs[0], proof.Approval{Decision: proof.Approve, By: "ann"}); err != nil {
			w.Error(err)
		}
		res = resume()
	}
	return w.file(res)
}

// ended returns all that is compared of a world in which a case ended.
func (w *world) ended(res result) map[string]string {
	w.Helper()
	said := map[string]string{"status": res.status, "outcome": res.outcome, "calls": w.calls()}
	if w.git("repo", "branch", "--list", "feature/bye") != "" {
		said["commits"] = w.git("repo", "rev-list", "--count", "main..feature/bye")
		said["tree"] = w.git("repo", "rev-parse", "feature/bye^{tree}")
	}
	if pushed := w.git("remote.git", "branch", "--list", "feature/bye"); pushed != "" {
		said["pushed"] = w.git("remote.git", "rev-parse", "feature/bye^{tree}")
	}
	h, err := journal.Read(filepath.Join(w.path(res.run), taskdir.Run))
	if err != nil {
		w.Fatal(err)
	}
	var ids []string
	for _, c := range h.Calls {
		ids = append(ids, c.ID)
	}
	slices.Sort(ids)
	said["activities"] = strings.Join(ids, " ")
	for _, name := range []string{"plan.json", "prd.md", "taskspec.json", "implement.jsonl", "check.jsonl"} {
		if data, err := os.ReadFile(filepath.Join(w.path(res.run), name)); err == nil && strings.HasPrefix(h.Flow, "plan") {
			said[name] = fmt.Sprintf("%x", sha256.Sum256(data))
		}
	}
	return said
}

// calls returns the sorted lines that agents and steps left in calls.log.
func (w *world) calls() string {
	data, err := os.ReadFile(w.path("calls.log"))
	if err != nil {
		return ""
	}
	lines := strings.Fields(string(data))
	slices.Sort(lines)
	return strings.Join(lines, " ")
}
