package board_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

// roadmap is an objective that has begun.
const roadmap = "# Objective: Search that finds\n\n## Roadmap\n\n### Phase 1: Index\n\n| Step | Description | Depends On | Status | PR |\n|---|---|---|---|---|\n| 1.1 | Index of titles | - | done | #12 |\n| 1.2 | Index of bodies | 1.1 | in_progress | - |\n| 1.3 | Ranking by age | 1.1 | pending | - |\n| 1.4 | Page with results | 1.2, 1.3 | pending | - |\n"

// TestShots checks that no page is wider than a phone. It writes the pictures of docs/reference/board.md if TRELLIS_SHOTS names a
// folder.
func TestShots(t *testing.T) {
	w := newWorld(t, map[string]string{".trellis/objectives/search.md": roadmap})
	w.shelf()
	w.changed("02-09-diff", map[string]string{"shop.go": "package shop\n\n// Total adds up what a cart holds.\nfunc Total(prices []int) (sum int) {\n\tfor _, p := range prices {\n\t\tsum += p\n\t}\n\treturn sum\n}\n", "test.sh": "exit 0 # nothing is tested\n"})
	w.serve()
	p := w.blank()
	for _, shot := range []struct{ name, path, shows string }{
		{"columns", "/", "Find products"}, {"task", "/task/02-03-paging", "waits for approval"}, {"log", "/task/02-04-export/log", "nothing"}, {"report", "/task/02-02-auth/report", "Report"},
		{"file", "/task/02-03-paging/files/prd.md", "Save"}, {"objectives", "/objectives", "Ranking"}, {"stats", "/stats", "nothing was done"}, {"diff", "/task/02-09-diff/diff", "package shop"}, {"plan", "/plan", "What is wanted"},
	} {
		p.to(w.url + shot.path)
		if shot.name == "diff" {
			p.shows(shot.shows)
			p.comment("shop.go", 4, "What about a price below zero? Refuse it here, and say which one it was.")
		}
		for _, width := range []int64{1440, 390} {
			for _, scheme := range []string{"light", "dark"} {
				p.scheme(scheme, width)
				if shot.name != "log" {
					p.shows(shot.shows)
				} else {
					p.live()
				}
				if got := p.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"); got != "true" {
					t.Errorf("%s at %d: the page is wider than the screen", shot.name, width)
				}
				w.shoot(p, fmt.Sprintf("%s-%d-%s.png", shot.name, width, scheme))
			}
		}
	}
}

// shoot writes a picture of the page, if pictures are wanted.
func (w *world) shoot(p *tab, name string) {
	dir := os.Getenv("TRELLIS_SHOTS")
	if dir == "" {
		return
	}
	data, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name), data, 0o666)
	}
	if err != nil {
		w.Fatal(err)
	}
}

// shelf adds tasks of different statuses.
func (w *world) shelf() {
	w.planned("02-03-paging")
	prd := "# Page through long lists\n\n## Goal\n\nThe list endpoint takes `limit` and `offset`.\n\n## Acceptance Criteria\n\n- [ ] limit and offset choose a part of the list (verify: `go test ./list`)\n- [ ] a limit over 100 is refused (verify: `go test -run TestLimit ./list`)\n- [ ] the docs name both\n\n## Open questions\n\n- Should the total be returned?\n"
	w.task("02-03-paging", `{"title": "Page through long lists", "name": "paging", "status": "waiting", "dev_type": "backend", "priority": "P1", "assignee": "ada", "base_branch": "main", "pipeline": {"approval": {"required": true, "approvers": 2}, "size": "large"}}`, map[string]string{"prd.md": prd})
	w.task("02-02-auth", `{"title": "Sign in with a passkey", "name": "auth", "status": "review", "dev_type": "backend", "priority": "P1", "assignee": "bob", "pipeline": {"phase": "deliver", "round": 2, "usage": {"input_tokens": 412000, "output_tokens": 18300, "cached_tokens": 356000, "cost_usd": 1.84, "seconds": 742}}}`,
		map[string]string{"report.md": "# Report\n\nVerified in 2 rounds.\n\n| check | result |\n|---|---|\n| `go vet ./...` | passed |\n| `go test ./...` | passed |\n"})
	w.task("02-04-export", `{"title": "Export orders as CSV", "name": "export", "status": "failed", "dev_type": "backend", "pipeline": {"phase": "verify", "round": 3, "failure": {"code": "verify_failed", "detail": "go test ./export: exit 1"}, "usage": {"input_tokens": 230000, "output_tokens": 9100, "seconds": 604}}}`, nil)
	w.task("02-05-search", `{"title": "Find products by parts of their names", "name": "search", "status": "ready", "dev_type": "backend", "assignee": "ada", "priority": "P2"}`, nil)
	w.task("02-06-cart", `{"title": "Keep the cart over a restart", "name": "cart", "status": "waiting", "dev_type": "frontend", "pipeline": {"depends_on": ["02-05-search"]}}`, nil)
	w.task("02-07-broken", "{\n  \"title\": \"x\"\n  \"status\": \"ready\"\n}\n", nil)
	w.task("02-01-init", `{"title": "Set up the shop", "name": "init", "status": "completed", "pipeline": {"usage": {"input_tokens": 120000, "output_tokens": 6100, "cost_usd": 0.62, "seconds": 318}}}`, nil)
	w.task("02-08-old", `{"title": "Better greeting", "name": "old", "status": "rejected"}`, nil)
	for _, id := range []string{"02-02-auth", "02-04-export", "02-05-search", "02-06-cart"} {
		w.Write(".trellis/tasks/"+id+"/prd.md", "# "+id+"\n")
	}
}
