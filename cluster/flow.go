package cluster

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Names that the server knows. They never change: workflows that are under way hold them.
const (
	taskType    = "task"    // the workflow of a task
	segmentType = "segment" // the activity that has one machine run a task for as long as it goes
	wakeSignal  = "wake"    // a person changed the task
)

// Given is a task that was submitted.
type Given struct {
	Task    string        `json:"task"`
	Queue   string        `json:"queue"`            // of the machines that can run it
	Silence time.Duration `json:"silence"`          // after which a machine of which nothing is heard has lost it
	Prefer  time.Duration `json:"prefer,omitempty"` // for which the machine that had it last is waited for
}

// Standing is where a task stood when a machine let go of it.
type Standing struct {
	Status  trellis.Status  `json:"status"`
	Outcome trellis.Outcome `json:"outcome,omitempty"`
	Waits   []string        `json:"waits,omitempty"` // for what
	Until   time.Time       `json:"until,omitzero"`
	Stopped bool            `json:"stopped,omitempty"` // by a person: it does not go on by itself
	Host    string          `json:"host"`
	Own     string          `json:"own,omitempty"` // the queue of that machine alone
}

// How long a task that waits for something without a time is left alone before a machine looks at it again.
const (
	firstLook = time.Minute
	lastLook  = 30 * time.Minute
)

// mostEvents is how long a history gets before the workflow goes on in a new one.
const mostEvents = 4000

// Task has one machine after the other run a task until it is at an end. Between, when it waits for a person or a time, no machine has it.
func Task(ctx workflow.Context, in Given) (s Standing, err error) {
	woken := workflow.GetSignalChannel(ctx, wakeSignal)
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		for woken.ReceiveAsync(nil) {
			pause = firstLook
		}
		if s, err = segment(ctx, in, s.Own); err != nil {
			return s, err
		}
		if woken.Len() > 0 {
			continue
		}
		if s.Status.Ended() {
			return s, nil
		}
		if err := sleep(ctx, s, pause, woken); err != nil {
			return s, err
		}
		if workflow.GetInfo(ctx).GetCurrentHistoryLength() > mostEvents {
			return s, workflow.NewContinueAsNewError(ctx, taskType, in)
		}
	}
}

// segment has a machine run the task for as long as it goes: the one with that queue of its own if it takes the task in time, since it has
// the worktree, and else any. A machine of which nothing is heard is followed by another one.
func segment(ctx workflow.Context, in Given, own string) (s Standing, err error) {
	if in.Prefer > 0 && own != "" {
		last := workflow.WithTaskQueue(workflow.WithScheduleToStartTimeout(activityOf(ctx, in), in.Prefer), own)
		last = workflow.WithRetryPolicy(last, temporal.RetryPolicy{MaximumAttempts: 1})
		if err = workflow.ExecuteActivity(last, segmentType, in).Get(ctx, &s); err == nil || temporal.IsCanceledError(err) {
			return s, err
		}
	}
	err = workflow.ExecuteActivity(activityOf(ctx, in), segmentType, in).Get(ctx, &s)
	return s, err
}

// activityOf has machines of a queue do something for a task, one after the other when nothing is heard of one.
func activityOf(ctx workflow.Context, in Given) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue: in.Queue, StartToCloseTimeout: longest, HeartbeatTimeout: in.Silence, WaitForCancellation: true,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, MaximumInterval: time.Minute},
	})
}

// longest is more than any segment takes: budgets of the task end it before.
const longest = 30 * 24 * time.Hour

// sleep waits until a task is worth another look: its time has come, a person changed it, or, where nobody knows when, a pause is over.
func sleep(ctx workflow.Context, s Standing, pause time.Duration, woken workflow.ReceiveChannel) error {
	called := func() bool { return woken.Len() > 0 }
	if s.Stopped {
		return workflow.Await(ctx, called)
	}
	if !s.Until.IsZero() {
		pause = max(s.Until.Sub(workflow.Now(ctx)), time.Second)
	}
	_, err := workflow.AwaitWithTimeout(ctx, pause, called)
	return err
}
