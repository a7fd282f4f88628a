package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// callers makes the calls of agents for tasks.
type callers struct {
	disk    *durable.Disk
	repo    string // main checkout
	budgets Budgets
	redact  func(string) string
	now     func() time.Time
	tell    func(Event)
}

func (cs callers) caller(dir, marker string) *agentcall.Caller {
	return &agentcall.Caller{RunDir: filepath.Join(dir, taskdir.Run), Disk: cs.disk, Marker: marker, Redact: cs.redact, Now: cs.now,
		Env: func(c flow.Call, r agentcall.Request) []string { return cs.env(dir, c, r) },
		Spend: func(c flow.Call, more trellis.Usage) (agentcall.Budget, error) {
			return cs.budgets.spend(dir, c, more)
		},
		Event: func(c flow.Call, r agentcall.Request, e agents.Event) {
			cs.tell(Event{Task: filepath.Base(dir), Role: r.Role, Round: r.Round, Call: c.ID, Agent: e})
		}}
}

// reportCalls makes calls report when they begin and what they returned.
func (cs callers) reportCalls(dir string, calls []flow.Activity) []flow.Activity {
	for i, call := range calls {
		calls[i].Run = func(ctx context.Context, c flow.Call, in json.RawMessage) (any, error) {
			e := Event{Task: filepath.Base(dir), Role: trellis.Role(call.Name), Call: c.ID}
			begun, ended := e, e
			begun.Asked = new(agentcall.Request)
			if err := json.Unmarshal(in, begun.Asked); err != nil {
				return nil, fmt.Errorf("decoding input of %s: %w", call.Name, err)
			}
			cs.tell(begun)
			out, err := call.Run(ctx, c, in)
			if r, ok := out.(agentcall.Reply); ok && err == nil {
				ended.Reply = &r
				cs.tell(ended)
			}
			return out, err
		}
	}
	return calls
}

// reportFixes makes calls report what they are to mend, unless something has reported that before.
func (cs callers) reportFixes(dir string, calls []flow.Activity) []flow.Activity {
	for i, call := range calls {
		calls[i].Run = func(ctx context.Context, c flow.Call, in json.RawMessage) (any, error) {
			if said := pipeline.UnreportedTrouble(call.Name, in); said != "" {
				cs.tell(Event{Task: filepath.Base(dir), Role: trellis.Role(call.Name), Call: c.ID, Agent: agents.Event{Kind: agents.EventNotice, Text: said}})
			}
			return call.Run(ctx, c, in)
		}
	}
	return calls
}

// env returns the environment variables from which every agent learns about its task.
func (cs callers) env(dir string, c flow.Call, r agentcall.Request) []string {
	return []string{pipeline.ReflogVariable + "=" + pipeline.ReflogAction(filepath.Base(dir)), "TRELLIS_ROLE=" + string(r.Role), "TRELLIS_TASK_ID=" + filepath.Base(dir), "TRELLIS_TASK_DIR=" + dir, "TRELLIS_REPO=" + cs.repo,
		"TRELLIS_RUN_DIR=" + filepath.Join(dir, taskdir.Run, agentcall.Folder(c)), "TRELLIS_ATTEMPT=" + strconv.Itoa(max(1, r.Attempt)),
		"TRELLIS_ROUND=" + strconv.Itoa(max(1, r.Round))}
}
