package agentcall

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// forgetful is an agent that does not know a session that it is given, or fails with another code.
type forgetful struct {
	asked []string // the sessions of its calls
	code  trellis.Code
	used  int64
}

func (a *forgetful) Run(_ context.Context, r agents.Request, emit func(agents.Event)) (*agents.Result, error) {
	a.asked = append(a.asked, r.Session)
	if r.Session != "" {
		return &agents.Result{Usage: trellis.Usage{InputTokens: a.used}}, &flow.Failure{Code: string(a.code)}
	}
	emit(agents.Event{Kind: agents.EventSession, Session: "new"})
	return &agents.Result{Session: "new"}, nil
}

// A session that the program had not saved is begun again, and no other call is made twice.
func TestSessionThatIsNotThere(t *testing.T) {
	for name, c := range map[string]struct {
		agent forgetful
		anew  bool
		want  string
	}{
		"not there":       {forgetful{code: trellis.AgentExit}, true, "old,"},
		"worked":          {forgetful{code: trellis.AgentExit, used: 7}, true, "old"},
		"not signed in":   {forgetful{code: trellis.AgentAuth}, true, "old"},
		"given by others": {forgetful{code: trellis.AgentExit}, false, "old"},
	} {
		listened := 0
		listen := func() func(agents.Event) { listened++; return func(agents.Event) {} }
		res, err := interruptedEntry{mayRestart: c.anew}.run(t.Context(), &c.agent, agents.Request{Session: "old"}, listen)
		if got := strings.Join(c.agent.asked, ","); got != c.want || listened != len(c.agent.asked) || (err == nil) != (res.Session == "new") {
			t.Errorf("%s: asked %q, listened %d, got %+v, %v", name, got, listened, res, err)
		}
	}
}

// The prompt of a call that is entered again quotes the end of its record.
func TestResumption(t *testing.T) {
	base := t.TempDir()
	if got := resumption(base, 1, Request{Agent: agents.Claude}, ""); got != "" {
		t.Errorf("the first entry: got %q", got)
	}
	if got := resumption(base, 2, Request{Agent: agents.Claude}, "s-1"); got != resumeNotice {
		t.Errorf("no record: got %q", got)
	}
	stream := `{"type":"assistant","message":{"content":[{"type":"tool_use","name":"Bash","input":{"command":"make one"}}]}}` + "\n"
	stream += strings.Repeat(stream, 20) + strings.Replace(stream, "one", "`two`", 1) + `{"type":"assistant","mess`
	if err := os.MkdirAll(filepath.Join(base, "1"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(base, "1", "stream.jsonl"), []byte(stream), 0o600); err != nil {
		t.Fatal(err)
	}
	got := resumption(base, 2, Request{Agent: agents.Claude}, "")
	if !strings.HasPrefix(got, resumeNotice) || strings.Count(got, "- Bash `make one`\n") != maxLastSteps-1 || !strings.Contains(got, "- Bash `make 'two'`\n") {
		t.Errorf("got %q", got)
	}
}
