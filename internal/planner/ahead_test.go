package planner_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/planner"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// noted is a flow that records the activities called, and from which branch. An activity has one answer, or a list of two.
type noted struct {
	flow.Flow
	scope   string
	answers map[string]any
	asked   *[]string
}

func (n noted) Do(name string, _, out any) error {
	*n.asked = append(*n.asked, n.scope+name)
	answer := n.answers[name]
	if list, several := answer.([]any); several {
		answer, n.answers[name] = list[0], list[1]
	}
	raw, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, out)
}

func (n noted) Sleep(time.Duration) error { return nil }

// All runs the branches from last to first, so that a branch that depends on an earlier one fails.
func (n noted) All(_ int, branches ...flow.Branch) (err error) {
	for _, b := range slices.Backward(branches) {
		own := n
		own.scope += b.Name + "/"
		if e := b.Run(own); e != nil {
			err = e
		}
	}
	return err
}

func earlierAnswers(v any) agentcall.Reply {
	raw, _ := json.Marshal(v) // v can always be encoded
	return agentcall.Reply{Answer: raw, Usage: trellis.Usage{InputTokens: 100}, ToolCalls: -1}
}

// The order of the calls. A planning begun by code that did not make calls ahead goes on one call after the other, whatever its
// survey says.
func TestOrderOfCalls(t *testing.T) {
	verdict := func(decision string, size trellis.Size) agentcall.Reply {
		return earlierAnswers(planner.Verdict{Decision: decision, Size: size})
	}
	spec := earlierAnswers(map[string]any{})
	ended := []any{agentcall.Reply{Failure: &flow.Failure{Code: string(trellis.AgentExit), Retryable: true}, Usage: spec.Usage}, spec}
	for name, c := range map[string]struct {
		code    int
		ahead   bool
		verdict agentcall.Reply
		spec    any
		want    string
		calls   int
	}{
		"before": {2, true, verdict("accept", "small"), spec, "survey evaluate taskspec/taskspec taskspec/settle research/research research/digest plan draft judge write ready finish", 5},
		"off":    {3, false, verdict("accept", "small"), spec, "survey evaluate taskspec/taskspec taskspec/settle research/research research/digest plan draft judge write ready finish", 5},
		"ahead":  {3, true, verdict("accept", "small"), spec, "survey taskspec/taskspec research/research evaluate/evaluate taskspec/settle research/digest plan draft judge write ready finish", 5},
		"tiny":   {3, true, verdict("accept", "tiny"), spec, "survey taskspec/taskspec research/research evaluate/evaluate evaluate/call-off digest prd write ready finish", 4},
		// A TaskSpec call made ahead that failed, since the programs can't start at the same time, is made again.
		"ahead, and in vain":  {3, true, verdict("accept", "small"), ended, "survey taskspec/taskspec research/research evaluate/evaluate taskspec/taskspec taskspec/settle research/digest plan draft judge write ready finish", 6},
		"before, and in vain": {2, true, verdict("accept", "small"), ended, "survey evaluate taskspec/taskspec taskspec/settle research/research research/digest plan draft judge write ready finish", 5},
		"rejected":            {3, true, verdict("reject", ""), spec, "survey taskspec/taskspec research/research evaluate/evaluate evaluate/call-off reject", 3},
	} {
		var asked []string
		f := noted{asked: &asked, answers: map[string]any{
			"survey":   planner.Survey{TaskSpec: true, Judge: true, Speculate: c.ahead},
			"evaluate": c.verdict, "research": earlierAnswers(""), "taskspec": c.spec, "plan": earlierAnswers(map[string]any{}), "prd": earlierAnswers(map[string]any{}),
			"judge": earlierAnswers(planner.Opinion{Pass: true}), "digest": planner.Findings{}, "settle": map[string]any{}, "draft": planner.Draft{}, "call-off": 2}}
		rep, err := planner.Run(f, planner.Input{Code: c.code, Name: "bye"})
		if err != nil || rep.Calls != c.calls || rep.Usage.Tokens() != int64(100*c.calls) {
			t.Errorf("%s: %d calls, %d tokens, %v", name, rep.Calls, rep.Usage.Tokens(), err)
		}
		if got := strings.Join(asked, " "); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", name, got, c.want)
		}
	}
}
