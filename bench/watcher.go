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
	s      *site
	cmd    *exec.Cmd
	said   bytes.Buffer
	holder durable.Holder // from its lock: the pids of worker and guard
}

// breath is the pause between samples, so that a sample doesn't include work left over from the previous one.
const breath = 60 * time.Millisecond

// watching calls do with a watcher that has already run a first task, which is not counted and after which it has read everything.
func (s *site) watching(do func(*watcher) error) error {
	w := &watcher{s: s, cmd: s.command(s.b.trellis, "watch")}
	w.cmd.Stderr = &w.said
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
	return fmt.Errorf("the watcher ended with %v, it said:\n%s", err, &w.said)
}

// sample moves a complete task directory into place, and returns the milliseconds until its first agent was started, and until
// its commit was delivered.
func (w *watcher) sample() (exec, whole float64, err error) {
	id, at, err := w.s.task()
	if err != nil {
		return 0, 0, err
	}
	time.Sleep(breath)
	began := time.Now()
	if err := os.Rename(at, filepath.Join(w.s.tasks(), id)); err != nil {
		return 0, 0, err
	}
	if err := w.s.ended(id); err != nil {
		return 0, 0, err
	}
	whole = since(began)
	started, err := w.s.started(id)
	return float64(started.Sub(began)) / float64(time.Millisecond), whole, err
}

// latency measures the time from the rename of a task directory to its agent, and separately git's part of that.
func (b *bench) latency(s *site, what string, n int, p50, p99 float64) error {
	own := row{name: "rename to agent, " + what, unit: "ms", p50: p50, p99: p99}
	add := row{name: "beside it: git worktree add", unit: "ms"}
	err := s.watching(func(w *watcher) error {
		for range n {
			took, _, err := w.sample()
			if err != nil {
				return err
			}
			alone, err := s.bareWorktree()
			if err = errors.Join(err, s.forget(alone)); err != nil {
				return err
			}
			own.samples, add.samples = append(own.samples, took), append(add.samples, alone.add)
		}
		return nil
	})
	b.rows = append(b.rows, own, add)
	return err
}
