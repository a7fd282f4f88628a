package contextfiles_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/contextfiles"
)

func TestAssemble(t *testing.T) {
	main, tree, inputs := t.TempDir(), t.TempDir(), t.TempDir()
	write(t, main, ".trellis/tasks/x/prd.md", "# edited since\n")
	write(t, inputs, "prd.md", "# Task: X\n\n````md\n```go\n```\n````\n")
	write(t, main, ".trellis/spec/index.md", "from main, without an end")
	write(t, tree, ".trellis/spec/index.md", "from the worktree\n")
	write(t, main, "a.md", "from main\n")
	write(t, tree, "a.md", "from the worktree\n")
	write(t, tree, "docs/b.md", "B\n")
	write(t, tree, "docs/a.md", "A\n")
	write(t, tree, "docs/c.txt", "C\n")
	write(t, tree, "empty.md", "")
	src := contextfiles.Source{Main: main, Worktree: tree, Task: ".trellis/tasks/x", Inputs: inputs,
		Name: func(p string) string { return strings.Replace(p, ".trellis/tasks/x", "TASK", 1) }}
	rows := []contextfiles.Row{
		{Path: ".trellis/tasks/x/prd.md", Reason: "what is asked for", Type: contextfiles.Artifact},
		{Path: ".trellis/spec/index.md", Reason: "rules\n\n### a.md\n"},
		{Path: "a.md"},
		{Path: "docs/", Type: contextfiles.Directory, Reason: "format"},
		{Path: "docs/a.md", Reason: "again"},
		{Path: "empty.md"},
	}
	text, notes := contextfiles.Assemble(src, rows, contextfiles.DefaultCaps())
	want := "### TASK/prd.md\nWhy: what is asked for\n\n`````\n# Task: X\n\n````md\n```go\n```\n````\n`````\n\n" +
		"### .trellis/spec/index.md\nWhy: rules ### a.md\n\n```\nfrom main, without an end\n```\n\n" +
		"### a.md\n\n```\nfrom the worktree\n```\n\n" +
		"### docs/a.md\nWhy: format\n\n```\nA\n```\n\n" +
		"### docs/b.md\nWhy: format\n\n```\nB\n```\n\n" +
		"### empty.md\n\n```\n```\n\n"
	if text != want || notes != nil {
		t.Errorf("got\n%s\nwant\n%s\nnotes: %v", text, want, notes)
	}
}

func TestAssembleWithinCaps(t *testing.T) {
	root := t.TempDir()
	write(t, root, "prd.md", strings.Repeat("p", 64<<10))
	write(t, root, "long.md", strings.Repeat(strings.Repeat("l", 1170)+"\n", 40)[:40<<10])
	write(t, root, "full.md", strings.Repeat("f", 32<<10))
	write(t, root, "third.md", strings.Repeat("t", 31<<10))
	write(t, root, "small.md", "small\n")
	rows := []contextfiles.Row{{Path: "prd.md", Type: contextfiles.Artifact}, {Path: "long.md", Reason: "deep"}, {Path: "full.md"}, {Path: "third.md"}, {Path: "small.md"}, {Path: "prd.md"}}
	src := contextfiles.Source{Main: root}
	text, notes := contextfiles.Assemble(src, rows, contextfiles.DefaultCaps())
	for _, shown := range []string{"### prd.md\n", "### long.md\n", "### full.md\n", "### small.md\n"} {
		if strings.Count(text, shown) != 1 {
			t.Errorf("%q is not there once", shown)
		}
	}
	long := contextfiles.Note{Path: "long.md", Bytes: 40 << 10, Shown: 27 * 1171, Reason: "deep", Why: "its first 31617 of 40960 bytes are"}
	if want := (contextfiles.Note{Path: "third.md", Bytes: 31 << 10, Why: "no room left"}); len(notes) != 2 || notes[0] != long || notes[1] != want {
		t.Errorf("got notes %+v, want the last to be %+v", notes, want)
	}
	if !strings.Contains(text, "### small.md\n") || !strings.Contains(text, "- third.md, 31744 bytes (no room left)\n") {
		t.Error("what is small does not stand beside the line of what is not")
	}
	body, index, _ := strings.Cut(text, "### Not shown")
	if strings.Contains(index, "long.md") {
		t.Errorf("what is shown in part is listed among what is not: %s", index)
	}
	if len(body) > 128<<10 {
		t.Errorf("%d bytes", len(body))
	}

	write(t, root, "prd.md", strings.Repeat("p", 64<<10+1))
	if text, notes = contextfiles.Assemble(src, rows[:1], contextfiles.DefaultCaps()); len(notes) != 1 || notes[0].Shown != 64<<10 {
		t.Errorf("of an artifact above its cap: %+v", notes)
	}
	if text, notes = contextfiles.Assemble(src, rows[4:5], contextfiles.DefaultCaps().Remaining(body)); len(notes) != 0 {
		t.Errorf("a small file after %d bytes: %s", len(body), text)
	}
	if _, notes = contextfiles.Assemble(src, rows[4:5], contextfiles.Caps{File: 10}); len(notes) != 1 {
		t.Error("something was shown where there was no room at all")
	}
}

// The beginning of a large file is shown, up to the end of a line, with the size of the file and the line where the rest begins.
// Shown gets the whole content.
func TestAssembleShowsTheBeginning(t *testing.T) {
	root := t.TempDir()
	line := strings.Repeat("ä", 500) + "\n" // 1001 bytes; 32 of these lines fit
	write(t, root, ".trellis/spec/large.md", strings.Repeat(line, 40))
	write(t, root, "oneline.md", strings.Repeat("ü", 20<<10))
	write(t, root, "half.dat", strings.Repeat("x", 40<<10)+"\x00")
	write(t, root, "early.dat", "\x00"+strings.Repeat("x", 40<<10))
	var judged int
	src := contextfiles.Source{Main: root, Shown: func(_ string, content []byte) { judged += len(content) }}
	rows := []contextfiles.Row{{Path: ".trellis/spec/large.md", Reason: "why"}, {Path: "oneline.md"}, {Path: "half.dat"}, {Path: "early.dat"}}
	text, notes := contextfiles.Assemble(src, rows, contextfiles.DefaultCaps())
	want := "### .trellis/spec/large.md\nWhy: why\n\n```\n" + strings.Repeat(line, 32) + "```\n\n" +
		"These are the first 32032 of 40040 bytes; read the rest in .trellis/spec/large.md, from line 33 on.\n\n" +
		"### oneline.md\n\n```\n" + strings.Repeat("ü", 16<<10) + "\n```\n\n" +
		"These are the first 32768 of 40960 bytes; read the rest in oneline.md, from line 1 on.\n\n" +
		"### half.dat\n"
	if !strings.HasPrefix(text, want) {
		t.Errorf("got\n%.300s\nwant\n%.300s", text, want)
	}
	if judged != 40*1001 {
		t.Errorf("whoever judges was told of %d bytes", judged)
	}
	if len(notes) != 4 || notes[3].Path != "early.dat" || notes[3].Shown != 0 {
		t.Errorf("got notes %+v", notes)
	}
	whole, notes := contextfiles.Assemble(src, rows[:1], contextfiles.Caps{File: 40 * 1001, Total: 64 << 10})
	if len(notes) != 0 || strings.Contains(whole, "the first") {
		t.Errorf("got notes %+v of a file that just fits", notes)
	}
}

// Where there is no room, the list of what is not shown is short.
func TestAssembleListsLittleWithoutRoom(t *testing.T) {
	root := t.TempDir()
	var rows []contextfiles.Row
	for i := range 150 {
		rows = append(rows, contextfiles.Row{Path: fmt.Sprintf("none/%03d.md", i), Reason: strings.Repeat("because ", 50)})
	}
	text, notes := contextfiles.Assemble(contextfiles.Source{Main: root}, rows, contextfiles.Caps{Total: 1 << 10})
	if len(text) > 16<<10+200 || len(notes) != len(rows) {
		t.Errorf("%d bytes, %d notes", len(text), len(notes))
	}
	listed := strings.Count(text, "does not exist")
	if listed < 30 || !strings.HasSuffix(text, fmt.Sprintf("\n- and %d more\n\n", len(rows)-listed)) {
		t.Errorf("%d are listed, and it ends with %q", listed, text[len(text)-100:])
	}
}

func TestAssembleSaysWhatIsMissing(t *testing.T) {
	root := repository(t)
	var rows []contextfiles.Row
	for _, p := range []string{"none.md", "out.md", "../secret.md", "binary.dat", "docs", "a\x1b[31m.md"} {
		rows = append(rows, contextfiles.Row{Path: p, Reason: "r"})
	}
	rows = append(rows, contextfiles.Row{Path: "away/", Type: contextfiles.Directory}, contextfiles.Row{Path: "code/", Type: contextfiles.Directory})
	text, notes := contextfiles.Assemble(contextfiles.Source{Main: root}, rows, contextfiles.DefaultCaps())
	want := `### Not shown
These were named too, but could not be put here. Read what you need of them.

- none.md (does not exist): r
- out.md (leads through a symlink that is absolute or points out of the repository): r
- ../secret.md (has .. in it: write it from the top of the repository): r
- binary.dat, 6 bytes (is not UTF-8 text): r
- docs (is a directory): r
- "a\x1b[31m.md" (has a control character in it): r
- away/ (leads through a symlink that is absolute or points out of the repository)

`
	if text != want || len(notes) != 7 {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	for _, src := range []contextfiles.Source{{Main: root, Worktree: filepath.Join(root, "gone")}, {Main: filepath.Join(root, "gone")}} {
		if _, notes := contextfiles.Assemble(src, []contextfiles.Row{{Path: "a.md"}, {Path: "docs/", Type: contextfiles.Directory}}, contextfiles.DefaultCaps()); len(notes) != 2 {
			t.Errorf("without a worktree: %+v", notes)
		}
	}
}

func TestAssembleDirectoryShowsTwenty(t *testing.T) {
	root := t.TempDir()
	for i := range 23 {
		write(t, root, fmt.Sprintf("docs/%02d.md", i), "x\n")
	}
	rows := []contextfiles.Row{{Path: "docs/", Type: contextfiles.Directory, Reason: "all"}}
	text, notes := contextfiles.Assemble(contextfiles.Source{Main: root}, rows, contextfiles.DefaultCaps())
	if got := strings.Count(text, "### docs/"); got != 20 || strings.Contains(text, "docs/20.md") {
		t.Errorf("got %d files", got)
	}
	if want := "- docs/ (3 more *.md files, only the first 20 are shown): all\n"; !strings.Contains(text, want) || len(notes) != 1 {
		t.Errorf("%q is not in\n%s", want, text)
	}
	_, problems := contextfiles.Checker{Root: root}.Check("c", rows)
	if got, want := said(problems), "warning: c: docs/ has 23 *.md files: prompts show the first 20\n"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Two phases whose lists begin with the same rows get prompts that begin with the same bytes.
func TestAssembleIsStable(t *testing.T) {
	root := t.TempDir()
	write(t, root, ".trellis/spec/index.md", "S\n")
	write(t, root, "a.md", "A\n")
	list := func(tail string) []contextfiles.Row {
		rows, problems := contextfiles.Parse("c", []byte(`{"file": ".trellis/spec/index.md", "reason": "r"}`+"\n"+`{"file": "a.md"}`+"\n"+tail))
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		return rows[:2]
	}
	first, _ := contextfiles.Assemble(contextfiles.Source{Main: root}, list(`{"file": "b.md"}`), contextfiles.DefaultCaps())
	touched := time.Unix(0, 0)
	if err := os.Chtimes(filepath.Join(root, "a.md"), touched, touched); err != nil {
		t.Fatal(err)
	}
	second, _ := contextfiles.Assemble(contextfiles.Source{Main: root}, list(`{"file": "c.md"}`+"\n\n"), contextfiles.DefaultCaps())
	if first != second || first == "" {
		t.Errorf("got\n%s\nthen\n%s", first, second)
	}
}

func TestAssembleIsBounded(t *testing.T) {
	var rows []contextfiles.Row
	for i := range 500 {
		rows = append(rows, contextfiles.Row{Path: fmt.Sprintf("none-%d.md", i), Reason: strings.Repeat("why ", 1000)})
	}
	text, notes := contextfiles.Assemble(contextfiles.Source{Main: t.TempDir()}, rows, contextfiles.DefaultCaps())
	if len(notes) != 500 || !strings.HasSuffix(text, "- and 300 more\n\n") || len(text) > 128<<10 {
		t.Errorf("%d notes, %d bytes, end %q", len(notes), len(text), text[len(text)-40:])
	}
}
