package workflow_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/workflow"
)

func graded(pass bool, feedback string) agentcall.Reply {
	raw, err := json.Marshal(workflow.Grade{Pass: pass, Feedback: feedback})
	if err != nil {
		panic(err)
	}
	return agentcall.Reply{Answer: raw}
}

// script sets the replies of agents: the nth call of a role gets its nth reply, and later calls the last one.
func (b *bench) script(replies map[string][]agentcall.Reply) {
	n := map[string]int{}
	b.agent = func(q call) agentcall.Reply {
		list := replies[q.Role]
		if len(list) == 0 {
			return agentcall.Reply{Failure: flow.Fail("agent_exit", "nobody plays %s", q.Role)}
		}
		n[q.Role]++
		return list[min(n[q.Role], len(list))-1]
	}
}

func (b *bench) roles() string {
	var list []string
	for _, c := range b.calls {
		list = append(list, c.Role)
	}
	return strings.Join(list, " ")
}

// A graded step is repeated with the grader's feedback until it passes or no attempts are left.
func TestLLMAsJudge(t *testing.T) {
	const step = `{"id": "a", "prompt": "do it", "llm_as_judge": true%s}`
	for name, c := range map[string]struct {
		more    string
		grades  []agentcall.Reply
		state   workflow.State
		roles   string
		detail  string
		lastTry string
	}{
		"passes":            {"", []agentcall.Reply{graded(true, "")}, workflow.Done, "implement grade", "", ""},
		"passes later":      {"", []agentcall.Reply{graded(false, "longer"), graded(true, "")}, workflow.Done, "implement grade implement grade", "", "longer"},
		"never":             {`, "max_judge_attempts": 2`, []agentcall.Reply{graded(false, "longer"), graded(false, "still longer")}, workflow.Failed, "implement grade implement grade", `step "a" failed judge evaluation after 2 attempts: still longer`, "longer"},
		"nobody can answer": {"", []agentcall.Reply{{Failure: flow.Fail("agent_protocol", "prose")}}, workflow.Failed, "implement grade", "nobody could judge it: agent_protocol: prose", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, fmt.Sprintf(step, c.more))
			b.script(map[string][]agentcall.Reply{"implement": {{Text: agentcall.Ref{Path: "answer"}, Session: "s"}}, "grade": c.grades})
			rep, err := b.start(t.Context(), workflow.Options{})
			if err != nil || b.roles() != c.roles || (rep.Done == 1) != (c.state == workflow.Done) {
				t.Errorf("got %+v, %v, asked %s", rep, err, b.roles())
			}
			if c.detail != "" && rep.Worst[0].Detail != c.detail {
				t.Errorf("got %q", rep.Worst[0].Detail)
			}
			if c.lastTry == "" {
				return
			}
			again := b.calls[2]
			if len(again.Data.Tries) != 1 || again.Data.Tries[0] != c.lastTry || again.Data.Before == nil || again.Data.Before.Path != "answer" || again.Session != "s" {
				t.Errorf("asked again with %+v", again)
			}
		})
	}
}

// A command that fails is run again after an agent has fixed the cause, for at most max_healing_attempts runs. The
// output is that of the successful run alone.
func TestSelfHealing(t *testing.T) {
	for name, c := range map[string]struct {
		most, passes int // max_healing_attempts (0: the default); the run in which the command passes, from 1
		heals        int
		state        string
	}{
		"passes at once": {2, 1, 0, "a=done"}, "passes the second time": {2, 2, 1, "a=done"}, "one attempt": {1, 9, 0, "a=failed"}, "two attempts": {2, 9, 1, "a=failed"}, "five by default": {0, 9, 4, "a=failed"},
	} {
		t.Run(name, func(t *testing.T) {
			most := ""
			if c.most > 0 {
				most = fmt.Sprintf(`, "max_healing_attempts": %d`, c.most)
			}
			b := newBench(t, fmt.Sprintf(`{"id": "a", "command": "echo x >> n; wc -l < n; test $(wc -l < n) -ge %d || exit 42", "self_healing": true, "output": "o"%s}`, c.passes, most), `"vars": {"o": "out"}`)
			b.script(map[string][]agentcall.Reply{"heal": {{Excerpt: "changed it"}, {Failure: flow.Fail("agent_exit", "crashed")}}})
			b.do(workflow.Options{})
			if got := b.ends(); got != c.state || len(b.calls) != c.heals {
				t.Errorf("got %s, healed %d times, want %s, %d", got, len(b.calls), c.state, c.heals)
			}
			if c.heals > 1 {
				last := b.calls[c.heals-1].Data
				if len(last.Tries) != c.heals-1 || !strings.Contains(last.Tries[0], "changed it") || !strings.Contains(last.Tries[0], "42") || last.Ran.Code != 42 {
					t.Errorf("the last heal is told %+v", last)
				}
			}
			if want := fmt.Sprintf("%d\n", c.passes); c.state == "a=done" && strings.TrimSpace(b.read("out")) != strings.TrimSpace(want) {
				t.Errorf("out is %q", b.read("out"))
			}
		})
	}
}

// Prompt steps continue the same session, except those with a fresh session and those that run in parallel.
func TestSessions(t *testing.T) {
	replies := map[string][]agentcall.Reply{"implement": {{Session: "one"}, {Session: "two"}, {Session: "three"}, {Session: "four"}}}
	b := newBench(t, `{"id": "a", "prompt": "a"}, {"id": "b", "prompt": "b"}, {"id": "c", "prompt": "c", "session": "fresh"}, {"id": "d", "prompt": "d"}`)
	b.script(replies)
	b.do(workflow.Options{})
	var got []string
	for _, c := range b.calls {
		got = append(got, c.Session)
	}
	if strings.Join(got, ",") != ",one,,three" {
		t.Errorf("sessions %q", got)
	}
	b = newBench(t, `{"id": "a", "prompt": "a", "depends_on": []}, {"id": "b", "prompt": "b", "depends_on": []}`, `"parallel": true`)
	b.script(replies)
	b.do(workflow.Options{})
	for _, c := range b.calls {
		if c.Session != "" {
			t.Errorf("%s went on in %s", c.Path, c.Session)
		}
	}
}

// Steps of groups and loops that run in parallel are counted too.
func TestCounts(t *testing.T) {
	const group = `{"id": "%s", "depends_on": [], "continue_on_error": true, "steps": [{"id": "%[1]sa", "command": "true"}, {"id": "%[1]sb", "command": "exit 1"}, {"id": "%[1]sc", "command": "true"}]}`
	b := newBench(t, fmt.Sprintf(group, "x")+","+fmt.Sprintf(group, "y")+`, {"id": "l", "depends_on": [], "repeat": 3, "concurrency": 3, "steps": [{"id": "in", "command": "true"}]}`, `"parallel": true`)
	if rep := b.do(workflow.Options{}); rep.Steps != 12 || rep.Done != 6 || rep.Failed != 0 || rep.Blocked != 0 || rep.Tolerate != 6 || rep.Failure() != nil {
		t.Errorf("got %+v", rep)
	}
}

// A prompt step that has to write a file must have written it.
func TestPromptOutput(t *testing.T) {
	for name, c := range map[string]struct{ before, after, want string }{
		"new": {"", "x", ""}, "changed": {"x", "y", ""}, "missing": {"", "", "it was to write out, and did not"}, "as before": {"x", "x", "it was to write out, which is as it was before"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, `{"id": "a", "prompt": "write", "output": "o", "verify": "true"}`, `"vars": {"o": "out"}`)
			write := func(s string) {
				if s != "" {
					if err := os.WriteFile(filepath.Join(b.Dir, "out"), []byte(s), 0o644); err != nil {
						t.Fatal(err)
					}
				}
			}
			write(c.before)
			b.agent = func(call) agentcall.Reply { write(c.after); return agentcall.Reply{} }
			rep := b.do(workflow.Options{})
			if got := append(rep.Worst, workflow.Outcome{})[0].Detail; got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// People are asked for approval before a step has any effect; a rejection fails the step.
func TestApprovals(t *testing.T) {
	const steps = `{"id": "ok", "type": "approval", "title": "Go?"}, {"id": "r", "command": "echo r >> log", "risk": "high", "verify": "true"}, {"id": "m", "command": "echo m >> log", "proof": {"type": "manual"}}`
	b := newBench(t, steps)
	b.people = map[string]string{"ok": "yes", "r": "yes", "m": "not this"}
	rep := b.do(workflow.Options{})
	if got := b.ends(); got != "ok=done r=done m=failed" || b.read("log") != "r\n" || rep.Worst[0].Detail != "not this" {
		t.Errorf("got %s, log %q, %+v", got, b.read("log"), rep)
	}
	if len(b.proofs) != 2 || b.proofs[0].Kind != "manual" || b.proofs[1].Kind != "script" || b.proofs[1].Ran == nil {
		t.Errorf("proofs %+v", b.proofs)
	}
}

// Each kind of proof checks its own condition.
func TestProofs(t *testing.T) {
	const sum = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08" // SHA-256 of "test"
	for proof, want := range map[string]string{
		`{"type": "test"}`: "", `{"type": "file", "path": "f"}`: "", `{"type": "file", "path": "g"}`: "there is no g",
		`{"type": "file", "path": "f", "contains": "es"}`: "", `{"type": "file", "path": "f", "contains": "no"}`: `f does not contain "no"`,
		`{"type": "file", "path": "f", "sha256": "` + sum + `"}`:                                                        "",
		`{"type": "file", "path": "f", "sha256": "` + strings.Repeat("0", 64) + `"}`:                                    "f has the SHA-256 " + sum + ", not " + strings.Repeat("0", 64),
		`{"type": "composite", "all": [{"type": "script"}, {"type": "file", "path": "f"}]}`:                             "",
		`{"type": "composite", "all": [{"type": "script"}, {"type": "file", "path": "g"}]}`:                             "there is no g",
		`{"type": "composite", "any": [{"type": "file", "path": "g"}, {"type": "file", "path": "f"}]}`:                  "",
		`{"type": "composite", "any": [{"type": "file", "path": "g"}, {"type": "file", "path": "f", "contains": "x"}]}`: `there is no g; f does not contain "x"`,
	} {
		b := newBench(t, `{"id": "a", "command": "printf test > f", "proof": `+proof+`}`)
		rep := b.do(workflow.Options{})
		if got := append(rep.Worst, workflow.Outcome{})[0].Detail; got != want || (want == "") != (len(b.proofs) == 1) {
			t.Errorf("%s: got %q, want %q, proofs %+v", proof, got, want, b.proofs)
		}
	}
}

// A step that failed is tried again after the host's Mend has fixed it, also a prompt step whose check failed.
func TestMending(t *testing.T) {
	b := newBench(t, `{"id": "a", "command": "test -e mended", "proof": {"type": "test"}}, {"id": "p", "prompt": "do", "verify": "test -e done"}, {"id": "z", "command": "echo z >> log"}`)
	var told []workflow.Trouble
	tries := 0
	b.host.Mend = func(f flow.Flow, tr workflow.Trouble) (bool, error) {
		told = append(told, tr)
		tries++
		name := map[string]string{"a": "mended", "p": "done"}[tr.Path]
		_, err := agent.Do(f, call{Role: "debug", Path: name})
		return tries < 9, err
	}
	b.agent = func(q call) agentcall.Reply {
		if q.Role == "debug" {
			if err := os.WriteFile(filepath.Join(b.Dir, q.Path), nil, 0o644); err != nil {
				t.Error(err)
			}
		}
		return agentcall.Reply{}
	}
	rep := b.do(workflow.Options{})
	if rep.Done != 3 || len(told) != 2 || told[0].Ran == nil || told[0].Ran.Code != 1 || told[1].Path != "p" || b.roles() != "debug implement debug implement" {
		t.Errorf("got %+v, told %+v, asked %s", rep, told, b.roles())
	}
}
