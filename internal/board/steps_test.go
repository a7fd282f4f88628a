package board_test

import (
	"net/http"
	"net/url"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// trellis runs the program in the repository, checks its exit code and returns its output.
func (w *world) trellis(code int, args ...string) string {
	w.Helper()
	self, err := program()
	if err != nil {
		w.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Dir, cmd.Env = w.Dir, w.p.Env.Vars
	out, err := cmd.CombinedOutput()
	if got := cmd.ProcessState.ExitCode(); got != code {
		w.Fatalf("trellis %q: exit %d, want %d (%v)\n%s", args, got, code, err, out)
	}
	return string(out)
}

// asking serves a board with a task whose run waits for approval of a step.
func asking(t *testing.T) *world {
	const id = "02-01-live"
	w := newWorld(t, map[string]string{".trellis/rehearsal.yaml": "roles: {check: [{answer: ALL_CHECKS_FINISH}], accept: [{answer: {criteria: [{id: A1, verdict: met, evidence: \"hello.txt:1\"}]}}]}\n"})
	row := `{"file": "test.sh", "reason": "how it is tested"}` + "\n"
	w.task(id, `{"title": "Go live", "name": "live", "status": "ready", "dev_type": "docs", "base_branch": "main"}`, map[string]string{
		"prd.md":          "# Go live\n\n## Acceptance Criteria\n\n- [ ] hello.txt is there (verify: `test -e hello.txt`)\n",
		"plan.json":       `{"schema_version": 1, "title": "Go live", "acceptance": [{"criterion": "hello.txt is there", "verify": "test -e hello.txt"}], "steps": [{"id": "publish", "type": "approval", "title": "Publish to <b>all</b>?"}, {"id": "write", "title": "Write it", "command": "echo hello >hello.txt", "depends_on": ["publish"]}, {"id": "verify", "title": "Verification", "command": "sh test.sh", "depends_on": ["write"]}]}`,
		"implement.jsonl": row, "check.jsonl": row, "debug.jsonl": row})
	w.trellis(8, "start", id)
	w.o.Self, _ = program()
	return w.serve()
}

// A waiting step is shown, and its approval applies only to what the step asked.
func TestStepIsDecided(t *testing.T) {
	w := asking(t)
	code, body := w.ask(http.MethodGet, "/v/task/02-01-live", nil)
	if code != http.StatusOK || !strings.Contains(body, "Step publish waits for a person") || !strings.Contains(body, "Publish to &lt;b&gt;all&lt;/b&gt;?") {
		t.Fatalf("got %d %s", code, body)
	}
	shown := regexp.MustCompile(`name="shown" value="([^"]+)"`).FindStringSubmatch(body)
	if shown == nil || strings.Count(body, `id="approve"`) != 1 {
		t.Fatalf("there is not one form to decide: %s", body)
	}
	for hash, want := range map[string]int{"": http.StatusBadRequest, "sha256:0": http.StatusConflict} {
		if code, said := w.ask(http.MethodPost, "/v/do/approve/02-01-live", nil, "step=publish", "shown="+hash); code != want {
			t.Errorf("with hash %q: got %d %s, want %d", hash, code, said, want)
		}
	}
	if code, said := w.ask(http.MethodPost, "/v/do/approve/02-01-live", nil, "step=publish", "shown="+url.QueryEscape(shown[1])); code != http.StatusOK || !strings.Contains(said, "is approved by") {
		t.Errorf("got %d %s", code, said)
	}
	w.trellis(0, "start", "02-01-live")
	if got := w.Read(".trellis/tasks/02-01-live/task.json"); !strings.Contains(got, `"status": "review"`) {
		t.Errorf("after the yes: %s", got)
	}
}

// Orders that a separate process carries out. A task that is started may wait for approval again before the answer.
func TestOrdersOfPrograms(t *testing.T) {
	w := asking(t)
	for _, order := range []struct {
		name string
		code int
		says string
	}{{"deliver", http.StatusConflict, "02-01-live"}, {"cancel", http.StatusOK, "cancelled"}, {"retry", http.StatusOK, "will resume"}, {"start", http.StatusOK, "runs in the background|waits for approval"}, {"cancel", http.StatusOK, "cancelled"}, {"dance", http.StatusNotFound, "unknown action"}} {
		if code, said := w.ask(http.MethodPost, "/v/do/"+order.name+"/02-01-live", nil, "x=1"); code != order.code || !regexp.MustCompile(order.says).MatchString(said) {
			t.Errorf("%s: got %d %s, want %d with %q", order.name, code, said, order.code, order.says)
		}
	}
}
