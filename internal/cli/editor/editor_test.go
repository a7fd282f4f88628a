package editor_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/cli/editor"
)

// console returns one whose editor is a shell script.
func console(t *testing.T, script string, vars ...string) *command.Console {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "my editor")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(program, filepath.Join(dir, "vi")); err != nil {
		t.Fatal(err)
	}
	env := append([]string{"PATH=" + dir + ":" + os.Getenv("PATH"), "EDITOR='" + program + "' -w"}, vars...)
	return &command.Console{Stdin: strings.NewReader(""), Stdout: new(bytes.Buffer), Stderr: new(bytes.Buffer), Env: env, Dir: dir}
}

func TestEdit(t *testing.T) {
	for name, test := range map[string]struct {
		script, want, wrong string
		vars                []string
	}{
		"changed":        {script: `test "$1" = -w && test "$(basename "$2")" = prd.md && echo more >> "$2"`, want: "text\nmore\n"},
		"replaced":       {script: `rm "$2"; echo new > "$2"`, want: "new\n"},
		"visual first":   {script: `exit 1`, vars: []string{"VISUAL=true"}, want: "text\n"},
		"it fails":       {script: `echo half > "$2"; exit 3`, wrong: "exit status 3"},
		"it is killed":   {script: `echo half > "$2"; kill -9 $$`, wrong: "failed: "},
		"it removes it":  {script: `rm "$2"`, wrong: "reading what was written"},
		"no such editor": {script: ``, vars: []string{"VISUAL=/none/at/all"}, wrong: "(/none/at/all, $VISUAL) failed: exit status 127"},
		"none is set":    {script: `exit 1`, vars: []string{"EDITOR="}, wrong: "(vi, as neither $VISUAL nor $EDITOR is set) failed: "},
	} {
		t.Run(name, func(t *testing.T) {
			var d *editor.Draft
			var got []byte
			var err error
			for tries := 0; tries == 0 || name == "visual first" && tries < 20; tries++ {
				if d, err = editor.Open(console(t, test.script, test.vars...), "prd.md", []byte("text\n")); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				if got, err = d.Edit(); time.Since(began) < 900*time.Millisecond {
					break // otherwise the machine stalled, and the editor may not seem to have returned at once
				}
			}
			if string(got) != test.want || (err == nil) != (test.wrong == "") || err != nil && !strings.Contains(err.Error(), test.wrong) {
				t.Errorf("got %q, %v", got, err)
			}
			if err != nil && strings.Contains(test.script, "half") {
				if kept, readErr := os.ReadFile(d.Path()); readErr != nil || string(kept) != "half\n" || !strings.Contains(err.Error(), d.Path()) || app.KindOf(err) != app.ErrUsage {
					t.Errorf("kept %q, %v; said %v", kept, readErr, err)
				}
			}
			if err := d.Discard(); err != nil {
				t.Fatal(err)
			}
			_, err = os.Stat(filepath.Dir(d.Path()))
			if atOnce := name == "visual first"; (err == nil) != atOnce {
				t.Errorf("the draft is still there: %v, want %v", err == nil, atOnce)
			}
			if err == nil {
				_ = os.RemoveAll(filepath.Dir(d.Path()))
			}
		})
	}
}
