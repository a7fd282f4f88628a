package cluster

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Names that the server stores. They never change, since running workflows use them.
const (
	taskType    = "task"    // the workflow of a task
	segmentType = "segment" // the activity in which one machine runs a task for as long as it can go on
	wakeSignal  = "wake"    // the signal that a person changed the task
)

// Given is a task that was submitted.
type Given struct {
	Task    string        `json:"task"`
	Queue   string        `json:"queue"`            // queue of the machines that can run it
	Silence time.Duration `json:"silence"`          // time without a heartbeat after which a machine has lost the task
	Prefer  time.Duration `json:"prefer,omitempty"` // how long to wait for the machine that had it last
}

// Standing is the state of a task when a machine released it.
type Standing struct {
	Status  trellis.Status  `json:"status"`
	Outcome trellis.Outcome `json:"outcome,omitempty"`
	Waits   []string        `json:"waits,omitempty"` // what the task waits for
	Until   time.Time       `json:"until,omitzero"`
	Stopped bool            `json:"stopped,omitempty"` // by a person: the task does not continue by itself
	Host    string          `json:"host"`
	Own     string          `json:"own,omitempty"` // the queue for that machine alone
}

// Shortest and longest pause before a machine checks again a task that waits without a known time.
const (
	minPause = time.Minute
	maxPause = 30 * time.Minute
)

// maxHistory is the length of a history after which the workflow continues in a new one.
const maxHistory = 4000

// Task is the workflow of a task. It has machines run the task, one after the other, until it has ended. While the task waits for
// a person or a time, no machine has it.
func Task(ctx workflow.Context, in Given) (s Standing, err error) {
	woken := workflow.GetSignalChannel(ctx, wakeSignal)
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		for woken.ReceiveAsync(nil) {
			pause = minPause
		}
		if s, err = runSegment(ctx, in, s.Own); err != nil {
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
		if workflow.GetInfo(ctx).GetCurrentHistoryLength() > maxHistory {
			return s, workflow.NewContinueAsNewError(ctx, taskType, in)
		}
	}
}

// runSegment has a machine run the task for as long as it can go on: the machine with the queue own, which has the worktree, if that
// takes the task within in.Prefer, and otherwise any. When a machine sends no heartbeat, another one follows.
func runSegment(ctx workflow.Context, in Given, own string) (s Standing, err error) {
	if in.Prefer > 0 && own != "" {
		last := workflow.WithTaskQueue(workflow.WithScheduleToStartTimeout(activityContext(ctx, in), in.Prefer), own)
		last = workflow.WithRetryPolicy(last, temporal.RetryPolicy{MaximumAttempts: 1})
		if err = workflow.ExecuteActivity(last, segmentType, in).Get(ctx, &s); err == nil || temporal.IsCanceledError(err) {
			return s, err
		}
	}
	err = workflow.ExecuteActivity(activityContext(ctx, in), segmentType, in).Get(ctx, &s)
	return s, err
}

// activityContext returns a context for activities on machines of the task's queue. When one sends no heartbeat, another follows.
func activityContext(ctx workflow.Context, in Given) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue: in.Queue, StartToCloseTimeout: maxSegment, HeartbeatTimeout: in.Silence, WaitForCancellation: true,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, MaximumInterval: time.Minute},
	})
}

// maxSegment is longer than any segment takes: the budgets of the task end it before.
const maxSegment = 30 * 24 * time.Hour

// sleep blocks until a task should be checked again: its time has come, a person changed it, or pause is over if no time is
// known.
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
