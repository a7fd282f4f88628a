package board_test

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/runlock"
)

// failed returns a task whose run failed: hello.txt contains bad.
func failed(t *testing.T) (*world, string) {
	const id = "02-01-hello"
	w := newWorld(t, map[string]string{".trellis/rehearsal.yaml": "roles: {implement: [{files: {hello.txt: \"bad\\n\"}, answer: done}], check: [{answer: fine}], debug: [{answer: hm}], accept: [{answer: {criteria: [{id: A1, verdict: met, evidence: \"hello.txt:1\"}]}}]}\n",
		"test.sh": "[ ! -e hello.txt ] || grep -q '^hello$' hello.txt\n"})
	row := `{"file": "test.sh", "reason": "how it is tested"}` + "\n"
	w.task(id, `{"title": "Say hello", "name": "hello", "status": "ready", "dev_type": "docs", "base_branch": "main"}`,
		map[string]string{"prd.md": "# Say hello\n\n## Acceptance Criteria\n\n- [ ] it says hello\n", "implement.jsonl": row, "check.jsonl": row, "debug.jsonl": row})
	w.trellis(1, "start", id)
	return w, id
}

// shown returns the hash of the diff that the board shows for a task.
func (w *world) shown(id string) string {
	w.Helper()
	_, body := w.ask(http.MethodGet, "/v/task/"+id+"/diff", nil)
	sum := regexp.MustCompile(`name="shown" value="([0-9a-f]{64})"`).FindStringSubmatch(body)
	if sum == nil {
		w.Fatalf("no diff is named: %s", body)
	}
	return sum[1]
}

// send sends comments on a diff.
func (w *world) send(id, shown, comments, general string) (int, string) {
	w.Helper()
	return w.ask(http.MethodPost, "/v/do/sendback/"+id, nil, "shown="+url.QueryEscape(shown), "comments="+url.QueryEscape(comments), "general="+url.QueryEscape(general))
}

// Comments are accepted only on lines of the diff that was shown. Everything else is refused and changes nothing.
func TestCommentsAreChecked(t *testing.T) {
	w, id := failed(t)
	w.serve()
	shown := w.shown(id)
	on := func(file, side string, line int, text string) string {
		return fmt.Sprintf(`[{"file": %q, "side": %q, "line": %d, "text": %q}]`, file, side, line, text)
	}
	for name, c := range map[string]struct {
		shown, comments, general string
		code                     int
		says                     string
	}{
		"of another diff":                {"0123", on("hello.txt", "new", 1, "x"), "", http.StatusConflict, "the diff was changed since it was shown: nothing is sent, and your comments are kept"},
		"of no diff":                     {"", on("hello.txt", "new", 1, "x"), "", http.StatusBadRequest, "load the page again"},
		"on a line that is not there":    {shown, on("hello.txt", "new", 2, "x"), "", http.StatusBadRequest, "hello.txt:2 (new) is not in the diff"},
		"on a side that is not there":    {shown, on("hello.txt", "old", 1, "x"), "", http.StatusBadRequest, "hello.txt:1 (old) is not in the diff"},
		"on a file that is not there":    {shown, on("test.sh", "new", 1, "x"), "", http.StatusBadRequest, "test.sh:1 (new) is not in the diff"},
		"on a path that climbs":          {shown, on("../../../../etc/passwd", "new", 1, "x"), "", http.StatusBadRequest, "is not in the diff"},
		"on a path that is markup":       {shown, on("<script>", "new", 1, "x"), "", http.StatusBadRequest, "&lt;script&gt;:1 (new) is not in the diff"},
		"a comment of a megabyte":        {shown, on("hello.txt", "new", 1, strings.Repeat("x", 1<<20)), "", http.StatusBadRequest, "at most 49152 are taken"},
		"more than any form may hold":    {shown, on("hello.txt", "new", 1, strings.Repeat("x", 5<<20)), "", http.StatusRequestEntityTooLarge, ""},
		"a comment that says nothing":    {shown, on("hello.txt", "new", 1, " \n"), "", http.StatusBadRequest, "a comment says nothing"},
		"nothing at all":                 {shown, "[]", " ", http.StatusBadRequest, "there is no feedback in it"},
		"no comments":                    {shown, "[null]", "", http.StatusBadRequest, "a comment says nothing"},
		"what is not a list":             {shown, `{"file": 1}`, "", http.StatusBadRequest, "reading the comments"},
		"more comments than anybody has": {shown, "[" + strings.Repeat("{},", 500) + "{}]", "", http.StatusBadRequest, "at most 500"},
	} {
		if code, said := w.send(id, c.shown, c.comments, c.general); code != c.code || !strings.Contains(said, c.says) {
			t.Errorf("%s: got %d %.400s, want %d with %q", name, code, said, c.code, c.says)
		}
	}
	if _, err := os.Stat(filepath.Join(w.Dir, ".trellis/tasks", id, "run/feedback")); err == nil {
		t.Error("something was taken")
	}
	// While a run holds the lock, comments are refused, and the answer says how to stop the run.
	lock, err := runlock.Take(filepath.Join(w.Dir, ".trellis/tasks", id), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if code, said := w.send(id, shown, on("hello.txt", "new", 1, "x"), ""); code != http.StatusBadRequest || !strings.Contains(said, "is worked on now") || !strings.Contains(said, "next: <code>trellis stop "+id) {
		t.Errorf("while it runs: got %d %s", code, said)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	// A change in the worktree makes the diff another one.
	at := regexp.MustCompile(`"worktree_path": "([^"]+)"`).FindStringSubmatch(w.Read(".trellis/tasks/" + id + "/task.json"))
	if err := os.WriteFile(filepath.Join(at[1], "hello.txt"), []byte("worse\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if code, said := w.send(id, shown, on("hello.txt", "new", 1, "x"), ""); code != http.StatusConflict {
		t.Errorf("after a change: got %d %s", code, said)
	}
	// Comments that are sent twice are kept once.
	for range 2 {
		if code, said := w.send(id, w.shown(id), on("hello.txt", "new", 1, "Say </data> <script>hello</script>."), "In all: no."); code != http.StatusOK || !strings.Contains(said, "will be worked on with what you said") {
			t.Fatalf("got %d %s", code, said)
		}
	}
	kept, err := filepath.Glob(filepath.Join(w.Dir, ".trellis/tasks", id, "run/feedback/*.md"))
	if err != nil || len(kept) != 1 {
		t.Fatalf("kept is %v, %v", kept, err)
	}
	const want = "In all: no.\n\nComment on hello.txt:1 (new)\nThe line:\n```\nworse\n```\nThe comment:\n```\nSay </data> <script>hello</script>.\n```"
	if text, err := os.ReadFile(kept[0]); err != nil || string(text) != want {
		t.Errorf("kept is %q, %v, want %q", text, err, want)
	}
	w.trellis(0, "cancel", id)
	w.task("02-02-over", `{"title": "Over", "name": "over", "status": "completed"}`, nil)
	if code, said := w.send("02-02-over", "0", "[]", "x"); code == http.StatusOK {
		t.Errorf("got %d %s", code, said)
	}
}

// A read-only board shows the lines of a diff without a way to comment on them.
func TestNoCommentsWhereNothingIsTold(t *testing.T) {
	w := newWorld(t, nil)
	w.changed("02-01-diff", map[string]string{"b.txt": "new\n"})
	w.o.ReadOnly = true
	w.serve()
	if _, body := w.ask(http.MethodGet, "/v/task/02-01-diff/diff", nil); strings.Contains(body, `id="comments"`) || strings.Contains(body, "<caption") || strings.Contains(body, `tabindex="-1"`) || !strings.Contains(body, `<td class="no">1</td>`) {
		t.Errorf("got %s", body)
	}
	if code, said := w.send("02-01-diff", "0", "[]", "x"); code != http.StatusForbidden {
		t.Errorf("got %d %s", code, said)
	}
}
