package mcpserver_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/agents/agentstest"
	"github.com/trellis-tasks/trellis/agents/modelserver"
)

// realClient is a program of another vendor that reads its prompt from standard input.
type realClient struct {
	args   []string
	prefix string // prefix of the tools' names in what the model gets
}

var realClients = map[string]realClient{
	agents.Claude:   {[]string{"-p", "--output-format", "stream-json", "--verbose", "--model", "mock-1", "--allowedTools", "mcp__trellis"}, "mcp__trellis__"},
	agents.Codex:    {[]string{"exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "-"}, "mcp__trellis."},
	agents.OpenCode: {[]string{"run", "--format", "json", "--title", "t"}, "trellis_"},
}

func TestClaude(t *testing.T)   { realSession(t, agents.Claude) }
func TestCodex(t *testing.T)    { realSession(t, agents.Codex) }
func TestOpenCode(t *testing.T) { realSession(t, agents.OpenCode) }

// session is a model that calls the server's tools one after the other, inside a run.
type session struct {
	prefix string
	mu     sync.Mutex
	tools  []string // tools that were offered
	said   []string // results of the calls
}

func (s *session) turn(r modelserver.Request) modelserver.Turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tools, s.said = r.Tools, r.ToolResults
	hash := ""
	if r.Turns == 4 {
		if m := regexp.MustCompile(`hash\\*":\\*"([^"\\]+)`).FindStringSubmatch(r.ToolResults[3]); m != nil {
			hash = m[1]
		}
	}
	calls := []modelserver.Call{
		{Tool: "task_list", Input: map[string]any{}},
		{Tool: "task_plan", Input: map[string]any{"requirement": "Say hello in hello.txt.", "name": "said", "type": "docs"}},
		{Tool: "task_logs", Input: map[string]any{"task": "02-01-hello"}},
		{Tool: "task_review", Input: map[string]any{"task": "02-01-hello"}},
		{Tool: "task_approve", Input: map[string]any{"task": "02-01-hello", "hash": hash}},
	}
	if r.Turns >= len(calls) {
		return modelserver.Turn{Text: "All done."}
	}
	call := calls[r.Turns]
	call.Tool = s.prefix + call.Tool
	return modelserver.Turn{Calls: []modelserver.Call{call}}
}

// realSession has a real program, configured by trellis mcp install, list the tools and call them inside a run: reading and planning work,
// and an approval is refused.
func realSession(t *testing.T, name string) {
	self := built(t)
	model := &session{prefix: realClients[name].prefix}
	server, err := modelserver.New(model.turn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	w := newWorld(t, map[string]string{".trellis/rehearsal.yaml": script})
	w.planned("02-01-hello", prd)
	w.vars = agentstest.RealEnv(t, name, server.URL)
	trellis := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(self, args...)
		cmd.Dir, cmd.Env = w.Dir, w.vars
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("trellis %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	trellis("trust", "--settings", "--yes")
	trellis("mcp", "install", name, "--yes")
	offerAll(t, w.vars)

	cmd := exec.Command(filepath.Join(agentstest.Programs(t, name), name), realClients[name].args...)
	cmd.Dir, cmd.Env = w.Dir, append(slices.Clone(w.vars), "TRELLIS_RUN_MARKER=run-of-this-test", "PWD="+w.Dir,
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1", "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_AUTOUPDATE=1",
		"OPENCODE_DISABLE_LSP_DOWNLOAD=1", "OPENCODE_DISABLE_DEFAULT_PLUGINS=1", "npm_config_registry=http://127.0.0.1:1/",
		"MCP_CONNECT_TIMEOUT_MS=120000", "MCP_TIMEOUT=120000") // without these, claude asks its model without the tools of a server that takes longer than 5 s
	cmd.Stdin, cmd.WaitDelay = strings.NewReader("Work with the tasks.\n"), 10*time.Second
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "All done.") {
		t.Errorf("%s ended with %v:\n%s", name, err, out)
	}
	model.mu.Lock()
	defer model.mu.Unlock()
	for _, tool := range []string{"task_list", "task_show", "task_logs", "task_plan", "task_review", "task_approve", "task_reject", "task_control", "objective_next"} {
		if !slices.Contains(model.tools, model.prefix+tool) {
			t.Errorf("%s does not offer %s: %q", name, tool, model.tools)
		}
	}
	want := []string{"02-01-hello", "planning", `lines`, "Say hello", "inside a task or a run: only a person can approve or reject"}
	for i, one := range want {
		if i >= len(model.said) || !strings.Contains(model.said[i], one) {
			t.Fatalf("call %d: got %q, want %q\n%s", i, model.said, one, out)
		}
	}
	if doc := w.Read(".trellis/tasks/02-01-hello/task.json"); !strings.Contains(doc, `"waiting"`) {
		t.Errorf("the task was decided about: %s", doc)
	}
	var tasks []struct{ Name string }
	for end := time.Now().Add(15 * time.Minute); len(tasks) < 2 && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if err := json.Unmarshal([]byte(trellis("list", "--status", "waiting", "--json")), &tasks); err != nil {
			t.Fatal(err)
		}
	}
	if len(tasks) < 2 {
		t.Errorf("got %v, want the plan of this session too", tasks)
	}
	trellis("mcp", "install", name, "--undo", "--yes")
	if said := trellis("mcp", "install", name, "--undo"); !strings.Contains(said, "does not have the server") {
		t.Errorf("it is still there: %s", said)
	}
}

// offerAll has the installed server offer all tools, as a person does by editing the settings.
func offerAll(t *testing.T, env []string) {
	t.Helper()
	home := ""
	for _, kv := range env {
		if value, is := strings.CutPrefix(kv, "HOME="); is {
			home = value
		}
	}
	found := 0
	for _, name := range []string{".claude/.claude.json", ".codex/config.toml", ".config/opencode/opencode.json"} {
		file := filepath.Join(home, name)
		data, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		last := regexp.MustCompile(`"mcp"(\s*\])`)
		found += len(last.FindAll(data, -1))
		if err := os.WriteFile(file, last.ReplaceAll(data, []byte(`"mcp", "--tools", "all"$1`)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if found != 1 {
		t.Fatalf("the server stands %d times in the settings below %s", found, home)
	}
}
