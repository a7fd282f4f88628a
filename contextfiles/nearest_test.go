package contextfiles_test

import (
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/contextfiles"
)

// Edge C10: a row that names a file of a task that was archived since, the row's own task or another, is resolved to the archive,
// both when it is checked and when it is shown.
func TestRowsOfArchivedTasks(t *testing.T) {
	root := repository(t)
	write(t, root, ".trellis/tasks/archive/2026-01/01-05-old/prd.md", "the first\n")
	write(t, root, ".trellis/tasks/archive/2026-02/01-05-old/prd.md", "the last\n")
	write(t, root, ".trellis/tasks/archive/2026-02/01-05-old/notes/a.md", "a note\n")
	write(t, root, ".trellis/tasks/02-01-live/prd.md", "alive\n")
	write(t, root, ".trellis/tasks/archive/2026-02/02-01-live/prd.md", "of another year\n")
	rows, problems := contextfiles.Parse("c.jsonl", []byte(`{"file": ".trellis/tasks/01-05-old/prd.md"}
{"file": ".trellis/tasks/01-05-old/notes/", "type": "directory"}
{"file": ".trellis/tasks/02-01-live/prd.md"}
{"file": ".trellis/tasks/01-05-old/gone.md"}
`))
	valid, wrong := contextfiles.Checker{Root: root}.Check("c.jsonl", rows)
	var got []string
	for _, r := range valid {
		got = append(got, r.Path)
	}
	want := ".trellis/tasks/archive/2026-02/01-05-old/prd.md .trellis/tasks/archive/2026-02/01-05-old/notes/ .trellis/tasks/02-01-live/prd.md"
	if len(problems) > 0 || strings.Join(got, " ") != want || len(wrong) != 1 || wrong[0].Line != 4 {
		t.Errorf("got %q, %v, %v", got, problems, wrong)
	}
	text, _ := contextfiles.Assemble(contextfiles.Source{Main: root}, rows, contextfiles.DefaultCaps())
	for _, want := range []string{"the last", "a note", "alive", "archive/2026-02/01-05-old/prd.md"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not shown:\n%s", want, text)
		}
	}
}

// Edge C12: for a path that does not exist, the hint proposes a similar path that does, rather than to drop the row.
func TestNearPathIsProposed(t *testing.T) {
	root := repository(t)
	for missing, want := range map[string]string{
		"code/mian.go":       "did you mean: code/main.go",
		"cod/main.go":        "did you mean: code/main.go",
		"docs/deeep/two.md":  "did you mean: docs/deep/two.md",
		".trellis/specs/":    "did you mean: .trellis/spec/",
		"CODE/MAIN.go":       "did you mean: code/main.go",
		"nothing/like/it.md": "trellis validate .trellis/tasks/02-01-x --fix",
	} {
		row := contextfiles.Row{Line: 1, Path: missing}
		if strings.HasSuffix(missing, "/") {
			row.Type = contextfiles.Directory
		}
		_, problems := contextfiles.Checker{Root: root}.Check(".trellis/tasks/02-01-x/check.jsonl", []contextfiles.Row{row})
		if len(problems) != 1 || problems[0].Warning || problems[0].Hint != want {
			t.Errorf("%s: got %+v, want the hint %q", missing, problems, want)
		}
	}
}
