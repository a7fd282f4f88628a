package board_test

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const helloDoc = ".trellis/tasks/02-01-hello/task.json"

// valueOn returns the value of a field in a form on a page.
func (w *world) valueOn(path, name string) string {
	w.Helper()
	_, body := w.ask(http.MethodGet, path, nil)
	_, rest, there := strings.Cut(body, `name="`+name+`" value="`)
	if !there {
		w.Fatalf("%s has no %s: %s", path, name, body)
	}
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

// byHand changes task.json as a person does with an editor.
func (w *world) byHand(from, to string) {
	w.Helper()
	was := w.Read(helloDoc)
	if !strings.Contains(was, from) {
		w.Fatalf("%q is not in %s", from, was)
	}
	w.Write(helloDoc, strings.Replace(was, from, to, 1))
}

// If task.json is edited by hand while a page shows it, orders apply only to what the page showed, and no edit is lost.
func TestHandEditsBesideThePage(t *testing.T) {
	w := newWorld(t, nil)
	w.planned("02-01-hello")
	w.serve()
	approve := func(shown string) (int, string) {
		return w.ask(http.MethodPost, "/v/do/approve/02-01-hello", nil, "shown="+url.QueryEscape(shown))
	}

	// The commands that would run have changed.
	shown := w.valueOn("/v/task/02-01-hello", "shown")
	w.byHand(`"pipeline": {`, `"pipeline": {"verify": ["rm -r ."], `)
	if code, said := approve(shown); code != http.StatusConflict || !strings.Contains(said, "changed since it was shown") {
		t.Errorf("another check: got %d %s, want 409", code, said)
	}

	// The file is half written.
	shown = w.valueOn("/v/task/02-01-hello", "shown")
	whole := w.Read(helloDoc)
	w.Write(helloDoc, whole[:len(whole)/2])
	if code, said := approve(shown); code != http.StatusBadRequest || !strings.Contains(said, "ends too early") {
		t.Errorf("half a file: got %d %s, want it refused", code, said)
	}
	if got := w.Read(helloDoc); got != whole[:len(whole)/2] {
		t.Errorf("half a file: got %s, want it as the person left it", got)
	}
	w.Write(helloDoc, whole)

	// The page edits the file too.
	const file = "/v/task/02-01-hello/files/task.json"
	was := w.valueOn(file, "was")
	w.byHand(`"title": "Say hello"`, `"title": "By hand"`)
	mine := strings.Replace(whole, "Say hello", "By the page", 1)
	if code, said := w.ask(http.MethodPost, file, nil, "was="+was, "text="+url.QueryEscape(mine)); code != http.StatusConflict || !strings.Contains(said, "By hand") || !strings.Contains(said, "By the page") {
		t.Errorf("an edit: got %d %s, want 409 with both texts", code, said)
	}
	if _, err := os.Stat(filepath.Join(w.Dir, ".trellis/tasks/02-01-hello/approvals.jsonl")); err == nil {
		t.Error("something was approved")
	}

	// A change of what is not part of the plan is kept, and does not void an approval.
	shown = w.valueOn("/v/task/02-01-hello", "shown")
	w.byHand(`"title": "By hand"`, `"title": "By hand", "mine": {"b": 1, "a": [2]}`)
	if code, said := approve(shown); code != http.StatusOK {
		t.Fatalf("a field of others: got %d %s, want 200", code, said)
	}
	for _, want := range []string{`"By hand"`, `"mine": {"b": 1, "a": [2]}`, `"rm -r ."`, `"ready"`} {
		if got := w.Read(helloDoc); !strings.Contains(got, want) {
			t.Errorf("got %s, want it with %s", got, want)
		}
	}
}
