package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/trellis-tasks/trellis/internal/git"
)

// defence measures the processor time that a run spends because it doesn't trust git's objects: as a share of whole runs in
// repositories with few and with many files, and how it grows with the objects written meanwhile, and with loose objects. Git
// packs these by itself when there are more than 6,700.
func (b *bench) defence() error {
	few, err := b.newSite("defended-few", 20, 0)
	if err == nil {
		err = few.measureDefence("20 files", defenceTarget)
	}
	if err != nil {
		return err
	}
	many, err := b.newSite("defended-many", b.largeFiles, 0)
	if err == nil {
		err = many.measureDefence(fmt.Sprintf("%d files, none packed", b.largeFiles), 0)
	}
	if err == nil {
		err = many.run("git", "gc", "-q", "--prune=now")
	}
	if err != nil {
		return err
	}
	return many.measureDefence(fmt.Sprintf("%d files", b.largeFiles), defenceTarget)
}

// defenceTarget is the target for that share of a run, in percent.
const defenceTarget = 5

// measureDefence adds the rows of one repository.
func (s *site) measureDefence(name string, target float64) error {
	name += ": "
	rows := []row{{name: name + "processor time of a whole run", unit: "ms"}, {name: name + "of that git's objects, 100 written", unit: "ms"},
		{name: name + "the one by the other", unit: "%", p50: target}}
	for range max(1, s.b.fewSamples/7) {
		whole, err := s.runCPU()
		if err != nil {
			return err
		}
		looks, err := s.objectChecksCPU(100)
		if err != nil {
			return err
		}
		for i, value := range []float64{whole, looks, 100 * looks / whole} {
			rows[i].samples = append(rows[i].samples, value)
		}
	}
	for _, n := range s.b.objectCounts {
		looks, err := s.objectChecksCPU(n)
		if err != nil {
			return err
		}
		rows = append(rows, row{name: fmt.Sprintf("%sgit's objects, %d written", name, n), unit: "ms", samples: []float64{looks}})
	}
	s.b.rows = append(s.b.rows, rows...)
	return nil
}

// runCPU returns the processor time of a whole `trellis start` of a new task, including child processes, in milliseconds.
func (s *site) runCPU() (float64, error) {
	id, err := s.addTask()
	if err != nil {
		return 0, err
	}
	before, err := rusageCPU(syscall.RUSAGE_CHILDREN)
	if err == nil {
		err = s.run(s.b.trellis, "start", id)
	}
	after, spentErr := rusageCPU(syscall.RUSAGE_CHILDREN)
	return ms(after - before), errors.Join(err, spentErr, s.waitForDelivery(id))
}

// objectChecksCPU returns the processor time of what a run does with the objects: it records them, and verifies them before it
// judges, before it commits and before it judges the commit. n objects are written before the first verification.
func (s *site) objectChecksCPU(n int) (float64, error) {
	r, err := git.Open(s.dir)
	if err != nil {
		return 0, err
	}
	r.Env = s.b.env
	began, err := totalCPU()
	if err != nil {
		return 0, err
	}
	objects, err := r.Trees().Objects(time.Time{}, nil)
	noted, spentErr := totalCPU()
	if err = errors.Join(err, spentErr, s.writeObjects(n)); err != nil {
		return 0, err
	}
	wrote, err := totalCPU()
	if err != nil {
		return 0, err
	}
	for range 3 {
		if notes, err := objects.Check(context.Background()); err != nil || len(notes) > 0 {
			return 0, fmt.Errorf("looking at the objects: %q, %w", notes, err)
		}
	}
	end, err := totalCPU()
	return ms(noted - began + end - wrote), err
}

// writeObjects adds n blobs of the size of a small file.
func (s *site) writeObjects(n int) error {
	s.n++
	dir := filepath.Join(filepath.Dir(s.dir), fmt.Sprintf("written-%d", s.n))
	args := []string{"hash-object", "-w", "--"}
	for i := range n {
		path := filepath.Join(dir, fmt.Sprint(i))
		text := fmt.Appendf(nil, "%d of %d\n%01000d\n", i, s.n, i)
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(path, text, 0o644)); err != nil {
			return err
		}
		args = append(args, path)
	}
	return s.run("git", args...)
}

// totalCPU returns the processor time of this program and its child processes.
func totalCPU() (time.Duration, error) {
	own, err := rusageCPU(syscall.RUSAGE_SELF)
	others, childErr := rusageCPU(syscall.RUSAGE_CHILDREN)
	return own + others, errors.Join(err, childErr)
}

func rusageCPU(who int) (time.Duration, error) {
	var u syscall.Rusage
	err := syscall.Getrusage(who, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
