package agentstest_test

import (
	"slices"
	"testing"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/agents/agentstest"
	"github.com/trellis-tasks/trellis/agents/modelserver"
)

// gemini is Gemini CLI, which speaks the Agent Client Protocol.
func gemini(t *testing.T, script modelserver.Script) (agentstest.Stage, *modelserver.Server) {
	t.Helper()
	server, err := modelserver.New(script)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	a, err := agents.New(agentstest.Gemini, agents.Options{
		Environ:  agentstest.RealEnv(t, agentstest.Gemini, server.URL),
		Commands: map[string]agents.Command{agentstest.Gemini: agentstest.GeminiCommand()},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if s := server.Strange(); len(s) > 0 {
			t.Errorf("the program asked for %q", s)
		}
	})
	return agentstest.Stage{Agent: a, Dir: workplace(t), Heard: func() (string, bool) { return heard(server) }}, server
}

func TestGemini(t *testing.T) {
	s := agentstest.Subject{
		Parallel: true, Skip: noModel(), Untold: []string{"session"},
		Stage: func(t *testing.T, b agentstest.Behaviour) agentstest.Stage {
			st, _ := gemini(t, model(agentstest.Gemini, b))
			return st
		},
	}
	agentstest.Run(t, seldom(s, slices.Clone(alike)...))
}
