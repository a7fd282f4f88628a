package cluster

import (
	"context"
	"testing"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/trellis-tasks/trellis/taskdir"
)

// ending is a server on which a workflow runs when it is first asked to start another, and has ended when it is asked for the state.
type ending struct {
	client.Client
	begun int
}

func (e *ending) ExecuteWorkflow(context.Context, client.StartWorkflowOptions, any, ...any) (client.WorkflowRun, error) {
	if e.begun++; e.begun == 1 {
		return nil, serviceerror.NewWorkflowExecutionAlreadyStarted("it runs", "", "")
	}
	return nil, nil
}

func (e *ending) DescribeWorkflowExecution(context.Context, string, string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	return nil, serviceerror.NewNotFound("it has ended")
}

// A task that ends while it is handed out again is handed out.
func TestHandedOutAtItsEnd(t *testing.T) {
	e := &ending{}
	if err := (&server{Client: e}).start(t.Context(), &taskdir.Task{ID: "02-01-bye"}); err != nil || e.begun != 2 {
		t.Errorf("begun %d times, %v", e.begun, err)
	}
}
