package agentstest_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/agents/agentstest"
	"github.com/trellis-tasks/trellis/agents/modelserver"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// models has the model's script for each behaviour.
var models = map[agentstest.Behaviour]modelserver.Script{
	agentstest.Answers: modelserver.Play(
		modelserver.Turn{Text: "I begin.", Calls: []modelserver.Call{modelserver.Shell("cat suite.env; echo $SUITE_API_KEY > made.txt")}, Usage: modelserver.Usage{Input: 1000, Output: 20, Cached: 50}},
		modelserver.Turn{Calls: []modelserver.Call{modelserver.Write("written by tool.txt", "it's 'quoted'\n")}},
		modelserver.Turn{Text: agentstest.Text},
	),
	agentstest.AnswersJSON: modelserver.Play(modelserver.Turn{Text: agentstest.JSON}),
	agentstest.NotUTF8:     modelserver.Play(modelserver.Turn{Text: agentstest.Text}),
	agentstest.Empty:       modelserver.Play(modelserver.Turn{}),
	agentstest.Garbage:     modelserver.Play(modelserver.Turn{Garbage: true}),
	agentstest.Silent:      modelserver.Play(modelserver.Turn{Text: "half of it", Hang: true}),
	agentstest.Works:       modelserver.Play(modelserver.Turn{Calls: []modelserver.Call{modelserver.Shell("sh work.sh")}}),
	agentstest.Escapes: modelserver.Play(
		modelserver.Turn{Calls: []modelserver.Call{modelserver.Shell("sh escape.sh")}},
		modelserver.Turn{Text: agentstest.Text},
	),
	agentstest.RateLimited:  modelserver.Play(modelserver.Turn{Fail: &modelserver.Fail{Status: 429, Code: "usage_limit_reached", Message: "slow down", RetryAfter: time.Hour}}),
	agentstest.Unauthorized: modelserver.Play(modelserver.Turn{Fail: &modelserver.Fail{Status: 401, Message: "bad key"}}),
	agentstest.Down:         modelserver.Play(modelserver.Turn{Fail: &modelserver.Fail{Status: 500, Message: "boom"}}),
	agentstest.Exhausted:    modelserver.Play(modelserver.Turn{Fail: &modelserver.Fail{Status: 429, Code: "insufficient_quota", Message: "You exceeded your current quota, please check your plan and billing details."}}),
	agentstest.Invalid:      modelserver.Play(modelserver.Turn{Fail: &modelserver.Fail{Status: 400, Message: "tools.3: bad schema"}}),
	agentstest.Refused: modelserver.Play(
		modelserver.Turn{Calls: []modelserver.Call{modelserver.Shell("echo no > refused.txt")}},
		modelserver.Turn{Calls: []modelserver.Call{modelserver.Write("refused.txt", "no")}},
		modelserver.Turn{Text: agentstest.Text},
	),
	agentstest.Spends: modelserver.Play(
		modelserver.Turn{Text: "I begin.", Calls: []modelserver.Call{modelserver.Shell("echo x")}, Usage: modelserver.Usage{Input: 5000, Output: 20}, Delay: 100 * time.Millisecond},
	),
}

// overflows are each provider's words for a prompt that is too long.
var overflows = map[string]modelserver.Fail{
	agents.Claude:     {Status: 400, Message: "prompt is too long: 208310 tokens > 200000 maximum"},
	agents.Codex:      {Status: 400, Code: "context_length_exceeded", Message: "Your input exceeds the context window of this model."},
	agentstest.Gemini: {Status: 400, Message: "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."},
	agents.OpenCode:   {Status: 400, Code: "context_length_exceeded", Message: "This model's maximum context length is 128000 tokens."},
}

func model(cli string, b agentstest.Behaviour) modelserver.Script {
	if b == agentstest.Overflow {
		f := overflows[cli]
		return modelserver.Play(modelserver.Turn{Fail: &f})
	}
	return models[b]
}

// real returns a real program with a scripted model.
func real(cli string) agentstest.Subject {
	return agentstest.Subject{
		Parallel: true,
		Skip:     noModel(),
		Stage: func(t *testing.T, b agentstest.Behaviour) agentstest.Stage {
			server, err := modelserver.New(model(cli, b))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(server.Close)
			env := agentstest.RealEnv(t, cli, server.URL)
			if cli == agents.Claude && b == agentstest.RateLimited {
				env = append(env, "ANTHROPIC_API_KEY=", "CLAUDE_CODE_OAUTH_TOKEN=dummy-0123456789") // only an account has a rate limit that ends
			}
			if cli == agents.OpenCode && b == agentstest.Answers && soak.Asked() {
				settleIn(t, env)
			}
			a, err := agents.New(cli, agents.Options{Environ: env})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if s := server.Strange(); len(s) > 0 {
					t.Errorf("the program asked for %q", s)
				}
			})
			return agentstest.Stage{Agent: a, Dir: workplace(t), Heard: func() (string, bool) { return heard(server) }, Resumed: func(string) bool { return resumed(server) }}
		},
	}
}

// noModel returns behaviours that no model can cause; the same adapter is tested for them with a recorded program.
func noModel() map[agentstest.Behaviour]string {
	skip := map[agentstest.Behaviour]string{}
	for _, b := range []agentstest.Behaviour{agentstest.Hangs, agentstest.Crashes, agentstest.Exits, agentstest.Babbles, agentstest.Plods, agentstest.Deaf,
		agentstest.Asks, agentstest.Floods, agentstest.Complains, agentstest.LongLine, agentstest.ManyEvents, agentstest.Mute} {
		skip[b] = "no model makes the program do that"
	}
	skip["permissions"] = "its arguments have a test of their own"
	return skip
}

// settleIn lets opencode create its database: two first runs in one home at the same time fail because of that now and then,
// which is not the adapter's concern.
func settleIn(t *testing.T, env []string) {
	t.Helper()
	cmd := exec.Command(filepath.Join(agentstest.Programs(t, agents.OpenCode), "opencode"), "session", "list")
	cmd.Dir, cmd.Env = t.TempDir(), env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("opencode session list: %v\n%s", err, out)
	}
}

func heard(s *modelserver.Server) (string, bool) {
	all := s.Requests()
	if len(all) == 0 {
		return "", false
	}
	return all[len(all)-1].Prompt, true
}

// resumed reports whether the last request contains the prompt and the first answer of the session.
func resumed(s *modelserver.Server) bool {
	all := s.Requests()
	last := string(all[len(all)-1].Raw)
	return strings.Contains(last, all[0].Prompt) && strings.Contains(last, "I begin.")
}

// workplace returns a directory to work in, with what the tools of the scripts need.
func workplace(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"work.sh": agentstest.WorkScript, "escape.sh": agentstest.EscapeScript, "suite.env": agentstest.Secret + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// seldom leaves behaviours to TRELLIS_SOAK: each needs a start of the program, which computes for up to five seconds, for an answer
// of the model that the adapter also gets as a recorded one in every run of the tests.
func seldom(s agentstest.Subject, behaviours ...agentstest.Behaviour) agentstest.Subject {
	for _, b := range behaviours {
		if !soak.Asked() {
			s.Skip[b] = "a start of the program for what its recorded streams show too: TRELLIS_SOAK=1 has it made"
		}
	}
	return s
}

// alike are such behaviours: what a provider said and the program passes on, what any child process of ours does, and an answer that
// is also the first of the two of "resumes".
var alike = []agentstest.Behaviour{"two-at-once", agentstest.NotUTF8, agentstest.Empty, agentstest.Garbage, agentstest.Silent, agentstest.Unauthorized, agentstest.Down,
	agentstest.Exhausted, agentstest.Invalid, agentstest.Overflow, agentstest.Spends, agentstest.Escapes}

func TestClaude(t *testing.T) { agentstest.Run(t, seldom(real(agents.Claude), alike...)) }

func TestClaudeStopsAtItsBudget(t *testing.T) {
	t.Parallel()
	st := real(agents.Claude).Stage(t, agentstest.Spends)
	r := agents.Request{Role: trellis.Implement, Prompt: "do it", Dir: st.Dir, Permission: trellis.PermitEdit, RunDir: t.TempDir(),
		Limits: agents.Limits{CostUSD: 0.06, Wall: agentstest.Hang}}
	res, err := st.Agent.Run(t.Context(), r, nil)
	if !errors.Is(err, &flow.Failure{Code: string(trellis.BudgetCost)}) || res.Usage.CostUSD == nil {
		t.Errorf("got %+v, %v, want %s", res, err, trellis.BudgetCost)
	}
}

func TestCodex(t *testing.T) {
	t.Parallel()
	s := seldom(real(agents.Codex), alike...)
	s.Untold = []string{"cost"}
	agentstest.Run(t, s)
}

// opencode, which computes for five seconds at each start, answers and resumes its session. TestLongPrompt of ./e2e shows that
// a long prompt reaches it.
func TestOpenCode(t *testing.T) {
	t.Parallel()
	s := seldom(real(agents.OpenCode), append(slices.Clone(alike), agentstest.Refused, agentstest.Works, "big-prompt")...)
	for _, b := range []agentstest.Behaviour{agentstest.AnswersJSON, agentstest.NotUTF8, agentstest.Empty, agentstest.Overflow, agentstest.Spends, agentstest.Invalid, "wall"} {
		s.Skip[b] = "seconds of start-up for what TestRecordedOpenCode shows too"
	}
	s.Skip[agentstest.RateLimited] = "opencode does not say how long it waits; see TestOpenCodeWaits"
	s.Skip[agentstest.Down] = "opencode tries for a minute; see TestRecordedOpenCode"
	agentstest.Run(t, s)
}
