package board_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/github/githubtest"
)

// script has the first two attempts at the work fail, and the third succeed.
const script = `roles:
  evaluate:
    - answer: {decision: accept, category: "", details: fine, suggestions: [], size: tiny, confidence: 0.9}
  research:
    - answer: |
        ## Codebase Context

        test.sh is the test.

        ## Implementation Approach

        Write hello.txt.

        ## Step Breakdown

        1. hello.txt

        ## implement.jsonl

        - path: test.sh, reason: how it is tested

        ## check.jsonl

        - path: test.sh, reason: how it is tested

        ## debug.jsonl

        - path: test.sh, reason: how it is tested

        ## Suggested Scope

        hello

        ## Technical Notes

        none

        ## Verification Plan

        - test: ` + "`sh test.sh`" + `

        ## Risks

        None.
  prd:
    - answer: {title: Say hello, summary: hello.txt says hello., requirements: [hello], acceptance: [{criterion: hello.txt says hello}]}
  implement:
    - {files: {hello.txt: "bad\n"}, answer: "I wrote <b>hello.txt</b>."}
  check:
    - answer: ALL_CHECKS_FINISH
  debug:
    - {files: {hello.txt: "worse\n"}, answer: "Now it should hold."}
    - {files: {hello.txt: "hello\n"}, answer: "Now it holds."}
  accept:
    - answer: {criteria: [{id: A1, verdict: met, evidence: "hello.txt:1"}]}
`

// TestWholeWay uses the board alone, beside a watcher: it plans a task, approves the plan, comments on work that failed, sends it back,
// and delivers the branch with a pull request.
func TestWholeWay(t *testing.T) {
	self, err := program()
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, map[string]string{".trellis/rehearsal.yaml": script, "test.sh": "[ ! -e hello.txt ] || grep -q '^hello$' hello.txt\n",
		".trellis/config.yaml": "agents: {default: rehearsal}\nverify: [sh test.sh]\nlimits: {rounds: 2, attempts: 1}\nplanning: {approval: plan}\nsandbox: off\n"})
	w.o.Self = self
	origin := filepath.Join(t.TempDir(), "greet.git") // the name of the repository that gh knows
	w.Git("init", "-q", "--bare", "-b", "main", origin)
	w.Git("remote", "add", "origin", origin)
	w.Git("push", "-q", "origin", "main")
	gh := githubtest.Install(t, githubtest.State{})
	w.p.Env.Vars = append(w.p.Env.Vars, gh.Env...)
	w.watcher(self)
	w.serve()
	columns := w.open("/").live()
	columns.shows("0 tasks")
	p := w.open("/plan")
	p.until("document.getElementById('requirement')")
	p.evaluate("(() => { document.getElementById('requirement').value = 'Say hello in hello.txt'; document.getElementById('name').value = 'hello' })()")
	p.click("#plan-form button")
	p.shows("planning in the background")
	columns.until("document.querySelector('#list-needs .card.s-waiting')")
	columns.click("#list-needs a.open")
	columns.until("location.pathname.startsWith('/task/')")
	columns.live()
	columns.shows("This plan waits for approval")
	columns.click("#approve")
	columns.shows("approved by")
	columns.until("document.querySelector('#task-head .badge.s-failed')")
	columns.shows("verify")
	columns.until("document.querySelector('#log').innerText.includes('I wrote <b>hello.txt</b>.')")
	columns.keys("3")
	columns.until("document.querySelector('table.diff .no button')")
	columns.comment("hello.txt", 1, "Say <b>hello</b>, and nothing else.")
	columns.click("#send-back")
	columns.until("location.pathname.split('/').length === 3") // the page of the task
	columns.live()
	columns.until("document.querySelector('#task-head .badge.s-review')")
	columns.shows("✓ met")
	w.told("Comment on hello.txt:1 (new)\nThe line:\n```\nworse\n```\nThe comment:\n```\nSay <b>hello</b>, and nothing else.\n```\n")
	columns.click(`[hx-post*="/do/deliver/"]`)
	columns.click("#sure")
	columns.shows(gh.Home + "/pull/1")
	if list := gh.State(t).PRs; len(list) != 1 {
		t.Errorf("there are pull requests %v", list)
	}
	if got := w.Git("-C", origin, "show", "feature/hello:hello.txt"); got != "hello" {
		t.Errorf("the remote has %q", got)
	}
	w.bigLog(columns)
}

// comment writes a comment on a line of the diff.
func (t *tab) comment(file string, line int, text string) {
	t.Helper()
	n := fmt.Sprint(line)
	found := fmt.Sprintf("[...document.querySelectorAll('table.diff')].find(t => t.dataset.file === %q).querySelectorAll('tr')", file)
	t.evaluate(fmt.Sprintf("[...%s].map(r => [...r.querySelectorAll('.no')].pop()).find(c => c && c.innerText.trim() === %q).querySelector('button').click()", found, n))
	t.until("document.activeElement.matches('.comment-box textarea')")
	t.keys(text)
	t.until(fmt.Sprintf("document.activeElement.value === %q", text))
}

// told checks that the prompts of all agents contain a text once.
func (w *world) told(text string) {
	w.Helper()
	n := 0
	err := filepath.WalkDir(filepath.Join(w.Dir, ".trellis", "tasks"), func(path string, _ os.DirEntry, err error) error {
		if err != nil || filepath.Base(path) != "prompt.md" {
			return err
		}
		prompt, err := os.ReadFile(path)
		n += strings.Count(string(prompt), text)
		return err
	})
	if err != nil || n != 1 {
		w.Errorf("agents were told %q %d times, %v", text, n, err)
	}
}

// bigLog adds 100 MB to an agent's stream, and checks that the page of the log reads only its end.
func (w *world) bigLog(p *tab) {
	found, err := filepath.Glob(filepath.Join(w.Dir, ".trellis/tasks/*/run/*/*/*/*/stream.jsonl"))
	if more, moreErr := filepath.Glob(filepath.Join(w.Dir, ".trellis/tasks/*/run/*/*/*/stream.jsonl")); err == nil && moreErr == nil {
		found = append(found, more...)
	}
	if err != nil || len(found) == 0 {
		w.Fatalf("no stream: %v", err)
	}
	f, err := os.OpenFile(found[0], os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		w.Fatal(err)
	}
	line := fmt.Sprintf(`{"type":"text","text":%q}`+"\n", strings.Repeat("x", 1000))
	for range 100 {
		if _, err := f.WriteString(strings.Repeat(line, 1000)); err != nil {
			w.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		w.Fatal(err)
	}
	w.end()
	w.serve()
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	id := strings.TrimPrefix(p.evaluate("location.pathname"), "/task/")
	began := time.Now()
	q := w.open("/task/" + id + "/log").live()
	q.until("document.querySelectorAll('#log li').length > 10")
	runtime.ReadMemStats(&now)
	// Allocations are counted, not the memory of the process, which also depends on earlier tests.
	taken := (now.TotalAlloc - before.TotalAlloc) >> 20
	w.Logf("a log of 100 MB: %v until it is shown, %d MB of memory taken for it", time.Since(began), taken)
	if taken > 60 {
		w.Errorf("%d MB of memory were taken for a log, want at most 60: its end is to be read, not the whole", taken)
	}
}

func (w *world) watcher(self string) {
	w.Helper()
	cmd := exec.Command(self, "watch", "--plain")
	cmd.Dir, cmd.Env = w.Dir, w.p.Env.Vars
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // also if it has ended already
		_ = cmd.Wait()
		if w.Failed() {
			w.Log(said.String())
		}
	})
}
