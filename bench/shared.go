package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// team is a site with clones that share its tasks through a bare remote.
type team struct {
	b         *bench
	remoteDir string
	machines  []*site
}

// silence is how long a machine of a team has to be silent before its tasks are taken over.
const silence = 10 * time.Second

// newTeam creates a repository with clones that share the tasks. The agent for implement takes turn.
func (b *bench) newTeam(name string, clones int, turn time.Duration) (*team, error) {
	first, err := b.newSite(name, 10, 0)
	if err != nil {
		return nil, err
	}
	agent := fmt.Sprintf(`if test "$TRELLIS_ROLE" = implement; then echo begun >> "$1.begun"; sleep %g; fi; exec "$0" "$1"`, turn.Seconds())
	text := fmt.Sprintf("agents: {default: slow, commands: {slow: {command: [sh, -c, %q, %q, %q]}}}\nlimits: {attempts: 1, rounds: 1, parallel: %d}\nshared: {remote: origin, silence: %v}\n",
		agent, b.instant, first.log, parallelTasks, silence)
	t := &team{b: b, remoteDir: filepath.Join(filepath.Dir(first.dir), "shared.git"), machines: []*site{first}}
	err = errors.Join(first.write(".trellis/config.yaml", text), first.run("git", "commit", "-qam", "share"), first.run("git", "clone", "-q", "--bare", ".", t.remoteDir),
		first.run("git", "remote", "add", "origin", t.remoteDir), first.run("git", "-C", t.remoteDir, "config", "core.logAllRefUpdates", "always"))
	for i := 1; i < clones && err == nil; i++ {
		s := &site{b: b, dir: filepath.Join(filepath.Dir(first.dir), fmt.Sprintf("clone-%d", i), "repo"), log: first.log}
		err = first.run("git", "clone", "-q", t.remoteDir, s.dir)
		t.machines = append(t.machines, s)
	}
	return t, err
}

// watch starts a watcher on a machine. end shuts it down.
func (t *team) watch(s *site) (cmd *exec.Cmd, end func() error, err error) {
	cmd = s.command(t.b.trellis, "watch", "--log-level", "error")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	return cmd, func() error {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			return err
		}
		_ = cmd.Wait() // it was interrupted
		return nil
	}, nil
}

// reviewCount returns how many tasks of the team are in review.
func (t *team) reviewCount() (n int, err error) {
	out, err := exec.Command("git", "-C", t.remoteDir, "for-each-ref", "--format=%(contents)", "refs/trellis/run").Output()
	if strings.Contains(string(out), "\nStatus: failed\n") {
		return 0, errors.New("a task failed")
	}
	return strings.Count(string(out), "\nStatus: review\n"), err
}

// shared measures teams of several machines.
func (b *bench) shared() error {
	if b.only == "" {
		b.skip("several machines", `they take many minutes: go run ./bench -only "several machines"`)
		return nil
	}
	for _, turn := range []time.Duration{0, b.agentTime * 5} {
		for _, clones := range []int{1, 2, 4} {
			if err := b.rate(clones, turn); err != nil {
				return err
			}
		}
	}
	return b.takeOver()
}

// rate measures how many tasks a team brings to review in an hour.
func (b *bench) rate(clones int, turn time.Duration) (err error) {
	what := fmt.Sprintf("%d machines, agents of %v", clones, turn)
	t, err := b.newTeam(strings.ReplaceAll(what, " ", "-"), clones, turn)
	if err != nil {
		return err
	}
	before, err := diskUsage(t.remoteDir)
	if err != nil {
		return err
	}
	for i := range b.fewSamples {
		err = errors.Join(err, t.machines[0].writeTask(filepath.Join(t.machines[0].tasks(), fmt.Sprintf("02-01-shared-%d", i)), "ready"))
	}
	if err != nil {
		return err
	}
	began := time.Now()
	for _, s := range t.machines {
		_, end, werr := t.watch(s)
		if werr != nil {
			return werr
		}
		defer func() { err = errors.Join(err, end()) }()
	}
	for n := 0; n < b.fewSamples; time.Sleep(50 * time.Millisecond) {
		if n, err = t.reviewCount(); err != nil {
			return err
		}
	}
	took := time.Since(began)
	pushes, err := t.pushCount()
	loose, looseErr := diskUsage(t.remoteDir)
	packErr := t.machines[0].run("git", "-C", t.remoteDir, "gc", "--quiet", "--prune=now")
	packed, packedErr := diskUsage(t.remoteDir)
	if err = errors.Join(err, looseErr, packErr, packedErr); err != nil {
		return err
	}
	b.rows = append(b.rows,
		row{name: what + ", two tasks each at once: tasks an hour", unit: "", samples: []float64{float64(b.fewSamples) / took.Hours()}},
		row{name: "the same: pushes a task", unit: "", samples: []float64{float64(pushes) / float64(b.fewSamples)}},
		row{name: "the same: what a task takes on the remote", unit: "KB", samples: []float64{(loose - before) * 1024 / float64(b.fewSamples)}},
		row{name: "the same, after git gc there", unit: "KB", samples: []float64{(packed - before) * 1024 / float64(b.fewSamples)}})
	return nil
}

// pushCount returns how often the states of tasks changed.
func (t *team) pushCount() (n int, err error) {
	err = filepath.WalkDir(filepath.Join(t.remoteDir, "logs", "refs", "trellis", "run"), func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		n += strings.Count(string(data), "\n")
		return err
	})
	return n, err
}

// takeOver measures the time from the death of a machine until another machine's agent works on its task.
func (b *bench) takeOver() error {
	var samples []float64
	for i := range 3 {
		took, err := b.takeOverTime(i)
		if err != nil {
			return err
		}
		samples = append(samples, took.Seconds())
	}
	b.rows = append(b.rows, row{name: fmt.Sprintf("from kill -9 of a machine to the agent of another one, shared.silence %v", silence), unit: "s", samples: samples, p50: silence.Seconds() + 5})
	return nil
}

func (b *bench) takeOverTime(i int) (took time.Duration, err error) {
	t, err := b.newTeam(fmt.Sprintf("take-over-%d", i), 2, time.Minute)
	if err != nil {
		return 0, err
	}
	if err := t.machines[0].writeTask(filepath.Join(t.machines[0].tasks(), "02-01-shared"), "ready"); err != nil {
		return 0, err
	}
	first, _, err := t.watch(t.machines[0])
	if err != nil {
		return 0, err
	}
	if err := t.waitForAgents(1); err != nil {
		return 0, errors.Join(err, first.Process.Kill())
	}
	_, end, err := t.watch(t.machines[1])
	if err != nil {
		return 0, errors.Join(err, first.Process.Kill())
	}
	defer func() { err = errors.Join(err, end()) }()
	time.Sleep(silence / 2) // by now the second machine has noticed the first
	if err := first.Process.Signal(syscall.SIGKILL); err != nil {
		return 0, err
	}
	_ = first.Wait() // it was killed
	began := time.Now()
	err = t.waitForAgents(2)
	return time.Since(began), err
}

// waitForAgents waits until this many calls of implement were started.
func (t *team) waitForAgents(calls int) error {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		data, err := os.ReadFile(t.machines[0].log + ".begun")
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if strings.Count(string(data), "\n") >= calls {
			return nil
		}
	}
	return errors.New("no agent came to work within a minute")
}
