package agentstest_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/agents/agentstest"
	"github.com/trellis-tasks/trellis/agents/modelserver"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// each is the usage of one answer of the model.
var each = modelserver.Usage{Input: 5000, Output: 20, Cached: 7}

func used(answers int64) trellis.Usage {
	return trellis.Usage{InputTokens: answers * 5000, OutputTokens: answers * 20, CachedTokens: answers * 7}
}

func sameTokens(a, b trellis.Usage) bool {
	return a.InputTokens == b.InputTokens && a.OutputTokens == b.OutputTokens && a.CachedTokens == b.CachedTokens
}

// All usage counts: that of subagents, of an answer that was not streamed, and of the last answer of a call that was cut
// off; for opencode, which does not know the last one, at least what the step before used (edge A5).
func TestAllUsageCounts(t *testing.T) {
	t.Parallel()
	estimated := used(1)
	estimated.InputTokens += 5027
	for name, c := range map[string]struct {
		cli, stream string
		cutOff      bool
		want        trellis.Usage
	}{
		"a subagent":         {agents.Claude, "subagent", false, used(3)},
		"not streamed":       {agents.Claude, "not-streamed", false, used(1)},
		"codex, cut off":     {agents.Codex, "cut-off", true, used(2)},
		"opencode, cut off":  {agents.OpenCode, "cut-off", true, estimated},
		"opencode, finished": {agents.OpenCode, "answers", false, trellis.Usage{InputTokens: 1200, OutputTokens: 40, CachedTokens: 50}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := fake{stream: recorded(t, c.cli, c.stream)}
			home := t.TempDir()
			if record := filepath.Join("testdata", c.cli, c.stream+".record.jsonl"); there(record) {
				f.after = leaveRecord(t, home, get(t, record), f.stream)
			}
			var g given
			if c.cutOff {
				g = struck(t, c.cli, f, idle, "HOME="+home)
			} else {
				g = try(t, c.cli, f, nothing, "HOME="+home)
			}
			if g.result == nil || !sameTokens(g.result.Usage, c.want) || (g.err != nil) != c.cutOff {
				t.Errorf("got %+v, %v, want %+v", g.result, g.err, c.want)
			}
		})
	}
}

// The same with the real programs: the count of their server decides what was used.
func TestServerCountsTheSame(t *testing.T) {
	t.Parallel()
	work := modelserver.Play(modelserver.Turn{Usage: each, Calls: []modelserver.Call{modelserver.Shell("echo hi")}},
		modelserver.Turn{Text: "I run", Usage: each, Calls: []modelserver.Call{modelserver.Shell("touch began; sleep 3000")}})
	for name, c := range map[string]struct {
		cli    string
		script modelserver.Script
		cutOff bool
		want   trellis.Usage
	}{
		"a subagent": {agents.Claude, withSubagent, false, used(3)},
		"not streamed": {agents.Claude, func(r modelserver.Request) modelserver.Turn {
			return modelserver.Turn{Text: "done", Usage: each, Cut: r.Stream}
		}, false, used(1)},
		"codex, cut off": {agents.Codex, work, true, used(2)},
	} {
		t.Run(name, func(t *testing.T) {
			server := serve(t, c.script)
			a, err := agents.New(c.cli, agents.Options{Environ: agentstest.RealEnv(t, c.cli, server.URL)})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r := agents.Request{Role: trellis.Implement, Prompt: "do it", Dir: t.TempDir(), Permission: trellis.PermitEdit, RunDir: t.TempDir(), Marker: "usage-" + filepath.Base(t.TempDir()) + "-" + strings.ReplaceAll(t.Name(), "/", "-")}
			if c.cutOff {
				go func() {
					awaitFile(ctx, filepath.Join(r.Dir, "began"))
					cancel()
				}()
			}
			res, err := a.Run(ctx, r, nil)
			if res == nil || !sameTokens(res.Usage, c.want) || errors.Is(err, context.Canceled) != c.cutOff {
				t.Errorf("got %+v, %v, want %+v", res, err, c.want)
			}
		})
	}
}

func withSubagent(r modelserver.Request) modelserver.Turn {
	switch {
	case strings.Contains(r.Prompt, "SUBWORK"):
		return modelserver.Turn{Text: "sub done", Usage: each}
	case r.Turns == 0:
		sub := modelserver.Call{Tool: "Agent", Input: map[string]any{"description": "sub", "prompt": "SUBWORK", "subagent_type": "general-purpose"}}
		return modelserver.Turn{Usage: each, Calls: []modelserver.Call{sub}}
	}
	return modelserver.Turn{Text: "all done", Usage: each}
}

// awaitFile returns when the file exists, or ctx has ended.
func awaitFile(ctx context.Context, file string) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(file); err == nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
