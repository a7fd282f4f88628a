package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/agents/modelserver"
	"github.com/trellis-tasks/trellis/internal/config"
)

// plans is a model that answers for the role that it is named after.
func plans(r modelserver.Request) modelserver.Turn {
	switch r.Model {
	case "evaluate":
		return modelserver.Turn{Text: `{"decision": "accept", "category": "", "details": "fine", "suggestions": [], "size": "tiny", "confidence": 0.9}`}
	case "research":
		if r.Turns == 0 {
			return modelserver.Turn{Text: "I look.", Calls: []modelserver.Call{{Tool: "read_file", Input: map[string]any{"path": "main.go"}}}}
		}
		return modelserver.Turn{Text: "## implement.jsonl\n- path: main.go, reason: the program\n## check.jsonl\n- path: main.go, reason: the program\n## Suggested Scope\napp\n"}
	}
	if !strings.Contains(string(r.Raw), "this is not valid JSON") {
		return modelserver.Turn{Text: "Well, this is not valid JSON."}
	}
	return modelserver.Turn{Text: `{"title": "Say bye", "summary": "It says bye.", "requirements": ["bye"], "acceptance": [{"criterion": "it says bye", "level": "must", "verify": ""}], "technical_notes": "", "out_of_scope": []}`}
}

// TestPlanningThroughAPIs runs the scripts of testdata/apis with a model server. $MODEL in their config files stands for its address.
func TestPlanningThroughAPIs(t *testing.T) {
	server, err := modelserver.New(plans)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "apis"), RequireExplicitExec: true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"code": code, "repo": repo},
		Setup: func(env *testscript.Env) error {
			path := filepath.Join(env.WorkDir, "config.yaml")
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(text), "$MODEL", server.URL)), 0o666); err != nil {
				return err
			}
			return prepareScript(env)
		},
	})
}

// A model can't have the name of a built-in agent.
func TestNamesOfAgentsAreTaken(t *testing.T) {
	for _, name := range []string{agents.Claude, agents.Codex, agents.OpenCode, agents.Rehearsal} {
		_, problems := config.Load(config.Files{Config: config.File{Name: "config.yaml", Data: []byte("agents: {apis: {" + name + ": {api: openai, model: m}}}")}})
		if len(problems) != 1 || !strings.Contains(problems[0].Message, "name of another agent") {
			t.Errorf("%s: got %v", name, problems)
		}
	}
}
