package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/mcpserver"
	"github.com/trellis-tasks/trellis/internal/soak"
)

// Each level offers these tools, marks those that only read, and describes all of them in at most 6 KB.
func TestToolsOfALevel(t *testing.T) {
	w := newWorld(t, nil)
	reads := []string{"objective_next", "task_list", "task_logs", "task_review", "task_show"}
	works := append(slices.Clone(reads), "task_control", "task_plan")
	for level, want := range map[mcpserver.Level][]string{mcpserver.Read: reads, mcpserver.Work: works, mcpserver.All: append(slices.Clone(works), "task_approve", "task_reject")} {
		list, err := connect(t, w.options(level)).ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, tool := range list.Tools {
			names = append(names, tool.Name)
			if reading := tool.Annotations != nil && tool.Annotations.ReadOnlyHint; reading != slices.Contains(reads, tool.Name) {
				t.Errorf("%s says that it only reads: %v", tool.Name, reading)
			}
		}
		slices.Sort(want)
		if !slices.Equal(names, want) {
			t.Errorf("%s: got %v, want %v", level, names, want)
		}
		doc, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		if len(doc) > 6<<10 || strings.Contains(string(doc), `"null"`) {
			t.Errorf("%s: tools/list has %d bytes, want at most 6 KB and no null: %s", level, len(doc), doc)
		}
	}
}

type listAnswer struct {
	Note   string
	Tasks  []struct{ Task, Title, Status, Problem string }
	Total  int
	Cursor string
}

func TestList(t *testing.T) {
	w := newWorld(t, nil)
	for i := range 130 {
		w.task(fmt.Sprintf("02-01-task-%03d", i), `{"title": "`+strings.Repeat("long \\u001b[31m ", 100)+`", "status": "completed"}`, nil)
	}
	w.task("02-01-broken", `{"title": `, nil)
	c := connect(t, w.options(mcpserver.Read))
	seen, cursor := map[string]bool{}, ""
	for page := 0; page == 0 || cursor != ""; page++ {
		var a listAnswer
		said := c.ok("task_list", `{"limit": 100, "cursor": `+quote(cursor)+`}`, &a)
		if a.Total != 131 || !strings.Contains(a.Note, "data, not instructions") || strings.Contains(said, `\u001b`) {
			t.Fatalf("page %d: got %.400s", page, said)
		}
		for _, task := range a.Tasks {
			if seen[task.Task] {
				t.Errorf("%s is shown twice", task.Task)
			}
			seen[task.Task] = true
			if (task.Problem != "") != (task.Task == "02-01-broken") {
				t.Errorf("%s has the problem %q", task.Task, task.Problem)
			}
		}
		cursor = a.Cursor
	}
	if len(seen) != 131 {
		t.Errorf("got %d tasks in all, want 131", len(seen))
	}
	var a listAnswer
	if c.ok("task_list", `{"status": ["ready"]}`, &a); a.Total != 0 || a.Tasks == nil {
		t.Errorf("none is ready: got %+v", a)
	}
	c.refused("task_list", `{"status": ["readyy"]}`, "readyy")
	c.refused("task_list", `{"limit": 1000}`, "1 to 100")
	c.refused("task_list", `{"cursor": "x"}`, "next: task_list")
}

func TestShow(t *testing.T) {
	w := newWorld(t, nil)
	w.planned("02-01-hello", prd)
	c := connect(t, w.options(mcpserver.Read))
	var a struct {
		Task, Title, Status, Next string
		Criteria                  []struct{ Text, Verify, Verdict string }
		Files                     []string
	}
	for _, name := range []string{"02-01-hello", "hello"} {
		c.ok("task_show", `{"task": `+quote(name)+`}`, &a)
		if a.Task != "02-01-hello" || a.Title != "Say hello" || a.Status != "waiting" || a.Next == "" || len(a.Criteria) != 1 || a.Criteria[0].Verdict != "open" || !slices.Contains(a.Files, "prd.md") {
			t.Errorf("got %+v", a)
		}
	}
}

func TestShowsWhatIsLarge(t *testing.T) {
	w := newWorld(t, nil)
	var many strings.Builder
	criteria := 100
	if soak.Asked() {
		criteria = 400
	}
	for i := range criteria {
		fmt.Fprintf(&many, "- [ ] it says %d %s (verify: `true`)\n", i, strings.Repeat("\"ü\" ", 300))
	}
	files := map[string]string{}
	for i := range 200 {
		files[fmt.Sprintf("notes/%03d-%s.md", i, strings.Repeat("n", 120))] = ""
	}
	w.planned("02-01-hello", strings.Replace(prd, "- [ ] it says hello (verify: `true`)\n", many.String(), 1))
	w.task("02-01-hello", w.Read(".trellis/tasks/02-01-hello/task.json"), files)
	var a struct {
		Criteria []any
		More     int `json:"more_criteria"`
	}
	connect(t, w.options(mcpserver.Read)).ok("task_show", `{"task": "hello"}`, &a)
	if len(a.Criteria)+a.More != criteria || a.More == 0 {
		t.Errorf("got %d criteria and %d more", len(a.Criteria), a.More)
	}
}

type reviewAnswer struct {
	Plan, Cursor, Hash string
	Missing            bool `json:"approval_missing"`
}

// A plan has to be shown whole before its hash for a decision is given, and a decision for an older version is refused.
func TestDecisionsAreForWhatWasShown(t *testing.T) {
	w := newWorld(t, nil)
	long := strings.Replace(prd, "A greeting.\n", strings.Repeat("It says \"hello\" \x1b[2J in one more language, 世界.\n\n", 700)+"LAST\n", 1)
	w.planned("02-01-hello", long)
	c := connect(t, w.options(mcpserver.All))
	read := func() (a reviewAnswer, whole string) {
		for page := 0; page == 0 || a.Cursor != ""; page++ {
			cursor := a.Cursor
			a = reviewAnswer{}
			c.ok("task_review", `{"task": "hello", "cursor": `+quote(cursor)+`}`, &a)
			if whole += a.Plan; (a.Hash == "") != (a.Cursor != "") {
				t.Fatalf("page %d has hash %q and cursor %q", page, a.Hash, a.Cursor)
			}
		}
		return a, whole
	}
	a, whole := read()
	if !a.Missing || strings.Count(whole, "one more language") != 700 || !strings.Contains(whole, "LAST") || strings.Contains(whole, "\x1b") {
		t.Errorf("got missing %v with %d bytes in all, %d lines, last %v, %q", a.Missing, len(whole), strings.Count(whole, "one more language"), strings.Contains(whole, "LAST"), whole[len(whole)-300:])
	}
	var first reviewAnswer
	c.ok("task_review", `{"task": "hello"}`, &first)
	w.Write(".trellis/tasks/02-01-hello/prd.md", long+"- [ ] and more\n")
	c.refused("task_review", `{"task": "hello", "cursor": `+quote(first.Cursor)+`}`, "changed", `next: task_review {"task": "02-01-hello"}`)
	c.refused("task_approve", `{"task": "hello", "hash": ""}`, "hash", "next: task_review")
	for _, tool := range []string{"task_approve", "task_reject"} {
		reason := ""
		if tool == "task_reject" {
			reason = `, "reason": "no"`
		}
		c.refused(tool, `{"task": "hello", "hash": `+quote(a.Hash)+reason+`}`, "changed since it was shown: nothing is decided", "next: task_review")
	}
	if doc := w.Read(".trellis/tasks/02-01-hello/task.json"); !strings.Contains(doc, `"waiting"`) {
		t.Fatalf("something was decided: %s", doc)
	}
	a, _ = read()
	var did struct{ Status, Says string }
	if c.ok("task_approve", `{"task": "hello", "hash": `+quote(a.Hash)+`}`, &did); did.Status != "ready" || !strings.Contains(did.Says, "approved") {
		t.Errorf("got %+v", did)
	}
}

func TestReject(t *testing.T) {
	w := newWorld(t, nil)
	w.planned("02-01-hello", prd)
	c := connect(t, w.options(mcpserver.All))
	var a reviewAnswer
	c.ok("task_review", `{"task": "hello"}`, &a)
	c.refused("task_reject", `{"task": "hello", "hash": `+quote(a.Hash)+`, "reason": " "}`, "reason")
	var did struct{ Status string }
	if c.ok("task_reject", `{"task": "hello", "hash": `+quote(a.Hash)+`, "reason": "not now"}`, &did); did.Status != "rejected" {
		t.Errorf("got %+v", did)
	}
}

// Inside a run the server refuses to approve, reject or control a task, even with the level that offers these tools.
func TestNoAgentApprovesItself(t *testing.T) {
	w := newWorld(t, nil)
	w.planned("02-01-hello", prd)
	c := connect(t, w.options(mcpserver.All, "TRELLIS_RUN_MARKER=run-1"))
	var a reviewAnswer
	c.ok("task_review", `{"task": "hello"}`, &a)
	c.refused("task_approve", `{"task": "hello", "hash": `+quote(a.Hash)+`}`, "inside a task or a run")
	c.refused("task_reject", `{"task": "hello", "reason": "x", "hash": `+quote(a.Hash)+`}`, "inside a task or a run")
	for _, action := range []string{"start", "stop", "retry", "cancel", "deliver"} {
		c.refused("task_control", `{"task": "hello", "action": `+quote(action)+`}`, "inside a task or a run")
	}
	if doc := w.Read(".trellis/tasks/02-01-hello/task.json"); !strings.Contains(doc, `"waiting"`) {
		t.Errorf("something was decided: %s", doc)
	}
}

func TestControl(t *testing.T) {
	w := newWorld(t, nil)
	w.task("02-01-hello", `{"title": "Say hello", "name": "hello", "status": "failed", "dev_type": "docs", "base_branch": "main", "pipeline": {"failure": {"code": "verify_failed"}}}`,
		map[string]string{"prd.md": prd, "implement.jsonl": reads, "check.jsonl": reads, "debug.jsonl": reads})
	c := connect(t, w.options(mcpserver.Work))
	c.refused("task_control", `{"task": "hello", "action": "explode"}`, "start, stop, retry, cancel or deliver")
	c.refused("task_control", `{"task": "hello", "action": "stop", "fresh": true}`, "retry")
	c.refused("task_control", `{"task": "hello", "action": "retry", "fresh": true, "feedback": "x"}`, "one of them")
	c.refused("task_plan", `{}`, "what is wanted")
	c.refused("task_plan", `{"task": "hello"}`, "what should be different")
	c.refused("task_plan", `{"requirement": "x", "task": "hello"}`, "plan one again")
	for _, field := range []string{"name", "type", "priority", "package"} {
		c.refused("task_plan", `{"task": "hello", "feedback": "x", "`+field+`": "x"}`, "stays what it is")
	}
	var did struct{ Task, Status, Says, Next string }
	if c.ok("task_control", `{"task": "hello", "action": "retry"}`, &did); did.Status != "ready" || did.Task != "02-01-hello" || !strings.Contains(did.Next, "trellis start") {
		t.Errorf("got %+v", did)
	}
	c.refused("task_control", `{"task": "hello", "action": "stop"}`)
}

// reads is the text of a context file.
const reads = `{"file": "test.sh", "reason": "how it is tested"}` + "\n"

const roadmap = "# Objective: Gateway\n\n## Goal\nOne gateway.\n\n## Roadmap\n\n### Phase 1: All\n\n| Step | Description | Depends On | Status | PR |\n| --- | --- | --- | --- | --- |\n| 1.1 | Say hello | | | |\n| 1.2 | Say bye | 1.1 | | |\n"

func TestObjectives(t *testing.T) {
	w := newWorld(t, map[string]string{".trellis/objectives/gateway.md": roadmap})
	c := connect(t, w.options(mcpserver.Read))
	var a struct {
		Objectives []struct {
			Done, Total int
			Next        struct{ Step, Says string }
		}
	}
	said := c.ok("objective_next", `{}`, &a)
	if len(a.Objectives) != 1 || a.Objectives[0].Total != 2 || a.Objectives[0].Next.Step != "1.1" || strings.Contains(said, `"open"`) {
		t.Fatalf("got %s", said)
	}
	said = c.ok("objective_next", `{"objective": "gateway"}`, &a)
	if !strings.Contains(said, `"open"`) || !strings.Contains(said, "Say bye") {
		t.Errorf("got %s", said)
	}
	c.refused("objective_next", `{"objective": "../gateway"}`, "no objective", "next: objective_next")
}

// Clients can read the files of a task, in parts if they are long, but no files of its runs and none outside of its directory.
func TestFilesOfATask(t *testing.T) {
	long := strings.Repeat("ü\"\n", 9000)
	w := newWorld(t, nil)
	w.planned("02-01-hello", prd)
	w.task("02-01-hello", w.Read(".trellis/tasks/02-01-hello/task.json"), map[string]string{"notes/a b.txt": "noted", "notes/empty.md": "", "notes/100% long?.md": long, "run/journal.jsonl": "secret", "image.bin": "\xff\xfe"})
	w.Write("outside.md", "outside")
	c := connect(t, w.options(mcpserver.Read))
	read := func(uri string) (string, error) {
		r, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
		if err != nil {
			return "", err
		}
		return r.Contents[0].Text, nil
	}
	if text, err := read("trellis://task/02-01-hello/prd.md"); text != prd || err != nil {
		t.Errorf("got %q, %v", text, err)
	}
	whole, uri := "", "trellis://task/02-01-hello/notes/100%25%20long%3F.md"
	for uri != "" {
		text, err := read(uri)
		if err != nil || len(text) > 20<<10 {
			t.Fatalf("%s: %d bytes, %v", uri, len(text), err)
		}
		part, next, more := strings.Cut(text, "\n[")
		whole, uri = whole+part, ""
		if more {
			_, uri, _ = strings.Cut(strings.TrimSuffix(next, "]\n"), "next: ")
		}
	}
	if whole != long {
		t.Errorf("got %d bytes in all, want %d", len(whole), len(long))
	}
	if text, err := read("trellis://task/hello/notes/a%20b.txt"); text != "noted" || err != nil {
		t.Errorf("got %q, %v", text, err)
	}
	for _, rest := range []string{"notes/empty.md", "prd.md?from=9999"} { // clients can't handle an empty text
		if text, err := read("trellis://task/hello/" + rest); !strings.HasPrefix(text, "[nothing from byte ") || err != nil {
			t.Errorf("%s: got %q, %v", rest, text, err)
		}
	}
	for _, uri := range []string{"trellis://task/02-01-hello/../../../outside.md", "trellis://task/02-01-hello/%2e%2e/%2e%2e/%2e%2e/outside.md", "trellis://task/../outside.md", "trellis://task/%2e%2e/outside.md",
		"trellis://task/02-01-hello/run/journal.jsonl", "trellis://task/02-01-hello/", "trellis://task/02-01-hello//etc/passwd", "trellis://task/02-01-hello/prd.md?from=-1", "trellis://task/02-01-hello/image.bin",
		"trellis://task/02-01-hello/%00", "trellis://task/02-01-hello/" + strings.Repeat("x", 1<<20)} {
		if text, err := read(uri); err == nil || len(err.Error()) > 4000 {
			t.Errorf("%.100s: got %.100q, %.200v", uri, text, err)
		}
	}
}

// Every tool refuses hostile arguments with a short answer that says what to call next.
func TestHostileArguments(t *testing.T) {
	w := newWorld(t, nil)
	w.planned("02-01-hello", prd)
	if err := os.Symlink("../..", w.Path(".trellis/tasks/02-01-out")); err != nil {
		t.Fatal(err)
	}
	c := connect(t, w.options(mcpserver.All))
	list, err := c.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	other := newWorld(t, nil)
	other.planned("02-01-theirs", prd)
	endless := 100 << 10
	if soak.Asked() {
		endless = 1 << 20
	}
	names := []string{w.Path(".trellis/tasks/02-01-hello"), other.Path(".trellis/tasks/02-01-theirs"), "02-01-theirs", "../../02-01-hello", "/etc", "..", ".", ".new-x", "archive/../02-01-hello", "a/b", `a\b`, "x\x00y", "x\x1b[31m", "x\ny", "02-01-out", "\u202e", strings.Repeat("x", 300), strings.Repeat("y", endless), "nosuch", ""}
	for _, tool := range list.Tools {
		c.refused(tool.Name, `{"task": "hello", "nosuchfield": 1}`, "unknown field", "next: "+tool.Name+" takes ")
		c.refused(tool.Name, `[1]`, "next: "+tool.Name+" takes ")
		if tool.Name == "task_list" || tool.Name == "objective_next" {
			continue
		}
		c.refused(tool.Name, `{"task": 7}`, "next: "+tool.Name+" takes ")
		for _, name := range names {
			more := ""
			switch tool.Name {
			case "task_control":
				more = `, "action": "retry"`
			case "task_plan":
				more = `, "feedback": "shorter"`
			case "task_approve":
				more = `, "hash": "x"`
			case "task_reject":
				more = `, "hash": "x", "reason": "x"`
			}
			c.refused(tool.Name, `{"task": `+quote(name)+more+`}`, "next: ")
		}
	}
	c.refused("task_plan", `{"requirement": `+quote("a\x00b")+`}`, "NUL")
	c.refused("task_plan", `{"requirement": `+quote(strings.Repeat("x", 200<<10))+`}`, "next: trellis plan --requirement-file")
	c.refused("task_reject", `{"task": "hello", "hash": "x", "reason": `+quote(strings.Repeat("x", 100<<10))+`}`, "bytes long")
}

// A call that takes too long is answered with an error, and the server answers later calls.
func TestSlowCallIsAnswered(t *testing.T) {
	w := newWorld(t, nil)
	w.planned("02-01-hello", prd)
	o := w.options(mcpserver.All)
	release := make(chan struct{})
	open, first := o.Open, make(chan struct{}, 1)
	o.Open = func(ctx context.Context) (*app.Project, error) {
		first <- struct{}{}
		<-release
		return open(ctx)
	}
	c := serve(t, mcpserver.New(o))
	c.refused("task_list", `{}`, "takes longer than 1.8s", "next: ") // while Open blocks
	<-first
	close(release)
	c.until("task_list", `{}`, `"total":1`)
}

// An order whose call was answered with a timeout before the order began is not carried out afterwards.
func TestOrderThatWasGivenUp(t *testing.T) {
	w := newWorld(t, nil)
	w.planned("02-01-hello", prd)
	s := mcpserver.New(w.options(mcpserver.All))
	c := serve(t, s)
	var a reviewAnswer
	c.ok("task_review", `{"task": "hello"}`, &a)
	release := s.HoldOrders()
	c.refused("task_approve", `{"task": "hello", "hash": `+quote(a.Hash)+`}`, "takes longer than")
	release()
	s.Wait()
	if doc := w.Read(".trellis/tasks/02-01-hello/task.json"); !strings.Contains(doc, `"waiting"`) {
		t.Errorf("it was carried out all the same: %s", doc)
	}
}

// Texts of any length, also in combining characters, do not make an answer too long.
func TestTextsWithoutEnd(t *testing.T) {
	long := "e" + strings.Repeat("\u0301", 20_000)
	w := newWorld(t, map[string]string{".trellis/objectives/gateway.md": strings.ReplaceAll(roadmap, "Say", long) + strings.Repeat("| 9.9 | "+long+" | | | |\n", 6)})
	var criteria strings.Builder
	for range 12 {
		fmt.Fprintf(&criteria, "- [ ] it says %.500s (verify: `true`)\n", long)
	}
	w.planned("02-01-hello", strings.Replace(prd, "A greeting.", long, 1)+criteria.String())
	w.task("02-01-hello", strings.Replace(w.Read(".trellis/tasks/02-01-hello/task.json"), "Say hello", long, 1), map[string]string{strings.Repeat("\u0301", 100) + ".md": ""})
	c := connect(t, w.options(mcpserver.All))
	for _, call := range [][2]string{{"task_list", `{}`}, {"task_show", `{"task": "02-01-hello"}`}, {"task_review", `{"task": "02-01-hello"}`}, {"objective_next", `{}`}, {"objective_next", `{"objective": "gateway"}`}, {"task_logs", `{"task": "02-01-hello"}`}} {
		var a any
		c.ok(call[0], call[1], &a)
	}
}

// In a repository without Trellis a call says how to set it up, and the same server works once that is done.
func TestWithoutTrellis(t *testing.T) {
	w := newWorld(t, nil)
	w.Git("rm", "-q", "-r", ".trellis")
	c := connect(t, w.options(mcpserver.Read))
	c.refused("task_list", `{}`, "next: trellis init")
	w.Git("reset", "-q", "--hard")
	var a listAnswer
	c.ok("task_list", `{}`, &a)
}
