package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// watcher is a running `trellis watch`.
type watcher struct {
	site   *site
	cmd    *exec.Cmd
	stderr bytes.Buffer
	holder durable.Holder // from its lock: the pids of worker and guard
}

// samplePause is the pause between samples, so that a sample doesn't include work left over from the previous one.
const samplePause = 60 * time.Millisecond

// withWatcher calls do with a watcher that has already run a first task, which is not counted and after which it has read everything.
func (s *site) withWatcher(do func(*watcher) error) error {
	w := &watcher{site: s, cmd: s.command(s.b.trellis, "watch")}
	w.cmd.Stderr = &w.stderr
	if err := w.cmd.Start(); err != nil {
		return fmt.Errorf("starting a watcher: %w", err)
	}
	_, _, err := w.sample()
	if err == nil {
		w.holder, err = durable.ReadHolder(filepath.Join(s.dir, ".trellis", ".runtime", "watch.lock"))
	}
	if err == nil {
		err = do(w)
	}
	return errors.Join(err, w.stop())
}

func (w *watcher) stop() error {
	if err := w.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("ending the watcher: %w", err)
	}
	err := w.cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 128+int(syscall.SIGTERM) {
		return nil
	}
	return fmt.Errorf("the watcher ended with %v, it said:\n%s", err, &w.stderr)
}

// sample moves a complete task directory into place, and returns the milliseconds until its first agent was started, and until
// its commit was delivered.
func (w *watcher) sample() (exec, whole float64, err error) {
	id, path, err := w.site.prepareTask()
	if err != nil {
		return 0, 0, err
	}
	time.Sleep(samplePause)
	began := time.Now()
	if err := os.Rename(path, filepath.Join(w.site.tasks(), id)); err != nil {
		return 0, 0, err
	}
	if err := w.site.waitForDelivery(id); err != nil {
		return 0, 0, err
	}
	whole = msSince(began)
	started, err := w.site.agentStartTime(id)
	return float64(started.Sub(began)) / float64(time.Millisecond), whole, err
}

// latency measures the time from the rename of a task directory to its agent, and separately git's part of that.
func (b *bench) latency(s *site, what string, n int, p50, p99 float64) error {
	own := row{name: "rename to agent, " + what, unit: "ms", p50: p50, p99: p99}
	add := row{name: "beside it: git worktree add", unit: "ms"}
	err := s.withWatcher(func(w *watcher) error {
		for range n {
			took, _, err := w.sample()
			if err != nil {
				return err
			}
			alone, err := s.bareWorktree()
			if err = errors.Join(err, s.removeBare(alone)); err != nil {
				return err
			}
			own.samples, add.samples = append(own.samples, took), append(add.samples, alone.worktreeTime)
		}
		return nil
	})
	b.rows = append(b.rows, own, add)
	return err
}
