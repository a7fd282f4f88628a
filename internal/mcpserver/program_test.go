package mcpserver_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/trellis-tasks/trellis/internal/mcpserver"
)

// script has the scripted agent plan a small task and do its work.
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

// command returns the built server, to be started in dir.
func (w *world) command(dir string, args ...string) *exec.Cmd {
	cmd := exec.Command(built(w.T), append([]string{"mcp"}, args...)...)
	cmd.Dir, cmd.Env, cmd.Stderr = dir, w.vars, os.Stderr
	return cmd
}

// TestWholeWay uses the built server alone from a requirement to a delivered branch. The server is started in a worktree and has to work
// in the main checkout.
func TestWholeWay(t *testing.T) {
	w := newWorld(t, map[string]string{".trellis/rehearsal.yaml": script})
	cmd := w.command(w.Add("elsewhere"), "--tools", "all")
	c := dial(t, &mcp.CommandTransport{Command: cmd})
	var did struct{ Task, Says, Next string }
	c.ok("task_plan", `{"requirement": "Say hello in hello.txt.", "name": "hello", "type": "docs"}`, &did)
	list := c.until("task_list", `{}`, `"waiting"`)
	var a listAnswer
	if err := json.Unmarshal([]byte(list), &a); err != nil || len(a.Tasks) != 1 || did.Task != "" && did.Task != a.Tasks[0].Task {
		t.Fatalf("got %s after %+v, %v", list, did, err)
	}
	task := `{"task": ` + quote(a.Tasks[0].Task) + `}`
	var plan reviewAnswer
	c.ok("task_review", task, &plan)
	c.ok("task_approve", strings.Replace(task, "}", `, "hash": `+quote(plan.Hash)+"}", 1), &did)
	c.ok("task_control", strings.Replace(task, "}", `, "action": "start"}`, 1), &did)
	c.until("task_show", task, `"status":"review"`)
	c.until("task_logs", task, `: delivered, commit`) // the run's last line is written later than that
	logs := readLog(c, a.Tasks[0].Task, 7)
	if !strings.Contains(logs, "I wrote hello.txt.") || !strings.Contains(logs, "implement") {
		t.Errorf("the log says %s", logs)
	}
	if shown := c.until("task_show", task, `"verdict":"met"`); !strings.Contains(shown, "report.md") {
		t.Errorf("got %s", shown)
	}
	c.ok("task_control", strings.Replace(task, "}", `, "action": "cancel"}`, 1), &did)
	c.until("task_show", task, `"status":"cancelled"`)
	if err := c.Close(); err != nil || !cmd.ProcessState.Success() {
		t.Errorf("it ended with %v, %v", err, cmd.ProcessState)
	}
}

// readLog reads a log from its end in pages of limit lines, and checks that the pages add up to it and that nothing comes after its end.
func readLog(c *client, task string, limit int) string {
	c.Helper()
	var all []string
	more := ""
	for range 200 {
		var a struct {
			Lines        []string
			Older, Newer string
		}
		c.ok("task_logs", `{"task": `+quote(task)+`, "limit": `+string(must(json.Marshal(limit)))+more+`}`, &a)
		if len(a.Lines) > limit {
			c.Errorf("got %d lines, want %d at most", len(a.Lines), limit)
		}
		if more == "" {
			var news struct{ Lines []string }
			if c.ok("task_logs", `{"task": `+quote(task)+`, "cursor": `+quote(a.Newer)+`}`, &news); len(news.Lines) != 0 {
				c.Errorf("after the end there is %q", news.Lines)
			}
		}
		all = append(slices.Clone(a.Lines), all...)
		if a.Older == "" {
			break
		}
		more = `, "before": true, "cursor": ` + quote(a.Older)
	}
	var whole struct{ Lines []string }
	c.ok("task_logs", `{"task": `+quote(task)+`, "limit": 400}`, &whole)
	if !slices.Equal(all, whole.Lines) {
		c.Errorf("in pages it is %q, in one piece %q", all, whole.Lines)
	}
	return strings.Join(all, "\n")
}

const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}` + "\n"

// The server ends when its input is closed or on a signal, and writes nothing but the protocol to its output.
func TestEnds(t *testing.T) {
	w := newWorld(t, nil)
	for name, end := range map[string]struct {
		how  func(*os.Process, io.Closer) error
		code int
	}{
		"closed input": {func(_ *os.Process, in io.Closer) error { return in.Close() }, 0},
		"SIGTERM":      {func(p *os.Process, _ io.Closer) error { return p.Signal(syscall.SIGTERM) }, 143},
		"Ctrl-C":       {func(p *os.Process, _ io.Closer) error { return p.Signal(syscall.SIGINT) }, 130},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := w.command(w.Dir)
			in, out := must(cmd.StdinPipe()), must(cmd.StdoutPipe())
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			if _, err := io.WriteString(in, hello); err != nil || !lines.Scan() {
				t.Fatalf("it says nothing: %v", err)
			}
			began := time.Now()
			if err := end.how(cmd.Process, in); err != nil {
				t.Fatal(err)
			}
			said := lines.Text()
			for lines.Scan() {
				said += "\n" + lines.Text()
			}
			var exit *exec.ExitError
			if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			if code := cmd.ProcessState.ExitCode(); code != end.code || time.Since(began) > 15*time.Minute {
				t.Errorf("it ended with %d after %v, want %d", code, time.Since(began), end.code)
			}
			for line := range strings.SplitSeq(said, "\n") {
				if !strings.HasPrefix(line, `{"jsonrpc":"2.0"`) {
					t.Errorf("it prints %q", line)
				}
			}
		})
	}
}

// A server whose client cleared its environment, as codex does, is inside a run if one of its ancestors is.
func TestClearedEnvironmentInsideARun(t *testing.T) {
	w := newWorld(t, nil)
	w.planned("02-01-hello", prd)
	var plan reviewAnswer
	connect(t, w.options(mcpserver.Read)).ok("task_review", `{"task": "hello"}`, &plan)
	cmd := exec.Command("sh", "-c", `env -u TRELLIS_RUN_MARKER "$0" mcp --tools all; exit $?`, built(t))
	cmd.Dir, cmd.Env, cmd.Stderr = w.Dir, append(slices.Clone(w.vars), "TRELLIS_RUN_MARKER=run-1"), os.Stderr
	c := dial(t, &mcp.CommandTransport{Command: cmd})
	c.refused("task_approve", `{"task": "hello", "hash": `+quote(plan.Hash)+`}`, "inside a task or a run")
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
