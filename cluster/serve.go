package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"

	"github.com/urfave/cli/v2"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/taskdir"
)

// servingMachine is a machine that takes tasks.
type servingMachine struct {
	site     *runner.Site
	team     *app.Team
	server   *server
	host     string
	own      string // the queue of this checkout alone
	say      func(format string, args ...any)
	slots    chan struct{} // slots, one element per running task
	fetching sync.Mutex    // serializes fetching, which reads all tasks
}

// serve takes tasks until the command's context ends.
func serve(a *command.Console, c *cli.Context) error {
	parallel := c.Int("parallel")
	if c.IsSet("parallel") && parallel < 1 {
		return app.Usagef("--parallel must be at least 1")
	}
	j, err := joinCluster(a, c)
	if err != nil {
		return err
	}
	defer j.server.Close()
	if parallel = cmp.Or(parallel, j.site.Config.Limits.Parallel); parallel < 1 {
		parallel = 1
	}
	s := &servingMachine{site: j.site, team: j.team, server: j.server, host: j.host, own: j.server.ownQueue(j.host, j.clone), say: a.Say, slots: make(chan struct{}, parallel)}
	if err := s.site.TaskRunner().CheckPrograms("tasks are", s.site.Config.Verify); err != nil {
		return err
	}
	s.site.Event = s.printEvent
	j.project.News.Work(s.site)
	workers, queues, err := s.workers(c.Context, parallel)
	if err != nil {
		return err
	}
	for i, w := range workers {
		if err := w.Start(); err != nil {
			stopWorkers(workers[:i])
			return fmt.Errorf("waiting for tasks of %s: %w", j.server.Repo, err)
		}
	}
	a.Say("%s waits for tasks of %v, %d at once, process %d", s.host, queues, parallel, os.Getpid())
	<-c.Context.Done()
	stopWorkers(workers)
	return context.Cause(c.Context)
}

// stopWorkers stops all workers concurrently, each together with its tasks.
func stopWorkers(workers []worker.Worker) {
	var all sync.WaitGroup
	for _, w := range workers {
		all.Go(w.Stop)
	}
	all.Wait()
}

// workers returns a worker for the queue of tasks that name no agent, one for each agent that can work here, and one for this
// checkout's own queue.
func (s *servingMachine) workers(ctx context.Context, parallel int) (list []worker.Worker, queues []string, err error) {
	usual := s.site.Roles().CheckRunners(ctx, "")
	first := s.worker(s.server.queue(""), parallel)
	first.RegisterWorkflowWithOptions(Task, workflow.RegisterOptions{Name: taskType})
	first.RegisterWorkflowWithOptions(Planning, workflow.RegisterOptions{Name: planningType})
	list = append(list, first)
	if usual == nil {
		s.registerActivities(first)
		queues = append(queues, s.server.queue(""))
	}
	for _, name := range agentNames(s.site) {
		if s.site.Roles().CheckRunners(ctx, name) != nil { // tasks that name this agent wait for another machine
			continue
		}
		w := s.worker(s.server.queue(name), parallel)
		s.registerActivities(w)
		list, queues = append(list, w), append(queues, s.server.queue(name))
	}
	if len(queues) == 0 {
		return nil, nil, usual
	}
	own := s.worker(s.own, parallel)
	s.registerActivities(own)
	return append(list, own), queues, nil
}

func (s *servingMachine) worker(queue string, parallel int) worker.Worker {
	beat := s.server.silence / heartbeatsPerSilence
	return worker.New(s.server.Client, queue, worker.Options{
		MaxConcurrentActivityExecutionSize: parallel, MaxConcurrentActivityTaskPollers: 1, // a machine that freezes holds at most one task more
		DisableEagerActivities: true, MaxHeartbeatThrottleInterval: beat, DefaultHeartbeatThrottleInterval: beat,
		StickyScheduleToStartTimeout: stickiness, WorkerStopTimeout: stopTimeout})
}

func (s *servingMachine) registerActivities(w worker.Worker) {
	w.RegisterActivityWithOptions(s.segment, activity.RegisterOptions{Name: segmentType})
	w.RegisterActivityWithOptions(s.plan, activity.RegisterOptions{Name: planType})
}

// agentNames returns the agents that tasks can name here.
func agentNames(s *runner.Site) []string {
	names := slices.AppendSeq(agents.Programs(), maps.Keys(s.Config.Agents.Commands))
	slices.Sort(names)
	return slices.Compact(names)
}

// printEvent prints an event of a task.
func (s *servingMachine) printEvent(e runner.Event) {
	switch {
	case e.Message != "" && e.Task == "":
		s.say("%s", e.Message)
	case e.Message != "":
		s.say("%s: %s", e.Task, e.Message)
	case e.State != nil:
		s.say("%s: %s", e.Task, cmp.Or(e.State.Phase, string(e.State.Status)))
	}
}

// sharedCheckout is a checkout that shares its tasks through a server.
type sharedCheckout struct {
	project *app.Project
	site    *runner.Site
	team    *app.Team
	server  *server
	host    string
	clone   string // id of the checkout
}

// joinCluster opens the project and connects it to the server and the team's remote.
func joinCluster(a *command.Console, c *cli.Context) (j *sharedCheckout, err error) {
	j = &sharedCheckout{}
	if j.project, err = a.Open(c.Context); err != nil {
		return nil, err
	}
	return j, j.connect(a, c)
}

func (j *sharedCheckout) connect(a *command.Console, c *cli.Context) (err error) {
	if j.site, err = a.Site(c, j.project); err != nil {
		return err
	}
	if j.team, err = app.SharingOf(j.project).Team(j.site); err != nil {
		return err
	}
	if j.host, err = os.Hostname(); err != nil {
		return fmt.Errorf("asking what this machine is called: %w", err)
	}
	if j.clone, err = j.project.Repo.CloneID(); err != nil {
		return err
	}
	j.server, err = dial(c.Context, a, j.site.Config, fmt.Sprintf("%s %.6s %d", j.host, j.clone, os.Getpid()))
	return err
}

func (j *sharedCheckout) task(dir string) (*taskdir.Task, error) {
	t, err := j.project.Store.Load(dir)
	if errors.Is(err, taskdir.ErrNotFound) {
		return nil, app.AsKind(app.ErrNotFound, err)
	}
	return t, err
}
