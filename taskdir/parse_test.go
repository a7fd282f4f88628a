package taskdir_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

func parse(t *testing.T, text string) *taskdir.Task {
	t.Helper()
	task, err := taskdir.Parse("task.json", []byte(text))
	if err != nil {
		t.Fatalf("parsing %s: %v", text, err)
	}
	return task
}

func TestParseReadsEveryField(t *testing.T) {
	task := parse(t, `{
  "id": "auth", "name": "auth", "title": "Add auth", "description": "d", "status": "waiting", "dev_type": "backend",
  "scope": "api", "package": "cli", "priority": "P1", "creator": "ann", "assignee": "bob", "createdAt": "2026-02-01",
  "completedAt": "2026-02-03", "branch": "b", "base_branch": "main", "worktree_path": "/w", "commit": "c", "pr_url": "u",
  "subtasks": ["s"], "children": ["c1", "c2"], "parent": "p", "relatedFiles": ["f"], "notes": "n", "meta": {"k": 1},
  "pipeline": {"schema_version": 1, "revision": 7, "size": "small", "agent": "a", "verify": ["v"], "depends_on": ["d"],
    "touches": ["t"], "protected": ["p"], "not_before": "2026-02-01T08:00:00Z", "objective": {"name": "o", "step": "1A"},
    "rejection": {"category": "unclear", "details": "dd", "suggestions": ["ss"]}, "judge": {"pass": true, "feedback": "fb"},
    "approval": {"required": true, "approvers": 2}, "plan_hash": "sha256:0", "base_commit": "bc", "stacked_on": "so",
    "phase": "check", "round": 2, "attempt": 3, "outcome": "failed",
    "failure": {"code": "verify_failed", "detail": "x", "retryable": true, "at": "2026-02-02T00:00:00Z"},
    "resume_at": "2026-02-03T00:00:00Z",
    "usage": {"input_tokens": 1, "output_tokens": 2, "cached_tokens": 3, "cost_usd": 0.5, "seconds": 1.5}}}`)
	if len(task.Problems) > 0 {
		t.Fatalf("problems: %v", task.Problems)
	}
	cost := 0.5
	want := taskdir.Pipeline{
		SchemaVersion: 1, Revision: 7, Size: trellis.Small, Agent: "a", Verify: []string{"v"}, DependsOn: []string{"d"},
		Touches: []string{"t"}, Protected: []string{"p"}, NotBefore: time.Date(2026, 2, 1, 8, 0, 0, 0, time.UTC),
		Objective: taskdir.Objective{Name: "o", Step: "1A"},
		Rejection: taskdir.Rejection{Category: "unclear", Details: "dd", Suggestions: []string{"ss"}},
		Judge:     &taskdir.Judge{Pass: true, Feedback: "fb"}, Approval: taskdir.Approval{Required: true, Approvers: 2},
		PlanHash: "sha256:0", BaseCommit: "bc", StackedOn: "so", Phase: "check", Round: 2, Attempt: 3, Outcome: trellis.OutcomeFailed,
		Failure:  taskdir.Failure{Code: trellis.VerifyFailed, Detail: "x", Retryable: true, At: time.Date(2026, 2, 2, 0, 0, 0, 0, time.UTC)},
		ResumeAt: time.Date(2026, 2, 3, 0, 0, 0, 0, time.UTC),
		Usage:    trellis.Usage{InputTokens: 1, OutputTokens: 2, CachedTokens: 3, CostUSD: &cost, Seconds: 1.5},
	}
	if !reflect.DeepEqual(task.Pipeline, want) {
		t.Errorf("pipeline: got %+v, want %+v", task.Pipeline, want)
	}
	task.Pipeline, task.Raw = taskdir.Pipeline{}, nil
	top := &taskdir.Task{
		Name: "auth", Title: "Add auth", Description: "d", Status: trellis.Waiting, DevType: "backend", Scope: "api", Package: "cli",
		Priority: "P1", Creator: "ann", Assignee: "bob", CreatedAt: "2026-02-01", CompletedAt: "2026-02-03", Branch: "b", BaseBranch: "main",
		WorktreePath: "/w", Commit: "c", PRURL: "u", Subtasks: []string{"s"}, Children: []string{"c1", "c2"}, Parent: "p",
		RelatedFiles: []string{"f"}, Notes: "n",
	}
	if !reflect.DeepEqual(task, top) {
		t.Errorf("got %+v, want %+v", task, top)
	}
}

func TestParseIsLiberal(t *testing.T) {
	tests := []struct {
		text  string
		got   func(*taskdir.Task) any
		want  any
		warns int
	}{
		{`{}`, func(t *taskdir.Task) any { return t.Status }, trellis.Planning, 0},
		{`{"status": null}`, func(t *taskdir.Task) any { return t.Status }, trellis.Planning, 0},
		{`{"status": "done"}`, func(t *taskdir.Task) any { return t.Status }, trellis.Completed, 0},
		{`{"priority": "medium"}`, func(t *taskdir.Task) any { return t.Priority }, "P2", 0},
		{`{"priority": "high"}`, func(t *taskdir.Task) any { return t.Priority }, "P1", 0},
		{`{"priority": "low"}`, func(t *taskdir.Task) any { return t.Priority }, "P3", 0},
		{`{"priority": "p0"}`, func(t *taskdir.Task) any { return t.Priority }, "P0", 0},
		{`{"scope": ["a", "b"]}`, func(t *taskdir.Task) any { return t.Scope }, "a,b", 0},
		{`{"title": null, "notes": null}`, func(t *taskdir.Task) any { return t.Title }, "", 0},
		{`{"children": null}`, func(t *taskdir.Task) any { return len(t.Children) }, 0, 0},
		{`{"subtasks": [{"name": "a", "done": true}, "b"]}`, func(t *taskdir.Task) any { return t.Subtasks }, []string{"b"}, 0},
		{`{"pipeline": {"verify": "make test"}}`, func(t *taskdir.Task) any { return t.Pipeline.Verify }, []string{"make test"}, 0},
		{`{"pipeline": {"depends_on": null, "judge": null, "usage": {"cost_usd": null}}}`, func(t *taskdir.Task) any { return t.Pipeline.Usage.CostUSD }, (*float64)(nil), 0},
		{`{"pipeline": {"revision": 3.0}}`, func(t *taskdir.Task) any { return t.Pipeline.Revision }, int64(3), 0},
		{`{"pipeline": {"revision": 9007199254740993}}`, func(t *taskdir.Task) any { return t.Pipeline.Revision }, int64(9007199254740993), 0},
		{`{"pipeline": {"failure": {"code": "", "at": ""}}}`, func(t *taskdir.Task) any { return t.Pipeline.Failure }, taskdir.Failure{}, 0},
		{`{"pipeline": null}`, func(t *taskdir.Task) any { return t.Pipeline.Approval.Approvers }, 1, 0},
		{`{"created": "2026-01-16", "slug": "x"}`, func(t *taskdir.Task) any { return t.CreatedAt }, "2026-01-16", 0},
		{`{"createdAt": "2026-01-31T10:30:00"}`, func(t *taskdir.Task) any { return t.CreatedAt }, "2026-01-31T10:30:00", 0},
		{`{"createdAt": "yesterday"}`, func(t *taskdir.Task) any { return t.CreatedAt }, "yesterday", 1},
		{`{"current_phase": 2, "next_action": [{"phase": 1}], "submodule_prs": {"a": "b"}, "title": "t"}`, func(t *taskdir.Task) any { return t.Title }, "t", 0},
		{"\ufeff{\r\n  \"title\": \"t\"\r\n}\r\n", func(t *taskdir.Task) any { return t.Title }, "t", 0},
		{`{"ti\u0074le": "caf\u00e9 \ud83d\ude00"}`, func(t *taskdir.Task) any { return t.Title }, "café 😀", 0},
		{`{"Title": "not ours", "STATUS": "x"}`, func(t *taskdir.Task) any { return t.Title }, "", 2},
		{`{"x": 1, "x": 2, "title": "t"}`, func(t *taskdir.Task) any { return t.Title }, "t", 0},
		{`{"deep": ` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `, "title": "t"}`, func(t *taskdir.Task) any { return t.Title }, "t", 0},
	}
	for _, test := range tests {
		name := test.text[:min(len(test.text), 60)]
		task := parse(t, test.text)
		if got := test.got(task); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
		for _, p := range task.Problems {
			if !p.Warning {
				t.Errorf("%s: got problem %v", name, &p)
			}
		}
		if len(task.Problems) != test.warns {
			t.Errorf("%s: got %d warnings, want %d", name, len(task.Problems), test.warns)
		}
	}
}

// Edge C7: names that task.py of earlier versions made, longer than 60 letters or with dots, are legal.
func TestNamesOfOtherTools(t *testing.T) {
	for _, name := range []string{"0.4.0-beta.10", "publish-0.5.0-rc.1", "Fix_Login", strings.Repeat("long-", 20) + "name"} {
		task, err := taskdir.Parse("task.json", []byte(`{"name": "`+name+`"}`))
		if err != nil || len(task.Problems) > 0 || task.Name != name {
			t.Errorf("%s: got %q, %v, %v", name, task.Name, task.Problems, err)
		}
	}
}

// Edge C12: a key that is nearly a field is reported with its line; other keys, and those nearly a field that is present, are not.
func TestMisspelledKeysAreTold(t *testing.T) {
	text := `{
  "priorty": "P1", "status": "in_progress", "state": "wip", "current_phase": 0, "labels": [], "commits": [],
  "pipeline": {"dependsOn": ["02-01-auth"],
    "usage": {"inputTokens": 3}}, "commit": null}`
	task, err := taskdir.Parse("task.json", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range task.Problems {
		if !p.Warning {
			t.Errorf("%v is not a warning", &p)
		}
		got = append(got, fmt.Sprintf("%d %s → %s", p.Line, p.Message, p.Hint))
	}
	want := []string{`2 "priorty" is not a field, and is ignored → did you mean: priority`, `3 "dependsOn" is not a field, and is ignored → did you mean: depends_on`,
		`4 "inputTokens" is not a field, and is ignored → did you mean: input_tokens`}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// A field that is both misspelt and in the wrong object is reported too.
func TestMisplacedAndMisspelledKeysAreTold(t *testing.T) {
	for key, want := range map[string]string{"dependsOn": "depends_on", "depends-on": "depends_on", "depend_on": "depends_on", "notBefore": "not_before",
		"not-before": "not_before", "protect": "protected", "notess": "notes"} {
		task, err := taskdir.Parse("task.json", []byte("{\"title\": \"x\",\n "+strconv.Quote(key)+": []}"))
		if want != "notes" {
			want += `, in "pipeline"`
		}
		if err != nil || len(task.Problems) != 1 || task.Problems[0].Line != 2 || task.Problems[0].Hint != "did you mean: "+want {
			t.Errorf("%s: got %v, %v", key, task.Problems, err)
		}
	}
	task, err := taskdir.Parse("task.json", []byte("{\"pipeline\": {\n\"baseBranch\": \"x\"}}"))
	if err != nil || len(task.Problems) != 1 || task.Problems[0].Hint != `did you mean: base_branch, outside of "pipeline"` {
		t.Errorf("got %v, %v", task.Problems, err)
	}
}

// A field in the wrong object has no effect, and is reported with its line and the object where it belongs.
func TestMisplacedKeysAreTold(t *testing.T) {
	task, err := taskdir.Parse("task.json", []byte("{\"depends_on\": [\"02-01-auth\"],\n \"verify\": [\"true\"], \"phase\": 2,\n \"pipeline\": {\"priority\": \"P0\", \"verify\": []}}"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range task.Problems {
		got = append(got, fmt.Sprintf("%d %v %s → %s", p.Line, p.Warning, p.Message, p.Hint))
	}
	want := []string{`1 false "depends_on" belongs in "pipeline": nothing reads it here → `,
		`2 false "verify" belongs in "pipeline": nothing reads it here → `,
		`3 true "priority" is not a field here, and is ignored → write it outside of "pipeline"`}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// A misspelt field that would make a task wait keeps it from starting if its meaning is clear, wherever in the file the status is.
func TestMisspelledGuardsStopWork(t *testing.T) {
	for text, want := range map[string]string{
		`{"status": "ready", "pipeline": {"dependsOn": ["02-01-auth"]}}`:                     "depends_on",
		`{"status": "ready", "depend_on": ["02-01-auth"]}`:                                   `depends_on, in "pipeline"`,
		`{"pipeline": {"DEPENDS-ON": ["02-01-auth"]}, "status": "planning"}`:                 "depends_on",
		`{"pipeline": {"depends on": ["02-01-auth"]}}`:                                       "depends_on",
		`{"notBefore": "2026-02-01"}`:                                                        `not_before, in "pipeline"`,
		`{"pipeline": {"NotBefor": "2026-02-01"}}`:                                           "not_before",
		`{"pipeline": {"touchs": ["a"]}}`:                                                    "touches",
		`{"pipeline": {"approvals": {"required": true}}}`:                                    "approval",
		`{"pipeline": {"approval": {"requird": true}}}`:                                      "required",
		`{"pipeline": {"Protected": ["a"]}}`:                                                 "protected",
		`{"pipeline": {"dependsOn": ["02-01-auth"]}, "status": "in_progress"}`:               "",
		`{"pipeline": {"dependsOn": ["02-01-auth"]}, "status": "waiting"}`:                   "depends_on",
		`{"pipeline": {"dependsOn": ["a"], "base_commit": "5bd0"}, "status": "waiting"}`:     "",
		`{"pipeline": {"dependsOn": ["02-01-auth"]}, "status": "completed"}`:                 "",
		`{"status": "ready", "pipeline": {"dependsOn": [], "approval": {"requird": false}}}`: "",
		`{"status": "ready", "pipeline": {"dependencies_on": ["a"]}}`:                        "",
		`{"status": "ready", "pipeline": {"agnet": "claude", "Verify": ["true"]}}`:           "",
	} {
		task, err := taskdir.Parse(".trellis/tasks/02-01-a/task.json", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		wrong := trellis.Errors(task.Problems)
		if want == "" && (len(wrong) > 0 || strings.Contains(text, "ependsOn") && len(task.Problems) == 0) {
			t.Errorf("%s: got %v", text, task.Problems)
		}
		if want != "" && (len(wrong) != 1 || !strings.HasSuffix(wrong[0].Message, " is not a field: did you mean: "+want) || wrong[0].Hint != "trellis edit 02-01-a task") {
			t.Errorf("%s: got %+v", text, task.Problems)
		}
	}
}

// Such a field stops a task also if the correct spelling is there too, unless the misspelt field says nothing.
func TestGuardsBesideTheirMisspelling(t *testing.T) {
	for text, stops := range map[string]bool{
		`{"status": "ready", "pipeline": {"depends_on": ["02-01-auth"], "dependsOn": ["02-02-db"]}}`: true,
		`{"status": "ready", "pipeline": {"dependsOn": ["02-02-db"], "depends_on": []}}`:             true,
		`{"pipeline": {"approval": {"required": false, "requird": true}}}`:                           true,
		`{"pipeline": {"depends_on": ["02-01-auth"], "dependsOn": []}}`:                              false,
		`{"status": "review", "pipeline": {"depends_on": ["a"], "dependsOn": ["b"]}}`:                false,
		`{"pipeline": {"agent": "claude", "Agent": "codex"}}`:                                        false,
	} {
		task, err := taskdir.Parse(".trellis/tasks/02-01-a/task.json", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		wrong := trellis.Errors(task.Problems)
		if len(wrong) > 0 != stops || stops && (!strings.Contains(wrong[0].Message, "is here too: only that is read") || wrong[0].Hint != "trellis edit 02-01-a task") {
			t.Errorf("%s: got %+v", text, task.Problems)
		}
	}
}

// A misplaced field does not stop a task that has begun or is over, and a field without a value stops no task.
func TestMisplacedKeysStopNoWork(t *testing.T) {
	for text, stops := range map[string]bool{
		`{"status": "ready", "agent": "claude"}`:                                        true,
		`{"status": "planning", "not_before": "2026-02-01"}`:                            true,
		`{"status": "in_progress", "agent": "claude"}`:                                  false,
		`{"status": "waiting", "agent": "claude"}`:                                      true,
		`{"status": "waiting", "agent": "claude", "pipeline": {"base_commit": "5bd0"}}`: false,
		`{"status": "paused", "depends_on": ["02-01-auth"]}`:                            false,
		`{"status": "completed", "verify": ["true"]}`:                                   false,
		`{"verify": ["true"], "status": "failed"}`:                                      false,
		`{"status": "ready", "agent": null}`:                                            false,
		`{"status": "ready", "depends_on": [], "verify": ""}`:                           false,
	} {
		task, err := taskdir.Parse("task.json", []byte(text))
		if err != nil || len(task.Problems) == 0 || (len(trellis.Errors(task.Problems)) > 0) != stops {
			t.Errorf("%s: got %v, %v", text, task.Problems, err)
		}
	}
}

func TestParseNamesWhatIsIllegal(t *testing.T) {
	tests := []struct{ text, want string }{
		{`{"status": "wip"}`, `task.json:1:12: unknown status "wip"`},
		{"{\n  \"title\": \"é\", \"name\": \"User Auth\"\n}", `task.json:2:25: the name "User Auth" is not legal`},
		{`{"name": "../../etc"}`, `the name "../../etc" is not legal`},
		{`{"name": "` + strings.Repeat("x", 201) + `"}`, `xxx…" is not legal`},
		{`{"name": "a..b"}`, `the name "a..b" is not legal`},
		{`{"title": 5}`, `task.json:1:11: "title" is a number, it must be text`},
		{`{"dev_type": "wizard"}`, `"dev_type" is "wizard", it must be one of backend, frontend`},
		{`{"priority": "urgent"}`, `"priority" is "urgent"`},
		{`{"branch": ["x"]}`, `"branch" is a list, it must be text`},
		{`{"children": {}}`, `"children" is an object, it must be a list of texts`},
		{`{"children": ["a", 1]}`, `task.json:1:20: "children" holds a number`},
		{`{"meta": []}`, `"meta" is a list, it must be an object`},
		{`{"pipeline": []}`, `"pipeline" is a list, it must be an object`},
		{`{"pipeline": {"revision": -1}}`, `"pipeline.revision" is -1, it must be a whole number from 0`},
		{`{"pipeline": {"revision": "7"}}`, `"pipeline.revision" is text`},
		{`{"pipeline": {"round": 1.5}}`, `"pipeline.round" is 1.5`},
		{`{"pipeline": {"size": "huge"}}`, `"pipeline.size" is "huge"`},
		{`{"pipeline": {"not_before": "soon"}}`, `"pipeline.not_before" is "soon", it must be a time`},
		{`{"pipeline": {"schema_version": 2}}`, `pipeline.schema_version is 2; this Trellis knows versions up to 1`},
		{`{"pipeline": {"judge": {"pass": "yes"}}}`, `"pipeline.judge.pass" is text, it must be true or false`},
		{`{"pipeline": {"usage": {"cost_usd": 1e999}}}`, `"pipeline.usage.cost_usd" is 1e999`},
		{`{"pipeline": {"failure": "x"}}`, `"pipeline.failure" is text, it must be an object`},
	}
	for _, test := range tests {
		task := parse(t, test.text)
		if len(task.Problems) != 1 {
			t.Errorf("%s: got %d problems %v, want 1", test.text, len(task.Problems), task.Problems)
			continue
		}
		p := task.Problems[0]
		if got := p.Error(); !strings.Contains(got, test.want) || p.Line == 0 || p.Column == 0 || p.Warning {
			t.Errorf("%s: got %q, want %q as an error with line and column", test.text, got, test.want)
		}
	}
}

func TestParseRefusesWhatIsNoTask(t *testing.T) {
	tests := []struct{ name, text, want, hint string }{
		{"unquoted date", "{\n  \"createdAt\": \"2026-01-16\",\n  \"completedAt\": 2026-01-16,\n  \"branch\": null\n}",
			"task.json:3:18: not valid JSON: the value of \"completedAt\" is not quoted", `write "completedAt": "2026-01-16"`},
		{"unquoted word", "{\n  \"branch\": feature/x,\n}", "task.json:2:13: not valid JSON: the value of \"branch\" is not quoted", `write "branch": "feature/x"`},
		{"unquoted last value", "{\"status\": ready}", "task.json:1:12: not valid JSON: the value of \"status\" is not quoted", `write "status": "ready"`},
		{"unquoted after a list", "{\"a\": [1, 2], \"status\": ready}", "1:25: not valid JSON: the value of \"status\" is not quoted", `write "status": "ready"`},
		{"unquoted true word", "{\"title\": new thing}", "1:11: not valid JSON: the value of \"title\" is not quoted", `write "title": "new thing"`},
		{"value on the next line", "{\"title\":\n  new}", "2:3: not valid JSON: the value of \"title\" is not quoted", `write "title": "new"`},
		{"in a list", `{"children": [02-01-a]}`, "1:15: not valid JSON: 02-01-a is not a JSON value", `write "02-01-a"`},
		{"python", `{"branch": None}`, "1:12: not valid JSON: the value of \"branch\" is not quoted", `write "branch": null`},
		{"python bool", `{"x": True}`, `the value of "x"`, `write "x": true`},
		{"comma too many", "{\n  \"title\": \"t\",\n}", "task.json:3:1: not valid JSON: there is a comma before the '}'", "remove the comma"},
		{"comma missing", "{\n  \"title\": \"t\"\n  \"name\": \"n\"\n}", "task.json:3:3: not valid JSON: a comma is missing before this", "comma at the end of the line before"},
		{"cut off", "{\n  \"title\": \"t\",\n  \"na", "task.json:3:6: not valid JSON: the text ends too early", "from git"},
		{"single quotes", `{'title': 't'}`, "1:2: not valid JSON: a text is in single quotes", "double quotes"},
		{"single quoted value", `{"title": 't'}`, "1:11: not valid JSON: a text is in single quotes", "double quotes"},
		{"comment", "{\n  // note\n  \"title\": \"t\"\n}", "2:3: not valid JSON: JSON has no comments", "remove it"},
		{"key without quotes", `{title: "t"}`, "1:2: not valid JSON: a key without quotes", "double quotes"},
		{"line break in text", "{\"title\": \"a\nb\"}", "1:13: not valid JSON: there is a line break or tab inside a text", `write it as \n`},
		{"two objects", "{}\n{}", "2:1: not valid JSON: text follows the end of the object", "after the last }"},
		{"conflict", "{\n<<<<<<< HEAD\n  \"status\": \"ready\"\n=======\n  \"status\": \"failed\"\n>>>>>>> x\n}", "2:1: not valid JSON: git left a merge conflict here", "choose one side"},
		{"bad escape", `{"title": "\q"}`, "1:13: not valid JSON: invalid character 'q' in string escape code", ""},
		{"empty", " \n", "1:1: the file is empty", `write {"status": "planning"}`},
		{"nothing", "", "1:1: the file is empty", `write {"status": "planning"}`},
		{"list", "\n[]", "2:1: holds JSON that is not an object", "a task is written as"},
		{"null", "null", "1:1: holds JSON that is not an object", "a task is written as"},
		{"not utf-8", "{\"title\": \"caf\xe9\"}", "1:15: is not UTF-8 text", "save the file as UTF-8"},
		{"utf-16", "\xff\xfe{\x00}\x00", "is not UTF-8 text", "save the file as UTF-8"},
		{"utf-16 without its mark", "{\x00\"\x00a\x00\"\x00:\x001\x00}\x00", "1:2: not valid JSON: a NUL byte, as texts in another encoding than UTF-8 have", "save the file as UTF-8"},
		{"YAML", "status: ready\n", "1:1: not valid JSON: the text does not begin with {", `JSON is written as {"key": value`},
		{"double status", "{\n \"status\": \"ready\",\n \"status\": \"planning\"\n}", `task.json:3:2: "status" appears twice here`, "remove one"},
		{"double in disguise", `{"status": "ready", "st\u0061tus": "planning"}`, `1:21: "status" appears twice here`, "remove one"},
		{"double below", `{"pipeline": {"failure": {"code": "a", "code": "b"}}}`, `1:40: "code" appears twice here`, "remove one"},
		{"nested beyond reason", strings.Repeat("[", 1<<20), "1:10001: not valid JSON: more brackets are open here than any JSON reader takes", "remove those"},
		{"too large", `{"x": "` + strings.Repeat("x", 8<<20) + `"}`, "is larger than the 8 MB", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := taskdir.Parse("task.json", []byte(test.text))
			var p *trellis.Problem
			if !errors.As(err, &p) {
				t.Fatalf("got %v, want a problem", err)
			}
			if got := p.Error(); !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if !strings.Contains(p.Hint, test.hint) {
				t.Errorf("hint: got %q, want %q", p.Hint, test.hint)
			}
			if p.Line == 0 || p.Column == 0 {
				t.Errorf("got no line and column: %v", p)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{`{}`, `{"status": ready}`, "{\n \"a\": [1,2,\n", `{"pipeline": {"usage": 1}}`, "\ufeff{\"a\":'x'}", `{"a":"b" "c":1}`, `{"children":[x]}`, ":,", `":`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		task, err := taskdir.Parse("task.json", data)
		var p *trellis.Problem
		if err != nil && (!errors.As(err, &p) || p.Line < 1 || p.Column < 1 || p.Line > strings.Count(string(data), "\n")+1) {
			t.Errorf("%q: got error %v, want a problem with its place", data, err)
		}
		if err == nil && string(task.Raw) != string(data) {
			t.Errorf("%q: got raw %q", data, task.Raw)
		}
	})
}

func ExampleParse() {
	_, err := taskdir.Parse(".trellis/tasks/02-01-auth/task.json", []byte("{\n  \"status\": ready\n}"))
	var p *trellis.Problem
	errors.As(err, &p)
	fmt.Println(p)
	fmt.Println(p.Hint)
	// Output:
	// .trellis/tasks/02-01-auth/task.json:2:13: not valid JSON: the value of "status" is not quoted
	// write "status": "ready"
}
