package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/cli/outcome"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// startInBackground starts this program again in a new session, with its output going to log, and returns once that
// process holds lock (then begun is true) or has ended. The output of a process that has ended is printed here.
func startInBackground(a *command.Console, args []string, log, lock string) (begun bool, err error) {
	self, err := os.Executable()
	if err != nil {
		return false, fmt.Errorf("finding this program: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(log), 0o700); err != nil {
		return false, fmt.Errorf("making the folder of %s: %w", log, err)
	}
	out, err := durable.OpenOwn(log, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return false, fmt.Errorf("opening the log: %w", err)
	}
	defer out.Close()
	before, err := out.Seek(0, io.SeekEnd)
	if err != nil {
		return false, fmt.Errorf("opening the log: %w", err)
	}
	cmd := exec.Command(self, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = a.Dir, a.Env, out, out
	if a.JSONErrors {
		cmd.Stdout = nil // the caller prints the document
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return false, fmt.Errorf("starting in the background: %w", err)
	}
	gone := make(chan error, 1)
	go func() { gone <- cmd.Wait() }()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-gone:
			_, _ = io.Copy(a.Stderr, io.NewSectionReader(out, before, durable.MaxRecords))
			if exit, ok := errors.AsType[*exec.ExitError](err); ok {
				return false, command.ExitStatus(exit.ExitCode())
			}
			return false, err
		case <-tick.C:
			if durable.Held(lock) {
				return true, nil
			}
		}
	}
}

// ignoreWaiting returns err, or nil if it is ExitWaiting: a process that waits only later does not report that by its exit code.
func ignoreWaiting(err error) error {
	if errors.Is(err, command.ExitStatus(command.ExitWaiting)) {
		return nil
	}
	return err
}

// startDetached queues a task with the watcher, or runs it in the background.
func startDetached(a *command.Console, c *cli.Context, p *app.Project, dir string) error {
	s, err := a.Site(c, p)
	if err != nil {
		return err
	}
	id := filepath.Base(dir)
	plain := c.String("agent") == "" && !c.Bool("adopt-branch")
	if plain { // a watcher takes no options
		runs, res, err := s.Starter().Admit(c.Context, dir)
		if err != nil {
			return outcome.RunError(a, p, dir, err)
		}
		a.SayProblems(res.Warnings)
		if !runs {
			return outcome.PrintRun(c.Context, a, p, res, c.Bool("json"))
		}
		if h, ok := s.Starter().WatcherFor(dir); ok {
			return sayDetached(a, c, p, dir, fmt.Sprintf("%s is queued with the watcher (pid %d)", id, h.PID))
		}
	}
	log := filepath.Join(dir, taskdir.Run, "start.log")
	args := append([]string{"start", dir}, command.GivenFlags(c, "agent", "adopt-branch", "shared-fs", "json")...)
	begun, err := startInBackground(a, args, log, filepath.Join(dir, taskdir.RunLock))
	if !begun && plain { // with options, nothing may have begun
		err = ignoreWaiting(err)
	}
	if err != nil || !begun && !c.Bool("json") {
		return err
	}
	return sayDetached(a, c, p, dir, fmt.Sprintf("%s runs in the background; next: trellis logs -f %s", id, trellis.ShellWord(id)))
}

// sayDetached prints text, or with --json the state of the task.
func sayDetached(a *command.Console, c *cli.Context, p *app.Project, dir, text string) error {
	if !c.Bool("json") {
		a.Say("%s", text)
		return nil
	}
	return a.PrintTask(p, dir)
}

// planDetached makes the folder to plan in and plans in the background.
func planDetached(a *command.Console, c *cli.Context) error {
	if c.Bool("json") {
		return app.Usagef("--detach returns before there is anything to print: leave out --json")
	}
	p, err := a.Open(c.Context)
	if err != nil {
		return err
	}
	if err := a.RefuseSharedDisk(c, p.Root); err != nil {
		return err
	}
	o, draft, err := planOptions(a, c, p)
	if err != nil {
		return closeDraft(draft, err)
	}
	dir, err := planFolder(c, p, o)
	if err = closeDraft(draft, err); err != nil {
		return err
	}
	id := strings.TrimPrefix(filepath.Base(dir), taskdir.DraftPrefix)
	log := filepath.Join(p.Root, ".trellis", ".runtime", "plan-"+id+".log")
	begun, err := startInBackground(a, planArgs(c, p, dir, o), log, filepath.Join(dir, taskdir.RunLock))
	if err := ignoreWaiting(err); err != nil {
		return err
	}
	if begun { // otherwise it has ended, and its output was printed
		a.Say("planning in the background; next: trellis status %s", trellis.ShellWord(id))
	}
	return a.Result(p.Store.Rel(filepath.Join(filepath.Dir(dir), id))) // the name that planning publishes it under
}

// planFolder returns the folder that --retry names, or creates a new one to plan in.
func planFolder(c *cli.Context, p *app.Project, o runner.PlanOptions) (dir string, err error) {
	s, err := p.Site(c.Context)
	if err != nil {
		return "", err
	}
	if ref := c.String("retry"); ref != "" {
		if o.Requirement != "" || o.Feedback != "" {
			return "", app.Usagef("--detach with --retry takes no requirement and no feedback: leave out --detach")
		}
		dir, err = taskToReplan(p, s, ref, o)
	} else if err = s.Roles().CheckPlanners(c.Context, o.Agent); err == nil {
		dir, err = s.PlanRunner().Draft(o)
	}
	if err != nil {
		return "", outcome.PlanError(p, err)
	}
	return dir, nil
}

// planArgs returns the arguments of the process that plans.
func planArgs(c *cli.Context, p *app.Project, dir string, o runner.PlanOptions) []string {
	args := append([]string{"plan", "--retry", dir}, command.GivenFlags(c, "agent", "quick", "no-taskspec", "shared-fs", "constraint")...)
	for _, path := range o.Context {
		args = append(args, "--context="+filepath.Join(p.Root, path))
	}
	return args
}
