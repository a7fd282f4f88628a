package scheduler_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/scheduler"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// With options, a start runs the task itself, although a watcher is running.
func TestStartWithOptionsBesideAWatcher(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	w.watching(scheduler.WatchOptions{})
	dir := filepath.Join(w.Site.Store.Tasks(), "02-01-mine")
	if err := runnertest.Lay(dir, "planning"); err != nil {
		t.Fatal(err)
	}
	res, err := w.Site.Starter().Start(context.Background(), dir, runner.RunOptions{Agent: agents.Rehearsal})
	if err != nil || res.Status != trellis.Review {
		t.Fatalf("got %+v, %v", res, err)
	}
	if got := w.Read(".trellis/tasks/02-01-mine/run/journal.jsonl"); !strings.Contains(strings.SplitN(got, "\n", 2)[0], `"agent":"rehearsal"`) {
		t.Errorf("the run begins %.300s", got)
	}
}

// A person's start does not wait for not_before, although a watcher is running.
func TestStartBeforeItsTimeBesideAWatcher(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	w.watching(scheduler.WatchOptions{})
	dir := w.with("02-01-later", `"pipeline": {"not_before": "2999-01-01T00:00:00Z"}`)
	if res, err := w.Site.Starter().Start(t.Context(), dir, runner.RunOptions{}); err != nil || res.Status != trellis.Review {
		t.Errorf("got %+v, %v", res, err)
	}
}

// Following a task that the watcher does not begin returns the reason.
func TestFollowUntaken(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(w *world, dir string) error
		want  func(runner.Result, error) bool
	}{
		"invalid": {func(_ *world, dir string) error { return os.Remove(filepath.Join(dir, "prd.md")) },
			func(_ runner.Result, err error) bool { return errors.As(err, new(*runner.NotReadyError)) }},
		"not before": {func(_ *world, dir string) error {
			return os.WriteFile(filepath.Join(dir, "task.json"), []byte(`{"status": "ready", "pipeline": {"not_before": "2999-01-01T00:00:00Z"}}`), 0o644)
		}, func(res runner.Result, err error) bool {
			return err == nil && len(res.Waits) == 1 && !res.Until.IsZero()
		}},
		"no agent": {func(w *world, _ string) error { return nil },
			func(res runner.Result, err error) bool {
				return err == nil && res.Failure != nil && res.Failure.Code == string(trellis.AgentMissing)
			}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, runnertest.Quickly)
			if name == "no agent" {
				w.Site.Available = func(context.Context, string) error { return flow.Fail(string(trellis.AgentMissing), "no such program") }
			}
			w.watching(scheduler.WatchOptions{})
			dir := filepath.Join(w.Dir, "..", "02-01-mine")
			if err := errors.Join(runnertest.Lay(dir, "ready"), c.spoil(w, dir), os.Rename(dir, filepath.Join(w.Site.Store.Tasks(), "02-01-mine"))); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(context.Background(), runnertest.Hang)
			defer cancel()
			if res, err := w.Site.Starter().Follow(ctx, filepath.Join(w.Site.Store.Tasks(), "02-01-mine")); !c.want(res, err) {
				t.Errorf("got %+v, %v", res, err)
			}
		})
	}
}

// Without a git identity nothing is planned or started: otherwise the commit would fail after agents were paid.
func TestNoIdentity(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Working)
	w.Git("config", "--unset", "user.name")
	w.Git("config", "--unset", "user.email")
	w.Site.Repo.Env = slices.DeleteFunc(slices.Clone(w.Site.Repo.Env), func(kv string) bool {
		return strings.HasPrefix(kv, "GIT_AUTHOR_") || strings.HasPrefix(kv, "GIT_COMMITTER_") || strings.HasPrefix(kv, "EMAIL=")
	})
	dir := w.Hand("02-01-bye", runnertest.ProvenPRD)
	w.Hand("02-02-hello", runnertest.ProvenPRD)
	var nobody *git.IdentityError
	if _, err := w.Site.Starter().Start(context.Background(), dir, runner.RunOptions{}); !errors.As(err, &nobody) {
		t.Errorf("started: %v", err)
	}
	if _, err := w.Plan("bye", "say bye"); !errors.As(err, &nobody) {
		t.Errorf("planned: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(w.Site.Store.Tasks(), ".new-*")); err != nil || len(left) > 0 {
		t.Errorf("left %q, %v", left, err)
	}
	all, err := scheduler.Watch(context.Background(), w.Site, scheduler.WatchOptions{Once: true, Parallel: 1, Rescan: time.Hour})
	if err != nil || len(all) != 2 || all[0].Status != trellis.Ready || all[1].Status != trellis.Ready || w.Heard("git does not know who you are") != 1 {
		t.Errorf("watched: %+v, %v, said %q", all, err, w.Said)
	}
}
