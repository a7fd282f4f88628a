package agentstest_test

import (
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/agents/agentstest"
	"github.com/trellis-tasks/trellis/agents/modelserver"
)

func read(path string) modelserver.Call {
	return modelserver.Call{Tool: "read_file", Input: map[string]any{"path": path}}
}

// asked has the scripts of behaviours for which a model that is asked directly does something else than one behind a
// program.
var asked = map[agentstest.Behaviour]modelserver.Script{
	agentstest.Answers: modelserver.Play(
		modelserver.Turn{Text: "I begin.", Calls: []modelserver.Call{read("suite.env"), {Tool: "list_files"}}, Usage: modelserver.Usage{Input: 1000, Output: 20, Cached: 50}},
		modelserver.Turn{Calls: []modelserver.Call{{Tool: "search", Input: map[string]any{"text": "sleep"}}}},
		modelserver.Turn{Text: agentstest.Text},
	),
	agentstest.Hangs:        modelserver.Play(modelserver.Turn{Text: agentstest.Text, Stay: true}),
	agentstest.Unauthorized: modelserver.Play(modelserver.Turn{Fail: &modelserver.Fail{Status: 401, Message: "bad key " + agentstest.Secret}}),
	agentstest.Spends: modelserver.Play(
		modelserver.Turn{Text: "I begin.", Calls: []modelserver.Call{read("work.sh")}, Usage: modelserver.Usage{Input: 5000, Output: 20}, Delay: 20 * time.Millisecond},
	),
}

// wires are the protocols, each with a program whose provider's words for a prompt that is too long are used.
var wires = map[string]string{agents.Anthropic: agents.Claude, agents.OpenAI: agents.OpenCode}

func script(api string, b agentstest.Behaviour) modelserver.Script {
	if s, own := asked[b]; own {
		return s
	}
	return model(wires[api], b)
}

// direct returns an agent that asks a server by the protocol api.
func direct(t *testing.T, api, url string) agents.Agent {
	t.Helper()
	if api == agents.OpenAI {
		url += "/v1"
	}
	a, err := agents.New("mine", agents.Options{
		Environ: []string{"SUITE_API_KEY=" + agentstest.Secret, "HTTP_PROXY=http://127.0.0.1:1"},
		APIs:    map[string]agents.API{"mine": {Kind: api, Model: "mock-1", BaseURL: url, KeyEnv: "SUITE_API_KEY"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func serve(t *testing.T, s modelserver.Script) *modelserver.Server {
	t.Helper()
	server, err := modelserver.New(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	t.Cleanup(func() {
		if s := server.Strange(); len(s) > 0 {
			t.Errorf("it asked for %q", s)
		}
	})
	return server
}

// noProgram returns the behaviours to skip, with the reason: only programs have them.
func noProgram() map[agentstest.Behaviour]string {
	skip := noModel()
	delete(skip, agentstest.Hangs)
	skip[agentstest.Works] = "it starts no processes; see TestAPIIsCancelled"
	for _, b := range []agentstest.Behaviour{agentstest.Crashes, agentstest.Exits, agentstest.Escapes} {
		skip[b] = "there is no program that could do that"
	}
	return skip
}

func TestAPIs(t *testing.T) {
	t.Parallel()
	for api := range wires {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			agentstest.Run(t, agentstest.Subject{
				Parallel: true, Reads: true, Untold: []string{"cost"},
				Skip: noProgram(),
				Stage: func(t *testing.T, b agentstest.Behaviour) agentstest.Stage {
					server := serve(t, script(api, b))
					return agentstest.Stage{
						Agent: direct(t, api, server.URL), Dir: workplace(t),
						Heard:   func() (string, bool) { return heard(server) },
						Resumed: func(string) bool { return resumed(server) },
					}
				},
			})
		})
	}
}
