package tui

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// The screen and the keys in docs/reference/ui.md are those of the program.
func TestScreenAndKeysInDocs(t *testing.T) {
	at := func(id string, s trellis.Status, change func(*status.Task)) status.Task {
		one := task(id, s)
		change(&one)
		return one
	}
	d := drive(t,
		at("02-03-paging", trellis.Waiting, func(t *status.Task) { t.WaitingFor = "approval" }),
		at("02-02-auth", trellis.Review, func(t *status.Task) {}),
		at("02-04-export", trellis.Failed, func(t *status.Task) { t.Failure.Code = trellis.TimeoutWall }),
		at("02-05-search", trellis.InProgress, func(t *status.Task) {
			t.Phase, t.Round, t.HeldBy, t.Since = "check", 1, &status.Holder{PID: 1}, noon.Add(-130*time.Second).Format(time.RFC3339)
		}),
		at("02-06-cart", trellis.Ready, func(t *status.Task) {}),
		at("02-01-init", trellis.Completed, func(t *status.Task) {}))
	d.watcher = "watcher: 1 of 3 busy"
	d.press("jjj")
	d.page.lines = append([]line{{"02-05-search  Find products by name", bold}, {phases(d.world.tasks["02-05-search"]), cyan}},
		lines("  status    in_progress (check, round 1)\n  branch    feature/search (from main)\n  criterion A1 prd.md:9 must: a search finds by parts of names\n  next      trellis logs -f 02-05-search\n\n"+
			"last in the log\n11:58:02  round-1/implement: done in 1m4s\n11:58:03  round-1/check: claude works\n          → Read search.go\n          → Bash go test ./...", plain)...)
	var rows []string
	for l := range strings.SplitSeq(d.text(), "\n") {
		rows = append(rows, strings.TrimRight(l, " "))
	}
	keys := "| key | what it does |\n| --- | --- |\n"
	for _, s := range sheet() {
		for _, k := range s.keys {
			keys += "| " + k.name + " | " + k.help + " |\n"
		}
	}
	file := filepath.Join("..", "..", "docs", "reference", "ui.md")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := replaced(t, string(data), "```screen\n", "```\n", "```screen\n"+strings.Join(rows, "\n")+"\n")
	want = replaced(t, want, "| key | what it does |\n", "\nWhat takes", keys)
	if want == string(data) {
		return
	}
	if os.Getenv("TRELLIS_UPDATE_DOCS") == "" {
		t.Fatalf("docs/reference/ui.md shows another screen or other keys: TRELLIS_UPDATE_DOCS=1 go test ./internal/tui writes\n%s", want)
	}
	if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// replaced returns a text in which the part between two marks is replaced.
func replaced(t *testing.T, s, from, to, by string) string {
	t.Helper()
	a := strings.Index(s, from)
	if a < 0 {
		t.Fatalf("there is no %q", from)
	}
	b := strings.Index(s[a+len(from):], to)
	if b < 0 {
		t.Fatalf("there is no %q behind %q", to, from)
	}
	return s[:a] + by + s[a+len(from)+b:]
}
