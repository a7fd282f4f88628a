package cluster_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/trellis-tasks/trellis/cluster"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// flows returns an environment that runs the workflow of a task on a simulated clock, and the number of segments so far.
func flows(t *testing.T, stands ...cluster.Standing) (*testsuite.TestWorkflowEnvironment, *int) {
	t.Helper()
	suite := testsuite.WorkflowTestSuite{}
	env := suite.NewTestWorkflowEnvironment()
	env.RegisterWorkflowWithOptions(cluster.Task, workflow.RegisterOptions{Name: "task"})
	segments := 0
	env.RegisterActivityWithOptions(func(cluster.Given) (cluster.Standing, error) {
		segments++
		return stands[min(segments, len(stands))-1], nil
	}, activity.RegisterOptions{Name: "segment"})
	return env, &segments
}

var given = cluster.Given{Task: "02-01-bye", Queue: "acme", Silence: time.Minute}

func ended(t *testing.T, env *testsuite.TestWorkflowEnvironment, want trellis.Status) {
	t.Helper()
	if !env.IsWorkflowCompleted() || env.GetWorkflowError() != nil {
		t.Fatalf("completed %v, %v", env.IsWorkflowCompleted(), env.GetWorkflowError())
	}
	var got cluster.Standing
	if err := env.GetWorkflowResult(&got); err != nil || got.Status != want {
		t.Errorf("got %s, %v, want %s", got.Status, err, want)
	}
}

// A task that waits for a person continues when a person says something, long before it would be checked again.
func TestTaskIsWoken(t *testing.T) {
	env, segments := flows(t, cluster.Standing{Status: trellis.Waiting, Waits: []string{"approval"}}, cluster.Standing{Status: trellis.Review})
	began := env.Now()
	env.RegisterDelayedCallback(func() { env.SignalWorkflow("wake", nil) }, 10*time.Second)
	env.ExecuteWorkflow("task", given)
	ended(t, env, trellis.Review)
	if took := env.Now().Sub(began); *segments != 2 || took > 20*time.Second {
		t.Errorf("%d segments in %v", *segments, took)
	}
}

// The machine that had the task last is asked first, and if that fails any machine.
func TestLastMachineIsAskedFirst(t *testing.T) {
	suite := testsuite.WorkflowTestSuite{}
	env := suite.NewTestWorkflowEnvironment()
	env.RegisterWorkflowWithOptions(cluster.Task, workflow.RegisterOptions{Name: "task"})
	var asked []string
	env.RegisterActivityWithOptions(func(ctx context.Context, _ cluster.Given) (cluster.Standing, error) {
		asked = append(asked, activity.GetInfo(ctx).TaskQueue)
		switch len(asked) {
		case 1:
			return cluster.Standing{Status: trellis.Paused, Until: env.Now().Add(time.Hour), Own: "acme@b"}, nil
		case 2:
			return cluster.Standing{}, errors.New("it was told to end")
		}
		return cluster.Standing{Status: trellis.Review, Own: "acme@c"}, nil
	}, activity.RegisterOptions{Name: "segment"})
	in := given
	in.Prefer = time.Second
	env.ExecuteWorkflow("task", in)
	ended(t, env, trellis.Review)
	if got := strings.Join(asked, " "); got != "acme acme@b acme" {
		t.Errorf("asked were %s", got)
	}
}

// A task that waits for a time continues when that has come.
func TestTaskGoesOnByItself(t *testing.T) {
	env, segments := flows(t, cluster.Standing{Status: trellis.Paused, Until: time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)}, cluster.Standing{Status: trellis.Review})
	env.SetStartTime(time.Date(2030, 1, 1, 9, 0, 0, 0, time.UTC))
	env.ExecuteWorkflow("task", given)
	ended(t, env, trellis.Review)
	if want := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC); *segments != 2 || env.Now().Before(want) || env.Now().After(want.Add(time.Minute)) {
		t.Errorf("%d segments, at %v", *segments, env.Now())
	}
}

// A task that a person stopped continues when a person says so, and not by itself.
func TestStoppedTaskRests(t *testing.T) {
	env, segments := flows(t, cluster.Standing{Status: trellis.Paused, Stopped: true}, cluster.Standing{Status: trellis.Review})
	began := env.Now()
	env.RegisterDelayedCallback(func() { env.SignalWorkflow("wake", nil) }, 100*time.Hour)
	env.ExecuteWorkflow("task", given)
	ended(t, env, trellis.Review)
	if took := env.Now().Sub(began); *segments != 2 || took < 100*time.Hour {
		t.Errorf("%d segments in %v", *segments, took)
	}
}

// A wake signal that comes while a machine is about to release the task is not lost.
func TestLateWord(t *testing.T) {
	env, segments := flows(t, cluster.Standing{Status: trellis.Failed}, cluster.Standing{Status: trellis.Review})
	env.SetOnActivityStartedListener(func(_ *activity.Info, _ context.Context, _ converter.EncodedValues) {
		if *segments == 0 {
			env.SignalWorkflow("wake", nil)
		}
	})
	env.ExecuteWorkflow("task", given)
	ended(t, env, trellis.Review)
}
