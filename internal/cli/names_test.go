package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Edge S11: validate, start and the watcher refuse the same directory names, and say which command renames the directory.
func TestNamesAreRefusedAlike(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.hand()
	note := filepath.Join(b.app.Dir, ".trellis", "tasks", "02-01-note")
	long := strings.Repeat("a", 240)
	hint := regexp.MustCompile(`\n(trellis:|\d\d:\d\d:\d\d) next: `)
	for name, want := range map[string]string{
		long:            "\n    next: mv .trellis/tasks/" + long + " .trellis/tasks/" + strings.Repeat("a", 60),
		"02-03-" + long: "\n    next: mv .trellis/tasks/02-03-" + long + " .trellis/tasks/02-03-" + strings.Repeat("a", 60),
		"CON":           "\n    next: mv .trellis/tasks/CON .trellis/tasks/task-con\n",
		"nul.txt":       "\n    next: mv .trellis/tasks/nul.txt .trellis/tasks/nul-txt\n",
		"Lpt9":          "\n    next: mv .trellis/tasks/Lpt9 .trellis/tasks/task-lpt9\n",
		"a b":           "\n    next: mv '.trellis/tasks/a b' .trellis/tasks/a-b\n",
		"Archive":       "\n    next: mv .trellis/tasks/Archive .trellis/tasks/task-archive\n",
		"com10":         "",
		"02-01-con":     "",
		long[:206]:      "",
	} {
		dir := filepath.Join(filepath.Dir(note), name)
		if err := os.Rename(note, dir); err != nil {
			t.Fatal(err)
		}
		b.write(".trellis/tasks/"+name+"/"+taskdir.TaskJSON, `{"status": "ready", "base_branch": "master", "title": "note", "branch": "topic"}`)
		for _, words := range [][]string{{"validate", dir}, {"start", dir}, {"watch", "--once"}} {
			if want == "" && words[0] != "validate" {
				continue
			}
			code, out, errs := b.app.try(words...)
			said := hint.ReplaceAllString(out+errs, "\n    next: ")
			if (want == "") != (code == command.ExitDone) || !strings.Contains(said, want) || want != "" && !strings.Contains(said, ".trellis/tasks/"+name+": the directory name ") {
				t.Errorf("%s: exit code %d\n%s", words, code, said)
			}
		}
		if err := os.Rename(dir, note); err != nil {
			t.Fatal(err)
		}
	}
}

// Edge S11: a branch name that is too long for git's lock file is refused before a run begins.
func TestBranchThatGitCanNotLock(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.hand()
	branch := "feature/" + strings.Repeat("b", 251)
	b.write(".trellis/tasks/02-01-note/"+taskdir.TaskJSON, `{"status": "ready", "base_branch": "master", "branch": "`+branch+`"}`)
	for _, words := range []string{"validate note", "start note"} {
		if code, out, errs := b.app.try(strings.Fields(words)...); code == command.ExitDone || !strings.Contains(out+errs, "has a part of 251 bytes") || !strings.Contains(out+errs, "trellis task set-branch 02-01-note") {
			t.Errorf("%s: exit code %d\n%s%s", words, code, out, errs)
		}
	}
}
