package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// durableOptions are the options with which Trellis calls git for writes.
var durableOptions = []string{"-c", "core.fsync=committed,reference", "-c", "core.fsyncMethod=batch"}

// roles are the agents of a run without problems.
var roles = []string{"implement", "check", "accept"}

// bareWork is what the same work takes without Trellis, in milliseconds.
type bareWork struct {
	id, dir      string
	worktreeTime float64 // only git worktree add
	totalTime    float64
}

// bareWorktree creates a worktree with git alone.
func (s *site) bareWorktree() (bareWork, error) {
	s.n++
	w := bareWork{id: fmt.Sprintf("bare-%d", s.n)}
	w.dir = filepath.Join(filepath.Dir(s.dir), "bare", w.id)
	time.Sleep(samplePause)
	began := time.Now()
	err := s.git(s.dir, "worktree", "add", "--quiet", "--no-track", "-b", w.id, "--", w.dir, "main")
	w.worktreeTime = msSince(began)
	w.totalTime = w.worktreeTime
	return w, err
}

// removeBare removes a bare worktree, so that Trellis has no other worktrees than its own.
func (s *site) removeBare(w bareWork) error {
	return errors.Join(s.run("git", "worktree", "remove", "--force", "--", w.dir), s.run("git", "branch", "-q", "-D", "--", w.id))
}

// bareRun does the work of a run with git and the agents alone.
func (s *site) bareRun() (bareWork, error) {
	w, err := s.bareWorktree()
	if err != nil {
		return w, err
	}
	began := time.Now()
	for _, role := range roles {
		cmd := s.command(s.b.instant, s.log)
		cmd.Dir, cmd.Stdin = w.dir, strings.NewReader("A prompt.\n")
		cmd.Env = append(cmd.Environ(), "TRELLIS_ROLE="+role, "TRELLIS_TASK_ID="+w.id)
		if err := succeed(cmd); err != nil {
			return w, err
		}
	}
	err = errors.Join(s.git(w.dir, "add", "--all"), s.git(w.dir, "commit", "--quiet", "-m", "Do "+w.id))
	w.totalTime += msSince(began)
	return w, err
}

func (s *site) git(dir string, args ...string) error {
	cmd := s.command("git", append(durableOptions, args...)...)
	cmd.Dir = dir
	return succeed(cmd)
}

// pipeline measures a whole run, by a watcher and by `trellis start`, compared to the bare work. Runs and bare work alternate,
// so that both are measured under the same conditions.
func (b *bench) pipeline(s *site) error {
	var watched []row
	err := s.withWatcher(func(w *watcher) (err error) {
		watched, err = s.compareWithBare("whole run by the watcher", b.fewSamples, func() (float64, error) {
			_, whole, err := w.sample()
			return whole, err
		})
		return err
	})
	if err != nil {
		return err
	}
	watched[2].p50 = 1.5
	started, err := s.compareWithBare("whole run by trellis start", b.fewSamples, s.startSample)
	b.rows = append(b.rows, append(watched, started...)...)
	return err
}

// compareWithBare takes n samples, each followed by one of the bare work. The third row has the ratios of the pairs.
func (s *site) compareWithBare(name string, n int, sample func() (float64, error)) ([]row, error) {
	rows := []row{{name: name, unit: "ms"}, {name: "beside it: git and the agents alone", unit: "ms"}, {name: "the one by the other", unit: "×"}}
	for range n {
		own, err := sample()
		if err != nil {
			return nil, err
		}
		alone, err := s.bareRun()
		if err = errors.Join(err, s.removeBare(alone)); err != nil {
			return nil, err
		}
		for i, value := range []float64{own, alone.totalTime, own / alone.totalTime} {
			rows[i].samples = append(rows[i].samples, value)
		}
	}
	return rows, nil
}

// startSample measures a whole `trellis start` of a new task, without a watcher.
func (s *site) startSample() (float64, error) {
	id, err := s.addTask()
	if err != nil {
		return 0, err
	}
	time.Sleep(samplePause)
	began := time.Now()
	if err := s.run(s.b.trellis, "start", id); err != nil {
		return 0, err
	}
	return msSince(began), s.waitForDelivery(id)
}
