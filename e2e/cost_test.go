package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/agents/modelserver"
)

// mends is a model whose work fails the check at first, and which reads before it writes.
func mends(r modelserver.Request) modelserver.Turn {
	turn := works(r)
	switch {
	case r.Turns == 0 && (role(r) == "implement" || role(r) == "debug"):
		turn.Calls = []modelserver.Call{look(r)}
	case r.Turns == 1 && role(r) == "implement":
		turn.Calls = []modelserver.Call{modelserver.Shell("echo 'echo Bye' > greet.sh")}
	case r.Turns == 1 && role(r) == "debug":
		turn.Calls = []modelserver.Call{modelserver.Shell("cat > greet.sh <<'END'\n" + changed + "END")}
	case role(r) == "accept":
		turn.Text = `{"criteria":[{"id":"A1","verdict":"met","evidence":"greet.sh:1"}]}`
	}
	return turn
}

// byRole returns the cost of the calls of each role, from request number from on. Earlier requests may be in the provider's cache.
func byRole(t *testing.T, list []modelserver.Request, from int) map[string]spent {
	t.Helper()
	sums := map[string]spent{}
	var before []string
	for i, r := range list {
		text, most := conversation(t, r), 0
		for _, old := range before {
			most = max(most, common(old, text))
		}
		if before = append(before, text); i < from {
			continue
		}
		sum := sums[role(r)]
		sum.Sent, sum.Cached = sum.Sent+len(text), sum.Cached+most
		if r.Turns == 0 {
			sum.Prompts += len(r.Prompt)
		}
		sums[role(r)] = sum
	}
	return sums
}

// What the calls of a task cost by phase, without a plan and with one, and whether a debug call that resumes the session that did
// the work costs less than one in a session of its own.
func TestWhatCallsCost(t *testing.T) {
	for _, cli := range clis {
		t.Run(cli+"/with a plan", func(t *testing.T) {
			t.Parallel()
			seldom(t, cli, "codex", "codex")
			s, server := costly(t, cli, `{"schema_version": 1, "title": "Say bye", "steps": [
 {"id": "add_flag", "prompt": "Let greet.sh say Bye when it is told to.", "verify": "test -s greet.sh"},
 {"id": "run_tests", "command": "sh test.sh", "proof": {"type": "test"}}],
 "acceptance": [{"criterion": "greet.sh --bye says Bye"}]}
`)
			s.trellis(0, "start", "02-01-bye")
			tellCosts(t, cli+" with a plan", server.Requests())
		})
		for name, kept := range map[string]bool{"one session": true, "a session of its own": false} {
			t.Run(cli+"/"+name, func(t *testing.T) {
				t.Parallel()
				seldom(t, cli, "the one with a plan")
				s, server := costly(t, cli, "")
				s.trellis(0, "start", "02-01-bye")
				first := server.Requests()
				tellCosts(t, cli, first)
				s.trellis(0, "retry", "02-01-bye", "--feedback", "Tell of it in README.md.")
				if !kept {
					s.forgetSessions()
				}
				s.trellis(0, "start", "02-01-bye")
				list := server.Requests()
				if goesOn := strings.Count(string(list[len(first)].Raw), "# Your part: debug") > 1; goesOn != kept {
					t.Errorf("debug goes on with what was said before: %v\n%.2000s", goesOn, list[len(first)].Raw)
				}
				c := byRole(t, list, len(first))["debug"]
				t.Logf("%s: debug after people's words in %s: %v, anew %d", cli, name, c, c.Sent-c.Cached)
			})
		}
	}
}

// costly returns a task with long documents and this plan ("" for none), and a model whose first work fails the check.
func costly(t *testing.T, cli, plan string) (*site, *modelserver.Server) {
	t.Helper()
	s, server := scene(t, cli, mends)
	model := map[string]string{"claude": "opus", "codex": "mock-1", "opencode": "mock/mock-1"}[cli] // a session keeps the model that it began with
	s.write(".trellis/config.yaml", fmt.Sprintf("agents: {default: %s, roles: {implement: {model: %[2]s}, check: {model: %[2]s}, debug: {model: %[2]s}, accept: {model: %[2]s}}}\nverify: [sh test.sh]\n", cli, model))
	s.handSteps(plan)
	dir := ".trellis/tasks/02-01-bye/"
	if plan == "" {
		if err := os.Remove(filepath.Join(s.Dir, dir, "plan.json")); err != nil {
			t.Fatal(err)
		}
	}
	s.write(dir+"prd.md", "# Say bye\n\n## Acceptance Criteria\n\n- [ ] greet.sh --bye says Bye\n")
	s.write(dir+"debug.jsonl", s.read(dir+"check.jsonl"))
	return s, server
}

// tellCosts logs a line for each phase: bytes of Trellis' prompts, bytes sent, and those of them that no earlier request began with.
func tellCosts(t *testing.T, what string, list []modelserver.Request) {
	t.Helper()
	costs, all := byRole(t, list, 0), 0
	for _, role := range []string{"implement", "check", "debug", "accept"} {
		c := costs[role]
		if c.Sent == 0 {
			t.Errorf("%s: nothing was sent for %s", what, role)
		}
		if shares := role == "check" || role == "debug"; shares && c.Cached < c.Sent*9/10 {
			t.Errorf("%s: of %d bytes for %s only %d began like an earlier request", what, c.Sent, role, c.Cached)
		}
		all += c.Sent - c.Cached
		t.Logf("| %s | %s | %d | %d | %d | %d %% |", what, role, c.Prompts, c.Sent, c.Sent-c.Cached, 100*c.Cached/max(c.Sent, 1))
	}
	work := costs["implement"].Sent - costs["implement"].Cached
	t.Logf("%s: anew in all %d, %.2f times that of implement", what, all, float64(all)/float64(work))
}

// forgetSessions deletes the sessions that the programs store.
func (s *site) forgetSessions() {
	s.Helper()
	for _, entry := range s.Env {
		home, ok := strings.CutPrefix(entry, "HOME=")
		if !ok {
			continue
		}
		for _, folder := range []string{".claude/projects", ".codex/sessions", ".local/share/opencode"} {
			if err := os.RemoveAll(filepath.Join(home, folder)); err != nil {
				s.Fatal(err)
			}
		}
	}
}
