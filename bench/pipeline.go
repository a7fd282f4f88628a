package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// durably are the options with which Trellis calls git for writes.
var durably = []string{"-c", "core.fsync=committed,reference", "-c", "core.fsyncMethod=batch"}

// roles are the agents of a run without problems.
var roles = []string{"implement", "check", "accept"}

// bare is what the same work takes without Trellis, in milliseconds.
type bare struct {
	id, dir string
	add     float64 // only git worktree add
	whole   float64
}

// bareWorktree creates a worktree with git alone.
func (s *site) bareWorktree() (bare, error) {
	s.n++
	w := bare{id: fmt.Sprintf("bare-%d", s.n)}
	w.dir = filepath.Join(filepath.Dir(s.dir), "bare", w.id)
	time.Sleep(breath)
	began := time.Now()
	err := s.git(s.dir, "worktree", "add", "--quiet", "--no-track", "-b", w.id, "--", w.dir, "main")
	w.add = since(began)
	w.whole = w.add
	return w, err
}

// forget removes a bare worktree, so that Trellis has no other worktrees than its own.
func (s *site) forget(w bare) error {
	return errors.Join(s.run("git", "worktree", "remove", "--force", "--", w.dir), s.run("git", "branch", "-q", "-D", "--", w.id))
}

// bareRun does the work of a run with git and the agents alone.
func (s *site) bareRun() (bare, error) {
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
	w.whole += since(began)
	return w, err
}

func (s *site) git(dir string, args ...string) error {
	cmd := s.command("git", append(durably, args...)...)
	cmd.Dir = dir
	return succeed(cmd)
}

// pipeline measures a whole run, by a watcher and by `trellis start`, compared to the bare work. Runs and bare work alternate,
// so that both are measured under the same conditions.
func (b *bench) pipeline(s *site) error {
	var watched []row
	err := s.watching(func(w *watcher) (err error) {
		watched, err = s.beside("whole run by the watcher", b.few, func() (float64, error) {
			_, whole, err := w.sample()
			return whole, err
		})
		return err
	})
	if err != nil {
		return err
	}
	watched[2].p50 = 1.5
	started, err := s.beside("whole run by trellis start", b.few, s.startSample)
	b.rows = append(b.rows, append(watched, started...)...)
	return err
}

// beside takes n samples, each followed by one of the bare work. The third row has the ratios of the pairs.
func (s *site) beside(name string, n int, sample func() (float64, error)) ([]row, error) {
	rows := []row{{name: name, unit: "ms"}, {name: "beside it: git and the agents alone", unit: "ms"}, {name: "the one by the other", unit: "×"}}
	for range n {
		own, err := sample()
		if err != nil {
			return nil, err
		}
		alone, err := s.bareRun()
		if err = errors.Join(err, s.forget(alone)); err != nil {
			return nil, err
		}
		for i, value := range []float64{own, alone.whole, own / alone.whole} {
			rows[i].samples = append(rows[i].samples, value)
		}
	}
	return rows, nil
}

// startSample measures a whole `trellis start` of a new task, without a watcher.
func (s *site) startSample() (float64, error) {
	id, err := s.placed()
	if err != nil {
		return 0, err
	}
	time.Sleep(breath)
	began := time.Now()
	if err := s.run(s.b.trellis, "start", id); err != nil {
		return 0, err
	}
	return since(began), s.ended(id)
}
