package main

import (
	"errors"
	"time"
)

// life measures worktree, commit and cleanup of a task, which is merged in between, compared to the same git commands alone.
// Tasks and bare work alternate. Both include the agents; neither includes the merges.
func (b *bench) life(s *site) error {
	rows := []row{{name: "worktree, commit and cleanup by trellis", unit: "ms"}, {name: "beside it: git and the agents alone", unit: "ms"}, {name: "the one by the other", unit: "×"},
		{name: "trellis cleanup --merged TASK alone", unit: "ms"}, {name: "beside it: git worktree remove, branch -D", unit: "ms"}}
	for range b.fewSamples {
		run, cleanup, err := s.taskLife()
		if err != nil {
			return err
		}
		bareRun, bareCleanup, err := s.bareLife()
		if err != nil {
			return err
		}
		own, alone := run+cleanup, bareRun+bareCleanup
		for i, value := range []float64{own, alone, own / alone, cleanup, bareCleanup} {
			rows[i].samples = append(rows[i].samples, value)
		}
	}
	b.rows = append(b.rows, rows...)
	return nil
}

// taskLife runs a new task, merges the result, and cleans up.
func (s *site) taskLife() (run, cleanup float64, err error) {
	id, err := s.addTask()
	if err != nil {
		return 0, 0, err
	}
	var r row
	time.Sleep(samplePause)
	if err := r.addSample(s.command(s.b.trellis, "start", id)); err != nil {
		return 0, 0, err
	}
	branch := "feature/" + id[len("02-01-"):]
	if err := errors.Join(s.waitForDelivery(id), s.run("git", "merge", "-q", "--no-ff", "-m", "merge", branch)); err != nil {
		return 0, 0, err
	}
	time.Sleep(samplePause)
	if err := r.addSample(s.command(s.b.trellis, "cleanup", "--merged", id)); err != nil {
		return 0, 0, err
	}
	return r.samples[0], r.samples[1], s.checkRemoved(branch)
}

// checkRemoved returns an error unless a cleanup has removed the branch: else its time would be meaningless.
func (s *site) checkRemoved(branch string) error {
	if s.run("git", "rev-parse", "-q", "--verify", "refs/heads/"+branch) == nil {
		return errors.New("trellis cleanup left branch " + branch)
	}
	return nil
}

// bareLife does the same with git and the agents alone.
func (s *site) bareLife() (run, cleanup float64, err error) {
	w, err := s.bareRun()
	if err == nil {
		err = s.run("git", "merge", "-q", "--no-ff", "-m", "merge", w.id)
	}
	if err != nil {
		return 0, 0, err
	}
	time.Sleep(samplePause)
	began := time.Now()
	err = s.removeBare(w)
	return w.totalTime, msSince(began), err
}
