package delivery_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/delivery"
	"github.com/trellis-tasks/trellis/internal/tracker"
	"github.com/trellis-tasks/trellis/taskdir"
)

// notes is a GitLab with one issue. It keeps the comments that are written to the issue.
type notes struct {
	*httptest.Server
	mu   sync.Mutex
	list []map[string]any
	lost bool // the answer to the next comment gets lost
}

func newNotes(t *testing.T) *notes {
	n := &notes{}
	n.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.mu.Lock()
		defer n.mu.Unlock()
		var in map[string]any
		switch {
		case r.Header.Get("PRIVATE-TOKEN") != "tok-1234567":
			http.Error(w, `{"message": "401 Unauthorized"}`, http.StatusUnauthorized)
		case r.URL.EscapedPath() != "/api/v4/projects/group%2Fshop/issues/4/notes":
			http.Error(w, `{"message": "404 Not Found"}`, http.StatusNotFound)
		case r.Method == http.MethodPost && json.NewDecoder(r.Body).Decode(&in) == nil:
			in["created_at"] = "2026-01-02T03:04:05Z"
			if n.list = append(n.list, in); n.lost {
				n.lost = false
				panic(http.ErrAbortHandler)
			}
			_ = json.NewEncoder(w).Encode(in)
		default:
			_ = json.NewEncoder(w).Encode(n.list)
		}
	}))
	t.Cleanup(n.Close)
	return n
}

// The issue that the work came from gets one comment with the pull request, even if an answer is lost; a comment that can't be
// written does not stop the delivery.
func TestIssueIsTold(t *testing.T) {
	t.Parallel()
	b, n := newBench(t), newNotes(t)
	b.D.Issues = &tracker.Access{Settings: config.Trackers{GitLab: config.SiteTracker{URL: n.URL}}, Env: append(b.environ(), "GITLAB_TOKEN=tok-1234567")}
	b.Work.Source = taskdir.Source{Issue: "gitlab:group/shop#4", URL: n.URL + "/group/shop/-/issues/4"}
	if b.deliver(); len(n.list) > 0 {
		t.Fatalf("nobody asked for it: %v", n.list)
	}
	b.Work.Source.Comment = true
	b.D.Issues.Env = b.environ()
	if got := b.deliver(); !has(got.Notes, "; next: export GITLAB_TOKEN=…") || got.PRURL == "" {
		t.Errorf("without a token: %q", got.Notes)
	}
	b.D.Issues.Env = append(b.environ(), "GITLAB_TOKEN=tok-1234567")
	n.lost = true
	if got := b.deliver(); !has(got.Notes, "was not linked to the pull request: commenting on gitlab:group/shop#4: no answer") {
		t.Errorf("lost: %q", got.Notes)
	}
	for range 2 { // the first finds the comment in the issue, the second in the record
		if got := b.deliver(); has(got.Notes, "was not told") {
			t.Errorf("got %q", got.Notes)
		}
	}
	url := b.deliver().PRURL
	if len(n.list) != 1 || !strings.Contains(n.list[0]["body"].(string), url) || !strings.Contains(n.list[0]["body"].(string), b.Work.Task) {
		t.Fatalf("got %v", n.list)
	}
	n.list = nil
	if b.deliver(); len(n.list) > 0 { // somebody deleted the comment
		t.Errorf("told again: %v", n.list)
	}
	if err := os.Remove(delivery.RecordFile(b.D.Dir)); err != nil {
		t.Fatal(err)
	}
	b.Work.Source.Comment, b.D.Issues.Settings.Comment = false, true
	if b.deliver(); len(n.list) != 1 {
		t.Errorf("by the setting: %v", n.list)
	}
}
