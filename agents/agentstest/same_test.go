package agentstest_test

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/agents/agentstest"
	"github.com/trellis-tasks/trellis/agents/modelserver"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// The text before the prompt is the same in every worktree, so that a provider's cache serves one with what another paid for.
func TestWorktreesBeginAlike(t *testing.T) {
	t.Parallel()
	for _, cli := range []string{agents.Claude, agents.Codex} {
		server := serve(t, modelserver.Play(modelserver.Turn{Text: agentstest.Text}))
		a, err := agents.New(cli, agents.Options{Environ: agentstest.RealEnv(t, cli, server.URL)})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			r := agents.Request{Role: trellis.Implement, Prompt: "do it", System: "Our rules.", Dir: t.TempDir(), Permission: trellis.PermitEdit, RunDir: t.TempDir(),
				Marker: "alike-" + filepath.Base(t.TempDir())}
			if _, err := a.Run(t.Context(), r, nil); err != nil {
				t.Fatal(err)
			}
		}
		var begin []string
		for _, r := range server.Requests() {
			var body struct{ Tools, System, Instructions json.RawMessage }
			if err := json.Unmarshal(r.Raw, &body); err != nil {
				t.Fatal(err)
			}
			begin = append(begin, string(body.Tools)+string(body.System)+string(body.Instructions))
		}
		if len(begin) != 2 || begin[0] != begin[1] || len(begin[0]) < 1000 {
			at := 0
			for at < min(len(begin[0]), len(begin[1])) && begin[0][at] == begin[1][at] {
				at++
			}
			t.Errorf("%s: of %d bytes before the prompt %d are the same, then %.200q", cli, len(begin[0]), at, begin[0][at:])
		}
		if cli == agents.Claude && !strings.Contains(begin[0], "Our rules.") {
			t.Error("claude was not told our rules")
		}
	}
}

// A claude that does not know the option for that fails with the advice to update it, and is not retried.
func TestClaudeIsTooOld(t *testing.T) {
	g := try(t, agents.Claude, fake{before: "echo \"error: unknown option '--exclude-dynamic-system-prompt-sections'\" >&2", exit: 1}, nothing)
	f := (*flow.Failure)(nil)
	if !errors.As(g.err, &f) || f.Code != string(trellis.AgentExit) || f.Retryable || !strings.Contains(f.Detail, "claude update") {
		t.Errorf("got %v", g.err)
	}
}
