package mcp_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/trellis-tasks/trellis/internal/mcp"
)

var kinds = map[mcp.Tools][]string{
	mcp.Read: {"objective_next", "task_list", "task_logs", "task_review", "task_show"},
	mcp.Work: {"objective_next", "task_control", "task_list", "task_logs", "task_plan", "task_review", "task_show"},
	mcp.All:  {"objective_next", "task_approve", "task_control", "task_list", "task_logs", "task_plan", "task_reject", "task_review", "task_show"},
}

// Every kind has its tools, and what a client's model reads of them stays short.
func TestToolsAreFew(t *testing.T) {
	for kind, want := range kinds {
		w := newWorld(t, nil)
		w.o.Tools = kind
		list, err := w.connect().client.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, tool := range list.Tools {
			got = append(got, tool.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", kind, got, want)
		}
		data, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) > 6<<10 {
			t.Errorf("%s: tools/list takes %d bytes, at most 6 KB", kind, len(data))
		}
		t.Logf("%s: %d bytes", kind, len(data))
	}
}

// Long lists, documents and logs come in pages that together are all of it.
func TestAnswersArePaged(t *testing.T) {
	w := newWorld(t, nil)
	w.many(95)
	long := "# Long\n\n" + strings.Repeat("A line with an umlaut ä that has some length.\n", 1000)
	w.task("02-02-long", `{"title": "Long", "name": "long", "status": "planning", "dev_type": "docs"}`, map[string]string{"prd.md": long})
	w.connect()
	seen := map[string]bool{}
	var whole strings.Builder
	next := regexp.MustCompile(`go on with from=(\d+)`)
	for tool, a := range map[string]args{"task_list": {}, "task_show": {"task": "long", "what": "prd"}} {
		for range 20 {
			said := w.says(tool, a)
			if len(said) > 17<<10 {
				t.Errorf("%s: a page has %d bytes", tool, len(said))
			}
			for _, id := range regexp.MustCompile(`task-\d{3}`).FindAllString(said, -1) {
				seen[id] = true
			}
			m := next.FindStringSubmatch(said)
			if tool == "task_show" {
				page, _, _ := strings.Cut(said, "… ")
				whole.WriteString(page)
			}
			if m == nil {
				break
			}
			a["from"] = json.Number(m[1])
		}
	}
	if len(seen) != 95 {
		t.Errorf("the pages have %d tasks, want 95", len(seen))
	}
	if whole.String() != long {
		t.Errorf("the pages have %d bytes, want the %d of the document", whole.Len(), len(long))
	}
	w.says("task_list", args{"status": "planning"}, "long")
	w.refuses("task_list", args{"status": "sleeping"}, "no status", "in_progress")
}

// What a client gives as the name of a task is one, whatever it looks like; everything else is refused in a few words.
func TestHostileArguments(t *testing.T) {
	w := newWorld(t, nil)
	w.planned("02-01-hello")
	other := filepath.Join(t.TempDir(), ".trellis", "tasks", "02-01-other")
	if err := os.MkdirAll(other, 0o755); err != nil {
		t.Fatal(err)
	}
	w.connect()
	for _, name := range []string{"", "..", "../..", "../tasks/02-01-hello", ".trellis/tasks/02-01-hello", other, "/etc", "02-01-hello/../02-01-hello", "-h", "--help", "a\x00b", "a\nb", "\u202ehello", strings.Repeat("x", 1<<20)} {
		for tool, a := range map[string]args{"task_show": {}, "task_logs": {}, "task_review": {}, "task_control": {"action": "start"}, "task_approve": {"hash": "x"}, "task_reject": {"hash": "x"}} {
			a["task"] = name
			w.refuses(tool, a)
		}
	}
	w.refuses("task_show", args{"task": "hello", "what": "../../../../etc/passwd"}, "none of")
	w.refuses("task_show", args{"task": "hello", "secrets": true}, "secrets")
	w.refuses("task_show", args{"task": []int{1}}, "task")
	w.refuses("task_control", args{"task": "hello", "action": "rm -rf"}, "none of start")
	w.refuses("task_approve", args{"task": "hello", "hash": "nonsense"}, "changed")
	w.refuses("task_approve", args{"task": "hello", "hash": ""}, "task_review")
	w.refuses("task_plan", args{"requirement": strings.Repeat("x", 1<<20)}, "1048576 bytes long")
	w.refuses("task_plan", args{"requirement": "a\x00b"}, "NUL")
	w.refuses("task_plan", args{"requirement": " \n "}, "say what is wanted")
	w.refuses("objective_next", args{"objective": "../x"}, "no objective")
	if got := w.status("02-01-hello"); got != "waiting" {
		t.Errorf("the task is %s", got)
	}
	for _, uri := range []string{"trellis://task/02-01-hello/..%2f..%2fconfig.yaml", "trellis://task/02-01-hello/../../config.yaml", "trellis://task/02-01-hello/.git", "trellis://task/..%2f/config.yaml", "trellis://task/02-01-hello/run/journal.jsonl", "file:///etc/passwd", "trellis://task/02-01-hello/nothing.md"} {
		if res, err := w.client.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: uri}); err == nil {
			t.Errorf("%s: got %q", uri, res.Contents[0].Text)
		}
	}
	if res, err := w.client.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "trellis://task/02-01-hello/prd.md"}); err != nil || !strings.Contains(res.Contents[0].Text, "A greeting.") || res.Contents[0].MIMEType != "text/markdown" {
		t.Errorf("got %v %v", res, err)
	}
}

// A decision is about what was shown: the hash of another plan decides nothing.
func TestDecisionNamesWhatWasShown(t *testing.T) {
	w := newWorld(t, nil)
	w.planned("02-01-hello")
	w.planned("02-01-later")
	w.connect()
	hash := func(task string) string {
		m := regexp.MustCompile(`(?m)^hash: (\S+)`).FindStringSubmatch(w.says("task_review", args{"task": task}, "it says hello"))
		if m == nil {
			t.Fatal("task_review shows no hash")
		}
		return m[1]
	}
	old := hash("02-01-hello")
	w.Write(".trellis/tasks/02-01-hello/prd.md", "# Say hello\n\n## Goal\n\nSomething else.\n\n## Acceptance Criteria\n\n- [ ] it says hello (verify: `false`)\n")
	w.refuses("task_approve", args{"task": "02-01-hello", "hash": old}, "changed")
	if got := w.status("02-01-hello"); got != "waiting" {
		t.Errorf("it is %s, want waiting", got)
	}
	w.says("task_approve", args{"task": "02-01-hello", "hash": hash("02-01-hello")}, "approved")
	w.says("task_reject", args{"task": "02-01-later", "hash": hash("02-01-later"), "reason": "not now"}, "rejected")
	if got := [2]string{w.status("02-01-hello"), w.status("02-01-later")}; got != [2]string{"ready", "rejected"} {
		t.Errorf("they are %v, want ready and rejected", got)
	}
}

// From inside a run nothing is decided, planned or steered, and everything can be read.
func TestNoAgentDecides(t *testing.T) {
	w := newWorld(t, nil)
	w.planned("02-01-hello")
	w.o.Inside = true
	w.connect()
	for tool, a := range map[string]args{
		"task_approve": {"task": "02-01-hello", "hash": "x"}, "task_reject": {"task": "02-01-hello", "hash": "x"},
		"task_control": {"task": "02-01-hello", "action": "start"}, "task_plan": {"requirement": "more"},
	} {
		w.refuses(tool, a, "only a person can")
	}
	w.says("task_review", args{"task": "02-01-hello"}, "hash:")
	if got := w.status("02-01-hello"); got != "waiting" {
		t.Errorf("it is %s, want waiting", got)
	}
}

// A call ends in time, whatever takes longer.
func TestCallIsBounded(t *testing.T) {
	w := newWorld(t, nil)
	w.planned("02-01-hello")
	slow := filepath.Join(t.TempDir(), "slow")
	if err := os.WriteFile(slow, []byte("#!/bin/sh\nexec sleep 20\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	w.o.Program.Self, w.o.Limit = slow, 50*time.Millisecond
	w.connect()
	began := time.Now()
	w.refuses("task_plan", args{"requirement": "take long"}, "takes longer than 50ms", "task_show")
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("the call took %v", took)
	}
}

// The built program serves a client that plans a task, follows it, starts it and reads what became of it; what it writes to its
// standard output is the protocol alone, and it ends when its client is gone.
func TestWholeWay(t *testing.T) {
	self, err := program()
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, map[string]string{".trellis/rehearsal.yaml": script})
	nested := filepath.Join(w.Dir, "deeper")
	if err := os.Mkdir(nested, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "mcp")
	cmd.Dir, cmd.Env = nested, w.o.Program.Env
	w.dial(&sdk.CommandTransport{Command: cmd})
	w.says("objective_next", nil, "no objectives")
	said := w.says("task_plan", args{"requirement": "Say hello in hello.txt", "name": "hello", "type": "docs"}, "hello")
	w.until("hello", "ready")
	w.says("task_show", args{"task": "hello", "what": "prd"}, "hello.txt says hello")
	w.says("task_control", args{"task": "hello", "action": "start"})
	w.until("hello", "review")
	w.says("task_logs", args{"task": "hello"}, "I wrote hello.txt.", "lines 1 to")
	w.says("task_show", args{"task": "hello", "what": "diff"}, "+hello")
	w.says("task_show", args{"task": "hello", "what": "report"}, "## Phases")
	w.says("task_list", nil, "hello", "review")
	t.Logf("planned: %s", said)
}

// until waits until a task has a status.
func (w *world) until(id, status string) {
	w.Helper()
	said := ""
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if said, _ = w.call("task_show", args{"task": id}); strings.Contains(said, status) {
			return
		}
	}
	w.Fatalf("after a minute it is not %s: %s", status, said)
}

// script plans hello.txt and writes it.
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
    - {files: {hello.txt: "hello\n"}, answer: "I wrote hello.txt."}
  check:
    - answer: ALL_CHECKS_FINISH
  accept:
    - answer: {criteria: [{id: A1, verdict: met, evidence: "hello.txt:1"}]}
`
