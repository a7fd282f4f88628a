package cli

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/trellis-tasks/trellis/internal/cli/command"
)

// On a terminal edit asks what to do with a text that has mistakes: edit again, discard, or keep it, which is only possible before the
// task has begun.
func TestEditAsks(t *testing.T) {
	t.Parallel()
	const bad, good = "# Bye\n\n## Acceptance Criteria\n\n- [ ] TBD\n", "# Bye\n\n## Acceptance Criteria\n\n- [ ] it says bye\n"
	for name, test := range map[string]struct{ answer, status, saved, kept string }{
		"edit again": {answer: "e", status: "planning", saved: good},
		"discard":    {answer: "d", status: "planning"},
		"keep":       {answer: "keep", status: "planning", saved: bad},
		"begun":      {answer: "k\nd", status: "failed", kept: "[e]dit again, [d]iscard?"},
		"no answer":  {answer: "\x04", status: "planning", kept: "what you wrote is in "},
	} {
		t.Run(name, func(t *testing.T) {
			w := newGitWorld(t, "/nowhere")
			before := w.git("show", "HEAD:.trellis/tasks/02-01-bye/prd.md") + "\n"
			w.write(".trellis/tasks/02-01-bye/task.json", `{"status": "`+test.status+`", "pipeline": {"base_commit": "`+map[bool]string{true: w.git("rev-parse", "HEAD")}[test.status == "failed"]+`"}}`)
			w.write("../good.md", good)
			w.write("../bad.md", bad)
			w.write("../editor", "cp "+w.path("../bad.md")+" $1; cp "+w.path("../good.md")+" "+w.path("../bad.md")+"\n")
			screen, terminal, err := pty.Open()
			if err != nil {
				t.Fatal(err)
			}
			defer screen.Close()
			if _, err := screen.WriteString(test.answer + "\n"); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			a := &console{Console: command.Console{Stdin: terminal, Stdout: &out, Stderr: terminal, Env: append(w.Env[1:len(w.Env):len(w.Env)], "PATH="+os.Getenv("PATH"), "EDITOR=sh "+w.path("../editor")), Dir: w.Dir, Now: time.Now}}
			code := a.Run(t.Context(), []string{"edit", "bye"})
			if err := terminal.Close(); err != nil {
				t.Error(err)
			}
			shown, _ := io.ReadAll(screen) // reading ends with an error
			got, err := os.ReadFile(w.path(".trellis/tasks/02-01-bye/prd.md"))
			if want := map[bool]string{true: test.saved, false: before}[test.saved != ""]; err != nil || string(got) != want {
				t.Errorf("exit %d, it says %q, %v; shown: %s", code, got, err, shown)
			}
			if !strings.Contains(string(shown), "prd.md:5: ") || !strings.Contains(string(shown), test.kept) {
				t.Errorf("exit %d, shown: %s", code, shown)
			}
		})
	}
}
