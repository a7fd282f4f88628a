package board_test

import (
	"net/http"
	"strings"
	"testing"
)

func TestTablesOfReports(t *testing.T) {
	w := newWorld(t, nil)
	w.task("02-01-said", `{"title": "Said", "name": "said", "status": "review"}`, map[string]string{"report.md": "# Report\n\nBefore\n\n| check | <i>result</i> |\n|---|:-:|\n| `go vet \\| tee` | **passed** |\n\n```\n| no | table |\n|---|---|\n```\n\nafter\n"})
	w.serve()
	code, body := w.ask(http.MethodGet, "/v/task/02-01-said/report", nil)
	if code != http.StatusOK {
		t.Fatalf("got %d %s", code, body)
	}
	for _, want := range []string{"<p>Before</p>", "<th>check</th>", "<td><code>go vet | tee</code></td>", "<td><strong>passed</strong></td>", "| no | table |", "<p>after</p>"} {
		if !strings.Contains(body, want) {
			t.Errorf("%q is not in %s", want, body)
		}
	}
	if strings.Contains(body, "<i>") || strings.Count(body, "<table>") != 1 {
		t.Errorf("HTML was taken, or there is not one table: %s", body)
	}
}

// Text between a pair of backticks in a sentence of Trellis is shown as code, and none of the text is taken for HTML.
func TestSentencesHaveCode(t *testing.T) {
	w := newWorld(t, nil)
	w.task("02-01-said", `{"title": "Said", "name": "said", "status": "failed", "pipeline": {"failure": {"code": "verify_failed", "detail": "`+"`make <b>` exited with 2, and `half"+`"}}}`, nil)
	w.task("02-02-odd", `{"title": "Odd", "name": "odd", "status": "failed", "pipeline": {"failure": {"code": "verify_failed", "detail": "`+"`go <i>` went wrong"+`"}}}`, nil)
	w.serve()
	for path, want := range map[string]string{"/v/task/02-01-said": "verify_failed: `make &lt;b&gt;` exited with 2, and `half", "/v/task/02-02-odd": "verify_failed: <code>go &lt;i&gt;</code> went wrong"} {
		code, body := w.ask(http.MethodGet, path, nil)
		if code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("got %d, want %s in %s", code, want, body)
		}
	}
}
