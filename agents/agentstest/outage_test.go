package agentstest_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/agents/agentstest"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// opencode prints nothing on standard output while it waits for its provider. Its log says why it waits, and a run that is ended
// for its silence fails with that reason; once opencode has continued, silence is silence again (edge A6).
func TestOpenCodeWaits(t *testing.T) {
	t.Parallel()
	limited := get(t, "testdata", "opencode", "waits.stderr.log")
	for name, c := range map[string]struct {
		complaints string
		goesOn     bool
		want       trellis.Code
	}{
		"a limit":            {limited, false, trellis.RateLimited},
		"an outage":          {get(t, "testdata", "opencode", "provider-down.stderr.log"), false, trellis.ProviderDown},
		"a limit that ended": {limited, true, trellis.TimeoutIdle},
		"another error":      {strings.ReplaceAll(limited, `"stream error"`, `"lsp"`), false, trellis.TimeoutIdle},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "complaints")
			put(t, file, c.complaints, 0o600)
			program := fake{before: "cat '" + file + "' >&2"}
			if c.complaints == limited || c.want == trellis.ProviderDown {
				program.before += "\n" + untilNoticed
			}
			if c.goesOn {
				program.stream = `{"type":"step_start","timestamp":1,"sessionID":"s","part":{"type":"step-start"}}` + "\n"
			}
			g := struck(t, agents.OpenCode, program, idle)
			if f := failure(t, g.err); f.Code != string(c.want) {
				t.Errorf("got %v, want %s", f, c.want)
			}
		})
	}
}

// The last line that opencode logs counts even if opencode ended in the middle of it.
func TestOpenCodeEndsInALine(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "complaints")
	put(t, file, strings.TrimRight(get(t, "testdata", "opencode", "waits.stderr.log"), "\n"), 0o600)
	g := try(t, agents.OpenCode, fake{before: "cat '" + file + "' >&2", exit: 1}, nothing)
	if f := failure(t, g.err); f.Code != string(trellis.RateLimited) {
		t.Errorf("got %v, want %s", f, trellis.RateLimited)
	}
}

// codex would reconnect five times, each time with requests of its own that are retried: it is ended before that, with
// what the provider says (edge A6).
func TestCodexReconnects(t *testing.T) {
	began := time.Now()
	g := try(t, agents.Codex, fake{stream: get(t, "testdata", "codex", "reconnects.jsonl"), after: "sleep 3000"}, nothing)
	f := failure(t, g.err)
	if f.Code != string(trellis.ProviderDown) || !strings.Contains(f.Detail, "high demand") || time.Since(began) > agentstest.Hang {
		t.Errorf("got %v after %s", f, time.Since(began))
	}
}

// The provider's words about a request that it rejects are the message, and the request is not retried (edge A13).
func TestRefusedRequests(t *testing.T) {
	for _, cli := range []string{agents.Claude, agents.Codex, agents.OpenCode} {
		g := try(t, cli, fake{stream: recorded(t, cli, "invalid"), exit: 1}, nothing)
		f := (*flow.Failure)(nil)
		if !errors.As(g.err, &f) || f.Retryable || f.Code != string(trellis.AgentExit) || !strings.Contains(f.Detail, "tools.3: bad schema") || strings.Contains(f.Detail, "{") {
			t.Errorf("%s: got %+v", cli, f)
		}
	}
}

// What a program complained about is in the message once, in its own words, whatever its log adds to them (edge A10).
func TestComplaintsAreShort(t *testing.T) {
	file := filepath.Join(t.TempDir(), "complaints")
	log := strings.ReplaceAll(get(t, "testdata", "opencode", "invalid.stderr.log"), `"stream error"`, `"another error"`) // which is not an error to wait for
	put(t, file, log+strings.Repeat("warning: deprecated\n", 200), 0o600)
	g := try(t, agents.OpenCode, fake{before: "cat '" + file + "' >&2", exit: 1, stream: "{}\n"}, nothing)
	if f := failure(t, g.err); f.Detail != "exit 1: tools.3: bad schema\nwarning: deprecated" {
		t.Errorf("got %q", f.Detail)
	}
}
