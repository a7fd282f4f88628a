package agents_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// The caller's count for all runs together gets each usage as it is reported, and ends a run that goes on spending within
// the turn; a run that has given its result may end by itself.
func TestSpent(t *testing.T) {
	const usage = `echo '{"type": "usage", "usage": {"input_tokens": %d, "output_tokens": 0}}'` + "\n"
	turn := func(n int) string { return fmt.Sprintf(usage, n) }
	loop := `n=0; while n=$((n+1)); do echo $n >> "$TRELLIS_RUN_DIR/turns"; echo "{\"type\": \"usage\", \"usage\": {\"input_tokens\": ${n}00, \"output_tokens\": 0}}"; read -r go < "$TRELLIS_RUN_DIR/go"; done`
	run := func(t *testing.T, script string, spent func(trellis.Usage) *flow.Failure) (*agents.Result, string, error) {
		dir := t.TempDir()
		file := filepath.Join(dir, "agent.sh")
		if err := os.WriteFile(file, []byte("cat > /dev/null\n"+script+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		o := agents.Options{Environ: os.Environ(), Root: dir, Commands: map[string]agents.Command{"mine": {Argv: []string{"sh", file}, Output: "events"}}}
		a, err := agents.New("mine", o)
		if err != nil {
			t.Fatal(err)
		}
		res, err := a.Run(context.Background(), agents.Request{Role: trellis.Implement, Prompt: "go", Dir: dir, RunDir: dir, Permission: trellis.PermitEdit,
			Env: []string{"TRELLIS_RUN_DIR=" + dir}, Limits: agents.Limits{Wall: 15 * time.Minute}, Spent: spent}, nil)
		turns, _ := os.ReadFile(filepath.Join(dir, "turns"))
		return res, string(turns), err
	}
	over := flow.Fail(string(trellis.BudgetTokens), "the day's")
	over.ResumeAt = time.Now().Add(time.Hour)
	limit := func(most int64, told *[]int64) func(trellis.Usage) *flow.Failure {
		return func(u trellis.Usage) *flow.Failure {
			*told = append(*told, u.Tokens())
			if u.Tokens() >= most {
				return over
			}
			return nil
		}
	}
	t.Run("a loop", func(t *testing.T) {
		var told []int64
		// The agent waits at the end of each turn for input that never comes: it has to be ended in its first turn.
		res, turns, err := run(t, "mkfifo \"$TRELLIS_RUN_DIR/go\"\n"+loop, limit(100, &told))
		if fail := (*flow.Failure)(nil); !errors.As(err, &fail) || fail != over {
			t.Fatalf("got %v, want what ended it", err)
		}
		if strings.TrimSpace(turns) != "1" || res.Usage.Tokens() != 100 {
			t.Errorf("it took the turns %q and %d tokens", turns, res.Usage.Tokens())
		}
	})
	t.Run("told of all", func(t *testing.T) {
		var told []int64
		res, _, err := run(t, turn(10)+turn(30)+`echo '{"type": "result", "text": "done"}'`, limit(100, &told))
		if err != nil || res.Text != "done" || fmt.Sprint(told) != "[10 30]" {
			t.Errorf("got %+v, %v, told %v", res, err, told)
		}
	})
	t.Run("after the result", func(t *testing.T) {
		var told []int64
		res, _, err := run(t, `echo '{"type": "result", "text": "done"}'`+"\n"+turn(500), limit(100, &told))
		if err != nil || res.Text != "done" || fmt.Sprint(told) != "[500]" {
			t.Errorf("got %+v, %v, told %v", res, err, told)
		}
	})
}
