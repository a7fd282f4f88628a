package board_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// hostile is text with which a task or an agent might try to inject markup or an order.
const hostile = `"><script>window.pwned=1</script><img src=x onerror="window.pwned=1"><hx-partial hx-target="#main" hx-get="/v/">x</hx-partial><a hx-post="/v/do/cancel/02-01-bad" hx-trigger="load">x</a>'` + "\u202e" + `{{.}}`

// bad creates a task with that text in every field and file that can contain it.
func (w *world) bad(id string) {
	quoted, err := json.Marshal(hostile)
	if err != nil {
		w.Fatal(err)
	}
	doc := fmt.Sprintf(`{"title": %[1]s, "name": "bad", "description": %[1]s, "status": "failed", "dev_type": %[1]s, "priority": %[1]s, "assignee": %[1]s, "branch": %[1]s, "base_branch": %[1]s, "pr_url": "javascript:window.pwned=1", "package": %[1]s,
		"pipeline": {"phase": %[1]s, "round": 2, "failure": {"code": "verify_failed", "detail": %[1]s}, "depends_on": [%[1]s], "verify": [%[1]s]}}`, quoted)
	prd := "# " + hostile + "\n\n" + hostile + "\n\n[a](javascript:window.pwned=1) ![b](https://attacker.example/x.png)\n\n## Acceptance Criteria\n\n- [ ] " + hostile + "\n"
	w.task(id, doc, map[string]string{"prd.md": prd, "report.md": prd, "note.txt": hostile, `"><script>x.txt`: "x"})
}

func TestNothingIsMarkup(t *testing.T) {
	w := newWorld(t, map[string]string{".trellis/objectives/big.md": "# Objective: " + hostile + "\n\n## Roadmap\n\n| Step | Description | Status | PR |\n|---|---|---|---|\n| 1 | " + strings.ReplaceAll(hostile, "|", "") + " | pending | - |\n"})
	w.bad("02-01-bad")
	w.serve()
	for _, path := range []string{"/v/", "/v/?q=" + "%22%3E%3Cscript%3E", "/v/task/02-01-bad", "/v/task/02-01-bad/log", "/v/task/02-01-bad/report", "/v/task/02-01-bad/files", "/v/task/02-01-bad/files/prd.md", "/v/task/02-01-bad/files/note.txt", "/v/task/02-01-bad/files/report.md", "/v/objectives", "/v/task/%22%3E%3Cscript%3E"} {
		code, body := w.ask("GET", path, nil)
		for _, markup := range []string{"<script", "<img src=x", "onerror=\"", "<hx-partial hx-target=\"#main\"", "<a hx-post=\"/v/do/cancel/02-01-bad\"", "href=\"javascript:", "\u202e"} {
			if markup == "\u202e" && strings.HasSuffix(path, "/prd.md") {
				continue // a text that can be edited stays as it is
			}
			if at := strings.Index(body, markup); at >= 0 && code != 500 {
				t.Errorf("%s: got %q in %q", path, markup, body[max(0, at-100):min(len(body), at+200)])
			}
		}
		if code == 500 {
			t.Errorf("%s: got %d: %s", path, code, body)
		}
	}
}

// A task whose task.json can't be parsed is shown with the mistake, and the other tasks are still shown.
func TestBrokenTaskIsShown(t *testing.T) {
	w := newWorld(t, nil)
	w.planned("02-01-hello")
	w.task("02-02-broken", "{\n  \"title\": \"x\"\n  \"status\": \"ready\"\n}\n", nil)
	w.serve()
	_, body := w.ask("GET", "/v/", nil)
	if !strings.Contains(body, "task.json:3") || !strings.Contains(body, "Say hello") {
		t.Errorf("got %s, want both tasks, and the line of the mistake", body)
	}
	if code, page := w.ask("GET", "/v/task/02-02-broken", nil); code != 200 || !strings.Contains(page, "task.json:3") {
		t.Errorf("got %d %s, want the page of the task with its mistake", code, page)
	}
}
