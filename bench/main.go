// Command bench measures the built trellis as users run it: start-up, lists, the time from a task directory to its agent, an
// idle watcher, whole runs with and without cleanup compared to the git commands that they need, and more. It prints one table
// and exits with 1 if a target is missed by more than 2x.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	trellis := flag.String("trellis", "bin/trellis", "the built `program`")
	before := flag.String("before", "", "another built `program`, measured beside it where what a delivered task takes is")
	only := flag.String("only", "", "measure only what has this `text` in its name")
	flag.Parse()
	b := &bench{only: *only, log: os.Stderr, manySamples: 100, fewSamples: 20, sizes: []int{10, 1000, 10_000}, chainSteps: 1000, largeFiles: 20_000, logMegabytes: 100, diffLines: 50_000, objectCounts: []int{10, 100, 1000}, sameBaseTasks: 8, idleTime: 33 * time.Second, checkTime: 10 * time.Second, agentTime: time.Second}
	failed, err := b.run(*trellis, *before, os.Stdout)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	case failed > 0:
		fmt.Fprintf(os.Stderr, "bench: %d targets are missed by more than %d×\n", failed, tolerance)
		os.Exit(1)
	}
}

// bench measures everything and collects the results.
type bench struct {
	only                    string        // measure only what contains this in its name
	log                     io.Writer     // gets progress messages
	manySamples, fewSamples int           // numbers of samples for fast and for slow measurements
	sizes                   []int         // numbers of tasks to list
	chainSteps              int           // number of steps in a file for `trellis run`
	largeFiles              int           // number of files in a large repository
	logMegabytes            int           // megabytes of a long log, whose end a board shows
	diffLines               int           // lines of a long diff, which a board shows in pages
	objectCounts            []int         // numbers of objects written by an agent
	sameBaseTasks           int           // tasks that begin at the same base when the cost of checks is measured
	checkTime               time.Duration // duration of slow checks
	agentTime               time.Duration // duration of slow agents
	idleTime                time.Duration // how long an idle watcher with many tasks is measured: more than the interval between rescans

	trellis, before string // programs to measure: the current one, and an earlier one or ""
	instant, timed  string // paths of bench's own programs; "": they are to be built
	dir             string // parent of all files created
	env             []string
	rows            []row
}

func (b *bench) logf(format string, args ...any) { fmt.Fprintf(b.log, format+"\n", args...) }

// run measures everything, prints the table and returns the number of failed targets.
func (b *bench) run(trellis, before string, out io.Writer) (failed int, err error) {
	if b.dir, err = os.MkdirTemp("", "trellis-bench-"); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	if err := b.prepare(trellis, before); err != nil {
		return 0, err
	}
	if err := b.machine(out); err != nil {
		return 0, err
	}
	if err := b.measure(); err != nil {
		return 0, err
	}
	return table(out, b.rows)
}

const (
	instantPackage = "github.com/trellis-tasks/trellis/bench/instant"
	timedPackage   = "github.com/trellis-tasks/trellis/bench/timed"
)

// prepare builds bench's own programs, and sets an environment without the user's settings.
func (b *bench) prepare(trellis, before string) (err error) {
	if b.trellis, err = filepath.Abs(trellis); err != nil {
		return err
	}
	if before != "" {
		if b.before, err = filepath.Abs(before); err != nil {
			return err
		}
	}
	if b.dir, err = filepath.EvalSymlinks(b.dir); err != nil {
		return err
	}
	if b.instant == "" {
		b.instant, b.timed = filepath.Join(b.dir, "instant"), filepath.Join(b.dir, "timed")
		if err := succeed(exec.Command("go", "build", "-o", b.dir+"/", instantPackage, timedPackage)); err != nil {
			return err
		}
	}
	b.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.dir, "TMPDIR=" + os.TempDir(), "LANG=C", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.org", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.org"}
	return nil
}

// measure runs all measurements, one after the other.
func (b *bench) measure() error {
	small, err := b.newSite("small", 10, 10)
	if err != nil {
		return err
	}
	files := min(1000, b.largeFiles)
	large, err := b.newSite("large", files, 10)
	if err != nil {
		return err
	}
	crowded, err := b.newSite("crowded", 10, 0)
	if err != nil {
		return err
	}
	most := b.sizes[len(b.sizes)-1]
	tasks := fmt.Sprintf("%d tasks", most)
	for _, m := range []struct {
		what string
		do   func() error
	}{
		{"the disk", b.disk},
		{"start-up", func() error { return b.startup(small) }},
		{"lists", func() error { return b.list(crowded) }},
		{"from rename to agent", func() error { return b.latency(small, "10 files, 10 tasks", b.manySamples, 30, 150) }},
		{"the same among many tasks", func() error { return b.latency(crowded, "10 files, "+tasks, b.manySamples/2, 30, 150) }},
		{"the same among many files", func() error { return b.latency(large, fmt.Sprintf("%d files, 10 tasks", files), b.fewSamples, 0, 0) }},
		{"a watcher at rest", func() error { return b.idle(small, "10 tasks", b.idleTime/6) }},
		{"the same with many tasks", func() error { return b.idle(crowded, tasks, b.idleTime) }},
		{"the terminal UI", func() error { return errors.Join(crowded.fill(0, most), b.ui(crowded, tasks, b.idleTime)) }},
		{"the board", func() error { return errors.Join(crowded.fill(0, most), b.board(crowded, small, tasks, b.idleTime)) }},
		{"whole runs", func() error { return b.pipeline(small) }},
		{"worktree, commit and cleanup", func() error { return b.life(small) }},
		{"the defence of git's objects", b.defence},
		{"planning", func() error { return b.planning(small) }},
		{"planning with agents that take long", b.speculation},
		{"checks that take long", b.checks},
		{"several machines", b.shared},
		{"a real project of Go", func() error { return b.realProjects("a real project of Go", b.goProject) }},
		{"a real project of Node", func() error { return b.realProjects("a real project of Node", b.nodeProject) }},
		{"steps", func() error { return b.steps(small) }},
		{"an objective", func() error { return b.objective(small) }},
	} {
		if !strings.Contains(m.what, b.only) {
			continue
		}
		began := time.Now()
		if err := m.do(); err != nil {
			return fmt.Errorf("measuring %s: %w", m.what, err)
		}
		b.logf("measured %s in %.1f s", m.what, time.Since(began).Seconds())
	}
	return nil
}
