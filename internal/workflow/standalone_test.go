package workflow_test

import (
	"slices"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/workflow"
)

// limited is a flow whose agent hits a rate limit of one second in its first two calls.
type limited struct {
	flow.Flow
	calls int
	slept []time.Duration
}

func (l *limited) Do(name string, _, out any) error {
	if name != string(trellis.Implement) {
		return nil
	}
	reply := agentcall.Reply{ToolCalls: 1}
	if l.calls++; l.calls < 3 {
		at := time.Now()
		reply.Failure = &flow.Failure{Code: string(trellis.RateLimited), At: at, ResumeAt: at.Add(time.Second)}
	}
	*out.(*agentcall.Reply) = reply
	return nil
}

func (l *limited) Sleep(d time.Duration) error { l.slept = append(l.slept, d); return nil }

func (l *limited) In(string) flow.Flow { return l }

func (l *limited) All(_ int, branches ...flow.Branch) error {
	for _, b := range branches {
		if err := b.Run(l); err != nil {
			return err
		}
	}
	return nil
}

// If a limit outlasts the wait that it announced, the next wait is longer, except with older code, whose replay has to match.
func TestFilesWaitLongerForLimits(t *testing.T) {
	b := newBench(t, `{"id": "a", "prompt": "Do it."}`)
	for code, second := range map[int]time.Duration{workflow.FileCode: 10 * time.Second, 1: time.Second} {
		f := &limited{}
		_, err := workflow.RunFile(f, workflow.FileInput{Code: code}, b.bundle(), nil)
		if err != nil || !slices.Equal(f.slept, []time.Duration{time.Second, second}) {
			t.Errorf("code %d: slept %v, %v", code, f.slept, err)
		}
	}
}
