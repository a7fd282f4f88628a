package agents_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// A stream yields its result from the line on that holds it, and not before.
func TestRecall(t *testing.T) {
	for _, cli := range []string{agents.Claude, agents.Codex, agents.OpenCode} {
		data, err := os.ReadFile(filepath.Join("agentstest", "testdata", cli, "answers.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.SplitAfter(strings.TrimSpace(string(data))+"\n", "\n")
		lines = lines[:len(lines)-1]
		last := len(lines) - 1
		for name, c := range map[string]struct {
			stream string
			want   bool
		}{
			"whole":   {strings.Join(lines, ""), true},
			"cut":     {strings.Join(lines[:last], ""), false},
			"torn":    {strings.Join(lines[:last], "") + strings.TrimSuffix(lines[last], "}\n"), false},
			"nothing": {"", false},
		} {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "stream.jsonl"), []byte(c.stream), 0o600); err != nil {
				t.Fatal(err)
			}
			res := agents.RecoverResult(cli, agents.Request{Role: trellis.Research}, dir)
			if (res != nil) != c.want || c.want && (res.Text == "" || res.Session == "" || res.Usage != (trellis.Usage{})) {
				t.Errorf("%s, %s: got %+v", cli, name, res)
			}
		}
		if res := agents.RecoverResult("mine", agents.Request{}, t.TempDir()); res != nil {
			t.Errorf("a program of the project's own: got %+v", res)
		}
	}
}
