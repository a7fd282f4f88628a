package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
)

// handedTask is a task that was handed out to the machines.
type handedTask struct {
	Task     string    `json:"task"`
	State    string    `json:"state"` // runs, queued, waits
	Host     string    `json:"host,omitempty"`
	Since    time.Time `json:"since"`             // when it was taken, queued or, if it waits for no machine, handed out
	Attempt  int       `json:"attempt,omitempty"` // number of attempts at the current segment
	Failed   string    `json:"failed,omitempty"`  // error with which the last machine lost it
	Queue    string    `json:"queue,omitempty"`
	Nobody   bool      `json:"nobody,omitempty"`    // it is queued, but no machine can run it
	Status   string    `json:"status,omitempty"`    // in the last state that the machines sent
	WaitsFor string    `json:"waits_for,omitempty"` // what it waits for, in that state, while no machine has it
}

func (h handedTask) description() string {
	since := h.Since.Local().Format("2006-01-02 15:04:05")
	said := ""
	switch {
	case h.Host != "":
		said = h.Host + " runs it since " + since
	case strings.Contains(h.Queue, "@"):
		said = "it waits for the machine that had it last, since " + since
	case h.Nobody:
		said = "no machine can run it: none waits for " + h.Queue
	case h.Queue != "":
		said = "it waits for a machine since " + since
	case h.WaitsFor != "":
		said = "it waits for " + h.WaitsFor + "; handed out " + since
	default:
		said = "it waits; handed out " + since
	}
	if h.Status != "" && h.Host == "" {
		said += ", " + h.Status
	}
	if h.Attempt > 1 {
		said += fmt.Sprintf("; taken %d times", h.Attempt)
	}
	if h.Failed != "" {
		said += "; the last time: " + h.Failed
	}
	return said
}

// findTask returns the task as the server knows it, or nil if it is not handed out.
func (s *server) findTask(ctx context.Context, task string) (*handedTask, error) {
	d, err := s.DescribeWorkflowExecution(ctx, s.workflowID(task), "")
	if errors.As(err, new(*serviceerror.NotFound)) {
		return nil, nil
	}
	if err != nil {
		return nil, s.wrapError("looking for", task, err)
	}
	info := d.GetWorkflowExecutionInfo()
	if info.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return nil, nil
	}
	h := &handedTask{Task: task, State: "waits", Since: info.GetStartTime().AsTime()}
	for _, p := range d.GetPendingActivities() {
		h.State, h.Attempt, h.Failed = "queued", int(p.GetAttempt()), p.GetLastFailure().GetMessage()
		if p.GetState() == enumspb.PENDING_ACTIVITY_STATE_STARTED {
			h.State, h.Host, h.Since = "runs", hostOf(p.GetLastWorkerIdentity()), p.GetLastStartedTime().AsTime()
			continue
		}
		h.Since = p.GetScheduledTime().AsTime()
		h.Queue = p.GetActivityOptions().GetTaskQueue().GetName()
	}
	if h.State == "queued" && h.Queue != "" && !s.isOwnQueue(h.Queue) {
		machines, err := s.machines(ctx, h.Queue)
		if err != nil {
			return nil, err
		}
		h.Nobody = len(machines) == 0
	}
	return h, nil
}

// machine is a worker that waits for tasks.
type machine struct {
	Name string    `json:"name"` // host, clone and process
	Last time.Time `json:"last"` // when it last polled
}

// machines returns the machines that wait for tasks of a queue, or did so a moment ago.
func (s *server) machines(ctx context.Context, queue string) (list []machine, err error) {
	d, err := s.DescribeTaskQueue(ctx, queue, enumspb.TASK_QUEUE_TYPE_ACTIVITY)
	if err != nil {
		return nil, s.wrapError("asking who waits for", queue, err)
	}
	for _, p := range d.GetPollers() {
		list = append(list, machine{p.GetIdentity(), p.GetLastAccessTime().AsTime()})
	}
	return list, nil
}

// listTasks returns the tasks of the repository that are handed out.
func (s *server) listTasks(ctx context.Context) (list []handedTask, err error) {
	ask := &workflowservice.ListWorkflowExecutionsRequest{Namespace: s.Namespace,
		Query: fmt.Sprintf("WorkflowType IN ('%s', '%s') AND ExecutionStatus = 'Running' AND TaskQueue = '%s'", taskType, planningType, strings.ReplaceAll(s.Repo, "'", `\'`))}
	for {
		page, err := s.ListWorkflow(ctx, ask)
		if err != nil {
			return nil, s.wrapError("listing the tasks of", s.Repo, err)
		}
		for _, e := range page.GetExecutions() {
			h, err := s.findTask(ctx, strings.TrimPrefix(e.GetExecution().GetWorkflowId(), s.Repo+"/"))
			if err != nil {
				return nil, err
			}
			if h != nil {
				list = append(list, *h)
			}
		}
		if ask.NextPageToken = page.GetNextPageToken(); len(ask.NextPageToken) == 0 {
			return list, nil
		}
	}
}
