package board_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/soak"
)

// changed creates a task in review whose branch changes these files.
func (w *world) changed(id string, files map[string]string) {
	w.Helper()
	base := strings.TrimSpace(w.Git("rev-parse", "HEAD"))
	w.Git("checkout", "-q", "-b", "feature/"+id)
	for name, text := range files {
		w.Write(name, text)
	}
	w.Git("add", "-A")
	w.Git("commit", "-q", "-m", "change")
	w.Git("checkout", "-q", "-")
	w.task(id, `{"title": "Changed", "name": "changed", "status": "review", "dev_type": "docs", "branch": "feature/`+id+`", "base_branch": "main", "pipeline": {"base_commit": "`+base+`"}}`, nil)
}

func TestDiffIsShown(t *testing.T) {
	w := newWorld(t, map[string]string{"a.go": "package a\n\nvar name = \"old\"\n"})
	w.changed("02-01-diff", map[string]string{"a.go": "package a\n\nvar name = \"<script>window.pwned=1</script>\"\n", "b&<i>.txt": "new\n"})
	w.serve()
	for layout, columns := range map[string]int{"": 3, "?layout=split": 4} {
		other := map[string]string{"": `diff?layout=split"`, "?layout=split": `id="layout" href="/task/02-01-diff/diff"`}[layout]
		code, body := w.ask(http.MethodGet, "/v/task/02-01-diff/diff"+layout, nil)
		if code != http.StatusOK {
			t.Fatalf("%s: got %d %s", layout, code, body)
		}
		for _, want := range []string{"2 files", "+2", "−1", other, `<span class="t-keyword">package</span>`, "b&amp;&lt;i&gt;.txt", fmt.Sprintf(`colspan="%d"`, columns), "&lt;script&gt;", `diff?file=a.go`} {
			if !strings.Contains(body, want) {
				t.Errorf("%s: %q is not in %s", layout, want, body)
			}
		}
		if strings.Contains(body, "<script>window") || strings.Contains(body, "<i>.txt") {
			t.Errorf("%s: what was written is markup: %s", layout, body)
		}
	}
	if code, body := w.ask(http.MethodGet, "/v/task/02-01-diff/diff?file=b%26%3Ci%3E.txt", nil); code != http.StatusOK || strings.Contains(body, "t-keyword") || !strings.Contains(body, "new") {
		t.Errorf("one file: got %d %s", code, body)
	}
}

// A diff of many lines is split into pages, and the links from page to page lead through all lines.
func TestLongDiffIsPaged(t *testing.T) {
	lines := 6_000 // three pages: the first lines together with other files, then as many as fit on a page, and the rest
	if soak.Asked() {
		lines = 25_000
	}
	var text strings.Builder
	for i := range lines {
		fmt.Fprintf(&text, "line %d ends\n", i)
	}
	w := newWorld(t, nil)
	w.changed("02-01-long", map[string]string{"long.txt": text.String()})
	w.serve()
	path, seen := "/v/task/02-01-long/diff", 0
	for range 20 {
		code, body := w.ask(http.MethodGet, path, nil)
		if code != http.StatusOK || len(body) > 2<<20 {
			t.Fatalf("%s: got %d with %d bytes, want a page of at most 2 MB", path, code, len(body))
		}
		seen += strings.Count(body, " ends")
		_, rest, more := strings.Cut(body, `<p><a href="/task/02-01-long/diff?`)
		if !more {
			break
		}
		query, _, _ := strings.Cut(rest, `"`)
		path = "/v/task/02-01-long/diff?" + strings.ReplaceAll(query, "&amp;", "&")
	}
	if seen != lines {
		t.Errorf("all pages together show %d lines, want %d", seen, lines)
	}
}

func TestStatsAreShown(t *testing.T) {
	w := newWorld(t, nil)
	w.planned("02-01-hello")
	w.serve()
	if code, body := w.ask(http.MethodGet, "/v/stats", nil); code != http.StatusOK || !strings.Contains(body, "nothing was done in that time") {
		t.Errorf("of nothing: got %d %s", code, body)
	}
	w = asking(t)
	for path, want := range map[string]int{"/v/stats": http.StatusOK, "/v/stats?since=7d": http.StatusOK, "/v/stats?since=soon": http.StatusBadRequest} {
		code, body := w.ask(http.MethodGet, path, nil)
		if code != want || code == http.StatusOK && (!strings.Contains(body, "Time by phase") || !strings.Contains(body, "<svg")) {
			t.Errorf("%s: got %d %s, want %d", path, code, body, want)
		}
	}
}
