package agentcall

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// ways are the programs, with their limits, by which an agent fails with each code.
var ways = map[trellis.Code]struct {
	script string
	limits agents.Limits
}{
	trellis.AgentMissing:    {script: `echo '{"type": "error", "code": "agent_missing"}'`},
	trellis.AgentAuth:       {script: `echo '{"type": "error", "code": "agent_auth"}'`},
	trellis.AgentExit:       {script: `exit 3`},
	trellis.AgentSignal:     {script: `kill -9 $$`},
	trellis.AgentProtocol:   {script: `echo '{"type": "error", "code": "agent_protocol"}'`},
	trellis.EmptyOutput:     {script: `exit 0`},
	trellis.TimeoutWall:     {script: `exec sleep 60`, limits: agents.Limits{Wall: 50 * time.Millisecond}},
	trellis.TimeoutIdle:     {script: `exec sleep 60`, limits: agents.Limits{Idle: 50 * time.Millisecond}},
	trellis.RateLimited:     {script: `echo '{"type": "error", "code": "rate_limited"}'`},
	trellis.ProviderDown:    {script: `echo '{"type": "error", "code": "provider_unavailable"}'`},
	trellis.QuotaExhausted:  {script: `echo '{"type": "error", "code": "quota_exhausted"}'`},
	trellis.ContextOverflow: {script: `echo '{"type": "error", "code": "context_overflow"}'`},
	trellis.BudgetTokens:    {script: `echo '{"type": "usage", "usage": {"input_tokens": 9}}'; exec sleep 60`, limits: agents.Limits{Tokens: 8}},
	trellis.BudgetCost:      {script: `echo '{"type": "usage", "usage": {"cost_usd": 9}}'; exec sleep 60`, limits: agents.Limits{CostUSD: 8}},
}

// A failure of a real program, for each code of the failure table, is retried as the table says, as long as attempts are
// left. Codes that no agent fails with are never a reason to ask again.
func TestRetriedAsTheTableSays(t *testing.T) {
	t.Parallel()
	for _, row := range trellis.Codes {
		way, agents := ways[row.Code]
		if !agents {
			if delivery := row.Code == trellis.PushFailed || row.Code == trellis.PRFailed; row.Retried && !delivery { // those are the pipeline's
				t.Errorf("%s is retried by the table, and nothing here fails with it", row.Code)
			}
			continue
		}
		t.Run(string(row.Code), func(t *testing.T) {
			t.Parallel()
			fail := failed(t, way.script, way.limits)
			if fail.Code != string(row.Code) {
				t.Fatalf("it fails with %v", fail)
			}
			f := &scripted{replies: []Reply{{Failure: fail}, {Failure: fail}, {}}}
			again := 0
			a := Policy{Again: func(*flow.Failure) bool { again++; return again < 2 }}
			waited := row.Code == trellis.RateLimited || row.Code == trellis.ProviderDown
			if waited {
				f.replies[1] = Reply{} // waited for as often as it takes, without using up an attempt
			}
			_, err := a.Call(f, Request{Role: trellis.Accept})
			calls, want := len(f.asked), 1
			if row.Retried || waited {
				want = 2
			}
			if calls != want || row.Retried != (again > 0) || (err == nil) != waited {
				t.Errorf("%d calls, %d attempts asked for, %v; the table says %+v", calls, again, err, row)
			}
		})
	}
}

// failed returns the failure of an agent whose program is this script.
func failed(t *testing.T, script string, l agents.Limits) *flow.Failure {
	dir := t.TempDir()
	file := filepath.Join(dir, "agent.sh")
	if err := os.WriteFile(file, []byte("cat > /dev/null\n"+script+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := agents.New("mine", agents.Options{Environ: os.Environ(), Root: dir, Commands: map[string]agents.Command{"mine": {Argv: []string{"sh", file}, Output: "events"}}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = a.Run(context.Background(), agents.Request{Role: trellis.Accept, Prompt: "go", Dir: dir, RunDir: dir, Permission: trellis.PermitRead, Limits: l}, nil)
	fail := flow.AsFailure(fmt.Errorf("%w", err))
	fail.At = time.Now()
	return fail
}
