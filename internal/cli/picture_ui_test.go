package cli

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// shelf has tasks of different statuses for a picture.
var shelf = map[string]string{
	"02-01-init/task.json":     `{"title": "Set up the shop", "status": "completed", "base_branch": "main"}`,
	"02-04-export/task.json":   `{"title": "Export orders as CSV", "status": "failed", "base_branch": "main", "pipeline": {"phase": "verify", "round": 3, "failure": {"code": "verify_failed", "detail": "go test ./export: exit 1"}}}`,
	"02-05-search/task.json":   `{"title": "Find products by parts of names", "status": "ready", "base_branch": "main"}`,
	"02-06-cart/task.json":     `{"title": "Keep the cart over a restart", "status": "waiting", "base_branch": "main", "pipeline": {"depends_on": ["02-05-search"]}}`,
	"02-08-polite/task.json":   `{"title": "A better greeting", "status": "rejected", "base_branch": "main", "pipeline": {"rejection": {"category": "unclear", "details": "better names no outcome"}}}`,
	"02-06-cart/prd.md":        "# Keep the cart\n\n## Acceptance Criteria\n\n- [ ] it is there after a restart\n",
	"02-05-search/prd.md":      "# Find products\n\n## Acceptance Criteria\n\n- [ ] a search finds by parts of names\n",
	"02-05-search/check.jsonl": `{"file": "greet.sh", "reason": "the program"}` + "\n",
}

// The pictures of the terminal UI in docs are those of the real program in a real terminal, after a real run.
func TestPicturesOfTheUI(t *testing.T) {
	t.Parallel()
	p := threeTasks(t, 100)
	for name, text := range shelf {
		path := filepath.Join(p.dir, ".trellis/tasks", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	p.let("02-01-mend")
	p.types("trellis start 02-01-mend >../out 2>&1")
	p.until("ended with 0")
	p.tmux("send-keys", "clear; trellis ui", "Enter")
	p.until("q end")
	p.tmux("send-keys", "/", "mend", "Enter")
	p.until("> 02-01-mend")
	p.tmux("send-keys", "Escape")
	p.until("02-05-search")
	for _, page := range []struct{ name, key, shows string }{
		{"now", "", "trellis diff 02-01-mend"}, {"diff", "Tab Tab", "+02-01-mend"}, {"keys", "?", "any key goes back"},
	} {
		for _, key := range strings.Fields(page.key) {
			p.tmux("send-keys", key)
		}
		p.until(page.shows)
		d := &drawing{width: 100}
		d.write(strings.ReplaceAll(steady(p.tmux("capture-pane", "-p", "-e")), "\n", "\r\n"), 0)
		keepPicture(t, "../../docs/reference/ui/"+page.name+".svg", d.picture(30, "trellis ui: "+page.name, false))
	}
	p.tmux("send-keys", "q")
}

// steady replaces times and hashes of a screen, which differ from run to run.
func steady(screen string) string {
	for _, of := range []struct{ of, to string }{
		{`\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ`, "2026-02-03T12:00:00Z"}, {`\b\d\d:\d\d:\d\d\b`, "12:00:00"}, {`\b[0-9a-f]{40}\b`, strings.Repeat("735b9372", 5)},
		{`\b[0-9a-f]{7,12}\b`, "735b937"}, {`\b\d+(\.\d)?s\b`, "1s"}, {`/tmp/\S*/app`, "/home/ada/app"},
	} {
		screen = regexp.MustCompile(of.of).ReplaceAllString(screen, of.to)
	}
	return screen
}
