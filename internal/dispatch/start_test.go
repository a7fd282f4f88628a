package dispatch_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/dispatch"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// A task that was paused after it had delivered is not run twice: start says again what came of it.
func TestPausedAfterDelivery(t *testing.T) {
	t.Parallel()
	w := newWorld(t, counted())
	dir := w.hand("02-01-bye", provenPRD)
	if res := w.start(dir); res.Status != trellis.Review {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	before, commit := w.calls(), w.git("rev-parse", "feature/bye")
	w.edit(dir, `"review"`, `"paused"`)
	var refused *dispatch.RefusedError
	if err := w.Site.Retry(context.Background(), dir, false, dispatch.RunOptions{}); !errors.As(err, &refused) || !strings.Contains(refused.Why, "delivered") {
		t.Errorf("retried: %v", err)
	}
	if res := w.start(dir); res.Status != trellis.Review || res.Outcome != trellis.Delivered || w.heard("not run twice") != 1 {
		t.Errorf("started: %+v, said %q", res, w.said)
	}
	if after := w.calls(); after["implement"] != before["implement"] || w.git("rev-parse", "feature/bye") != commit {
		t.Errorf("it ran again: %v", after)
	}
}

// With options the task is run here, although a watcher is there that would take it without them.
func TestStartWithOptionsBesideAWatcher(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quickly)
	w.watching(dispatch.WatchOptions{})
	dir := filepath.Join(w.Site.Store.Tasks(), "02-01-mine")
	if err := lay(dir, "planning"); err != nil {
		t.Fatal(err)
	}
	res, err := w.Site.Start(context.Background(), dir, dispatch.RunOptions{Agent: agents.Rehearsal})
	if err != nil || res.Status != trellis.Review {
		t.Fatalf("got %+v, %v", res, err)
	}
	if got := w.read(".trellis/tasks/02-01-mine/run/journal.jsonl"); !strings.Contains(strings.SplitN(got, "\n", 2)[0], `"agent":"rehearsal"`) {
		t.Errorf("the run begins %.300s", got)
	}
}

// Who follows a task that the watcher does not take learns why.
func TestFollowUntaken(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(w *world, dir string) error
		want  func(dispatch.Result, error) bool
	}{
		"invalid": {func(_ *world, dir string) error { return os.Remove(filepath.Join(dir, "prd.md")) },
			func(_ dispatch.Result, err error) bool { return errors.As(err, new(*dispatch.NotReadyError)) }},
		"not before": {func(_ *world, dir string) error {
			return os.WriteFile(filepath.Join(dir, "task.json"), []byte(`{"status": "ready", "pipeline": {"not_before": "2999-01-01T00:00:00Z"}}`), 0o644)
		}, func(res dispatch.Result, err error) bool {
			return err == nil && len(res.Waits) == 1 && !res.Until.IsZero()
		}},
		"no agent": {func(w *world, _ string) error { return nil },
			func(res dispatch.Result, err error) bool {
				return err == nil && res.Failure != nil && res.Failure.Code == string(trellis.AgentMissing)
			}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, quickly)
			if name == "no agent" {
				w.Site.Available = func(context.Context, string) error { return flow.Fail(string(trellis.AgentMissing), "no such program") }
			}
			w.watching(dispatch.WatchOptions{})
			dir := filepath.Join(w.Dir, "..", "02-01-mine")
			if err := errors.Join(lay(dir, "ready"), c.spoil(w, dir), os.Rename(dir, filepath.Join(w.Site.Store.Tasks(), "02-01-mine"))); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			if res, err := w.Site.Follow(ctx, filepath.Join(w.Site.Store.Tasks(), "02-01-mine")); !c.want(res, err) {
				t.Errorf("got %+v, %v", res, err)
			}
		})
	}
}

// Without an identity nothing is planned or started: the commit would fail after agents were paid.
func TestNoIdentity(t *testing.T) {
	t.Parallel()
	w := newWorld(t, working)
	w.git("config", "--unset", "user.name")
	w.git("config", "--unset", "user.email")
	w.Site.Repo.Env = slices.DeleteFunc(slices.Clone(w.Site.Repo.Env), func(kv string) bool {
		return strings.HasPrefix(kv, "GIT_AUTHOR_") || strings.HasPrefix(kv, "GIT_COMMITTER_") || strings.HasPrefix(kv, "EMAIL=")
	})
	dir := w.hand("02-01-bye", provenPRD)
	w.hand("02-02-hello", provenPRD)
	var nobody *git.IdentityError
	if _, err := w.Site.Start(context.Background(), dir, dispatch.RunOptions{}); !errors.As(err, &nobody) {
		t.Errorf("started: %v", err)
	}
	if _, err := w.plan("bye", "say bye"); !errors.As(err, &nobody) {
		t.Errorf("planned: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(w.Site.Store.Tasks(), ".new-*")); err != nil || len(left) > 0 {
		t.Errorf("left %q, %v", left, err)
	}
	all, err := w.Site.Watch(context.Background(), dispatch.WatchOptions{Once: true, Parallel: 1, Rescan: time.Hour})
	if err != nil || len(all) != 2 || all[0].Status != trellis.Ready || all[1].Status != trellis.Ready || w.heard("git does not know who you are") != 1 {
		t.Errorf("watched: %+v, %v, said %q", all, err, w.said)
	}
}

// When a journal is damaged, what its process left running is ended before the work is saved, and a ready task
// says what to type.
func TestDamagedJournal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, working)
	dir := w.hand("02-01-bye", provenPRD)
	w.start(dir)
	h, err := durable.ReadHolder(filepath.Join(dir, taskdir.RunLock))
	if err != nil || h.Marker == "" {
		t.Fatalf("got %+v, %v", h, err)
	}
	left := exec.Command("sleep", "300")
	left.Env = append(os.Environ(), "TRELLIS_RUN_MARKER="+h.Marker)
	if err := left.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan error, 1)
	go func() { gone <- left.Wait() }()
	w.write(".trellis/tasks/02-01-bye/run/journal.jsonl", "{}\nnonsense\n")
	w.edit(dir, `"review"`, `"ready"`)
	var refused *dispatch.RefusedError
	if _, err := w.Site.Start(context.Background(), dir, dispatch.RunOptions{}); !errors.As(err, &refused) || refused.Hint != "trellis retry 02-01-bye" {
		t.Errorf("a ready one: %v", err)
	}
	w.edit(dir, `"ready"`, `"in_progress"`)
	if res := w.start(dir); res.Failure == nil || res.Failure.Code != string(trellis.JournalDamaged) {
		t.Errorf("got %+v", res)
	}
	select {
	case <-gone:
	case <-time.After(hang):
		t.Error("what the former process started is still running")
		left.Process.Kill()
		<-gone
	}
}
