package agentcall_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/templates"
)

// A refused answer is not sent back into the session that has it, and into another session only as much of it as fits:
// otherwise the repair of a long answer would make the prompt too long (edge A9).
func TestRepairOfALongAnswer(t *testing.T) {
	run := filepath.Join(t.TempDir(), "run")
	if err := os.MkdirAll(run, 0o700); err != nil {
		t.Fatal(err)
	}
	answer := "BEGIN " + strings.Repeat("äußerst long ", 100_000) + " END"
	if err := os.WriteFile(filepath.Join(run, "answer.md"), []byte(answer), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, session := range []string{"", "s-1"} {
		var sent string
		acts := &agentcall.Caller{RunDir: run, Agents: agentcall.Agents{
			Open: func(string) (agents.Agent, error) { return listening{&sent}, nil },
			Render: func(name string, slots map[string]string) (templates.Prompt, error) {
				if name != "repair" {
					return templates.Prompt{Text: "THE REQUEST"}, nil
				}
				return templates.Render(name, slots, "nonce", templates.Override{})
			},
		}, Slots: func(context.Context, flow.Call, agentcall.Request) (map[string]string, []string, error) {
			return nil, nil, nil
		}}
		r := agentcall.Request{Role: trellis.Judge, Schema: "judge", Session: session,
			Repair: &agentcall.Repair{Problems: []string{"/pass: is missing"}, Previous: agentcall.Ref{Path: "answer.md"}}}
		raw, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := acts.Activities(trellis.Judge)[0].Run(t.Context(), flow.Call{Run: "t/1", ID: "judge#2", Attempt: 1}, raw); err != nil {
			t.Fatal(err)
		}
		known := session != ""
		if strings.Contains(sent, "THE REQUEST") == known || strings.Contains(sent, "BEGIN") == known || strings.Contains(sent, "END") == known || !strings.Contains(sent, "/pass: is missing") {
			t.Errorf("session %q: sent %.300q", session, sent)
		}
		if len(sent) > 24<<10 {
			t.Errorf("session %q: the repair has %d bytes", session, len(sent))
		}
	}
}

// A command that can resume a session gets the repair in it; any other command gets the whole prompt again, whatever it reported
// about a session (edge A15).
func TestRepairOfACommand(t *testing.T) {
	for name, session := range map[string][]string{"goes on": {"--resume", "{{session}}"}, "begins again": nil} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			script := `{ printf '%s ' "$@"; cat; } > "` + dir + `/told"; echo '{"type": "session", "session": "s-1"}'; echo '{"type": "result", "text": "no JSON"}'` + "\n"
			if err := os.WriteFile(filepath.Join(dir, "agent.sh"), []byte(script), 0o600); err != nil {
				t.Fatal(err)
			}
			o := agents.Options{Environ: os.Environ(), Root: dir, Commands: map[string]agents.Command{
				"mine": {Argv: []string{"sh", filepath.Join(dir, "agent.sh")}, Session: session, Output: "events"}}}
			acts := &agentcall.Caller{RunDir: filepath.Join(dir, "run"), Agents: agentcall.Agents{
				Open: func(name string) (agents.Agent, error) { return agents.New(name, o) },
				Render: func(name string, slots map[string]string) (templates.Prompt, error) {
					return templates.Prompt{Text: "THE " + name}, nil
				},
			}, Slots: func(context.Context, flow.Call, agentcall.Request) (map[string]string, []string, error) {
				return nil, nil, nil
			}}
			r := agentcall.Request{Role: trellis.Judge, Agent: "mine", Schema: "judge", Dir: dir}
			first := perform(t, acts, "judge#1", r)
			r.Session, r.Repair = first.Session, &agentcall.Repair{Problems: first.Problems, Previous: first.Text}
			perform(t, acts, "judge#2", r)
			told, err := os.ReadFile(filepath.Join(dir, "told"))
			if err != nil {
				t.Fatal(err)
			}
			want := "THE judge\n\nTHE repair"
			if session != nil {
				want = "--resume s-1 THE repair"
			}
			if got := strings.TrimSpace(string(told)); got != want {
				t.Errorf("it was told %q, want %q", got, want)
			}
		})
	}
}

func perform(t *testing.T, acts *agentcall.Caller, id string, r agentcall.Request) agentcall.Reply {
	t.Helper()
	raw, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	reply, err := acts.Activities(r.Role)[0].Run(t.Context(), flow.Call{Run: "t/1", ID: id, Attempt: 1}, raw)
	if err != nil {
		t.Fatal(err)
	}
	return reply.(agentcall.Reply)
}

// listening is an agent that records the prompt that it is sent.
type listening struct{ sent *string }

func (l listening) Run(_ context.Context, r agents.Request, _ func(agents.Event)) (*agents.Result, error) {
	*l.sent = r.Prompt
	return &agents.Result{Text: `{"pass": true, "feedback": ""}`}, nil
}

// A session that has no room left to repair its answer fails because of that answer, and not because of context files (edge A9).
func TestNoRoomForARepair(t *testing.T) {
	acts := &agentcall.Caller{RunDir: filepath.Join(t.TempDir(), "run"), Agents: agentcall.Agents{
		Open:   func(string) (agents.Agent, error) { return full{}, nil },
		Render: func(string, map[string]string) (templates.Prompt, error) { return templates.Prompt{Text: "again"}, nil },
	}}
	raw, err := json.Marshal(agentcall.Request{Role: trellis.Judge, Schema: "judge", Session: "s-1",
		Repair: &agentcall.Repair{Problems: []string{"/pass: is missing"}, Previous: agentcall.Ref{Path: "1/judge#1/1/answer.md"}}})
	if err != nil {
		t.Fatal(err)
	}
	out, err := acts.Activities(trellis.Judge)[0].Run(t.Context(), flow.Call{Run: "t/1", ID: "judge#2", Attempt: 1}, raw)
	if err != nil {
		t.Fatal(err)
	}
	f := out.(agentcall.Reply).Failure
	if f == nil || f.Code != string(trellis.AgentProtocol) || !strings.Contains(f.Detail, "/pass: is missing") || !strings.Contains(f.Detail, "1/judge#1/1/answer.md") {
		t.Errorf("got %+v", f)
	}
}

type full struct{}

func (full) Run(context.Context, agents.Request, func(agents.Event)) (*agents.Result, error) {
	return &agents.Result{ToolCalls: -1}, flow.Fail(string(trellis.ContextOverflow), "prompt is too long")
}
