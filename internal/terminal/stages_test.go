package terminal_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/terminal"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

var longWay = [][]trellis.Role{{trellis.Evaluate}, {trellis.Research, trellis.TaskSpec}, {trellis.Plan}, {trellis.Judge}}

// request returns a request of a planning. why is the reason why an agent is asked again.
func request(role trellis.Role, round int, why string) agentcall.Request {
	data, _ := json.Marshal(map[string]any{"round": round, "why": why}) // always has a JSON form
	return agentcall.Request{Role: role, Agent: "mine", Data: data}
}

func answer(text string) agentcall.Reply { return agentcall.Reply{Answer: json.RawMessage(text)} }

// planned plays the beginning of a planning, in which an answer of taskspec is refused; finish plays the rest.
func planned(p telling) {
	const id = "02-01-auth"
	tool := func(call, input string) {
		p.agent(id, call, agents.Event{Kind: agents.EventTool, Tool: "Read", Input: input})
	}
	p.asked(id, "evaluate#1", request(trellis.Evaluate, 0, ""))
	time.Sleep(3100 * time.Millisecond)
	p.replied(id, "evaluate#1", answer(`{"decision": "accept", "category": "", "size": "small"}`))
	p.asked(id, "research#1", request(trellis.Research, 0, ""))
	p.asked(id, "taskspec#1", request(trellis.TaskSpec, 0, ""))
	tool("research#1", "main.go")
	p.agent(id, "taskspec#1", agents.Event{Kind: agents.EventUsage, Usage: &trellis.Usage{InputTokens: 300}})
	p.agent(id, "research#1", agents.Event{Kind: agents.EventUsage, Usage: &trellis.Usage{InputTokens: 700}})
	tool("research#1", "api/list.go")
	time.Sleep(2 * time.Second)
	cost := 0.25
	p.replied(id, "taskspec#1", agentcall.Reply{Usage: trellis.Usage{InputTokens: 500, CostUSD: &cost}, Problems: []string{"/goals: missing", "/actions: too long"}})
	fixed := request(trellis.TaskSpec, 0, "")
	fixed.Repair = &agentcall.Repair{Problems: []string{"/goals: missing", "/actions: too long"}}
	p.asked(id, "taskspec#2", fixed)
	time.Sleep(time.Second + time.Millisecond)
}

func finish(p telling) {
	const id = "02-01-auth"
	p.replied(id, "taskspec#2", answer(`{}`))
	p.replied(id, "research#1", agentcall.Reply{Usage: trellis.Usage{InputTokens: 700}})
	p.asked(id, "plan#1", request(trellis.Plan, 1, ""))
	p.replied(id, "plan#1", agentcall.Reply{Problems: []string{"/steps/2/verify: can't fail"}})
	p.asked(id, "plan#2", request(trellis.Plan, 2, "checks, 1 of 2: /steps/2/verify: can't fail"))
	p.replied(id, "plan#2", answer(`{}`))
	p.asked(id, "judge#1", request(trellis.Judge, 1, ""))
	p.replied(id, "judge#1", answer(`{"pass": false, "feedback": "step b\nis two steps"}`))
	p.asked(id, "plan#3", request(trellis.Plan, 3, "judge, 1 of 2: step b\nis two steps"))
	p.replied(id, "plan#3", agentcall.Reply{Failure: flow.Fail("agent_exit", "exit 3")})
	p.asked(id, "plan#4", request(trellis.Plan, 3, ""))
}

// A planning shows its stages, including those ahead, what its agents do, and why an agent is asked again.
func TestStagesOnTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &screen{}
		p := show(s, terminal.Style{Width: 80}, true)
		p.SetStages(longWay)
		planned(p)
		again := "trellis: 02-01-auth: taskspec again: /goals: missing (and 1 more)"
		s.want(t, again,
			"02-01-auth: planning · 6s · 1.2k tokens · ≥ $0.25",
			"  evaluate ✓ 3.1s · research 3s ∥ taskspec ×2 3s · plan · judge",
			"  research · 2 tool calls · → Read api/list.go")
		finish(p)
		s.want(t, again,
			"trellis: 02-01-auth: plan again (1 of 2): /steps/2/verify: can't fail",
			"trellis: 02-01-auth: judge said no (1 of 2): step b is two steps",
			"trellis: 02-01-auth: plan: agent_exit: exit 3",
			"trellis: 02-01-auth: plan again",
			"02-01-auth: planning · 6s · 1.2k tokens · ≥ $0.25",
			"  evaluate ✓ 3.1s · research ✓ 3.0s ∥ taskspec ×2 ✓ 3.0s · plan ×4 0s",
			"  judge ✗ 0.0s")
		p.Close()
	})
}

// Lines of the stages fit a narrow terminal, and nothing but messages is left on the screen afterwards.
func TestStagesOnNarrowTerminal(t *testing.T) {
	for _, width := range []int{1, 8, 24, 40} {
		synctest.Test(t, func(t *testing.T) {
			s := &screen{}
			p := show(s, terminal.Style{Width: width}, true)
			p.SetStages(longWay)
			planned(p)
			p.agent("02-01-auth", "research#1", agents.Event{Kind: agents.EventText, Text: strings.Repeat("調べ\x1b[2Jる", 40)})
			for _, line := range s.lines {
				n := 0
				for _, r := range line {
					if n++; r > 0x3000 {
						n++
					}
				}
				if n >= width && !strings.HasPrefix(line, "trellis:") {
					t.Errorf("%q is longer than %d", line, width-1)
				}
			}
			if width == 24 {
				s.want(t, s.lines[0], "02-01-auth: planning ·…", "  evaluate ✓ 3.1s", "  research 3s", "  ∥ taskspec ×2 3s", "  plan · judge", s.lines[len(s.lines)-1])
			}
			p.Close()
			if got := strings.Join(s.lines, "\n"); !strings.HasPrefix(got, "trellis: ") || len(s.lines) != 1 {
				t.Errorf("left on the screen: %q", got)
			}
		})
	}
}

// A tiny requirement has the short list of stages. With colours, a finished stage is green and a stage ahead is dim.
func TestStagesOfTheShortWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &screen{}
		p := show(s, terminal.Style{Width: 80, Colour: true}, true)
		p.SetStages(longWay)
		p.asked("a", "evaluate#1", request(trellis.Evaluate, 0, ""))
		p.replied("a", "evaluate#1", answer(`{"decision": "accept", "size": "tiny"}`))
		p.asked("a", "research#1", request(trellis.Research, 0, ""))
		s.want(t, "a: planning · 0s", "  \x1b[32mevaluate ✓ 0.0s\x1b[0m · research 0s · \x1b[2mprd\x1b[0m")
		p.Close()
	})
}

// ahead plays a planning in which research and taskspec are asked while the requirement is still evaluated.
func ahead(p telling, verdict string) {
	const id = "02-01-auth"
	p.asked(id, "evaluate/evaluate#1", request(trellis.Evaluate, 0, ""))
	p.asked(id, "taskspec/taskspec#1", request(trellis.TaskSpec, 0, ""))
	p.asked(id, "research/research#1", request(trellis.Research, 0, ""))
	p.agent(id, "research/research#1", agents.Event{Kind: agents.EventTool, Tool: "Read", Input: "main.go"})
	time.Sleep(2 * time.Second)
	p.replied(id, "evaluate/evaluate#1", answer(verdict))
}

// Agents that are asked at the same time are shown in parallel. A call that is ended because it is not needed is not shown as failed.
func TestStagesSideBySide(t *testing.T) {
	off := agentcall.Reply{Failure: flow.Fail(string(trellis.CalledOff), "the requirement was rejected"), Usage: trellis.Usage{InputTokens: 300}}
	for verdict, then := range map[string][]string{
		`{"decision": "accept", "size": "small"}`: {"  evaluate ✓ 2.0s ∥ taskspec ✓ 2.0s ∥ research 2s · plan · judge", "  research · 1 tool call · → Read main.go"},
		`{"decision": "accept", "size": "tiny"}`:  {"  evaluate ✓ 2.0s · research 2s · prd", "  research · 1 tool call · → Read main.go"},
		`{"decision": "reject"}`:                  {"  evaluate ✓ 2.0s ∥ taskspec off 2.0s ∥ research off 2.0s · plan · judge"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &screen{}
			p := show(s, terminal.Style{Width: 90}, true)
			p.SetStages(longWay)
			ahead(p, verdict)
			switch {
			case strings.Contains(verdict, "reject"):
				p.replied("02-01-auth", "taskspec/taskspec#1", off)
				p.replied("02-01-auth", "research/research#1", off)
				s.want(t, append([]string{"02-01-auth: planning · 2s · 600 tokens"}, then...)...)
			default:
				p.replied("02-01-auth", "taskspec/taskspec#1", answer(`{}`))
				s.want(t, append([]string{"02-01-auth: planning · 2s"}, then...)...)
			}
			p.Close()
		})
	}
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := show(&out, terminal.Style{}, false)
		ahead(p, `{"decision": "reject"}`)
		p.replied("02-01-auth", "research/research#1", off)
		p.Close()
		if want := "trellis: 02-01-auth: research called off: the requirement was rejected\n"; !strings.HasSuffix(out.String(), want) || strings.Contains(out.String(), "called_off") {
			t.Errorf("got\n%s\nwant at its end\n%s", out.String(), want)
		}
	})
}

// Without a terminal each call has a line when it begins and one when it ends.
func TestStagesElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := show(&out, terminal.Style{}, false)
		planned(p)
		finish(p)
		p.Close()
		want := `trellis: 02-01-auth: evaluate
trellis: 02-01-auth: evaluate done in 3.1s · accept, small
trellis: 02-01-auth: research
trellis: 02-01-auth: taskspec
trellis: 02-01-auth: taskspec again: /goals: missing (and 1 more)
trellis: 02-01-auth: taskspec done in 1.0s
trellis: 02-01-auth: research done in 3.0s · 2 tool calls · 700 tokens · cost unknown
trellis: 02-01-auth: plan
trellis: 02-01-auth: plan again (1 of 2): /steps/2/verify: can't fail
trellis: 02-01-auth: plan done in 0.0s
trellis: 02-01-auth: judge
trellis: 02-01-auth: judge done in 0.0s · the plan does not pass
trellis: 02-01-auth: judge said no (1 of 2): step b is two steps
trellis: 02-01-auth: plan: agent_exit: exit 3
trellis: 02-01-auth: plan again
`
		if got := out.String(); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
}

// Stages returns the stages that flags and settings leave.
func TestStages(t *testing.T) {
	for want, c := range map[string]struct {
		taskspec, judge bool
		o               runner.PlanOptions
	}{
		"evaluate|research taskspec|plan|judge": {true, true, runner.PlanOptions{}},
		"evaluate|research|plan|judge":          {true, true, runner.PlanOptions{NoTaskSpec: true}},
		"evaluate|research|plan":                {false, false, runner.PlanOptions{}},
		"evaluate|research|prd":                 {true, true, runner.PlanOptions{Quick: true}},
	} {
		var list []string
		for _, stage := range terminal.Stages(config.Planning{TaskSpec: c.taskspec, Judge: c.judge}, c.o) {
			var names []string
			for _, role := range stage {
				names = append(names, string(role))
			}
			list = append(list, strings.Join(names, " "))
		}
		if got := strings.Join(list, "|"); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
