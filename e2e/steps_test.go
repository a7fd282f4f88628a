package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/agents/modelserver"
	"github.com/trellis-tasks/trellis/internal/soak"
)

// stepOf returns the step that a request asks for, by the title in its prompt, or "" if it asks for none.
func stepOf(r modelserver.Request) string {
	if !strings.Contains(r.Prompt, "# Your part: one step") {
		return ""
	}
	_, rest, _ := strings.Cut(r.Prompt, `<data name="title"`)
	_, rest, _ = strings.Cut(rest, "\n")
	title, _, _ := strings.Cut(rest, "\n")
	return title
}

// asked returns the requests that begin steps, in order.
func asked(server *modelserver.Server) (list []modelserver.Request) {
	for _, r := range server.Requests() {
		if stepOf(r) != "" && r.Turns == 0 {
			list = append(list, r)
		}
	}
	return list
}

// farewell is a model that does the steps of [farewellPlan]. Each step appends its name to ORDER.
func farewell(r modelserver.Request) modelserver.Turn {
	step := stepOf(r)
	line := map[string]string{
		"add_flag":  "cat > greet.sh <<'END'\n" + changed + "END",
		"document":  "echo '`sh greet.sh --bye` says Bye.' >> README.md",
		"test_flag": "echo 'test \"$(sh greet.sh --bye)\" = Bye' >> test.sh",
	}[step]
	if line == "" || r.Turns > 0 {
		return modelserver.Turn{Text: "That was " + step + "."}
	}
	return modelserver.Turn{Text: "I begin " + step + ".", Calls: []modelserver.Call{modelserver.Shell("echo " + step + " >> ORDER; " + line)}}
}

// farewellPlan returns a plan with three prompt steps, the later two with this session setting, a script step after the
// first, and a final step that runs the tests.
func farewellPlan(session string) string {
	return fmt.Sprintf(`{"schema_version": 1, "title": "Say bye", "steps": [
 {"id": "add_flag", "prompt": "Let greet.sh wave when it is told to.", "verify": "sh greet.sh --bye | grep -q Bye"},
 {"id": "note", "command": "echo note >> ORDER"},
 {"id": "document", "prompt": "Tell of it in README.md.", "verify": "grep -q bye README.md", "session": %[1]q},
 {"id": "test_flag", "prompt": "Have test.sh look at it.", "verify": "grep -q bye test.sh", "session": %[1]q},
 {"id": "run_tests", "command": "sh test.sh", "proof": {"type": "test"}}],
 "acceptance": [{"criterion": "it says Bye", "verify": "sh greet.sh --bye | grep -q Bye"}]}
`, session)
}

// guide is the first line of a document that all agents of a handSteps task get to read.
const guide = "# How we write shell scripts"

// handSteps makes a ready task with this plan.
func (s *site) handSteps(plan string) {
	s.Helper()
	s.write("guide.md", guide+"\n\n"+strings.Repeat("- Quote what is expanded, test what can fail, and say what you mean in few words.\n", 150))
	s.run("git", "add", "-A")
	s.run("git", "commit", "-q", "-m", "guide")
	s.hand("02-01-bye")
	dir, row := ".trellis/tasks/02-01-bye/", `{"file": "guide.md", "reason": "how scripts are written"}`+"\n"
	s.write(dir+"prd.md", "# Say bye\n\n## Acceptance Criteria\n\n- [ ] it says Bye\n  verify: `sh greet.sh --bye | grep -q Bye`\n")
	s.write(dir+"implement.jsonl", row)
	s.write(dir+"check.jsonl", row)
	s.write(dir+"plan.json", plan)
}

// farewells runs the steps with this session setting, and returns the requests that began steps and what the steps cost.
func farewells(t *testing.T, cli, session string) (*site, []modelserver.Request, spent) {
	t.Helper()
	s, server := scene(t, cli, farewell)
	model := map[string]string{"claude": "opus", "codex": "mock-1", "opencode": "mock/mock-1"}[cli] // a session keeps the model that it began with
	s.write(".trellis/config.yaml", fmt.Sprintf("agents: {default: %s, roles: {implement: {model: %s}, check: {agent: rehearsal}}}\nverify: [sh test.sh]\n", cli, model))
	s.write(".trellis/rehearsal.yaml", "roles:\n  check: [{answer: fine}]\n")
	s.handSteps(farewellPlan(session))
	s.trellis(0, "start", "02-01-bye")
	s.trellis(0, "verify", "02-01-bye")
	if got := s.run("git", "show", "feature/bye:ORDER"); got != "add_flag\nnote\ndocument\ntest_flag" {
		t.Errorf("%s, %s: the order was %q", cli, session, got)
	}
	list := asked(server)
	if len(list) != 3 {
		t.Fatalf("%s, %s: %d steps were asked for", cli, session, len(list))
	}
	return s, list, spending(t, server)
}

// The prompt steps of a plan share one session, which is sent the documents once; a step that asks for a fresh session
// gets one, and the documents again. The cost of both is logged. The check is played.
func TestSteps(t *testing.T) {
	for _, cli := range clis {
		t.Run(cli, func(t *testing.T) {
			t.Parallel()
			seldom(t, cli, "codex", "codex")
			s, list, one := farewells(t, cli, "continue")
			for _, r := range list[1:] {
				if raw := string(r.Raw); !strings.Contains(raw, "Let greet.sh wave") || !strings.Contains(raw, "I begin add_flag.") || !strings.Contains(raw, guide) {
					t.Errorf("%s does not go on with what was said before:\n%.3000s", stepOf(r), raw)
				}
				if strings.Contains(r.Prompt, guide) {
					t.Errorf("%s tells the documents again:\n%.3000s", stepOf(r), r.Prompt)
				}
			}
			if n := s.sessions(); n != 1 {
				t.Errorf("the proofs are of %d sessions", n)
			}
			s, list, each := farewells(t, cli, "fresh")
			for _, r := range list[1:] {
				if strings.Contains(string(r.Raw), "I begin add_flag.") || !strings.Contains(r.Prompt, guide) {
					t.Errorf("%s goes on with what was said before:\n%.3000s", stepOf(r), r.Raw)
				}
			}
			first, second := conversation(t, list[1]), conversation(t, list[2])
			if begin := first[:common(first, second)]; !strings.Contains(begin, guide) || !strings.Contains(begin, "# The plan") {
				t.Errorf("two fresh steps begin the same with\n%s", begin)
			}
			if n := s.sessions(); n != 3 {
				t.Errorf("the proofs of fresh steps are of %d sessions", n)
			}
			t.Logf("%s, bytes: one session %v; a fresh one each %v", cli, one, each)
			if 2*one.Prompts > each.Prompts {
				t.Errorf("the prompts of one session have %d bytes, those of fresh ones %d", one.Prompts, each.Prompts)
			}
		})
	}
}

// sessions returns the number of sessions that the proofs of prompt steps name.
func (s *site) sessions() int {
	s.Helper()
	seen := map[string]bool{}
	for line := range strings.Lines(s.read(".trellis/tasks/02-01-bye/proofs.jsonl")) {
		var p struct{ Session string }
		if err := json.Unmarshal([]byte(line), &p); err != nil {
			s.Fatal(err)
		}
		if p.Session != "" {
			seen[p.Session] = true
		}
	}
	return len(seen)
}

// spent is what the steps of a task cost, in bytes.
type spent struct {
	Prompts int // in prompts by Trellis
	Sent    int // sent to the model
	Cached  int // of Sent: the bytes with which an earlier request began too
}

func (s spent) String() string {
	return fmt.Sprintf("prompts %d, sent %d, of it cached %d", s.Prompts, s.Sent, s.Cached)
}

// spending adds up the requests for steps.
func spending(t *testing.T, server *modelserver.Server) (sum spent) {
	t.Helper()
	var before []string
	for _, r := range server.Requests() {
		if stepOf(r) == "" {
			continue
		}
		text, most := conversation(t, r), 0
		for _, old := range before {
			most = max(most, common(old, text))
		}
		before = append(before, text)
		sum.Sent, sum.Cached = sum.Sent+len(text), sum.Cached+most
		if r.Turns == 0 {
			sum.Prompts += len(r.Prompt)
		}
	}
	return sum
}

// common returns the length in bytes of the common prefix of two texts.
func common(a, b string) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// conversation returns a request in the order in which a model reads it: tools, system prompt, messages.
func conversation(t *testing.T, r modelserver.Request) string {
	t.Helper()
	var body map[string]any
	if err := json.Unmarshal(r.Raw, &body); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, key := range []string{"tools", "system", "instructions", "messages", "input"} {
		list, ok := body[key].([]any)
		if !ok && body[key] != nil {
			list = []any{body[key]}
		}
		for _, part := range list {
			raw, err := json.Marshal(unmarked(part))
			if err != nil {
				t.Fatal(err)
			}
			b.Write(raw)
		}
	}
	return b.String()
}

// unmarked returns a part as a model sees it: without ids and cache marks, and with one spelling of a text.
func unmarked(v any) any {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "cache_control")
		delete(v, "id")
		for k, in := range v {
			v[k] = unmarked(in)
		}
	case []any:
		for i, in := range v {
			v[i] = unmarked(in)
		}
		if len(v) != 1 {
			return v
		}
		if one, ok := v[0].(map[string]any); ok && len(one) == 2 && one["type"] == "text" {
			return one["text"]
		}
	}
	return v
}

// twoSteps returns farewellPlan without its last prompt step.
func twoSteps() string {
	before, rest, _ := strings.Cut(farewellPlan("continue"), ` {"id": "test_flag"`)
	_, after, _ := strings.Cut(rest, "\n")
	return before + after
}

// A run that is killed in its second prompt step is resumed there: the steps before it are not asked for again, and the
// step is, in the session that it was in. The check is played, as each start of a program takes its time, and with
// claude and opencode the whole test is left to TRELLIS_SOAK.
func TestKilledInAStep(t *testing.T) {
	for _, cli := range clis {
		t.Run(cli, func(t *testing.T) {
			t.Parallel()
			seldom(t, cli, "codex", "codex")
			var once sync.Once
			at := make(chan struct{})
			s, server := scene(t, cli, func(r modelserver.Request) (turn modelserver.Turn) {
				turn = farewell(r)
				if stepOf(r) == "document" && r.Turns == 0 {
					once.Do(func() { turn.Hang = true; close(at) })
				}
				return turn
			})
			s.rehearse("A1")
			s.handSteps(twoSteps())
			cmd, out := s.background("start", "02-01-bye")
			select {
			case <-at:
			case <-time.After(hang):
				t.Errorf("the step was not asked for")
			}
			if err := syscall.Kill(child(t, cmd.Process.Pid), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err == nil {
				t.Errorf("it ended well: %s", out)
			}
			s.gone(t)
			s.trellis(0, "start", "02-01-bye")
			if got := s.run("git", "show", "feature/bye:ORDER"); got != "add_flag\nnote\ndocument" {
				t.Errorf("the order was %q", got)
			}
			var steps []string
			for _, r := range asked(server) {
				steps = append(steps, stepOf(r))
				if stepOf(r) == "document" && !strings.Contains(string(r.Raw), "I begin add_flag.") {
					t.Errorf("it was asked for in another session:\n%.3000s", r.Raw)
				}
			}
			if got := strings.Join(steps, " "); got != "add_flag document document" {
				t.Errorf("asked for were %s", got)
			}
			if n := len(strings.Split(strings.TrimSpace(s.read(".trellis/tasks/02-01-bye/proofs.jsonl")), "\n")); n != 4 {
				t.Errorf("%d proofs, want 2 of prompts, that of the tests, and the last", n)
			}
		})
	}
}

// A long prompt reaches each agent program whole: a megabyte with TRELLIS_SOAK, 140 KB with make test, which is more than an
// argument or a pipe takes. For opencode, which takes five seconds to start, this test also covers the work up to the commit.
func TestLongPrompt(t *testing.T) {
	size := 140 << 10
	if soak.Asked() {
		size = 1000 << 10
	}
	long := strings.Repeat("All of the 25 bytes count.", size/26)
	plan := fmt.Sprintf(`{"schema_version": 1, "title": "Say bye", "steps": [{"id": "add_flag", "prompt": %q, "verify": "sh greet.sh --bye | grep -q Bye"}],
 "acceptance": [{"criterion": "it says Bye", "verify": "sh greet.sh --bye | grep -q Bye"}]}`, "Let greet.sh wave. "+long+" The end.")
	for _, cli := range clis {
		t.Run(cli, func(t *testing.T) {
			t.Parallel()
			seldom(t, cli, "big-prompt of agentstest", "opencode")
			s, server := scene(t, cli, farewell)
			s.rehearse("A1")
			s.handSteps(plan)
			s.trellis(0, "start", "02-01-bye")
			if list := asked(server); len(list) != 1 || !strings.Contains(list[0].Prompt, long+" The end.") {
				t.Errorf("it did not come whole: %d requests", len(list))
			}
			if got := s.run("git", "show", "feature/bye:greet.sh"); got+"\n" != changed {
				t.Errorf("the branch holds %q", got)
			}
		})
	}
	t.Run("command", func(t *testing.T) {
		t.Parallel()
		s := played(t, sleepy)
		s.write("agent.sh", "cat > $TRELLIS_REPO/../prompt-$TRELLIS_ROLE\ncat > greet.sh <<'END'\n"+changed+"END\necho done\n")
		s.write(".trellis/config.yaml", "agents: {default: mine, commands: {mine: {command: [sh, ./agent.sh]}}}\nverify: [sh test.sh]\n")
		s.handSteps(plan)
		s.trellis(0, "start", "02-01-bye")
		if got := s.read("../prompt-implement"); !strings.Contains(got, long+" The end.") {
			t.Errorf("it did not come whole: %d bytes", len(got))
		}
	})
}

// playedSteps returns a task whose plan is played: a script, a wait for a person, a prompt, and a step that runs the tests.
func playedSteps(t *testing.T) *site {
	t.Helper()
	s := played(t, "roles:\n  implement: [{files: {greet.sh: "+fmt.Sprintf("%q", changed)+"}, answer: done}]\n  check: [{answer: fine}]\n")
	s.handSteps(`{"schema_version": 1, "title": "Say bye", "steps": [
 {"id": "note", "command": "echo bye > NOTES", "proof": {"type": "file", "path": "NOTES"}},
 {"id": "ask", "type": "approval", "title": "Shall it say bye?"},
 {"id": "add_flag", "prompt": "Let greet.sh wave.", "verify": "sh greet.sh --bye | grep -q Bye"},
 {"id": "run_tests", "command": "sh test.sh", "proof": {"type": "test"}}],
 "acceptance": [{"criterion": "it says Bye", "verify": "sh greet.sh --bye | grep -q Bye"}]}
`)
	return s
}

// A run waits at a step for a person, every command that shows the task says so, and the run continues after an approval.
func TestStepWaits(t *testing.T) {
	t.Parallel()
	s := playedSteps(t)
	if _, errs := s.trellis(8, "start", "02-01-bye"); !strings.Contains(errs, "02-01-bye waits for approval of the step ask; next: trellis approve 02-01-bye --step ask") {
		t.Errorf("start said\n%s", errs)
	}
	out, _ := s.trellis(0, "status", "02-01-bye")
	for _, want := range []string{"steps     1 of 3 done, ask waits for people\n", "waits for approval of step ask: Shall it say bye?\n", "next      trellis approve 02-01-bye --step ask"} {
		if !strings.Contains(out, want) {
			t.Errorf("status says\n%s\nwant %q", out, want)
		}
	}
	s.trellis(8, "watch", "--once")
	s.trellis(0, "approve", "02-01-bye", "--step", "ask", "--by", "ann")
	if out, _ := s.trellis(0, "status", "02-01-bye"); !strings.Contains(out, "next      trellis start 02-01-bye") {
		t.Errorf("after the yes status says\n%s", out)
	}
	s.trellis(0, "start", "02-01-bye")
	report, _, _ := strings.Cut(s.read(".trellis/tasks/02-01-bye/report.md"), "## Checks")
	if _, steps, _ := strings.Cut(report, "## Steps"); !strings.Contains(steps, "| 3 | 0 | 0 | 0 | 0 |") || !strings.Contains(steps, "`trellis verify 02-01-bye`") {
		t.Errorf("report.md says\n%s", report)
	}
	if out, _ := s.trellis(0, "logs", "02-01-bye"); !strings.Contains(out, "add_flag/implement: rehearsal works: Let greet.sh wave.") {
		t.Errorf("the log is\n%s", out)
	}
}

// A delivered task verifies until a record, the plan or the branch is changed.
func TestVerify(t *testing.T) {
	t.Parallel()
	s := playedSteps(t)
	dir := ".trellis/tasks/02-01-bye/"
	s.write(dir+"approvals.jsonl", `{"step": "ask", "decision": "approve", "by": "ann"}`+"\n")
	s.trellis(0, "start", "02-01-bye")
	proofs, plan, head := s.read(dir+"proofs.jsonl"), s.read(dir+"plan.json"), s.run("git", "rev-parse", "feature/bye")
	if out, errs := s.trellis(0, "verify", "02-01-bye"); !strings.Contains(proofs, out) || !strings.HasPrefix(out, "sha256:") || !strings.Contains(errs, "4 of 4 steps") {
		t.Errorf("verify says %q\n%s", out, errs)
	}
	for name, c := range map[string]struct {
		change func()
		want   string
	}{
		"a flipped byte":  {func() { s.write(dir+"proofs.jsonl", strings.Replace(proofs, `"exit":0`, `"exit":1`, 1)) }, "proofs.jsonl:1: damaged: "},
		"a line less":     {func() { s.write(dir+"proofs.jsonl", proofs[strings.IndexByte(proofs, '\n')+1:]) }, "proofs.jsonl:1: broken: "},
		"an edited plan":  {func() { s.write(dir+"plan.json", strings.Replace(plan, "Let greet.sh wave", "Let greet.sh sing", 1)) }, "stale: "},
		"a moved branch":  {func() { s.run("git", "branch", "-f", "feature/bye", "main") }, "stale: the branch moved"},
		"no final record": {func() { s.write(dir+"proofs.jsonl", proofs[:strings.LastIndexByte(strings.TrimSpace(proofs), '\n')+1]) }, "missing: "},
	} {
		s.run("git", "-C", s.beside("bye"), "checkout", "-q", "--detach") // otherwise the branch can't be moved
		c.change()
		if out, errs := s.trellis(3, "verify", "02-01-bye"); !strings.Contains(out+errs, c.want) {
			t.Errorf("%s: verify says\n%s%s\nwant %q", name, out, errs, c.want)
		}
		s.write(dir+"proofs.jsonl", proofs)
		s.write(dir+"plan.json", plan)
		s.run("git", "branch", "-f", "feature/bye", head)
		s.trellis(0, "verify", "02-01-bye")
	}
}
