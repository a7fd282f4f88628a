package status

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/events"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// roundIn is the round that an activity belongs to, 0 when its input does not say.
func roundIn(c journal.Entry) int {
	var in struct{ Round int }
	_ = json.Unmarshal(c.In, &in) // what is not there is not said
	return in.Round
}

// checksOf are the project's commands that an activity ran.
func checksOf(c journal.Entry) (list []events.Check) {
	var out pipeline.Checks
	if isRole(c.Activity) || json.Unmarshal(c.Out, &out) != nil {
		return nil
	}
	for i, r := range out.Results {
		list = append(list, events.Check{Command: r.Command, N: i + 1, Of: len(out.Results), Code: r.Code, Last: text.LastLine(r.Tail), Forgiven: r.Forgiven, Seconds: r.Seconds})
	}
	return list
}

// waitOf says what an entry waits for, nil when it is none that waits. before is how the last call of an agent ended.
func waitOf(c journal.Entry, before *flow.Failure) *events.Wait {
	signal, awaits := strings.CutPrefix(c.Activity, "await:")
	switch {
	case c.Activity != "sleep" && !awaits:
		return nil
	case awaits && signal != agentcall.BudgetRaised:
		return &events.Wait{For: "approval"}
	}
	w := &events.Wait{For: "time"}
	if awaits {
		w.For = "budget"
	}
	var limit time.Duration
	if json.Unmarshal(c.In, &limit) == nil && limit > 0 {
		w.Until = c.Started.Add(limit)
	}
	if before == nil {
		return w
	}
	w.Why = before.Error()
	switch trellis.Code(before.Code) {
	case trellis.RateLimited:
		w.For = "rate_limit"
	case trellis.ProviderDown:
		w.For = "provider"
	default:
		if before.Retryable {
			w.For = "backoff"
		}
	}
	return w
}

// failureOf is how a call of an agent failed, nil when it did not.
func failureOf(c journal.Entry) *flow.Failure {
	var reply agentcall.Reply
	if !isRole(c.Activity) || json.Unmarshal(c.Out, &reply) != nil {
		return nil
	}
	return reply.Failure
}

// stateOf is what an activity wrote into task.json, nil when it did not.
func stateOf(c journal.Entry) *pipeline.TaskState {
	if c.Fail != nil {
		return nil
	}
	s, ok := pipeline.StateWritten(c.Activity, c.In)
	if !ok {
		return nil
	}
	return &s
}
