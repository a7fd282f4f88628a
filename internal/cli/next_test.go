package cli

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// quickAgents plays all roles of a tiny task. If .trellis/fail exists, the implement agent fails.
const quickAgents = `roles:
  evaluate: [{answer: {decision: accept, category: "", details: it says what, suggestions: [], size: tiny, confidence: 1}}]
  research: [{answer: "## implement.jsonl\n- path: steps.yaml, reason: x\n## check.jsonl\n- path: steps.yaml, reason: x\n"}]
  prd: [{answer: {title: Note, summary: A note., requirements: [note], acceptance: [{criterion: there is a note}], technical_notes: "", out_of_scope: []}}]
  implement: [{run: ["test ! -e $TRELLIS_REPO/.trellis/fail && echo $TRELLIS_TASK_ID >>notes.txt"], answer: done}]
  check: [{answer: fine}]
  accept: [{answer: {criteria: [{id: A1, verdict: met, evidence: "notes.txt:1"}]}}]
`

// bench is a repository in which each test creates its task.
type bench struct {
	*testing.T
	app *console
	dir string // of the task
}

func newBench(t *testing.T) *bench {
	b := &bench{T: t, app: runs(t, "title: none\n", quickAgents)}
	b.write(".trellis/config.yaml", "agents: {default: rehearsal}\nverify: [test -s notes.txt]\nbaseline: false\nlimits: {attempts: 1}\n")
	b.write(".trellis/workflow.md", "Work.\n")
	b.git("branch -M master")
	return b
}

func (b *bench) write(name, text string) {
	b.Helper()
	path := filepath.Join(b.app.Dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		b.Fatal(err)
	}
}

// do runs a command that must end with one of these codes, or 0 if there are none.
func (b *bench) do(words string, codes ...int) {
	b.Helper()
	code, out, errs := b.app.try(strings.Fields(words)...)
	if len(codes) == 0 {
		codes = []int{command.ExitDone}
	}
	for _, want := range codes {
		if code == want {
			return
		}
	}
	b.Fatalf("%s: exit code %d\n%s%s", words, code, out, errs)
}

// hand creates a task as a person does.
func (b *bench) hand() {
	b.dir = filepath.Join(b.app.Dir, ".trellis/tasks/02-01-note")
	b.write(".trellis/tasks/02-01-note/prd.md", "# Note\n\n## Acceptance Criteria\n\n- [ ] there is a note\n")
	for _, name := range []string{"implement.jsonl", "check.jsonl"} {
		b.write(".trellis/tasks/02-01-note/"+name, `{"file": "steps.yaml", "reason": "x"}`+"\n")
	}
	b.write(".trellis/tasks/02-01-note/task.json", `{"status": "ready", "base_branch": ""}`+"\n")
}

// plan has a task planned.
func (b *bench) plan() {
	b.do("plan -n note -t backend -r note")
	found, err := filepath.Glob(filepath.Join(b.app.Dir, ".trellis/tasks/*-note"))
	if err != nil || len(found) != 1 {
		b.Fatal(found, err)
	}
	b.dir = found[0]
}

// journal rewrites the journal of the task.
func (b *bench) journal(change func([][]byte) [][]byte) {
	path := filepath.Join(b.dir, taskdir.Journal)
	data, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	if err := os.WriteFile(path, bytes.Join(change(lines[:len(lines)-1]), nil), 0o644); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) cut() { b.journal(func(lines [][]byte) [][]byte { return lines[:len(lines)/2] }) }

// stand sets the status by hand.
func (b *bench) stand(s trellis.Status) {
	path := filepath.Join(b.dir, taskdir.TaskJSON)
	data, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	data = regexp.MustCompile(`"status": *"[a-z_]+"`).ReplaceAll(data, []byte(`"status": "`+string(s)+`"`))
	if err := os.WriteFile(path, data, 0o644); err != nil {
		b.Fatal(err)
	}
}

// journals create a task with its journal in each of the states that it can have.
var journals = map[string]func(*bench){
	"none":      func(b *bench) { b.hand() },
	"delivered": func(b *bench) { b.hand(); b.do("start note") },
	"failed": func(b *bench) {
		b.hand()
		b.write(".trellis/fail", "")
		b.do("start note", command.ExitFailed)
		os.Remove(filepath.Join(b.app.Dir, ".trellis/fail"))
	},
	"cut off": func(b *bench) { b.hand(); b.do("start note"); b.cut() },
	"damaged": func(b *bench) {
		b.hand()
		b.do("start note")
		b.journal(func(lines [][]byte) [][]byte { lines[1] = []byte("{}\n"); return lines })
	},
	"planned":          func(b *bench) { b.plan() },
	"planning cut off": func(b *bench) { b.plan(); b.cut() },
}

var nextLine = regexp.MustCompile(`(?m)^  next +trellis (.*)$`)

// Edge C4: the next command that status and task show print is not refused and succeeds, whatever the status and the journal. Each status
// with one of the journals; with all of them in a soak.
func TestNextCommandIsTaken(t *testing.T) {
	t.Parallel()
	names := slices.Sorted(maps.Keys(journals))
	tried := 0
	defer func() { t.Logf("%d of %d pairs", tried, len(trellis.Statuses)*len(names)) }()
	for i, status := range trellis.Statuses {
		for j, name := range names {
			if (i+j)%len(names) != 0 && !soak.Asked() {
				continue
			}
			journal := journals[name]
			tried++
			t.Run(string(status)+"/"+name, func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				journal(b)
				b.stand(status)
				id := filepath.Base(b.dir)
				_, said, errs := b.app.try("status", id)
				next := nextLine.FindStringSubmatch(said)
				if next == nil {
					t.Fatalf("nothing comes next:\n%s%s", said, errs)
				}
				if _, shown, _ := b.app.try("task", "show", id); !strings.Contains(shown, next[0]) {
					t.Errorf("task show does not say %q:\n%s", next[0], shown)
				}
				code, out, errs := b.app.try(strings.Fields(strings.Replace(next[1], "'<revised requirement>'", "note", 1))...)
				damaged := name == "damaged" && code == command.ExitFailed // damage is reported, and the work is backed up
				if code != command.ExitDone && !damaged {
					t.Errorf("trellis %s: exit code %d\n%s%s", next[1], code, out, errs)
				}
			})
		}
	}
}

// Edge C4: the next command of a waiting task is for whoever it waits for, and that of one that is not ready shows why. Archived: none.
func TestNextCommandOfTasksThatStand(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.hand()
	task := func(text string) { b.write(".trellis/tasks/02-01-note/task.json", text+"\n") }
	next := func(what, want string) {
		t.Helper()
		_, said, errs := b.app.try("status", "02-01-note")
		if got := strings.Join(nextLine.FindStringSubmatch(said), ""); !strings.HasSuffix(got, want) || want == "" && got != "" {
			t.Errorf("%s: next is %q, want %q\n%s%s", what, got, want, said, errs)
		}
	}
	task(`{"status": "ready", "base_branch": "master", "pipeline": {"approval": {"required": true}}}`)
	next("approval", "approve 02-01-note")
	b.write(".trellis/tasks/02-02-other/task.json", `{"status": "planning"}`)
	task(`{"status": "waiting", "base_branch": "master", "pipeline": {"depends_on": ["02-02-other"]}}`)
	next("a dependency", "status 02-02-other")
	task(`{"status": "planning", "base_branch": "master"}`)
	os.Remove(filepath.Join(b.dir, taskdir.PRD))
	next("not ready", "validate 02-01-note")
	b.write(".trellis/tasks/02-01-note/requirement.md", "note\n")
	next("not planned", "plan --retry 02-01-note")
	task("{")
	next("broken", "edit 02-01-note task")
	task(`{"status": "completed", "base_branch": "master"}`)
	b.do("task archive 02-01-note")
	next("archived", "")
}
